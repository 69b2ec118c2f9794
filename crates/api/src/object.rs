//! An object of any kind, its key, and what can happen to it.

use std::fmt;
use std::sync::Arc;

use crate::istio::{extensions, networking, security, telemetry};
use crate::{Kind, Meta, Observed, kube, ratelimit};

/// A cluster of the mesh.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(pub Arc<str>);

impl ClusterId {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for ClusterId {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which object of which cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    pub cluster: ClusterId,
    pub kind: Kind,
    /// Empty if the kind has none.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cluster: _, kind, namespace, name } = self;
        if namespace.is_empty() {
            write!(f, "{kind} {name}")
        } else {
            write!(f, "{kind} {namespace}/{name}")
        }
    }
}

/// An object with what it says.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource<S> {
    pub meta: Meta,
    pub spec: S,
    pub observed: Observed,
    /// Hash of name, namespace, labels, annotations, spec and what is observed; of nothing else.
    pub digest: u64,
}

macro_rules! objects {
    ($($kind:ident($spec:ty),)+) => {
        /// An object of any kind.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Object {
            $( $kind(Arc<Resource<$spec>>), )+
        }

        impl Object {
            #[must_use]
            pub fn kind(&self) -> Kind {
                match self {
                    $( Self::$kind(_) => Kind::$kind, )+
                }
            }

            #[must_use]
            pub fn meta(&self) -> &Meta {
                match self {
                    $( Self::$kind(resource) => &resource.meta, )+
                }
            }

            #[must_use]
            pub fn digest(&self) -> u64 {
                match self {
                    $( Self::$kind(resource) => resource.digest, )+
                }
            }

            /// What it says, as JSON.
            #[must_use]
            pub fn spec(&self) -> serde_json::Value {
                match self {
                    $( Self::$kind(resource) => $crate::wire::Wire::write(&resource.spec), )+
                }
            }
        }

        $(
            impl From<Resource<$spec>> for Object {
                fn from(resource: Resource<$spec>) -> Self {
                    Self::$kind(Arc::new(resource))
                }
            }
        )+
    };
}

objects! {
    Service(kube::Service),
    EndpointSlice(kube::EndpointSlice),
    Pod(kube::Pod),
    Node(kube::Node),
    Namespace(kube::Namespace),
    Secret(kube::Secret),
    ConfigMap(kube::ConfigMap),
    ServiceAccount(kube::ServiceAccount),
    Ingress(kube::Ingress),
    IngressClass(kube::IngressClass),
    TrafficExtension(extensions::TrafficExtension),
    WasmPlugin(extensions::WasmPlugin),
    DestinationRule(networking::DestinationRule),
    EnvoyFilter(networking::EnvoyFilter),
    Gateway(networking::Gateway),
    ProxyConfig(networking::ProxyConfig),
    ServiceEntry(networking::ServiceEntry),
    Sidecar(networking::Sidecar),
    VirtualService(networking::VirtualService),
    WorkloadEntry(networking::WorkloadEntry),
    WorkloadGroup(networking::WorkloadGroup),
    RateLimitPolicy(ratelimit::RateLimitPolicy),
    AuthorizationPolicy(security::AuthorizationPolicy),
    PeerAuthentication(security::PeerAuthentication),
    RequestAuthentication(security::RequestAuthentication),
    Telemetry(telemetry::Telemetry),
}

impl Object {
    #[must_use]
    pub fn key(&self, cluster: &ClusterId) -> ObjectKey {
        let meta = self.meta();
        ObjectKey {
            cluster: cluster.clone(),
            kind: self.kind(),
            namespace: meta.namespace.as_str().into(),
            name: meta.name.as_str().into(),
        }
    }
}

/// What a source of objects reports.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// It is there now, or has changed.
    Apply { cluster: ClusterId, object: Object },
    /// It is gone.
    Delete(ObjectKey),
    /// All objects of the kind that were there at the start have been reported.
    Synced { cluster: ClusterId, kind: Kind },
}
