//! The part of a DestinationRule that counts for one port and one subset.
//!
//! In: a rule's traffic policy, a subset's, a port. Out: one set of settings. Port-level settings
//! replace those of the destination as a whole, field by field not inherited; a subset's settings
//! override the rule's, field by field.

use ironsail_api::istio::networking::{
    ClientTlsSettings, ConnectionPoolSettings, DestinationRule, LbPolicy, LoadBalancerSettings,
    OutlierDetection, PortTrafficPolicy, ProxyProtocol, RetryBudget, SimpleLb, Subset,
    TrafficPolicy, TunnelSettings,
};

/// Settings that apply, borrowed from the rule.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Policy<'a> {
    pub(crate) connection_pool: Option<&'a ConnectionPoolSettings>,
    pub(crate) outlier_detection: Option<&'a OutlierDetection>,
    pub(crate) load_balancer: Option<&'a LoadBalancerSettings>,
    pub(crate) tls: Option<&'a ClientTlsSettings>,
    pub(crate) proxy_protocol: Option<&'a ProxyProtocol>,
    pub(crate) retry_budget: Option<&'a RetryBudget>,
    pub(crate) tunnel: Option<&'a TunnelSettings>,
}

impl<'a> Policy<'a> {
    /// Of `rule` for `port`; with `subset`'s own on top, if there is one.
    pub(crate) fn of(rule: &'a DestinationRule, subset: Option<&'a Subset>, port: u16) -> Self {
        let base = rule.traffic_policy.as_ref().map(|p| Self::at_port(p, port).0);
        let own = subset.and_then(|s| s.traffic_policy.as_ref()).map(|p| Self::at_port(p, port));
        match (base, own) {
            (Some(base), Some((own, at_port))) => own.over(base, at_port),
            (base, own) => own.map(|o| o.0).or(base).unwrap_or_default(),
        }
    }

    /// The settings of the port alone, if it has some; and whether it has.
    fn at_port(policy: &'a TrafficPolicy, port: u16) -> (Self, bool) {
        let is_it =
            |s: &&PortTrafficPolicy| s.port.as_ref().is_some_and(|p| p.number == u32::from(port));
        if let Some(own) = policy.port_level_settings.iter().find(is_it) {
            let own = Self {
                connection_pool: own.connection_pool.as_ref(),
                outlier_detection: own.outlier_detection.as_ref(),
                load_balancer: own.load_balancer.as_ref(),
                tls: own.tls.as_ref(),
                ..Self::default()
            };
            return (own, true);
        }
        let whole = Self {
            connection_pool: policy.connection_pool.as_ref(),
            outlier_detection: policy.outlier_detection.as_ref(),
            load_balancer: policy.load_balancer.as_ref(),
            tls: policy.tls.as_ref(),
            proxy_protocol: policy.proxy_protocol.as_ref(),
            retry_budget: policy.retry_budget.as_ref(),
            tunnel: policy.tunnel.as_ref(),
        };
        (whole, false)
    }

    fn over(self, base: Self, at_port: bool) -> Self {
        // What a port may set, its settings replace whole.
        let below = if at_port { Self::default() } else { base };
        Self {
            connection_pool: self.connection_pool.or(below.connection_pool),
            outlier_detection: self.outlier_detection.or(below.outlier_detection),
            load_balancer: self.load_balancer.or(below.load_balancer),
            tls: self.tls.or(below.tls),
            proxy_protocol: self.proxy_protocol.or(base.proxy_protocol),
            retry_budget: self.retry_budget.or(base.retry_budget),
            tunnel: self.tunnel.or(base.tunnel),
        }
    }

    /// Whether traffic goes where its caller sent it.
    pub(crate) fn is_passthrough(&self) -> bool {
        self.load_balancer
            .is_some_and(|lb| matches!(lb.policy, LbPolicy::Simple(SimpleLb::Passthrough)))
    }
}
