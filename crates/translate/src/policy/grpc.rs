//! Policies of a gRPC server without a proxy: what gRPC's own RBAC can enforce, as rules; what it cannot
//! is a server that nobody may call, and a diagnostic.
//!
//! gRPC knows ALLOW and DENY. It does not know tokens, path templates and external authorizers, and it
//! counts nothing.

use std::sync::Arc;

use ironsail_api::istio::security::{Action, AuthorizationPolicy};
use ironsail_api::{Code, Diagnostic, Kind, Resource, Severity};
use ironsail_names::TrustDomains;
use ironsail_proto::envoy::config::rbac::v3::permission::Rule;
use ironsail_proto::envoy::config::rbac::v3::principal::Identifier;
use ironsail_proto::envoy::config::rbac::v3::{Permission, Principal, Rbac as Rules, rbac};
use ironsail_proto::envoy::extensions::filters::http::rbac::v3::Rbac;

use super::rbac::{Builder, HTTP, is_dry_run};

/// Filters of one chain have names of their own.
const DENY: &str = "envoy.filters.http.rbac.DENY";

type Policy = Arc<Resource<AuthorizationPolicy>>;

/// Filters by name, in their order, and what there is to say about the policies.
pub(crate) fn filters(
    policies: &[&Policy],
    trust: &TrustDomains,
) -> (Vec<(&'static str, Rbac)>, Vec<Diagnostic>) {
    let mut builder = Builder { trust, tcp: false, found: Vec::new() };
    let mut closed = false;
    let mut refusals = Vec::new();
    let mut refuse = |policy: &Policy, severity, why| {
        let kind = Kind::AuthorizationPolicy;
        refusals.push(
            Diagnostic::new(Code::NOT_SUPPORTED, severity, kind, &policy.meta, why).at("spec"),
        );
    };
    for policy in policies {
        if policy.spec.action == Action::Audit || is_dry_run(policy) {
            let why = "not supported yet for gRPC servers without a proxy: nothing is reported";
            refuse(policy, Severity::Warning, why);
            continue;
        }
        let alone = Builder { trust, tcp: false, found: Vec::new() }
            .action(&[&***policy], policy.spec.action)
            .and_then(|built| built.rules);
        if policy.spec.action == Action::Custom || !alone.as_ref().is_none_or(is_known) {
            closed = true;
            let why = "not supported yet for gRPC servers without a proxy: all calls are denied";
            refuse(policy, Severity::Error, why);
        }
    }
    let mut filters = Vec::new();
    if closed {
        filters.push((HTTP, filter(nobody())));
    } else {
        let all: Vec<_> = policies.iter().map(|policy| &***policy).collect();
        for (action, name) in [(Action::Deny, DENY), (Action::Allow, HTTP)] {
            let rules = builder.action(&all, action).and_then(|built| built.rules);
            filters.extend(rules.map(|rules| (name, filter(rules))));
        }
    }
    refusals.extend(builder.found);
    (filters, refusals)
}

fn filter(rules: Rules) -> Rbac {
    Rbac { rules: Some(rules), ..Default::default() }
}

/// No policy allows anything: what cannot be enforced must not open a server.
fn nobody() -> Rules {
    Rules { action: rbac::Action::Allow.into(), ..Default::default() }
}

/// Whether gRPC knows everything that the rules look at.
fn is_known(rules: &Rules) -> bool {
    rules.policies.values().all(|policy| {
        policy.permissions.iter().all(permission) && policy.principals.iter().all(principal)
    })
}

fn permission(one: &Permission) -> bool {
    match &one.rule {
        None | Some(Rule::Any(_) | Rule::Header(_) | Rule::UrlPath(_)) => true,
        Some(Rule::DestinationIp(_) | Rule::DestinationPort(_)) => true,
        Some(Rule::AndRules(all) | Rule::OrRules(all)) => all.rules.iter().all(permission),
        Some(Rule::NotRule(inner)) => permission(inner),
        Some(_) => false,
    }
}

fn principal(one: &Principal) -> bool {
    match &one.identifier {
        None | Some(Identifier::Any(_) | Identifier::Authenticated(_) | Identifier::Header(_)) => {
            true
        }
        Some(Identifier::DirectRemoteIp(_) | Identifier::RemoteIp(_) | Identifier::UrlPath(_)) => {
            true
        }
        Some(Identifier::AndIds(all) | Identifier::OrIds(all)) => all.ids.iter().all(principal),
        Some(Identifier::NotId(inner)) => principal(inner),
        Some(_) => false,
    }
}
