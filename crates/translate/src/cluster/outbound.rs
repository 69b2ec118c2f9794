//! A cluster for one port of a service, or for a subset of it.
//!
//! In: the service, its rule, who may answer. Out: a cluster by Istio's defaults, changed by the
//! rule's policy in the order pool, protocol, outliers, load balancing, TLS.

use std::collections::BTreeSet;

use ironsail_api::istio::networking::{ClientTlsMode, Subset};
use ironsail_api::{Code, Severity};
use ironsail_model::{MergedRule, Registry, Resolution, Service, ServicePort};
use ironsail_names::{ClusterName, SpiffeId};
use ironsail_proto::envoy::config::cluster::v3::Cluster;
use ironsail_proto::envoy::config::cluster::v3::circuit_breakers::thresholds;
use ironsail_proto::envoy::config::core::v3::{HealthStatus, HealthStatusSet};
use ironsail_proto::envoy::r#type::v3::Percent;
use ironsail_proto::google::protobuf::UInt32Value;

use super::defaults::Defaults;
use super::draft::{Discovery, Draft, Family};
use super::policy::Policy;
use super::security::{self, Client, Peer};
use super::{balance, outlier, pool, stat, unsupported};
use crate::endpoint::{Selection, preference};
use crate::filter::http;
use crate::metadata::{self, ServiceRef};
use crate::{Key, Translated};

/// On a Service: sessions stick to hosts, by cookie or header.
pub(crate) const PERSISTENT_SESSION: &str = "istio.io/persistent-session";

#[derive(Clone, Debug)]
pub(crate) struct Outbound<'a> {
    pub(crate) service: &'a Service,
    pub(crate) port: &'a ServicePort,
    pub(crate) subset: Option<&'a Subset>,
    pub(crate) rule: Option<&'a MergedRule>,
    /// Who serves it, by the endpoints that are known.
    pub(crate) identities: Option<&'a BTreeSet<SpiffeId>>,
    /// mTLS without being asked.
    pub(crate) automatic: bool,
    /// Endpoints that the cluster itself names.
    pub(crate) inline: Option<Selection<'a>>,
    pub(crate) sidecar: bool,
    /// For mTLS that a gateway does not open, and finds by its server name.
    pub(crate) passed_on: bool,
    pub(crate) family: Family,
}

impl<'a> Outbound<'a> {
    /// As routes and listeners know the cluster.
    pub(crate) fn called(&self) -> String {
        match self.passed_on {
            true => self.name().sni(),
            false => self.name().to_string(),
        }
    }

    pub(crate) fn name(&self) -> ClusterName {
        let subset = self.subset.map_or("", |s| &s.name);
        ClusterName::outbound(self.port.number, subset, self.service.hostname().clone())
    }

    pub(crate) fn policy(&self) -> Policy<'a> {
        self.rule
            .map(|rule| Policy::of(&rule.spec, self.subset, self.port.number))
            .unwrap_or_default()
    }

    pub(crate) fn write(&self, key: Key) -> Key {
        let key = key
            .digest(self.service.digest)
            .number(self.port.number.into())
            .maybe(self.subset, |k, s| k.text(&s.name))
            .maybe(self.rule, |k, r| k.digest(r.digest))
            .maybe(self.identities, |k, ids| k.digest(ironsail_model::digest(ids)))
            .flag(self.automatic)
            .flag(self.sidecar)
            .flag(self.passed_on)
            .number(self.family as u64);
        key.maybe(self.inline.as_ref(), |k, inline| inline.write(k))
    }

    pub(crate) fn translate(&self, mesh: &Defaults<'_>) -> Translated<Cluster> {
        let policy = self.policy();
        let mut diagnostics = unsupported::of(self.rule, &policy);
        let mut draft = self.base(&policy, mesh);
        pool::apply(&mut draft, policy.connection_pool, mesh);
        if !self.passed_on
            && pool::upgrades(policy.connection_pool, self.port.protocol.is_http(), mesh)
        {
            draft.use_http2();
        }
        pool::http2(&mut draft, policy.connection_pool);
        if let Some(budget) = policy.retry_budget {
            draft.thresholds().retry_budget = Some(thresholds::RetryBudget {
                budget_percent: budget.percent.map(|value| Percent { value }),
                min_retry_concurrency: (budget.min_retry_concurrency > 0)
                    .then_some(UInt32Value { value: budget.min_retry_concurrency }),
                budget_interval: budget.budget_interval.map(Into::into),
            });
        }
        if let Some(settings) = policy.outlier_detection {
            outlier::apply(&mut draft, settings);
        }
        balance::prefer(
            &mut draft,
            preference(
                policy.load_balancer,
                self.service.distribution,
                mesh.preference,
                policy.outlier_detection.is_some(),
            )
            .as_ref(),
            policy.load_balancer,
        );
        balance::apply(&mut draft, policy.load_balancer);
        if self.service.sticky && policy.load_balancer.is_none() {
            balance::by_client(&mut draft);
        }
        let client = Client {
            sidecar: self.sidecar,
            selected: self.rule.is_some_and(|r| r.spec.workload_selector.is_some()),
        };
        let peer = self.peer(mesh);
        if self.passed_on {
            // What is inside stays closed, and has its own TLS.
            draft.http = None;
        } else if let Err(why) = security::apply(&mut draft, policy.tls, &peer, client, mesh) {
            diagnostics.extend(self.rule.map(|rule| {
                unsupported::on(
                    rule,
                    Code::DOUBTFUL,
                    Severity::Warning,
                    "spec.trafficPolicy.tls",
                    why,
                )
            }));
        }
        if let Some(settings) = policy.proxy_protocol {
            security::announce(&mut draft, settings);
        }
        self.describe(&mut draft, &policy);
        Translated { value: draft.finish(), diagnostics }
    }

    fn base(&self, policy: &Policy<'_>, mesh: &Defaults<'_>) -> Draft {
        let mut draft = Draft::new(self.called(), self.discovery(policy));
        if let Some(inline) = &self.inline {
            draft.load(inline.build());
        }
        draft.look_up(mesh.dns_refresh.map(Into::into), self.family);
        let subset = self.subset.map_or("", |s| &s.name);
        if !mesh.outbound_stat_name.is_empty() {
            draft.cluster.alt_stat_name =
                stat::name(mesh.outbound_stat_name, self.service, self.port, subset, None);
        }
        if self.port.protocol.is_http2() {
            draft.use_http2();
        } else if self.sidecar && self.port.protocol.is_auto() {
            draft.use_downstream_protocol();
        }
        if self.service.labels.contains_key(PERSISTENT_SESSION) {
            // Draining hosts stay reachable for the sessions that name them.
            let statuses = [
                HealthStatus::Healthy,
                HealthStatus::Draining,
                HealthStatus::Unknown,
                HealthStatus::Degraded,
            ];
            let statuses = statuses.into_iter().map(Into::into).collect();
            draft.lb().override_host_status = Some(HealthStatusSet { statuses });
        }
        draft
    }

    /// How endpoints are found, before the rule has its say.
    fn discovery(&self, policy: &Policy<'_>) -> Discovery {
        match discovery(self.service, self.sidecar, policy.is_passthrough()) {
            // Envoy wants exactly one name for it.
            Discovery::LogicalDns if self.inline.as_ref().is_none_or(|i| i.count() != 1) => {
                Discovery::StrictDns
            }
            other => other,
        }
    }

    fn peer(&self, mesh: &Defaults<'_>) -> Peer {
        let mut identities: BTreeSet<String> = self.service.subject_alt_names.clone();
        for id in self.identities.into_iter().flatten() {
            identities.insert(id.to_string());
            if mesh.trust_domains.contains(&id.trust_domain) {
                let others = mesh.trust_domains.iter();
                identities.extend(others.map(|domain| id.in_domain(domain).to_string()));
            }
        }
        Peer {
            sni: self.name().sni(),
            identities: identities.into_iter().collect(),
            entry: self.service.registry == Registry::ServiceEntry,
            automatic: self.automatic,
        }
    }

    fn describe(&self, draft: &mut Draft, policy: &Policy<'_>) {
        let service = ServiceRef {
            host: self.service.hostname().as_str(),
            name: &self.service.name,
            namespace: self.service.namespace().as_str(),
        };
        let mut about = metadata::services([service]);
        let port = metadata::number(self.port.number.into());
        metadata::set(&mut about, "default_original_port", port);
        if self.service.external {
            metadata::set(&mut about, "external", metadata::boolean(true));
        }
        let user = policy.tls.map(|tls| tls.mode);
        if draft.follows_downstream()
            && !matches!(user, Some(ClientTlsMode::Simple | ClientTlsMode::Mutual))
        {
            // What is spoken inside mTLS is known only request by request; the HTTP filter that says
            // it to the peer looks for this.
            metadata::set(&mut about, http::ALPN_KEY, metadata::text(http::ALPN_DOWNSTREAM));
        }
        if let Some(rule) = self.rule {
            metadata::set(&mut about, "config", metadata::text(unsupported::path(rule)));
            if let Some(ClientTlsMode::Simple | ClientTlsMode::Mutual) = policy.tls.map(|t| t.mode)
            {
                metadata::set(&mut about, "alpn_override", metadata::text("false"));
            }
        }
        if let Some(subset) = self.subset {
            metadata::set(&mut about, "subset", metadata::text(&subset.name));
        }
        draft.cluster.metadata = Some(about);
    }
}

/// How a cluster of `service` learns its endpoints.
pub(crate) fn discovery(service: &Service, sidecar: bool, passthrough: bool) -> Discovery {
    match service.resolution {
        _ if passthrough => Discovery::OriginalDestination,
        Resolution::ClientSide | Resolution::Alias => Discovery::Eds,
        Resolution::Dns => Discovery::StrictDns,
        Resolution::DynamicDns => Discovery::Dynamic,
        Resolution::DnsRoundRobin => Discovery::LogicalDns,
        // A gateway has no original destination.
        Resolution::Passthrough if sidecar => Discovery::OriginalDestination,
        Resolution::Passthrough => Discovery::Eds,
    }
}
