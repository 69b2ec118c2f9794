//! `MeshConfig`: all settings with Istio's names and defaults.

use std::time::Duration;

use super::{ExtensionProvider, ProxyConfig, default_providers};
use crate::istio::networking::{
    ClientTlsSettings, HttpRetry, LocalityLbSetting, TcpKeepalive, ZoneAwareLbSetting,
};
use crate::kube::LabelSelector;
use crate::wire::{choice, message, oneof};

message! {
    /// Settings of the mesh as a whole.
    pub struct MeshConfig {
        /// Port that outbound traffic is redirected to.
        pub proxy_listen_port: i32 = 15001,
        /// Port that inbound traffic is redirected to.
        pub proxy_inbound_listen_port: i32 = 15006,
        /// Port for requests of HTTP clients that know they use a proxy; none if 0.
        pub proxy_http_port: i32,
        /// How long connecting may take.
        pub connect_timeout: Option<Duration> = Some(Duration::from_secs(10)),
        /// How long to wait for the first bytes of a connection; 0s is for ever.
        pub protocol_detection_timeout: Option<Duration> = Some(Duration::ZERO),
        /// Keepalive of sockets.
        pub tcp_keepalive: Option<TcpKeepalive>,
        /// Class of Ingress objects that are ours.
        pub ingress_class: String = "istio".to_owned(),
        /// Service of the ingress gateway.
        pub ingress_service: String = "istio-ingressgateway".to_owned(),
        /// Which Ingress objects are ours.
        pub ingress_controller_mode: IngressControllerMode = IngressControllerMode::Strict,
        /// Label `istio` of the ingress gateway.
        pub ingress_selector: String = "ingressgateway".to_owned(),
        /// Traces and request ids are made.
        pub enable_tracing: bool = true,
        /// File for access logs; none if empty.
        pub access_log_file: String,
        /// Format of access logs.
        pub access_log_format: String,
        /// Text or JSON.
        pub access_log_encoding: AccessLogEncoding,
        /// Access logs go to a gRPC service.
        pub enable_envoy_access_log_service: bool,
        /// No access logs of listeners.
        pub disable_envoy_listener_log: bool,
        /// Settings of proxies.
        pub default_config: ProxyConfig,
        /// Traffic to unknown places.
        pub outbound_traffic_policy: Option<MeshOutboundTrafficPolicy>
            = Some(MeshOutboundTrafficPolicy { mode: MeshOutboundMode::AllowAny }),
        /// Traffic to the application.
        pub inbound_traffic_policy: Option<InboundTrafficPolicy>
            = Some(InboundTrafficPolicy { mode: InboundMode::Passthrough }),
        /// Other sources of configuration.
        pub config_sources: Vec<ConfigSource>,
        /// Mutual TLS wherever both sides can.
        pub enable_auto_mtls: Option<bool> = Some(true),
        /// Trust domain of the mesh.
        pub trust_domain: String = "cluster.local".to_owned(),
        /// Other names of the trust domain.
        pub trust_domain_aliases: Vec<String>,
        /// Further authorities that workloads trust.
        pub ca_certificates: Vec<CertificateData>,
        /// Default of `exportTo` of services.
        pub default_service_export_to: Vec<String> = vec!["*".to_owned()],
        /// Default of `exportTo` of VirtualServices.
        pub default_virtual_service_export_to: Vec<String> = vec!["*".to_owned()],
        /// Default of `exportTo` of DestinationRules.
        pub default_destination_rule_export_to: Vec<String> = vec!["*".to_owned()],
        /// Namespace whose configuration is for the whole mesh.
        pub root_namespace: String = "istio-system".to_owned(),
        /// Preference of near endpoints.
        pub locality_lb_setting: Option<LocalityLbSetting>
            = Some(LocalityLbSetting { enabled: Some(true), ..LocalityLbSetting::default() }),
        /// Preference of the own zone, by Envoy's own reckoning.
        pub zone_aware_lb_setting: Option<ZoneAwareLbSetting>,
        /// How often names are resolved.
        pub dns_refresh_rate: Option<Duration> = Some(Duration::from_secs(60)),
        /// Whether HTTP/1.1 becomes HTTP/2.
        pub h2_upgrade_policy: MeshH2UpgradePolicy,
        /// Pattern of statistics of inbound clusters.
        pub inbound_cluster_stat_name: String,
        /// Pattern of statistics of outbound clusters.
        pub outbound_cluster_stat_name: String,
        /// Not used any more.
        pub certificates: Vec<Certificate>,
        /// Settings of single services.
        pub service_settings: Vec<ServiceSettings>,
        /// The agent merges metrics of the application with those of the proxy.
        pub enable_prometheus_merge: Option<bool> = Some(true),
        /// Not used any more.
        pub verify_certificate_at_client: Option<bool>,
        /// External authority.
        pub ca: Option<Ca>,
        /// Providers of authorization, traces, metrics and logs.
        pub extension_providers: Vec<ExtensionProvider> = default_providers(),
        /// Providers that are used unless something else is said.
        pub default_providers: Option<DefaultProviders> = Some(DefaultProviders::default()),
        /// Namespaces that are looked at; all if empty.
        pub discovery_selectors: Vec<LabelSelector>,
        /// How paths are normalized.
        pub path_normalization: Option<ProxyPathNormalization>,
        /// When a request is tried again.
        pub default_http_retry_policy: Option<HttpRetry>,
        /// Mutual TLS inside the mesh.
        pub mesh_mtls as "meshMTLS": Option<TlsConfig>,
        /// Other TLS.
        pub tls_defaults: Option<TlsConfig>,
        /// `fips-140-2` or nothing.
        pub compliance_policy: String,
        /// Services that are shared between clusters, for ambient.
        pub service_scope_configs: Vec<ServiceScopeConfigs> = vec![],
    }

    /// Traffic to unknown places.
    pub struct MeshOutboundTrafficPolicy {
        /// Refuse or let through.
        pub mode: MeshOutboundMode,
    }

    /// Traffic to the application.
    pub struct InboundTrafficPolicy {
        /// Where it is sent.
        pub mode: InboundMode,
    }

    /// Another source of configuration.
    pub struct ConfigSource {
        /// xds://, k8s:// or fs:///.
        pub address: String,
        /// TLS towards it.
        pub tls_settings: Option<ClientTlsSettings>,
        /// What it gives.
        pub subscribed_resources: Vec<ConfigResource>,
    }

    /// A further authority.
    pub struct CertificateData {
        /// The certificate.
        pub data: CertificateSource,
        /// Signers that it is for; all if empty.
        pub cert_signers: Vec<String>,
        /// Trust domains that it is for; all if empty.
        pub trust_domains: Vec<String>,
    }

    /// Not used any more.
    pub struct Certificate {
        /// Secret to put it in.
        pub secret_name: String,
        /// Names in it.
        pub dns_names: Vec<String>,
    }

    /// Settings of single services.
    pub struct ServiceSettings {
        /// The settings.
        pub settings: Option<ServiceSetting>,
        /// Hosts of the services.
        pub hosts: Vec<String>,
    }

    /// Settings of a service.
    pub struct ServiceSetting {
        /// Only endpoints of the client's own cluster.
        pub cluster_local: bool,
    }

    /// External authority.
    pub struct Ca {
        /// Its address.
        pub address: String,
        /// TLS towards it.
        pub tls_settings: Option<ClientTlsSettings>,
        /// How long a request may take.
        pub request_timeout: Option<Duration>,
        /// The control plane asks it, not the agents.
        pub istiod_side: bool,
    }

    /// Providers that are used unless something else is said.
    pub struct DefaultProviders {
        /// Of traces.
        pub tracing: Vec<String>,
        /// Of metrics.
        pub metrics: Vec<String>,
        /// Of access logs.
        pub access_logging: Vec<String>,
    }

    /// How paths are normalized.
    pub struct ProxyPathNormalization {
        /// How much.
        pub normalization: NormalizationType,
    }

    /// Limits of TLS.
    pub struct TlsConfig {
        /// Least version.
        pub min_protocol_version: MeshTlsProtocol,
        /// Curves that are allowed.
        pub ecdh_curves: Vec<String>,
        /// Ciphers that are allowed.
        pub cipher_suites: Vec<String>,
    }

    /// Services that are shared between clusters.
    pub struct ServiceScopeConfigs {
        /// By labels of their namespace.
        pub namespace_selector: Option<LabelSelector>,
        /// By their own labels.
        pub services_selector: Option<LabelSelector>,
        /// Shared or not.
        pub scope: ServiceScope,
    }
}

oneof! {
    /// Where a certificate comes from.
    pub enum CertificateSource {
        /// Its text.
        Pem(String) = pem,
        /// A SPIFFE bundle endpoint.
        SpiffeBundleUrl(String) = spiffe_bundle_url,
    }
}

choice! {
    /// Which Ingress objects are ours.
    pub enum IngressControllerMode {
        Unspecified = "UNSPECIFIED",
        Off = "OFF",
        Default = "DEFAULT",
        Strict = "STRICT",
    }

    /// Form of access logs.
    pub enum AccessLogEncoding {
        Text = "TEXT",
        Json = "JSON",
    }

    /// Traffic to unknown places.
    pub enum MeshOutboundMode {
        RegistryOnly = "REGISTRY_ONLY",
        AllowAny = "ALLOW_ANY",
    }

    /// Where traffic to the application is sent.
    pub enum InboundMode {
        Passthrough = "PASSTHROUGH",
        Localhost = "LOCALHOST",
    }

    /// What a source of configuration gives.
    pub enum ConfigResource {
        ServiceRegistry = "SERVICE_REGISTRY",
    }

    /// Whether HTTP/1.1 becomes HTTP/2.
    pub enum MeshH2UpgradePolicy {
        DoNotUpgrade = "DO_NOT_UPGRADE",
        Upgrade = "UPGRADE",
    }

    /// How much of a path is normalized.
    pub enum NormalizationType {
        Default = "DEFAULT",
        None = "NONE",
        Base = "BASE",
        MergeSlashes = "MERGE_SLASHES",
        DecodeAndMergeSlashes = "DECODE_AND_MERGE_SLASHES",
    }

    /// Version of TLS.
    pub enum MeshTlsProtocol {
        Auto = "TLS_AUTO",
        V1_2 = "TLSV1_2",
        V1_3 = "TLSV1_3",
    }

    /// Whether a service is shared between clusters.
    pub enum ServiceScope {
        Local = "LOCAL",
        Global = "GLOBAL",
    }
}
