//! One rule of an AuthorizationPolicy as a policy of Envoy's RBAC.
//!
//! A part that cannot be translated makes an ALLOW rule disappear (so less is allowed) and a DENY,
//! AUDIT or CUSTOM rule wider (so more is denied): never the other way round.

use ironsail_api::istio::security::{RequestOperation, Rule, Source};
use ironsail_names::TrustDomains;
use ironsail_proto::envoy::config::rbac::v3::principal::Identifier;
use ironsail_proto::envoy::config::rbac::v3::{
    Permission, Policy, Principal, permission, principal,
};

use super::attribute::{Attribute, Refusal};
use super::trust;

/// A condition on one attribute.
#[derive(Clone, Debug)]
struct Condition {
    attribute: Attribute,
    values: Vec<String>,
    not_values: Vec<String>,
}

/// How a rule is to be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading<'a> {
    /// The policy's namespace.
    pub(super) namespace: &'a str,
    pub(super) trust: &'a TrustDomains,
    pub(super) tcp: bool,
    /// What cannot be translated widens the rule.
    pub(super) widens: bool,
}

/// A rule that nothing fits.
pub(super) fn never() -> Policy {
    let any = Permission { rule: Some(permission::Rule::Any(true)) };
    let anybody = Principal { identifier: Some(Identifier::Any(true)) };
    Policy {
        permissions: vec![Permission { rule: Some(permission::Rule::NotRule(Box::new(any))) }],
        principals: vec![Principal { identifier: Some(Identifier::NotId(Box::new(anybody))) }],
        ..Default::default()
    }
}

impl Reading<'_> {
    /// The rule, if anything is left of it. `told` gets what could not be used.
    pub(super) fn policy(&self, rule: &Rule, told: &mut Vec<String>) -> Option<Policy> {
        let mut good = true;
        let mut refuse = |refusal: Refusal| {
            good = false;
            if let Refusal::Invalid(why) = refusal {
                told.push(why);
            }
        };
        let (mut asked, mut asks) = (Vec::new(), Vec::new());
        for when in &rule.when {
            match Attribute::parse(&when.key) {
                Ok(attribute) => {
                    let operation = attribute.is_about_operation();
                    let side = if operation { &mut asked } else { &mut asks };
                    side.extend(self.condition(attribute, &when.values, &when.not_values));
                }
                Err(refusal) => refuse(refusal),
            }
        }
        let permissions: Vec<Permission> = either(&rule.to)
            .map(|to| {
                let mut all = to
                    .and_then(|to| to.operation.as_ref())
                    .map_or_else(Vec::new, |o| self.operation(o));
                all.extend(asked.iter().cloned());
                self.permission(&all, &mut refuse)
            })
            .collect();
        let principals: Vec<Principal> = either(&rule.from)
            .map(|from| {
                let mut all = from
                    .and_then(|from| from.source.as_ref())
                    .map_or_else(Vec::new, |s| self.source(s));
                all.extend(asks.iter().cloned());
                self.principal(&all, &mut refuse)
            })
            .collect();
        (good || self.widens).then(|| Policy { permissions, principals, ..Default::default() })
    }

    fn operation(&self, operation: &RequestOperation) -> Vec<Condition> {
        let o = operation;
        [
            self.condition(Attribute::Host, &o.hosts, &o.not_hosts),
            self.condition(Attribute::Method, &o.methods, &o.not_methods),
            self.condition(Attribute::Path, &o.paths, &o.not_paths),
            self.condition(Attribute::Port, &o.ports, &o.not_ports),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn source(&self, source: &Source) -> Vec<Condition> {
        let s = source;
        [
            self.condition(Attribute::Principal, &s.principals, &s.not_principals),
            self.condition(
                Attribute::RequestPrincipal,
                &s.request_principals,
                &s.not_request_principals,
            ),
            self.condition(Attribute::Namespace, &s.namespaces, &s.not_namespaces),
            self.condition(Attribute::ServiceAccount, &s.service_accounts, &s.not_service_accounts),
            self.condition(Attribute::TrustDomain, &s.trust_domains, &s.not_trust_domains),
            self.condition(Attribute::RemoteIp, &s.remote_ip_blocks, &s.not_remote_ip_blocks),
            self.condition(Attribute::SourceIp, &s.ip_blocks, &s.not_ip_blocks),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn condition(
        &self,
        attribute: Attribute,
        values: &[String],
        not_values: &[String],
    ) -> Option<Condition> {
        if values.is_empty() && not_values.is_empty() {
            return None;
        }
        let meant = |values: &[String]| match attribute {
            Attribute::Principal => trust::with_aliases(self.trust, values),
            _ => values.to_vec(),
        };
        Some(Condition { values: meant(values), not_values: meant(not_values), attribute })
    }

    fn permission(&self, all: &[Condition], refuse: &mut impl FnMut(Refusal)) -> Permission {
        let mut rules = Vec::new();
        for one in all {
            let mut add = |values: &[String], not: bool| {
                if values.is_empty() {
                    return;
                }
                match one.attribute.permission(values, self.tcp) {
                    Ok(rule) if not => rules.push(permission::Rule::NotRule(Box::new(rule))),
                    Ok(rule) => rules.extend(rule.rule),
                    Err(refusal) => refuse(refusal),
                }
            };
            add(&one.values, false);
            add(&one.not_values, true);
        }
        if rules.is_empty() {
            rules.push(permission::Rule::Any(true));
        }
        let rules = rules.into_iter().map(|rule| Permission { rule: Some(rule) }).collect();
        Permission { rule: Some(permission::Rule::AndRules(permission::Set { rules })) }
    }

    fn principal(&self, all: &[Condition], refuse: &mut impl FnMut(Refusal)) -> Principal {
        let mut ids = Vec::new();
        for one in all {
            let mut add = |values: &[String], not: bool| {
                if values.is_empty() {
                    return;
                }
                match one.attribute.principal(values, self.namespace, self.tcp) {
                    Ok(id) if not => ids.push(Identifier::NotId(Box::new(id))),
                    Ok(id) => ids.extend(id.identifier),
                    Err(refusal) => refuse(refusal),
                }
            };
            add(&one.values, false);
            add(&one.not_values, true);
        }
        if ids.is_empty() {
            ids.push(Identifier::Any(true));
        }
        let ids = ids.into_iter().map(|id| Principal { identifier: Some(id) }).collect();
        Principal { identifier: Some(Identifier::AndIds(principal::Set { ids })) }
    }
}

/// Each of them; or once nothing, which stands for everything.
fn either<T>(all: &[T]) -> impl Iterator<Item = Option<&T>> {
    let none = all.is_empty().then_some(None);
    all.iter().map(Some).chain(none)
}
