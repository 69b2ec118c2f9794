//! Requests of HTTP at the client's proxy: virtual host, route, and what the route does.

use ironsail_proto::envoy::config::route::v3::{
    Route, RouteAction, RouteConfiguration, VirtualHost,
    route::Action,
    route_action::{ClusterSpecifier, HostRewriteSpecifier},
};
use ironsail_proto::envoy::extensions::filters::http::fault::v3::{
    HttpFault, fault_abort::ErrorType,
};
use ironsail_proto::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, http_connection_manager::RouteSpecifier,
};
use ironsail_proto::envoy::r#type::v3::{FractionalPercent, fractional_percent::DenominatorType};
use ironsail_proto::unpack;
use serde_json::Value;

use super::Walk;
use crate::answer::{Answer, Origin, Outcome, Side, Verdict};
use crate::config::Config;
use crate::matching::request::Request;
use crate::matching::{domain, route};
use crate::object::{self, Known, from_path, origin};
use crate::upstream::about;

const FAULT: &str = "envoy.filters.http.fault";
/// The virtual host for hosts that nobody declares, where that is forbidden.
const BLOCK: &str = "block_all";
const ALLOW: &str = "allow_any";

impl Walk<'_> {
    pub(super) fn request(&self) -> Request {
        let question = self.question;
        let headers = question.headers.iter().filter(|(name, _)| name != "host").cloned();
        Request {
            method: question.method.clone(),
            scheme: question.url.scheme.clone(),
            authority: question.authority(),
            path: question.url.path.clone(),
            headers: headers.collect(),
            claims: None,
        }
    }

    pub(super) fn ask(&mut self, config: &Config, manager: &HttpConnectionManager) -> Outcome {
        let request = self.request();
        let routes = match &manager.route_specifier {
            Some(RouteSpecifier::RouteConfig(own)) => Some(own),
            Some(RouteSpecifier::Rds(rds)) => config.routes.get(&rds.route_config_name),
            _ => None,
        };
        let Some(routes) = routes else {
            return Outcome::new(Verdict::Unknown, "the routes of the listener could not be read");
        };
        let Some((host, pattern)) = domain::choose(routes, &request.authority) else {
            self.step(Side::Client, "route", format!("routes {} know no such host", routes.name));
            let text = "no routes for that host";
            return Outcome::new(Verdict::Failed, text).status(404).logged("NR", "route_not_found");
        };
        let (found, doubtful) = route::choose(host, &request);
        let Some(found) = found else {
            return self.no_route(routes, host, doubtful);
        };
        self.tell_route(routes, host, pattern, found, &request);
        if doubtful > 0 {
            let text = format!("{doubtful} routes before it depend on what is not known here");
            self.warn(text, []);
        }
        if let Some(outcome) = self.fault(found) {
            return outcome;
        }
        self.act(config, host, found, request)
    }

    fn no_route(
        &mut self,
        routes: &RouteConfiguration,
        host: &VirtualHost,
        doubtful: usize,
    ) -> Outcome {
        let text = format!("no route of {} in routes {} fits", host.name, routes.name);
        self.step(Side::Client, "route", text);
        if doubtful > 0 {
            return Outcome::new(Verdict::Unknown, "the routes depend on what is not known here");
        }
        let mut from: Vec<Origin> = Vec::new();
        for one in &host.routes {
            let object = about(one.metadata.as_ref(), "config").and_then(from_path);
            let new = object.map(|object| Origin::new(object, "spec.http"));
            from.extend(new.filter(|new| !from.contains(new)));
        }
        Outcome::new(Verdict::Failed, "no rule for that host fits the request")
            .status(404)
            .logged("NR", "route_not_found")
            .by(from)
    }

    fn tell_route(
        &mut self,
        routes: &RouteConfiguration,
        host: &VirtualHost,
        pattern: &str,
        found: &Route,
        request: &Request,
    ) {
        let name = if found.name.is_empty() { "without a name" } else { &found.name };
        let text = format!("{name}, for host {pattern} ({} in routes {})", host.name, routes.name);
        self.step(Side::Client, "route", text);
        let object = about(found.metadata.as_ref(), "config").and_then(from_path);
        let field = self.field_of(found, request);
        self.from(object.as_ref().map(|object| Origin::new(object.clone(), field.clone())));
        self.rule = field.clone();
        self.warn_of_shadows(object.as_deref(), &field, request);
    }

    /// VirtualServices, and rules of the one that counts, which have no effect.
    fn warn_of_shadows(&mut self, used: Option<&str>, field: &str, request: &Request) {
        let objects = &self.world.objects;
        let all = objects.virtual_services(&self.named.host);
        let http = |one: &&&Value| one["spec"]["http"].is_array();
        if let Some(used) = used {
            let unused: Vec<Origin> = all
                .iter()
                .filter(http)
                .filter(|one| object::title(one) != used)
                .map(|one| origin(one, "spec.hosts"))
                .collect();
            if !unused.is_empty() {
                let text = format!("{used} decides for this host, these have no effect");
                self.warn(text, unused);
            }
            let taken = field.strip_prefix("spec.http[").and_then(|rest| rest.strip_suffix(']'));
            let service = all.iter().find(|one| object::title(one) == used);
            if let (Some(Ok(taken)), Some(service)) = (taken.map(str::parse), service) {
                let shadowed = objects.shadowed(service, taken, request);
                if !shadowed.is_empty() {
                    self.warn(
                        "the request fits these too, but the first that fits is taken",
                        shadowed,
                    );
                }
            }
        }
    }

    /// A fault that is put in for every request.
    fn fault(&mut self, found: &Route) -> Option<Outcome> {
        let fault: HttpFault = unpack(found.typed_per_filter_config.get(FAULT)?).ok()?;
        let from = self.origin_of(found, "fault");
        if let Some(delay) = &fault.delay {
            let share = percent(delay.percentage.unwrap_or_default());
            self.step(Side::Client, "filter", format!("a delay is put in for {share}"));
            self.from(from.clone());
        }
        let abort = fault.abort?;
        let share = abort.percentage.unwrap_or_default();
        let status = match abort.error_type? {
            ErrorType::HttpStatus(status) => u16::try_from(status).ok()?,
            ErrorType::GrpcStatus(_) => 200,
            ErrorType::HeaderAbort(_) => return None,
        };
        self.step(Side::Client, "filter", format!("{status} is put in for {}", percent(share)));
        self.from(from.clone());
        if share.numerator < full(share) {
            return None;
        }
        let text = "the answer is put in by a fault";
        let outcome = Outcome::new(Verdict::Answered, text).status(status);
        Some(outcome.logged("FI", "fault_filter_abort").by(from))
    }

    /// The field of its VirtualService that a route was made of.
    fn field_of(&self, found: &Route, request: &Request) -> String {
        let objects = &self.world.objects;
        let object = about(found.metadata.as_ref(), "config").and_then(from_path);
        let mut all = objects.of("VirtualService");
        let service = all.find(|one| Some(object::title(one)) == object);
        let port = self.question.url.port;
        let taken = service.and_then(|one| objects.taken(one, &found.name, port, request));
        taken.map_or_else(|| "spec.http".to_owned(), |index| format!("spec.http[{index}]"))
    }

    fn origin_of(&self, found: &Route, what: &str) -> Option<Origin> {
        let object = about(found.metadata.as_ref(), "config").and_then(from_path)?;
        Some(Origin::new(object, format!("{}.{what}", self.rule)))
    }

    fn act(
        &mut self,
        config: &Config,
        host: &VirtualHost,
        found: &Route,
        mut request: Request,
    ) -> Outcome {
        match &found.action {
            Some(Action::DirectResponse(direct)) => {
                let status = u16::try_from(direct.status).unwrap_or_default();
                if host.name == BLOCK {
                    return self.blocked(status);
                }
                let from = self.origin_of(found, "directResponse");
                let outcome = Outcome::new(Verdict::Answered, "the proxy answers itself");
                outcome.status(status).logged("-", "direct_response").by(from)
            }
            Some(Action::Redirect(redirect)) => {
                let status = match redirect.response_code {
                    1 => 302,
                    2 => 303,
                    3 => 307,
                    4 => 308,
                    _ => 301,
                };
                let from = self.origin_of(found, "redirect");
                let outcome =
                    Outcome::new(Verdict::Answered, "the proxy sends the client elsewhere");
                outcome.status(status).logged("-", "direct_response").by(from)
            }
            Some(Action::Route(action)) => {
                self.rewrite(found, action, &mut request);
                let weighted = weighted(action);
                if weighted.is_empty() {
                    return Outcome::new(Verdict::Unknown, "a header chooses the cluster");
                }
                if host.name == ALLOW && self.named.known == Known::Service {
                    self.warn_of_hidden();
                }
                let from = self.origin_of(found, "route");
                self.each(&weighted, |walk, name| {
                    walk.forward(config, name, Some(request.clone()), from.clone())
                })
            }
            _ => Outcome::new(Verdict::Unknown, "the route does something unknown"),
        }
    }

    /// Hosts that nobody declares, or that a Sidecar hides, where only declared ones are allowed.
    fn blocked(&mut self, status: u16) -> Outcome {
        let objects = &self.world.objects;
        let mut culprits = Vec::new();
        if let Some(object) = self.named.object {
            let space = object::namespace(object);
            culprits.extend(objects.hides(self.pod, &self.named.host, space));
        }
        culprits.push(objects.egress(self.pod));
        let text = match self.named.known {
            Known::No => "only declared hosts may be reached, and this is none",
            _ => "only hosts that the proxy knows may be reached, and this is none of them",
        };
        Outcome::new(Verdict::Refused, text)
            .status(status)
            .logged("-", "direct_response")
            .by(culprits)
    }

    fn warn_of_hidden(&mut self) {
        let space = self.named.object.map(object::namespace).unwrap_or_default().to_owned();
        let from = self.world.objects.hides(self.pod, &self.named.host, &space);
        self.warn("the proxy has no routes for this service; it goes to its address", from);
    }

    fn rewrite(&mut self, found: &Route, action: &RouteAction, request: &mut Request) {
        let before = (request.authority.clone(), request.path.clone());
        if let Some(HostRewriteSpecifier::HostRewriteLiteral(host)) = &action.host_rewrite_specifier
        {
            request.authority.clone_from(host);
        }
        if !action.prefix_rewrite.is_empty() {
            use ironsail_proto::envoy::config::route::v3::route_match::PathSpecifier;
            let rule = found.r#match.as_ref().and_then(|rule| rule.path_specifier.as_ref());
            let matched = match rule {
                Some(PathSpecifier::Prefix(p) | PathSpecifier::PathSeparatedPrefix(p)) => p.len(),
                _ => request.path_only().len(),
            };
            let rest = request.path.get(matched..).unwrap_or_default().to_owned();
            request.path = format!("{}{rest}", action.prefix_rewrite);
        }
        if let Some(rewrite) = &action.regex_rewrite
            && let Some(pattern) = &rewrite.pattern
            && let Ok(pattern) = regex::Regex::new(&pattern.regex)
        {
            // RE2 writes groups as \1.
            let by = regex::Regex::new(r"\\(\d)").expect("a plain expression");
            let by = by.replace_all(&rewrite.substitution, "$${$1}").into_owned();
            let query = request.path.split_once('?').map(|(_, query)| format!("?{query}"));
            let path = pattern.replace_all(request.path_only(), by).into_owned();
            request.path = format!("{path}{}", query.unwrap_or_default());
        }
        for name in &found.request_headers_to_remove {
            request.headers.retain(|(own, _)| !own.eq_ignore_ascii_case(name));
        }
        for one in &found.request_headers_to_add {
            let Some(header) = one.header.as_ref().filter(|h| !h.value.contains('%')) else {
                continue;
            };
            request.headers.push((header.key.to_ascii_lowercase(), header.value.clone()));
        }
        if before != (request.authority.clone(), request.path.clone()) {
            self.step(
                Side::Client,
                "filter",
                format!("rewritten to {}{}", request.authority, request.path),
            );
            let from = self.origin_of(found, "rewrite");
            self.from(from);
        }
    }

    /// Takes every way that has weight: the heaviest is the answer, the rest are others.
    pub(super) fn each(
        &mut self,
        weighted: &[(String, u32)],
        mut go: impl FnMut(&mut Self, &str) -> Outcome,
    ) -> Outcome {
        let total: u32 = weighted.iter().map(|(_, weight)| weight).sum();
        let mut ways: Vec<&(String, u32)> =
            weighted.iter().filter(|(_, weight)| *weight > 0).collect();
        ways.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
        let Some((main, rest)) = ways.split_first() else {
            return Outcome::new(Verdict::Failed, "the route leads nowhere")
                .status(503)
                .logged("NC", "cluster_not_found");
        };
        let share = |weight: u32| weight.saturating_mul(100) / total.max(1);
        for (name, weight) in rest.iter().map(|way| (&way.0, way.1)) {
            let mut other = self.clone();
            let begin = other.steps.len();
            let outcome = go(&mut other, name);
            let steps = other.steps.split_off(begin);
            self.needs.append(&mut other.needs);
            let mut answer: Answer = super::finish(self.question, steps, outcome);
            answer.share = Some(share(weight));
            self.others.push(answer);
        }
        if !rest.is_empty() {
            self.share = Some(share(main.1));
        }
        go(self, &main.0)
    }
}

fn weighted(action: &RouteAction) -> Vec<(String, u32)> {
    match &action.cluster_specifier {
        Some(ClusterSpecifier::Cluster(name)) => vec![(name.clone(), 1)],
        Some(ClusterSpecifier::WeightedClusters(all)) => all
            .clusters
            .iter()
            .map(|one| (one.name.clone(), one.weight.map_or(0, |weight| weight.value)))
            .collect(),
        _ => Vec::new(),
    }
}

/// What a share is a part of.
fn full(share: FractionalPercent) -> u32 {
    match DenominatorType::try_from(share.denominator) {
        Ok(DenominatorType::TenThousand) => 10_000,
        Ok(DenominatorType::Million) => 1_000_000,
        Ok(DenominatorType::Hundred) | Err(_) => 100,
    }
}

fn percent(share: FractionalPercent) -> String {
    let percent = f64::from(share.numerator) * 100.0 / f64::from(full(share));
    format!("{percent} % of the requests")
}
