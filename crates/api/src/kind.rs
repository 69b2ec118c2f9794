//! The kinds of objects, and what Kubernetes calls them.

use std::fmt;

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident: $group:literal $plural:literal $scope:ident [$($version:literal)+];)+) => {
        /// A kind of objects.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $( $(#[$doc])* $kind, )+
        }

        impl Kind {
            pub const ALL: &'static [Self] = &[$(Self::$kind),+];

            /// As `kind:` has it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $( Self::$kind => stringify!($kind), )+
                }
            }

            /// API group; empty for Kubernetes' oldest.
            #[must_use]
            pub const fn group(self) -> &'static str {
                match self {
                    $( Self::$kind => $group, )+
                }
            }

            /// As URLs have it.
            #[must_use]
            pub const fn plural(self) -> &'static str {
                match self {
                    $( Self::$kind => $plural, )+
                }
            }

            #[must_use]
            pub const fn namespaced(self) -> bool {
                match self {
                    $( Self::$kind => kinds!(@$scope), )+
                }
            }

            /// Versions that are served, the one to use first.
            #[must_use]
            pub const fn versions(self) -> &'static [&'static str] {
                match self {
                    $( Self::$kind => &[$($version),+], )+
                }
            }
        }
    };
    (@namespaced) => { true };
    (@cluster) => { false };
}

kinds! {
    Service: "" "services" namespaced ["v1"];
    EndpointSlice: "discovery.k8s.io" "endpointslices" namespaced ["v1"];
    Pod: "" "pods" namespaced ["v1"];
    Node: "" "nodes" cluster ["v1"];
    Namespace: "" "namespaces" cluster ["v1"];
    Secret: "" "secrets" namespaced ["v1"];
    ConfigMap: "" "configmaps" namespaced ["v1"];
    ServiceAccount: "" "serviceaccounts" namespaced ["v1"];
    Ingress: "networking.k8s.io" "ingresses" namespaced ["v1"];
    IngressClass: "networking.k8s.io" "ingressclasses" cluster ["v1"];
    TrafficExtension: "extensions.istio.io" "trafficextensions" namespaced ["v1alpha1"];
    WasmPlugin: "extensions.istio.io" "wasmplugins" namespaced ["v1alpha1"];
    DestinationRule: "networking.istio.io" "destinationrules" namespaced ["v1" "v1alpha3" "v1beta1"];
    EnvoyFilter: "networking.istio.io" "envoyfilters" namespaced ["v1alpha3"];
    Gateway: "networking.istio.io" "gateways" namespaced ["v1" "v1alpha3" "v1beta1"];
    ProxyConfig: "networking.istio.io" "proxyconfigs" namespaced ["v1beta1"];
    ServiceEntry: "networking.istio.io" "serviceentries" namespaced ["v1" "v1alpha3" "v1beta1"];
    Sidecar: "networking.istio.io" "sidecars" namespaced ["v1" "v1alpha3" "v1beta1"];
    VirtualService: "networking.istio.io" "virtualservices" namespaced ["v1" "v1alpha3" "v1beta1"];
    WorkloadEntry: "networking.istio.io" "workloadentries" namespaced ["v1" "v1alpha3" "v1beta1"];
    WorkloadGroup: "networking.istio.io" "workloadgroups" namespaced ["v1" "v1alpha3" "v1beta1"];
    RateLimitPolicy: "policy.ironsail.io" "ratelimitpolicies" namespaced ["v1alpha1"];
    AuthorizationPolicy: "security.istio.io" "authorizationpolicies" namespaced ["v1" "v1beta1"];
    PeerAuthentication: "security.istio.io" "peerauthentications" namespaced ["v1" "v1beta1"];
    RequestAuthentication: "security.istio.io" "requestauthentications" namespaced ["v1" "v1beta1"];
    Telemetry: "telemetry.istio.io" "telemetries" namespaced ["v1" "v1alpha1"];
}

impl Kind {
    /// Istio's kinds and our own beside them, in the order of their groups and names.
    pub fn istio() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(|kind| kind.is_istio())
    }

    /// One of Istio's own kinds, or of ours beside them: configuration, with a CRD.
    #[must_use]
    pub fn is_istio(self) -> bool {
        self.group().ends_with(".istio.io") || self.group().ends_with(".ironsail.io")
    }

    /// The kind of an object with this `apiVersion` and `kind`, in any served version.
    #[must_use]
    pub fn find(api_version: &str, kind: &str) -> Option<Self> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        Self::ALL.iter().copied().find(|one| {
            one.name() == kind && one.group() == group && one.versions().contains(&version)
        })
    }

    /// Version to ask for.
    #[must_use]
    pub fn version(self) -> &'static str {
        self.versions()[0]
    }

    /// `apiVersion` of the version to ask for.
    #[must_use]
    pub fn api_version(self) -> String {
        match self.group() {
            "" => self.version().to_owned(),
            group => format!("{group}/{}", self.version()),
        }
    }

    /// Version that a cluster keeps.
    #[must_use]
    pub fn stored_version(self) -> &'static str {
        // Telemetry is the only kind whose older version is still kept.
        if self == Self::Telemetry { "v1alpha1" } else { self.version() }
    }

    /// Name of its CRD.
    #[must_use]
    pub fn crd_name(self) -> String {
        format!("{}.{}", self.plural(), self.group())
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_found_in_every_served_version() {
        for kind in Kind::ALL {
            for version in kind.versions() {
                let group = kind.group();
                let text = if group.is_empty() {
                    (*version).to_owned()
                } else {
                    format!("{group}/{version}")
                };
                assert_eq!(Kind::find(&text, kind.name()), Some(*kind));
            }
        }
        assert_eq!(Kind::find("networking.istio.io/v2", "Gateway"), None);
        assert_eq!(Kind::find("gateway.networking.k8s.io/v1", "Gateway"), None);
    }

    #[test]
    fn istio_has_fifteen_kinds_and_we_have_one() {
        assert_eq!(Kind::istio().count(), 16);
    }
}
