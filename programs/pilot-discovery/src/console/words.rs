//! The configuration of one proxy in sentences, each with the object it comes from.

use ironsail_api::Resource;
use ironsail_api::istio::networking::{
    Destination, DestinationRule, HttpMatchRequest, HttpRoute, StringMatch, VirtualService,
};
use ironsail_api::istio::security::{Action, MutualTlsMode};
use ironsail_api::wire::Wire;
use ironsail_model::config::{Selected, Target};
use ironsail_model::{ProxyClass, ProxyKind, Scope, ServicePort, Snapshot};

/// Longer lists are cut, and say so.
const MOST: usize = 40;

type Section = (String, Vec<String>);

pub(super) fn of(snapshot: &Snapshot, class: &ProxyClass) -> Vec<Section> {
    let scope = Scope::of(snapshot, class);
    let sections = [
        ("What it takes", taken(snapshot, class, &scope)),
        ("Who may call it", admitted(snapshot, class)),
        ("What it may call", seen(&scope)),
        ("How requests are routed", routed(&scope)),
        ("How servers are treated", treated(snapshot, class, &scope)),
        ("What else changes it", changed(snapshot, class)),
    ];
    let cut = |mut lines: Vec<String>| {
        let more = lines.len().saturating_sub(MOST);
        lines.truncate(MOST);
        lines.extend((more > 0).then(|| format!("and {more} more")));
        lines
    };
    let kept = sections.into_iter().filter(|(_, lines)| !lines.is_empty());
    kept.map(|(heading, lines)| (heading.to_owned(), cut(lines))).collect()
}

pub(super) fn protocol(port: &ServicePort) -> String {
    format!("{:?}", port.protocol).to_lowercase()
}

fn name_of<S>(object: &Resource<S>) -> String {
    format!("{}/{}", object.meta.namespace, object.meta.name)
}

fn taken(snapshot: &Snapshot, class: &ProxyClass, scope: &Scope) -> Vec<String> {
    if class.kind == ProxyKind::Router {
        return opened(snapshot, class);
    }
    let mode = snapshot.peer_mode(Target::from(class));
    let one = |own: &ironsail_model::OwnPort| {
        let port = own.service.ports.iter().find(|port| port.number == own.port);
        let protocol = port.map(protocol).unwrap_or_default();
        let tls = tls_words(mode.of_port(own.target));
        format!(
            "{}:{} as {protocol} on its port {}, {tls}",
            own.service.key.hostname, own.port, own.target
        )
    };
    let mut lines: Vec<String> = scope.instances.iter().map(one).collect();
    if lines.is_empty() {
        lines.push(format!(
            "No service leads to it; connections are taken {}",
            tls_words(mode.mode)
        ));
    }
    lines
}

/// The ports of a gateway.
fn opened(snapshot: &Snapshot, class: &ProxyClass) -> Vec<String> {
    let target = Target::from(class);
    let mine = snapshot.config.gateways.iter().filter(|gateway| {
        let wanted = &gateway.spec.selector;
        wanted.iter().all(|(key, value)| target.labels.get(key) == Some(value))
    });
    let lines = mine.flat_map(|gateway| {
        gateway.spec.servers.iter().map(move |server| {
            let port = server.port.as_ref().map_or(0, |port| port.number);
            let tls = if server.tls.is_some() { ", with TLS" } else { "" };
            format!(
                "{} on port {port}{tls}, by Gateway {}",
                server.hosts.join(", "),
                name_of(gateway)
            )
        })
    });
    lines.collect()
}

fn tls_words(mode: MutualTlsMode) -> &'static str {
    match mode {
        MutualTlsMode::Strict => "by mutual TLS only",
        MutualTlsMode::Disable => "as plain text only",
        MutualTlsMode::Permissive | MutualTlsMode::Unset => "by mutual TLS and as plain text",
    }
}

fn admitted(snapshot: &Snapshot, class: &ProxyClass) -> Vec<String> {
    let (root, target) = (snapshot.root_namespace(), Target::from(class));
    let mut lines = Vec::new();
    let mut allows = false;
    for policy in snapshot.config.authorization_policies.for_workload(root, target) {
        let rules = policy.spec.rules.len();
        let rules = if rules == 1 { "one rule".to_owned() } else { format!("{rules} rules") };
        allows |= policy.spec.action == Action::Allow;
        let what = match policy.spec.action {
            Action::Allow if policy.spec.rules.is_empty() => "Nobody is let in".to_owned(),
            Action::Allow => format!("Let in is who one of {rules} names"),
            Action::Deny if policy.spec.rules.is_empty() => "Nobody is refused".to_owned(),
            Action::Deny => format!("Refused is who one of {rules} names"),
            Action::Audit => format!("{rules} say what is audited"),
            Action::Custom => format!("Somebody else is asked about what {rules} name"),
        };
        lines.push(format!("{what}, by AuthorizationPolicy {}", name_of(policy)));
    }
    if allows {
        lines.push("Everybody else is refused".to_owned());
    } else if lines.is_empty() {
        lines.push("Everybody: there is no AuthorizationPolicy for it".to_owned());
    }
    for tokens in snapshot.config.request_authentications.for_workload(root, target) {
        let issuers: Vec<&str> =
            tokens.spec.jwt_rules.iter().map(|rule| rule.issuer.as_str()).collect();
        let issuers = issuers.join(", ");
        lines.push(format!(
            "Tokens of {issuers} are checked, by RequestAuthentication {}",
            name_of(tokens)
        ));
    }
    lines
}

fn seen(scope: &Scope) -> Vec<String> {
    let count = scope.visible.services.len();
    match &scope.visible.sidecar {
        Some(sidecar) => vec![format!("{count} services, limited by Sidecar {}", name_of(sidecar))],
        None => vec![format!("{count} services: everything that is exported to its namespace")],
    }
}

fn routed(scope: &Scope) -> Vec<String> {
    scope.visible.virtual_services.iter().flat_map(|route| sentences(route)).collect()
}

fn sentences(object: &Resource<VirtualService>) -> Vec<String> {
    let hosts = object.spec.hosts.join(", ");
    let by = format!("by VirtualService {}", name_of(object));
    let http = object.spec.http.iter().map(|route| {
        let when = match route.r#match.is_empty() {
            true => String::new(),
            false => {
                let any: Vec<String> = route.r#match.iter().map(condition).collect();
                format!(" with {}", any.join(" or "))
            }
        };
        format!("Requests to {hosts}{when}: {}, {by}", action(route))
    });
    let mut lines: Vec<String> = http.collect();
    for (kind, count) in [("TLS", object.spec.tls.len()), ("TCP", object.spec.tcp.len())] {
        if count > 0 {
            lines.push(format!("{kind} to {hosts}: {count} routes, {by}"));
        }
    }
    lines
}

fn text_of(wanted: &StringMatch) -> String {
    match wanted {
        StringMatch::Exact(text) => format!("= {text}"),
        StringMatch::Prefix(text) => format!("beginning with {text}"),
        StringMatch::Regex(text) => format!("matching {text}"),
        StringMatch::Unset => "set".to_owned(),
    }
}

fn condition(wanted: &HttpMatchRequest) -> String {
    let mut parts = Vec::new();
    let fixed = [
        ("path", &wanted.uri),
        ("method", &wanted.method),
        ("authority", &wanted.authority),
        ("scheme", &wanted.scheme),
    ];
    for (what, value) in fixed {
        parts.extend(value.as_ref().map(|value| format!("{what} {}", text_of(value))));
    }
    parts.extend(
        wanted.headers.iter().map(|(name, value)| format!("header {name} {}", text_of(value))),
    );
    parts.extend(wanted.query_params.iter().map(|(k, v)| format!("parameter {k} {}", text_of(v))));
    parts.extend(wanted.without_headers.keys().map(|name| format!("not header {name}")));
    parts.extend((wanted.port != 0).then(|| format!("port {}", wanted.port)));
    parts.extend(wanted.source_labels.iter().map(|(k, v)| format!("client label {k}={v}")));
    match parts.is_empty() {
        true => "anything".to_owned(),
        false => parts.join(" and "),
    }
}

fn place(to: &Destination) -> String {
    match to.subset.is_empty() {
        true => to.host.clone(),
        false => format!("{} {}", to.host, to.subset),
    }
}

fn action(route: &HttpRoute) -> String {
    let mut parts = Vec::new();
    if let Some(redirect) = &route.redirect {
        parts.push(format!("redirected ({})", redirect.write()));
    } else if let Some(answer) = &route.direct_response {
        parts.push(format!("answered with {}", answer.status));
    } else if let Some(delegate) = &route.delegate {
        parts.push(format!("routed by VirtualService {}/{}", delegate.namespace, delegate.name));
    } else {
        let all: i32 = route.route.iter().map(|to| to.weight).sum();
        let to: Vec<String> = route
            .route
            .iter()
            .map(|to| match route.route.len() {
                1 => place(&to.destination),
                _ => format!("{} {} %", place(&to.destination), to.weight * 100 / all.max(1)),
            })
            .collect();
        parts.push(format!("to {}", to.join(", ")));
    }
    if let Some(fault) = &route.fault {
        parts.push(format!("with faults put in ({})", fault.write()));
    }
    parts.extend(route.timeout.as_ref().map(|time| format!("within {}", plain(&time.write()))));
    parts.extend(
        route.retries.as_ref().map(|retries| format!("tried {} times more", retries.attempts)),
    );
    parts.extend(route.rewrite.is_some().then(|| "rewritten".to_owned()));
    let mirrored = route.mirror.is_some() || !route.mirrors.is_empty();
    parts.extend(mirrored.then(|| "copied elsewhere".to_owned()));
    parts.join(", ")
}

/// A text without its quotes.
fn plain(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn treated(snapshot: &Snapshot, class: &ProxyClass, scope: &Scope) -> Vec<String> {
    let mut lines = Vec::new();
    for service in &scope.visible.services {
        let Some(rule) = scope.rule(snapshot, class, service) else { continue };
        let from: Vec<String> =
            rule.from.iter().map(|key| format!("{}/{}", key.namespace, key.name)).collect();
        let what = policy(&rule.spec);
        let host = &service.key.hostname;
        lines.push(format!("{host}: {what}, by DestinationRule {}", from.join(", ")));
    }
    lines
}

fn policy(rule: &DestinationRule) -> String {
    let mut parts = Vec::new();
    if !rule.subsets.is_empty() {
        let one = |subset: &ironsail_api::istio::networking::Subset| {
            let labels: Vec<String> =
                subset.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
            format!("{} ({})", subset.name, labels.join(", "))
        };
        parts.push(format!(
            "subsets {}",
            rule.subsets.iter().map(one).collect::<Vec<_>>().join(", ")
        ));
    }
    if let Some(policy) = &rule.traffic_policy {
        let tls = policy.tls.as_ref().map(|tls| plain(&tls.mode.write()));
        parts.extend(tls.map(|mode| format!("TLS {mode}")));
        parts.extend(policy.load_balancer.is_some().then(|| "its own load balancing".to_owned()));
        parts.extend(policy.connection_pool.is_some().then(|| "limits of connections".to_owned()));
        let ejects = "endpoints that fail are left out for a while";
        parts.extend(policy.outlier_detection.is_some().then(|| ejects.to_owned()));
        let ports = policy.port_level_settings.len();
        parts.extend((ports > 0).then(|| format!("{ports} ports with policies of their own")));
    }
    match parts.is_empty() {
        true => "nothing set".to_owned(),
        false => parts.join("; "),
    }
}

fn changed(snapshot: &Snapshot, class: &ProxyClass) -> Vec<String> {
    fn names<S: Selected>(
        kind: &str,
        table: &ironsail_model::ConfigTable<S>,
        snapshot: &Snapshot,
        class: &ProxyClass,
    ) -> Vec<String> {
        let found = table.for_workload(snapshot.root_namespace(), Target::from(class));
        found.into_iter().map(|object| format!("{kind} {}", name_of(object))).collect()
    }
    let config = &snapshot.config;
    let mut lines = names("Telemetry", &config.telemetries, snapshot, class);
    lines.extend(names("EnvoyFilter", &config.envoy_filters, snapshot, class));
    lines.extend(names("WasmPlugin", &config.wasm_plugins, snapshot, class));
    lines.extend(names("ProxyConfig", &config.proxy_configs, snapshot, class));
    lines
}
