//! What makes a mesh config unusable, or wrong in part.
//!
//! Who loads a config keeps the former one if [`MeshConfig::faults`] finds anything.

use std::time::Duration;

use super::{
    ExtensionProvider, MeshConfig, MeshNetworks, NetworkEndpoints, NetworkGatewayAddress, Provider,
    ProxyClusterName, ProxyConfig,
};
use crate::validate::name;
use crate::wire::{Problem, What};

/// Collects faults by field.
struct Faults(Vec<Problem>);

impl Faults {
    fn add(&mut self, field: &str, reason: impl Into<String>) {
        self.0.push(Problem { field: field.to_owned(), what: What::Invalid(reason.into()) });
    }

    fn take(&mut self, field: &str, result: Result<(), String>) {
        if let Err(reason) = result {
            self.add(field, reason);
        }
    }
}

impl MeshConfig {
    /// Settings that contradict themselves or that no proxy could follow.
    #[must_use]
    pub fn faults(&self) -> Vec<Problem> {
        let mut faults = Faults(Vec::new());
        faults.take("proxyListenPort", port(self.proxy_listen_port));
        faults.take("proxyInboundListenPort", port(self.proxy_inbound_listen_port));
        if let Some(timeout) = self.connect_timeout {
            let hour = Duration::from_secs(3600);
            let range = if timeout > hour { Err("must be at most 1h".to_owned()) } else { Ok(()) };
            faults.take("connectTimeout", name::duration(timeout).and(range));
        }
        faults.take("trustDomain", trust_domain(&self.trust_domain));
        for alias in &self.trust_domain_aliases {
            faults.take("trustDomainAliases", trust_domain(alias));
        }
        for host in self.service_settings.iter().flat_map(|settings| &settings.hosts) {
            faults.take("serviceSettings.hosts", name::wildcard_domain(host));
        }
        if self.mesh_mtls.as_ref().is_some_and(|tls| !tls.ecdh_curves.is_empty()) {
            faults
                .add("meshMTLS.ecdhCurves", "mesh TLS does not support ECDH curves configuration");
        }
        for (index, provider) in self.extension_providers.iter().enumerate() {
            let before = &self.extension_providers[..index];
            provider_faults(&mut faults, &format!("extensionProviders[{index}]"), provider);
            if before.iter().any(|other| other.name == provider.name) {
                faults.add(
                    &format!("extensionProviders[{index}].name"),
                    format!("duplicate extension provider name {:?}", provider.name),
                );
            }
        }
        for fault in self.default_config.faults() {
            faults.0.push(Problem { field: format!("defaultConfig.{}", fault.field), ..fault });
        }
        faults.0
    }
}

impl ProxyConfig {
    #[must_use]
    pub fn faults(&self) -> Vec<Problem> {
        let mut faults = Faults(Vec::new());
        for (field, text) in [("configPath", &self.config_path), ("binaryPath", &self.binary_path)]
        {
            if text.is_empty() {
                faults.add(field, "must be set");
            }
        }
        if matches!(&self.cluster_name, ProxyClusterName::ServiceCluster(name) if name.is_empty()) {
            faults.add("serviceCluster", "service cluster must be specified");
        }
        if let Some(drain) = self.drain_duration {
            let whole = if drain.subsec_nanos() == 0 {
                Ok(())
            } else {
                Err("drain time only supports durations to seconds precision".to_owned())
            };
            faults.take("drainDuration", name::duration(drain).and(whole));
        }
        faults.take("discoveryAddress", address(&self.discovery_address));
        if !self.statsd_udp_address.is_empty() {
            faults.take("statsdUdpAddress", address(&self.statsd_udp_address));
        }
        faults.take("proxyAdminPort", port(self.proxy_admin_port));
        faults.take("statusPort", port(self.status_port));
        if self.concurrency.is_some_and(|threads| threads < 0) {
            faults.add("concurrency", "concurrency must be greater than or equal to 0");
        }
        faults.0
    }
}

impl MeshNetworks {
    #[must_use]
    pub fn faults(&self) -> Vec<Problem> {
        let mut faults = Faults(Vec::new());
        for (network, settings) in &self.networks {
            let field = |name: &str| format!("networks.{network}.{name}");
            for endpoints in &settings.endpoints {
                match endpoints {
                    NetworkEndpoints::FromCidr(range) => {
                        faults.take(&field("endpoints"), name::subnet(range));
                    }
                    NetworkEndpoints::FromRegistry(cluster) if !name::is_label(cluster) => {
                        faults
                            .add(&field("endpoints"), format!("invalid registry name: {cluster}"));
                    }
                    NetworkEndpoints::FromRegistry(_) | NetworkEndpoints::Unset => {}
                }
            }
            for gateway in &settings.gateways {
                let place = match &gateway.gateway {
                    NetworkGatewayAddress::RegistryServiceName(name) => name::fqdn(name),
                    NetworkGatewayAddress::Address(address) => {
                        name::ip(address).or_else(|_| name::fqdn(address))
                    }
                    NetworkGatewayAddress::Unset => {
                        Err("a gateway must have an address".to_owned())
                    }
                };
                faults.take(&field("gateways"), place);
                faults.take(&field("gateways.port"), name::port(gateway.port));
            }
        }
        faults.0
    }
}

fn port(number: i32) -> Result<(), String> {
    name::port(u32::try_from(number).unwrap_or(0))
}

/// `host:port`.
fn address(text: &str) -> Result<(), String> {
    let (host, number) =
        text.rsplit_once(':').ok_or_else(|| format!("unable to split {text:?}: missing port"))?;
    let number = number.parse().map_err(|_| format!("port ({number}) is not a number"))?;
    name::port(number)?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if name::is_ip(bare) || name::fqdn(host).is_ok() {
        Ok(())
    } else {
        Err(format!("{host:?} is not a valid hostname or an IP address"))
    }
}

fn trust_domain(domain: &str) -> Result<(), String> {
    let labels = domain.strip_suffix('.').unwrap_or(domain);
    if labels.is_empty() {
        Err("empty domain name not allowed".to_owned())
    } else if labels.split('.').all(name::is_label) {
        Ok(())
    } else {
        Err(format!("trust domain name {domain:?} invalid"))
    }
}

fn provider_faults(faults: &mut Faults, field: &str, provider: &ExtensionProvider) {
    if provider.name.is_empty() {
        faults.add(&format!("{field}.name"), "empty extension provider name");
    }
    let (service, number) = match &provider.provider {
        Provider::EnvoyExtAuthzHttp(one) => (&one.service, one.port),
        Provider::EnvoyExtAuthzGrpc(one) => (&one.service, one.port),
        Provider::Zipkin(one) => (&one.service, one.port),
        Provider::Lightstep(one) => (&one.service, one.port),
        Provider::Datadog(one) => (&one.service, one.port),
        Provider::OpenCensus(one) => (&one.service, one.port),
        Provider::SkyWalking(one) => (&one.service, one.port),
        Provider::OpenTelemetry(one) => (&one.service, one.port),
        Provider::EnvoyHttpAls(one) => (&one.service, one.port),
        Provider::EnvoyTcpAls(one) => (&one.service, one.port),
        Provider::EnvoyOtelAls(one) => (&one.service, one.port),
        Provider::Sds(one) => (&one.service, one.port),
        Provider::Stackdriver(_) | Provider::Prometheus(_) | Provider::EnvoyFileAccessLog(_) => {
            return;
        }
        Provider::Unset => return faults.add(field, "an extension provider must say what it is"),
    };
    let host = service.split_once('/').map_or(service.as_str(), |(_, host)| host);
    faults.take(&format!("{field}.service"), name::fqdn(host));
    faults.take(&format!("{field}.port"), name::port(number));
}
