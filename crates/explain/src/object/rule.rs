//! Rules of traffic: VirtualServices and DestinationRules of a host, and what of them has no effect.

use serde_json::Value;

use super::{Objects, age, each, name, namespace, origin, spec, texts};
use crate::answer::Origin;
use crate::matching::request::Request;
use crate::matching::{self, Truth, text};

impl Objects {
    /// `host` as an object of namespace `own` means it.
    pub(crate) fn full(&self, host: &str, own: &str) -> String {
        match host.contains('.') || host.starts_with('*') {
            true => host.to_ascii_lowercase(),
            false => format!("{host}.{own}.svc.{}", self.domain()).to_ascii_lowercase(),
        }
    }

    fn means(&self, object: &Value, pattern: &str, host: &str) -> bool {
        let full = self.full(pattern, namespace(object));
        match full.strip_prefix('*') {
            Some(tail) => host.len() > tail.len() && host.ends_with(tail),
            None => full == host,
        }
    }

    /// VirtualServices for the mesh that name a host, oldest first.
    pub(crate) fn virtual_services(&self, host: &str) -> Vec<&Value> {
        let mesh = |one: &&Value| {
            let mut gateways = texts(spec(one), "gateways").peekable();
            gateways.peek().is_none() || gateways.any(|gateway| gateway == "mesh")
        };
        let mut found: Vec<&Value> = self
            .of("VirtualService")
            .filter(mesh)
            .filter(|one| texts(spec(one), "hosts").any(|pattern| self.means(one, pattern, host)))
            .collect();
        found.sort_by_key(|one| age(one));
        found
    }

    pub(crate) fn destination_rules(&self, host: &str) -> Vec<&Value> {
        let mut found: Vec<&Value> = self
            .of("DestinationRule")
            .filter(|one| spec(one)["host"].as_str().is_some_and(|h| self.means(one, h, host)))
            .collect();
        found.sort_by_key(|one| age(one));
        found
    }

    /// The destination of a VirtualService that leads to a host and subset.
    pub(crate) fn destination(&self, service: &Value, host: &str, subset: &str) -> Option<Origin> {
        for list in ["http", "tcp", "tls"] {
            for (i, rule) in each(spec(service), list) {
                for (j, to) in each(rule, "route") {
                    let to = &to["destination"];
                    let meant = to["host"].as_str().map(|h| self.full(h, namespace(service)));
                    let same = to["subset"].as_str().unwrap_or_default() == subset;
                    if same && meant.as_deref() == Some(host) {
                        let what = if subset.is_empty() { "host" } else { "subset" };
                        let field = format!("spec.{list}[{i}].route[{j}].destination.{what}");
                        return Some(origin(service, field));
                    }
                }
            }
        }
        None
    }

    /// Other declarations of the same host that do not count.
    pub(crate) fn clashes(&self, host: &str, used: Option<&Value>) -> Vec<Origin> {
        let entries =
            self.of("ServiceEntry").filter(|one| texts(spec(one), "hosts").any(|h| h == host));
        let other = |one: &&Value| {
            used.is_none_or(|used| {
                (name(used), namespace(used), &used["kind"])
                    != (name(one), namespace(one), &one["kind"])
            })
        };
        entries.filter(other).map(|one| origin(one, "spec.hosts")).collect()
    }

    /// The rule of a VirtualService that a route was made of, by the route's name and by what it takes.
    pub(crate) fn taken(
        &self,
        service: &Value,
        route: &str,
        port: u16,
        request: &Request,
    ) -> Option<usize> {
        let named = |rule: &Value| {
            let own = rule["name"].as_str().unwrap_or_default();
            // The name of a match stands behind a dot.
            route == own || route.strip_prefix(own).is_some_and(|rest| rest.starts_with('.'))
        };
        let meant = |rule: &Value| {
            let ports = || each(rule, "match").map(|(_, one)| one["port"].as_u64());
            ports().next().is_none()
                || ports().any(|own| own.is_none_or(|own| own == u64::from(port)))
        };
        let open = |rule: &Value| each(rule, "match").next().is_none();
        let mut rules = each(spec(service), "http");
        let found = rules.find(|(_, rule)| {
            named(rule) && meant(rule) && (open(rule) || fits(rule, request) != Some(false))
        });
        found.map(|(index, _)| index)
    }

    /// Rules behind the one that was taken which fit the request too: they are never tried.
    pub(crate) fn shadowed(&self, service: &Value, taken: usize, request: &Request) -> Vec<Origin> {
        let later = each(spec(service), "http").skip(taken + 1);
        // A rule for everything behind another is the usual order, not a mistake.
        let narrow = |rule: &Value| rule["match"].as_array().is_some_and(|list| !list.is_empty());
        later
            .filter(|(_, rule)| narrow(rule) && fits(rule, request) == Some(true))
            .map(|(index, _)| origin(service, format!("spec.http[{index}].match")))
            .collect()
    }
}

/// Whether a rule of a VirtualService fits a request, as far as the request says.
fn fits(rule: &Value, request: &Request) -> Truth {
    let one = |rule: &Value| {
        let pseudo = [
            ("uri", Some(request.path_only().to_owned())),
            ("method", Some(request.method.clone())),
            ("authority", Some(request.authority.clone())),
            ("scheme", Some(request.scheme.clone())),
        ];
        let fixed = pseudo.into_iter().map(|(key, value)| string(&rule[key], value.as_deref()));
        let map = |key: &str| rule[key].as_object().cloned().unwrap_or_default();
        let headers = map("headers");
        let headers: Vec<Truth> = headers
            .iter()
            .map(|(key, rule)| string(rule, request.header(key).as_deref()))
            .collect();
        let parameters: Vec<Truth> =
            map("queryParams").iter().map(|(key, rule)| string(rule, request.query(key))).collect();
        let without = map("withoutHeaders");
        let without: Vec<Truth> = without
            .iter()
            .map(|(key, rule)| matching::not(string(rule, request.header(key).as_deref())))
            .collect();
        matching::all(fixed.chain(headers).chain(parameters).chain(without))
    };
    matching::any(each(rule, "match").map(|(_, rule)| one(rule)))
}

fn string(rule: &Value, given: Option<&str>) -> Truth {
    let Some(rule) = rule.as_object() else { return Some(true) };
    let Some(given) = given else { return Some(false) };
    let part = |key: &str| rule.get(key).and_then(Value::as_str);
    if let Some(exact) = part("exact") {
        return Some(given == exact);
    }
    if let Some(prefix) = part("prefix") {
        return Some(given.starts_with(prefix));
    }
    part("regex").map_or(Some(true), |expression| text::regex(expression, given))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matching::request::sample;
    use serde_json::json;

    fn virtual_service(name: &str, at: &str, spec: &Value) -> Value {
        json!({"kind": "VirtualService", "metadata": {"name": name, "namespace": "n", "creationTimestamp": at},
            "spec": spec})
    }

    #[test]
    fn virtual_services_of_a_host_are_found_oldest_first() {
        let all = vec![
            virtual_service("young", "2026-02-01T00:00:00Z", &json!({"hosts": ["a"]})),
            virtual_service(
                "old",
                "2026-01-01T00:00:00Z",
                &json!({"hosts": ["a.n.svc.cluster.local"]}),
            ),
            virtual_service(
                "gateway",
                "2025-01-01T00:00:00Z",
                &json!({"hosts": ["a"], "gateways": ["g"]}),
            ),
        ];
        let objects = Objects::new(all, "istio-system");
        let found = objects.virtual_services("a.n.svc.cluster.local");
        assert_eq!(found.iter().map(|one| name(one)).collect::<Vec<_>>(), ["old", "young"]);
    }

    #[test]
    fn a_rule_behind_one_for_everything_is_shadowed() {
        let service = virtual_service(
            "v",
            "",
            &json!({"hosts": ["a"], "http": [
                {"route": []},
                {"match": [{"uri": {"prefix": "/api"}}]},
                {"match": [{"uri": {"prefix": "/other"}}]},
                {"route": []},
            ]}),
        );
        let objects = Objects::new(vec![service.clone()], "istio-system");
        let found = objects.shadowed(&service, 0, &sample("/api/x", &[]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].field, "spec.http[1].match");
    }

    #[test]
    fn the_rule_of_a_route_is_found_by_name_and_request() {
        let service = virtual_service(
            "v",
            "",
            &json!({"hosts": ["a"], "http": [
                {"name": "first", "match": [{"uri": {"prefix": "/api"}}]},
                {"match": [{"uri": {"prefix": "/api"}, "port": 81}]},
                {"match": [{"headers": {"u": {"exact": "j"}}}]},
                {"route": []},
            ]}),
        );
        let objects = Objects::new(vec![service.clone()], "istio-system");
        let taken = |route, path, headers: &[(&str, &str)]| {
            objects.taken(&service, route, 80, &sample(path, headers))
        };
        assert_eq!(taken("first", "/api", &[]), Some(0));
        assert_eq!(taken("first.x", "/api", &[]), Some(0));
        assert_eq!(taken("", "/api", &[]), Some(3));
        assert_eq!(taken("", "/", &[("u", "j")]), Some(2));
    }

    #[test]
    fn the_destination_that_names_a_subset_is_found() {
        let service = virtual_service(
            "v",
            "",
            &json!({"hosts": ["a"], "http": [
            {"route": [{"destination": {"host": "a", "subset": "v1"}}, {"destination": {"host": "a", "subset": "v9"}}]}]}),
        );
        let objects = Objects::new(vec![service.clone()], "istio-system");
        let found = objects.destination(&service, "a.n.svc.cluster.local", "v9").unwrap();
        assert_eq!(found.field, "spec.http[0].route[1].destination.subset");
    }
}
