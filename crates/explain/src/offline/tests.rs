//! Whole questions asked of files: each has one mistake, and its object must be named.

use super::*;
use crate::{Question, Url, Verdict, explain};

const BASE: &str = "
apiVersion: v1
kind: Service
metadata: {name: echo, namespace: 'n'}
spec: {selector: {app: echo}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: echo-v1, namespace: 'n'}
spec:
  selector: {matchLabels: {app: echo, version: v1}}
  template:
    metadata: {labels: {app: echo, version: v1}}
    spec: {serviceAccountName: echo, containers: [{name: c}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: client, namespace: 'n'}
spec:
  selector: {matchLabels: {app: client}}
  template:
    metadata: {labels: {app: client}}
    spec: {serviceAccountName: client, containers: [{name: c}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: outsider, namespace: 'n'}
spec:
  selector: {matchLabels: {app: outsider}}
  template:
    metadata: {labels: {app: outsider, sidecar.istio.io/inject: 'false'}}
    spec: {containers: [{name: c}]}
";

/// The way of a request from a deployment of `n`, in a world of the base and `more`.
fn asked(more: &str, from: &str, url: &str, headers: &[&str]) -> crate::Answer {
    let documents = ironsail_yaml::documents(&format!("{BASE}---\n{more}")).unwrap();
    let offline = world(documents, "n", "istio-system");
    assert_eq!(offline.problems, Vec::<String>::new());
    let pods = pods_of(&offline.world, Some("Deployment"), from, "n");
    let mut question = Question::get(&pods[0].id, Url::parse(url).unwrap());
    for header in headers {
        question.header(header).unwrap();
    }
    explain(&offline.world, &question)
}

#[track_caller]
fn blames(answer: &crate::Answer, culprit: &str) {
    let all: Vec<String> = answer.culprits().iter().map(ToString::to_string).collect();
    assert!(all.iter().any(|one| one == culprit), "{culprit} is not among {all:?}\n{answer}");
}

fn object(kind: &str, name: &str, spec: &str) -> String {
    let group = match kind {
        "VirtualService" | "DestinationRule" | "ServiceEntry" | "Sidecar" => "networking",
        _ => "security",
    };
    format!(
        "apiVersion: {group}.istio.io/v1\nkind: {kind}\nmetadata: {{name: {name}, namespace: 'n'}}\nspec: {spec}\n---\n"
    )
}

#[test]
fn a_request_between_two_workloads_is_delivered_over_mtls() {
    let answer = asked("", "client", "http://echo/", &[]);
    assert_eq!(answer.outcome.verdict, Verdict::Delivered, "{answer}");
    let text = answer.to_string();
    for part in [
        "0.0.0.0_80",
        "outbound|80||echo.n.svc.cluster.local",
        "mTLS",
        "virtualInbound",
        "echo-v1-0.n",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let plain = asked("", "outsider", "http://echo/", &[]);
    assert_eq!(plain.outcome.verdict, Verdict::Delivered, "{plain}");
}

#[test]
fn a_route_to_a_subset_that_nobody_declares_is_named() {
    let more = object(
        "VirtualService",
        "v",
        "{hosts: [echo], http: [{route: [{destination: {host: echo, subset: v9}}]}]}",
    );
    let answer = asked(&more, "client", "http://echo/", &[]);
    assert_eq!(
        (answer.outcome.status, answer.outcome.flags.as_str()),
        (Some(503), "NC"),
        "{answer}"
    );
    blames(&answer, "VirtualService n/v spec.http[0].route[0].destination.subset");
}

#[test]
fn a_subset_without_pods_is_named() {
    let more = object(
        "VirtualService",
        "v",
        "{hosts: [echo], http: [{route: [{destination: {host: echo, subset: v2}}]}]}",
    ) + &object(
        "DestinationRule",
        "d",
        "{host: echo, subsets: [{name: v1, labels: {version: v1}}, {name: v2, labels: {version: v2}}]}",
    );
    let answer = asked(&more, "client", "http://echo/", &[]);
    assert_eq!(
        (answer.outcome.status, answer.outcome.flags.as_str()),
        (Some(503), "UH"),
        "{answer}"
    );
    blames(&answer, "DestinationRule n/d spec.subsets[1].labels");
}

#[test]
fn rules_that_deny_are_named_and_so_are_those_that_do_not_allow() {
    let deny = object(
        "AuthorizationPolicy",
        "deny",
        "{action: DENY, rules: [{to: [{operation: {paths: [/x]}}]}, {from: [{source: {namespaces: ['n']}}]}]}",
    );
    let answer = asked(&deny, "client", "http://echo/", &[]);
    assert_eq!(answer.outcome.status, Some(403), "{answer}");
    assert_eq!(
        answer.outcome.details,
        "rbac_access_denied_matched_policy[ns[n]-policy[deny]-rule[1]]"
    );
    blames(&answer, "AuthorizationPolicy n/deny spec.rules[1]");
    let outside = asked(&deny, "outsider", "http://echo/", &[]);
    assert_eq!(
        outside.outcome.verdict,
        Verdict::Delivered,
        "in the clear nobody knows its namespace"
    );
    let allow =
        object("AuthorizationPolicy", "allow", "{rules: [{to: [{operation: {methods: [POST]}}]}]}");
    let answer = asked(&allow, "client", "http://echo/", &[]);
    assert_eq!(answer.outcome.details, "rbac_access_denied_matched_policy[none]", "{answer}");
    blames(&answer, "AuthorizationPolicy n/allow spec.rules");
}

#[test]
fn a_missing_token_is_named() {
    let jwks = r#"'{"keys":[{"kty":"RSA","e":"AQAB","n":"AAAA"}]}'"#;
    let more = object(
        "RequestAuthentication",
        "tokens",
        &format!("{{jwtRules: [{{issuer: me, jwks: {jwks}}}]}}"),
    ) + &object(
        "AuthorizationPolicy",
        "needs",
        "{action: DENY, rules: [{from: [{source: {notRequestPrincipals: ['*']}}]}]}",
    );
    let answer = asked(&more, "client", "http://echo/", &[]);
    assert_eq!(answer.outcome.status, Some(403), "{answer}");
    blames(&answer, "AuthorizationPolicy n/needs spec.rules[0]");
    let bad = asked(&more, "client", "http://echo/", &["Authorization: Bearer x.y"]);
    assert_eq!(bad.outcome.status, Some(401), "{bad}");
    blames(&bad, "RequestAuthentication n/tokens spec.jwtRules[0]");
}

#[test]
fn plaintext_where_only_mtls_is_taken_is_named() {
    let strict = object("PeerAuthentication", "strict", "{mtls: {mode: STRICT}}");
    let answer = asked(&strict, "outsider", "http://echo/", &[]);
    assert_eq!(
        (answer.outcome.verdict, answer.outcome.status),
        (Verdict::Refused, None),
        "{answer}"
    );
    blames(&answer, "PeerAuthentication n/strict spec.mtls.mode");
    assert_eq!(asked(&strict, "client", "http://echo/", &[]).outcome.verdict, Verdict::Delivered);
    let plain = strict
        + &object(
            "DestinationRule",
            "plain",
            "{host: echo, trafficPolicy: {tls: {mode: DISABLE}}}",
        );
    let answer = asked(&plain, "client", "http://echo/", &[]);
    assert_eq!(answer.outcome.status, Some(503), "{answer}");
    blames(&answer, "DestinationRule n/plain spec.trafficPolicy.tls");
}

#[test]
fn mtls_to_a_server_without_it_is_named() {
    let more = object("PeerAuthentication", "without", "{mtls: {mode: DISABLE}}")
        + &object(
            "DestinationRule",
            "mutual",
            "{host: echo, trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}}",
        );
    let answer = asked(&more, "client", "http://echo/", &[]);
    assert_eq!(
        (answer.outcome.status, answer.outcome.flags.as_str()),
        (Some(503), "UF"),
        "{answer}"
    );
    blames(&answer, "DestinationRule n/mutual spec.trafficPolicy.tls");
    blames(&answer, "PeerAuthentication n/without spec.mtls.mode");
}

#[test]
fn hosts_that_nobody_declares_are_blocked_by_a_named_object() {
    let more = object("Sidecar", "default", "{outboundTrafficPolicy: {mode: REGISTRY_ONLY}}");
    let answer = asked(&more, "client", "http://example.com/", &[]);
    assert_eq!(
        (answer.outcome.verdict, answer.outcome.status),
        (Verdict::Refused, Some(502)),
        "{answer}"
    );
    blames(&answer, "Sidecar n/default spec.outboundTrafficPolicy.mode");
    let bytes = asked(&more, "client", "tcp://example.com:9999", &[]);
    assert_eq!((bytes.outcome.verdict, bytes.outcome.status), (Verdict::Refused, None), "{bytes}");
    let open = asked("", "client", "http://example.com/", &[]);
    assert_eq!(open.outcome.verdict, Verdict::Unknown, "{open}");
}

#[test]
fn a_virtual_service_without_effect_is_named() {
    let one = |name: &str, at: &str, status: u16| {
        format!(
            "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {{name: {name}, namespace: 'n', creationTimestamp: '{at}'}}\n\
             spec: {{hosts: [echo], http: [{{directResponse: {{status: {status}}}}}]}}\n---\n"
        )
    };
    let more = one("young", "2026-02-01T00:00:00Z", 201) + &one("old", "2026-01-01T00:00:00Z", 202);
    let answer = asked(&more, "client", "http://echo/", &[]);
    assert_eq!(answer.outcome.status, Some(202), "{answer}");
    blames(&answer, "VirtualService n/young spec.hosts");
    let rules = object(
        "VirtualService",
        "v",
        "{hosts: [echo], http: [{route: [{destination: {host: echo}}]}, \
        {match: [{uri: {prefix: /x}}], directResponse: {status: 204}}]}",
    );
    let answer = asked(&rules, "client", "http://echo/x", &[]);
    assert_eq!(answer.outcome.verdict, Verdict::Delivered, "{answer}");
    blames(&answer, "VirtualService n/v spec.http[1].match");
}

#[test]
fn a_port_without_a_name_is_named() {
    let more = "
apiVersion: v1
kind: Service
metadata: {name: db, namespace: 'n'}
spec: {selector: {app: echo}, ports: [{port: 3306, targetPort: 8080}]}
---
"
    .to_owned()
        + &object("VirtualService", "v", "{hosts: [db], http: [{directResponse: {status: 204}}]}");
    let answer = asked(&more, "client", "http://db:3306/", &[]);
    assert_eq!(answer.outcome.verdict, Verdict::Delivered, "{answer}");
    blames(&answer, "Service n/db spec.ports[0].name");
    blames(&answer, "VirtualService n/v spec.http");
}

#[test]
fn weights_lead_to_several_ways() {
    let more = object(
        "VirtualService",
        "v",
        "{hosts: [echo], http: [{route: [\
        {destination: {host: echo, subset: v1}, weight: 75}, {destination: {host: echo, subset: v2}, weight: 25}]}]}",
    ) + &object(
        "DestinationRule",
        "d",
        "{host: echo, subsets: [{name: v1, labels: {version: v1}}, {name: v2, labels: {version: v2}}]}",
    );
    let answer = asked(&more, "client", "http://echo/", &[]);
    assert_eq!((answer.share, answer.outcome.verdict), (Some(75), Verdict::Delivered), "{answer}");
    assert_eq!((answer.others[0].share, answer.others[0].outcome.status), (Some(25), Some(503)));
    assert!(!answer.is_good());
}

#[test]
fn faults_and_rewrites_are_seen() {
    let fault = object(
        "VirtualService",
        "v",
        "{hosts: [echo], http: [{fault: {abort: {httpStatus: 418, percentage: {value: 100}}}, route: [{destination: {host: echo}}]}]}",
    );
    let answer = asked(&fault, "client", "http://echo/", &[]);
    assert_eq!(
        (answer.outcome.status, answer.outcome.flags.as_str()),
        (Some(418), "FI"),
        "{answer}"
    );
    blames(&answer, "VirtualService n/v spec.http[0].fault");
    let rewrite = object(
        "VirtualService",
        "v",
        "{hosts: [echo], http: [{match: [{uri: {prefix: /a}}], rewrite: {uri: /b}, route: [{destination: {host: echo}}]}]}",
    ) + &object(
        "AuthorizationPolicy",
        "deny",
        "{action: DENY, rules: [{to: [{operation: {paths: [/b/c]}}]}]}",
    );
    let answer = asked(&rewrite, "client", "http://echo/a/c", &[]);
    assert_eq!(answer.outcome.status, Some(403), "{answer}");
    let lost = asked(&rewrite, "client", "http://echo/z", &[]);
    assert_eq!((lost.outcome.status, lost.outcome.flags.as_str()), (Some(404), "NR"), "{lost}");
    blames(&lost, "VirtualService n/v spec.http");
}
