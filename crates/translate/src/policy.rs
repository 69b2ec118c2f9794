//! Policies of a workload: who may ask what of it, and which tokens it takes.
//!
//! In: the AuthorizationPolicies and RequestAuthentications that are about a proxy, the mesh's
//! authorizers and the keys of token issuers. Out: filters for requests and for plain connections, in
//! Istio's order: CUSTOM, tokens, AUDIT, DENY, ALLOW. What cannot be enforced as written denies, and
//! a diagnostic says so.

pub mod ambient;
mod attribute;
mod custom;
pub(crate) mod grpc;
mod jwt;
mod matching;
mod provider;
mod rbac;
mod rule;
mod token;
mod trust;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use ironsail_api::istio::security::{Action, AuthorizationPolicy};
use ironsail_api::{Diagnostic, Resource};
use ironsail_model::config::Target;
use ironsail_model::{Hashed, ProxyClass, ProxyKind, Scope, Snapshot};
use ironsail_names::TrustDomains;
use ironsail_proto::envoy::config::listener::v3::Filter;

use crate::filter::{http, network};
use custom::Authorizers;
use provider::Authorizer;

/// All policies about one workload, resolved.
#[derive(Clone, Debug)]
pub struct Guard {
    policies: Vec<Arc<Resource<AuthorizationPolicy>>>,
    authorizers: Authorizers,
    several_authorizers: bool,
    trust: TrustDomains,
    tokens: Vec<jwt::Token>,
    /// What tokens say may choose the route.
    clear_route_cache: bool,
    /// What came up when tokens' keys were looked for.
    told: Vec<Diagnostic>,
}

impl Guard {
    /// The policies about proxies of a class.
    pub fn of(snapshot: &Snapshot, scope: &Scope, class: &ProxyClass) -> Arc<Hashed<Self>> {
        let target = Target::from(class);
        let root = snapshot.root_namespace();
        let policies: Vec<_> = snapshot
            .config
            .authorization_policies
            .for_workload(root, target)
            .into_iter()
            .cloned()
            .collect();
        let custom = policies.iter().filter(|policy| policy.spec.action == Action::Custom);
        let authorizers = custom
            .map(|policy| custom::provider_of(policy))
            .filter(|name| !name.is_empty())
            .map(|name| (name.to_owned(), Authorizer::find(&snapshot.mesh.config, scope, name)))
            .collect();
        let mut told = Vec::new();
        let authentications = &snapshot.config.request_authentications;
        let tokens = authentications
            .for_workload(root, target)
            .into_iter()
            .flat_map(|policy| token::of(snapshot, scope, policy, &mut told))
            .collect();
        let guard = Self {
            policies,
            authorizers,
            several_authorizers: snapshot.settings.several_authorizers,
            trust: snapshot.mesh.trust.clone(),
            tokens,
            clear_route_cache: class.kind != ProxyKind::Sidecar,
            told,
        };
        Arc::new(Hashed::new(guard))
    }

    /// Filters for requests, each in its slot; and all there is to say about the policies.
    pub(crate) fn http(&self, slots: &mut http::Slots) -> Vec<Diagnostic> {
        let policies: Vec<_> = self.policies.iter().map(|policy| &**policy).collect();
        let mut builder = self.builder(false);
        slots.custom_authorization =
            custom::http(&mut builder, &policies, &self.authorizers, self.several_authorizers);
        slots.authentication =
            jwt::filter(&self.tokens, self.clear_route_cache).into_iter().collect();
        for action in [Action::Audit, Action::Deny, Action::Allow] {
            slots.authorization.extend(builder.action(&policies, action).map(rbac::Built::http));
        }
        let mut found = builder.found;
        found.extend(self.told.iter().cloned());
        found
    }

    /// Filters for plain connections.
    pub(crate) fn network(&self, slots: &mut network::Slots) {
        slots.authorization = self.connection_filters();
    }

    /// The same in their order.
    pub fn connection_filters(&self) -> Vec<Filter> {
        let policies: Vec<_> = self.policies.iter().map(|policy| &**policy).collect();
        let mut builder = self.builder(true);
        let mut filters =
            custom::network(&mut builder, &policies, &self.authorizers, self.several_authorizers);
        for action in [Action::Audit, Action::Deny, Action::Allow] {
            filters.extend(builder.action(&policies, action).map(rbac::Built::network));
        }
        filters
    }

    /// Filters for requests in their order.
    pub fn request_filters(
        &self,
    ) -> Vec<ironsail_proto::envoy::extensions::filters::network::http_connection_manager::v3::HttpFilter>
    {
        let mut slots = http::Slots::default();
        self.http(&mut slots);
        let http::Slots { custom_authorization, authentication, authorization, .. } = slots;
        [custom_authorization, authentication, authorization].concat()
    }

    fn builder(&self, tcp: bool) -> rbac::Builder<'_> {
        rbac::Builder { trust: &self.trust, tcp, found: Vec::new() }
    }
}

/// Everything that filters or diagnostics follow from.
impl Hash for Guard {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self {
            policies,
            authorizers,
            several_authorizers,
            trust,
            tokens,
            clear_route_cache,
            told,
        } = self;
        for policy in policies {
            policy.digest.hash(state);
        }
        policies.len().hash(state);
        for (name, found) in authorizers {
            name.hash(state);
            found.as_ref().map(Authorizer::content).hash(state);
        }
        for token in tokens {
            token.hash(state);
        }
        (several_authorizers, trust, tokens.len(), clear_route_cache, told).hash(state);
    }
}
