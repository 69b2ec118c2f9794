//! Settings that are understood and that nothing follows yet, so that whoever makes them is told.

use super::{MeshConfig, MeshTlsProtocol, ProxyConfig};

impl MeshConfig {
    /// Paths of the fields that are set and have no effect, in the order of their names. What has no
    /// effect in Istio either, because it is out of use, counts too.
    #[must_use]
    pub fn without_effect(&self) -> Vec<String> {
        let tls = self.tls_defaults.as_ref();
        let least = tls.is_some_and(|tls| tls.min_protocol_version != MeshTlsProtocol::Auto);
        let fields = [
            (self.ca.is_some(), "ca"),
            (!self.certificates.is_empty(), "certificates"),
            (!self.config_sources.is_empty(), "configSources"),
            (!self.service_scope_configs.is_empty(), "serviceScopeConfigs"),
            (least, "tlsDefaults.minProtocolVersion"),
            (self.verify_certificate_at_client.is_some(), "verifyCertificateAtClient"),
        ];
        let own = fields.into_iter().filter(|(set, _)| *set).map(|(_, field)| field.to_owned());
        let proxies = self.default_config.without_effect();
        let mut all: Vec<String> =
            own.chain(proxies.into_iter().map(|field| format!("defaultConfig.{field}"))).collect();
        all.sort();
        all
    }
}

impl ProxyConfig {
    /// The same for the settings of proxies.
    #[must_use]
    pub fn without_effect(&self) -> Vec<&'static str> {
        let usual = Self::default();
        let fields = [
            (!self.availability_zone.is_empty(), "availabilityZone"),
            (
                self.control_plane_auth_policy != usual.control_plane_auth_policy,
                "controlPlaneAuthPolicy",
            ),
            (self.discovery_refresh_delay.is_some(), "discoveryRefreshDelay"),
            (!self.envoy_metrics_service_address.is_empty(), "envoyMetricsServiceAddress"),
            (self.parent_shutdown_duration.is_some(), "parentShutdownDuration"),
            (self.private_key_provider.is_some(), "privateKeyProvider"),
            (!self.proxy_bootstrap_template_path.is_empty(), "proxyBootstrapTemplatePath"),
            (self.sds.is_some(), "sds"),
            (self.stat_name_length != usual.stat_name_length, "statNameLength"),
        ];
        fields.into_iter().filter(|(set, _)| *set).map(|(_, field)| field).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_that_nothing_follows_are_named_and_defaults_are_not() {
        assert_eq!(MeshConfig::default().without_effect(), [""; 0]);
        let text = json!({"configSources": [{"address": "x"}], "trustDomain": "td",
            "tlsDefaults": {"minProtocolVersion": "TLSV1_3", "ecdhCurves": ["P-256"]},
            "defaultConfig": {"statNameLength": 100, "concurrency": 2}});
        let config = MeshConfig::parse(&text).value;
        let wanted =
            ["configSources", "defaultConfig.statNameLength", "tlsDefaults.minProtocolVersion"];
        assert_eq!(config.without_effect(), wanted);
    }
}
