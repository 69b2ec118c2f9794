//! AuthorizationPolicies of one action as Envoy's RBAC, for requests and for plain connections.

use ironsail_api::istio::security::{Action, AuthorizationPolicy};
use ironsail_api::{Diagnostic, Kind, Resource};
use ironsail_names::TrustDomains;
use ironsail_proto::envoy::config::listener::v3::Filter;
use ironsail_proto::envoy::config::rbac::v3::{Rbac as Rules, rbac};
use ironsail_proto::envoy::extensions::filters::http::rbac::v3::Rbac as HttpRbac;
use ironsail_proto::envoy::extensions::filters::network::http_connection_manager::v3::HttpFilter;
use ironsail_proto::envoy::extensions::filters::network::rbac::v3::Rbac as NetworkRbac;

use super::rule::{self, Reading};
use crate::filter::{http, network};
use crate::problem::Problems;

pub(super) const HTTP: &str = "envoy.filters.http.rbac";
pub(super) const NETWORK: &str = "envoy.filters.network.rbac";
pub(super) const STAT_PREFIX: &str = "tcp.";
const DRY_RUN: &str = "istio.io/dry-run";

type Policy = Resource<AuthorizationPolicy>;

/// What policies of one action come to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Built {
    pub(super) rules: Option<Rules>,
    /// Evaluated and reported, without effect.
    shadow: Option<Rules>,
}

/// Translates policies; collects what there is to say about them.
pub(super) struct Builder<'a> {
    pub(super) trust: &'a TrustDomains,
    pub(super) tcp: bool,
    pub(super) found: Vec<Diagnostic>,
}

/// Go's idea of a truth value; what is none is enforced.
pub(super) fn is_dry_run(policy: &Policy) -> bool {
    let said = policy.meta.annotations.get(DRY_RUN).map(String::as_str);
    matches!(said, Some("1" | "t" | "T" | "true" | "TRUE" | "True"))
}

/// The name of a rule in logs and statistics.
pub(super) fn rule_name(policy: &Policy, index: usize) -> String {
    format!("ns[{}]-policy[{}]-rule[{index}]", policy.meta.namespace, policy.meta.name)
}

impl Builder<'_> {
    /// None if there are no policies of the action.
    pub(super) fn action(&mut self, policies: &[&Policy], action: Action) -> Option<Built> {
        let policies: Vec<_> = policies.iter().filter(|p| p.spec.action == action).collect();
        let of = |policies: Vec<&Policy>, this: &mut Self| {
            (!policies.is_empty()).then(|| this.rules(&policies, action, ""))
        };
        let (dry, enforced): (Vec<&Policy>, Vec<&Policy>) =
            policies.iter().map(|p| **p).partition(|policy| is_dry_run(policy));
        let built = Built { rules: of(enforced, self), shadow: of(dry, self) };
        (built.rules.is_some() || built.shadow.is_some()).then_some(built)
    }

    /// All rules of the policies; `prefix` comes before their names.
    pub(super) fn rules(&mut self, policies: &[&Policy], action: Action, prefix: &str) -> Rules {
        let mut rules = Rules { action: effect(action).into(), ..Default::default() };
        for policy in policies {
            let reading = Reading {
                namespace: &policy.meta.namespace,
                trust: self.trust,
                tcp: self.tcp,
                widens: action != Action::Allow,
            };
            for (i, one) in policy.spec.rules.iter().enumerate() {
                let mut told = Vec::new();
                let made = reading.policy(one, &mut told);
                self.tell(policy, i, action, &told);
                if let Some(made) = made {
                    rules.policies.insert(format!("{prefix}{}", rule_name(policy, i)), made);
                }
            }
            if policy.spec.rules.is_empty() {
                rules.policies.insert(format!("{prefix}{}", rule_name(policy, 0)), rule::never());
            }
        }
        rules
    }

    fn tell(&mut self, policy: &Policy, index: usize, action: Action, told: &[String]) {
        let effect = match action {
            Action::Allow => "the rule allows nothing",
            Action::Deny => "the rule denies without looking at it",
            Action::Audit => "the rule matches without looking at it",
            Action::Custom => "the authorizer is asked without looking at it",
        };
        for why in told {
            Problems::new(Kind::AuthorizationPolicy, &policy.meta, &mut self.found)
                .invalid(&format!("spec.rules[{index}]"), format!("{why}; {effect}"));
        }
    }
}

fn effect(action: Action) -> rbac::Action {
    match action {
        Action::Allow => rbac::Action::Allow,
        Action::Deny | Action::Custom => rbac::Action::Deny,
        Action::Audit => rbac::Action::Log,
    }
}

impl Built {
    /// As Istio names it; dashboards look for these.
    fn shadow_prefix(&self) -> String {
        let action = self.shadow.as_ref().map_or(rbac::Action::Allow, Rules::action);
        let prefix = match action {
            rbac::Action::Allow => "istio_dry_run_allow_",
            rbac::Action::Deny => "istio_dry_run_deny_",
            rbac::Action::Log => "",
        };
        prefix.to_owned()
    }

    pub(super) fn http(self) -> HttpFilter {
        let config = HttpRbac {
            shadow_rules_stat_prefix: self.shadow_prefix(),
            rules: self.rules,
            shadow_rules: self.shadow,
            ..Default::default()
        };
        http::filter(HTTP, &config)
    }

    pub(super) fn network(self) -> Filter {
        let config = NetworkRbac {
            shadow_rules_stat_prefix: self.shadow_prefix(),
            rules: self.rules,
            shadow_rules: self.shadow,
            stat_prefix: STAT_PREFIX.into(),
            ..Default::default()
        };
        network::filter(NETWORK, &config)
    }
}
