//! What the protocol itself says about types of resources.

pub const CDS: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
pub const EDS: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
pub const LDS: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";
pub const RDS: &str = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration";
pub const SDS: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";
/// A client says with it how its application is; nothing is sent for it.
pub const HEALTH: &str = "type.googleapis.com/istio.v1.HealthInformation";
/// An agent says with it which roots its proxy trusts and which certificate it has; nothing is sent.
pub const TRUST: &str = "type.googleapis.com/ironsail.v1.TrustReport";
pub const ECDS: &str = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig";

/// How resources of a type are asked for and sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// When changes go out, among the types that name one another: a resource goes out before those
    /// that name it. None: at any time.
    pub(crate) place: Option<u8>,
    /// Always asked for by name; an empty list asks for nothing. In the state of the world a response
    /// need not have everything.
    pub(crate) named: bool,
    /// Stays until whatever may name it has changed.
    pub(crate) outlives: bool,
    /// Names are questions, not names of resources: whatever the answer holds is wanted.
    pub(crate) questions: bool,
}

/// Debug data of the control plane itself.
const QUESTIONS: &str = "istio.io/debug/";

pub(crate) fn rule(type_url: &str) -> Rule {
    let (place, named, outlives) = match type_url {
        CDS => (Some(0), false, true),
        EDS => (Some(1), true, true),
        LDS => (Some(2), false, false),
        RDS => (Some(3), true, false),
        SDS => (None, true, false),
        // A filter that drains still has it; who needs it no longer stops asking.
        ECDS => (None, true, true),
        _ => (None, false, false),
    };
    Rule { place, named, outlives, questions: type_url.starts_with(QUESTIONS) }
}
