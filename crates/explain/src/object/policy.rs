//! Policies of a pod: whether it wants mTLS, which tokens, who is allowed; what a client may reach.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Objects, age, each, namespace, origin, selects, spec, texts};
use crate::answer::Origin;
use crate::world::Pod;

/// What a pod lets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Disable,
    Permissive,
    Strict,
}

impl Objects {
    /// The mode of a pod's port, and the policy that says so.
    pub(crate) fn mtls(&self, pod: &Pod, port: u16) -> (Mode, Option<Origin>) {
        let mut all: Vec<&Value> = self.of("PeerAuthentication").collect();
        all.sort_by_key(|one| age(one));
        let selector = |one: &Value| spec(one)["selector"]["matchLabels"].clone();
        let has_selector =
            |one: &Value| selector(one).as_object().is_some_and(|labels| !labels.is_empty());
        let own = || all.iter().filter(|one| namespace(one) == pod.namespace);
        let workload = own().find(|one| has_selector(one) && selects(&selector(one), &pod.labels));
        if let Some(one) = workload {
            let at_port = &spec(one)["portLevelMtls"][port.to_string()]["mode"];
            if let Some(mode) = mode(at_port) {
                let field = format!("spec.portLevelMtls[{port}].mode");
                return (mode, Some(origin(one, field)));
            }
        }
        let of_namespace = own().find(|one| !has_selector(one));
        let of_mesh = all.iter().find(|one| namespace(one) == self.root() && !has_selector(one));
        for one in [workload, of_namespace, of_mesh].into_iter().flatten() {
            if let Some(mode) = mode(&spec(one)["mtls"]["mode"]) {
                return (mode, Some(origin(one, "spec.mtls.mode")));
            }
        }
        (Mode::Permissive, None)
    }

    /// The rule of a RequestAuthentication that asks for tokens of `issuer`.
    pub(crate) fn token_rule(&self, pod: &Pod, issuer: &str) -> Option<Origin> {
        let about = self.of("RequestAuthentication").filter(|one| self.concerns(one, pod));
        let rules = about.flat_map(|one| each(spec(one), "jwtRules").map(move |at| (one, at)));
        let mut fitting = rules.filter(|(_, (_, rule))| rule["issuer"] == issuer);
        fitting.next().map(|(one, (index, _))| origin(one, format!("spec.jwtRules[{index}]")))
    }

    /// AuthorizationPolicies of one action about a pod.
    pub(crate) fn policies(&self, pod: &Pod, action: &str) -> Vec<Origin> {
        let about = self.of("AuthorizationPolicy").filter(|one| self.concerns(one, pod));
        let of = |one: &&Value| spec(one)["action"].as_str().unwrap_or("ALLOW") == action;
        about.filter(of).map(|one| origin(one, "spec.rules")).collect()
    }

    /// Whether a policy is about a pod: of its namespace or the root's, by its selector.
    fn concerns(&self, policy: &Value, pod: &Pod) -> bool {
        let here = namespace(policy) == pod.namespace || namespace(policy) == self.root();
        here && selects(&spec(policy)["selector"]["matchLabels"], &pod.labels)
    }

    /// The Sidecar that says what a pod may reach.
    pub(crate) fn sidecar(&self, pod: &Pod) -> Option<&Value> {
        let mut all: Vec<&Value> = self.of("Sidecar").collect();
        all.sort_by_key(|one| age(one));
        let labels = |one: &Value| spec(one)["workloadSelector"]["labels"].clone();
        let selected = |one: &Value| labels(one).as_object().is_some_and(|l| !l.is_empty());
        let own = |one: &&&Value| namespace(one) == pod.namespace;
        all.iter()
            .filter(own)
            .find(|one| selected(one) && selects(&labels(one), &pod.labels))
            .or_else(|| all.iter().filter(own).find(|one| !selected(one)))
            .or_else(|| all.iter().find(|one| namespace(one) == self.root() && !selected(one)))
            .copied()
    }

    /// What says where unknown traffic goes.
    pub(crate) fn egress(&self, pod: &Pod) -> Origin {
        if let Some(sidecar) = self.sidecar(pod)
            && spec(sidecar)["outboundTrafficPolicy"]["mode"].is_string()
        {
            return origin(sidecar, "spec.outboundTrafficPolicy.mode");
        }
        self.mesh_origin("outboundTrafficPolicy.mode")
    }

    /// The Sidecar that hides a service of this host and namespace from a pod.
    pub(crate) fn hides(&self, pod: &Pod, host: &str, space: &str) -> Option<Origin> {
        let sidecar = self.sidecar(pod)?;
        let listeners = spec(sidecar)["egress"].as_array()?;
        let shown = listeners.iter().flat_map(|one| texts(one, "hosts")).any(|pattern| {
            let (from, name) = pattern.split_once('/').unwrap_or(("*", pattern));
            let from = if from == "." { pod.namespace.as_str() } else { from };
            let name_fits = match name.strip_prefix('*') {
                Some(tail) => host.ends_with(tail),
                None => host == name,
            };
            (from == "*" || from == space) && name_fits
        });
        (!shown).then(|| origin(sidecar, "spec.egress"))
    }

    /// The rule of a RateLimitPolicy that a filter was made of: `ratelimit.NS.NAME.RULE`.
    pub(crate) fn rate_limit(&self, filter: &str) -> Option<Origin> {
        let parts: Vec<&str> = filter.strip_prefix("ratelimit.")?.splitn(3, '.').collect();
        let [space, policy, rule] = parts[..] else { return None };
        let object = format!("RateLimitPolicy {space}/{policy}");
        let index = self.find("RateLimitPolicy", space, policy).and_then(|one| {
            each(spec(one), "rules").find(|(_, own)| own["name"] == rule).map(|(index, _)| index)
        });
        let field =
            index.map_or_else(|| "spec.rules".into(), |index| format!("spec.rules[{index}]"));
        Some(Origin::new(object, field))
    }
}

fn mode(value: &Value) -> Option<Mode> {
    match value.as_str()? {
        "STRICT" => Some(Mode::Strict),
        "PERMISSIVE" => Some(Mode::Permissive),
        "DISABLE" => Some(Mode::Disable),
        _ => None,
    }
}

/// Labels of a pod or of the template of one.
pub(crate) fn labels_of(metadata: &Value) -> BTreeMap<String, String> {
    let labels = metadata["labels"].as_object();
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    labels.into_iter().flatten().filter_map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod() -> Pod {
        let labels = BTreeMap::from([("app".to_owned(), "a".to_owned())]);
        Pod { id: "a-1.n".into(), namespace: "n".into(), labels, ..Default::default() }
    }

    fn policy(kind: &str, space: &str, name: &str, spec: &Value) -> Value {
        json!({"kind": kind, "metadata": {"name": name, "namespace": space}, "spec": spec})
    }

    #[test]
    fn the_narrowest_policy_says_the_mode() {
        let all = vec![
            policy(
                "PeerAuthentication",
                "istio-system",
                "mesh",
                &json!({"mtls": {"mode": "STRICT"}}),
            ),
            policy(
                "PeerAuthentication",
                "n",
                "one",
                &json!({
                "selector": {"matchLabels": {"app": "a"}}, "portLevelMtls": {"80": {"mode": "DISABLE"}}}),
            ),
        ];
        let objects = Objects::new(all, "istio-system");
        let (mode, from) = objects.mtls(&pod(), 80);
        assert_eq!(mode, Mode::Disable);
        assert_eq!(
            from.unwrap().to_string(),
            "PeerAuthentication n/one spec.portLevelMtls[80].mode"
        );
        let (mode, from) = objects.mtls(&pod(), 81);
        assert_eq!(mode, Mode::Strict);
        assert_eq!(from.unwrap().object, "PeerAuthentication istio-system/mesh");
        assert_eq!(Objects::default().mtls(&pod(), 80), (Mode::Permissive, None));
    }

    #[test]
    fn a_sidecar_hides_what_it_does_not_name() {
        let all = vec![policy(
            "Sidecar",
            "n",
            "s",
            &json!({"egress": [{"hosts": ["./*", "x/b.x.svc.cluster.local"]}]}),
        )];
        let objects = Objects::new(all, "istio-system");
        assert_eq!(objects.hides(&pod(), "a.n.svc.cluster.local", "n"), None);
        assert_eq!(objects.hides(&pod(), "b.x.svc.cluster.local", "x"), None);
        assert!(objects.hides(&pod(), "c.x.svc.cluster.local", "x").is_some());
    }

    #[test]
    fn the_filter_of_a_rate_limit_names_its_rule() {
        let all = vec![policy(
            "RateLimitPolicy",
            "n",
            "p",
            &json!({"rules": [{"name": "a"}, {"name": "b.c"}]}),
        )];
        let objects = Objects::new(all, "istio-system");
        let found = objects.rate_limit("ratelimit.n.p.b.c").unwrap();
        assert_eq!(found.to_string(), "RateLimitPolicy n/p spec.rules[1]");
    }
}
