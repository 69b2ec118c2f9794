//! The environment variables that this program reads: name, default, what it does.
//!
//! Every variable that is set and cannot be read is a fault; all faults are reported together.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use ironsail_inject::NativeSidecars;
use ironsail_model::KeyFetch;
use ironsail_names::TrustDomain;
use ironsail_sys::env::Env;

use ironsail_daemon::duration;

/// What the environment says.
#[derive(Clone, Debug)]
pub(crate) struct Variables {
    /// `PILOT_DEBOUNCE_AFTER` (100ms): the longest silence that a storm of changes is waited for.
    pub(crate) debounce_after: Duration,
    /// `PILOT_DEBOUNCE_MAX` (10s): no change waits longer.
    pub(crate) debounce_max: Duration,
    /// `PILOT_ENABLE_EDS_DEBOUNCE` (true): endpoints wait as other changes do.
    pub(crate) debounce_endpoints: bool,
    /// `PILOT_MAX_REQUESTS_PER_SECOND` (0): new streams a second; 0 is chosen by the machine.
    pub(crate) stream_rate: f64,
    /// `PILOT_PUSH_THROTTLE` (0): translations at the same time; 0 is chosen by the machine.
    pub(crate) workers: usize,
    /// `REVISION`: of this control plane.
    pub(crate) revision: String,
    /// `CLUSTER_ID` (Kubernetes).
    pub(crate) cluster_id: String,
    /// `POD_NAMESPACE` (istio-system).
    pub(crate) namespace: String,
    /// `POD_NAME`, or `HOSTNAME`: names this replica in leases.
    pub(crate) pod_name: String,
    /// `ENABLE_DEBUG_ENDPOINT_AUTH` (true): debug data needs an identity, except from loopback.
    pub(crate) debug_auth: bool,
    /// `TRUST_DOMAIN`: overrides the mesh configuration's.
    pub(crate) trust_domain: String,
    /// `SPIFFE_BUNDLE_ENDPOINTS`: whose members may come to this program, as `DOMAIN|URL||…`.
    pub(crate) bundle_endpoints: BTreeMap<TrustDomain, String>,
    /// `ENABLE_CA_SERVER` (true).
    pub(crate) ca_server: bool,
    /// `EXTERNAL_CA`: `ISTIOD_RA_KUBERNETES_API` if signers of Kubernetes sign for workloads.
    pub(crate) external_ca: bool,
    /// `K8S_SIGNER`: the signer for workloads that name none.
    pub(crate) k8s_signer: String,
    /// `CERT_SIGNER_DOMAIN`: stands before the names of signers that workloads give.
    pub(crate) signer_domain: String,
    /// `COMPLIANCE_POLICY`: `fips-140-2` or `pqc` for all TLS; the mesh configuration's if empty.
    pub(crate) compliance: String,
    /// `DEFAULT_WORKLOAD_CERT_TTL` (24h).
    pub(crate) cert_ttl: Duration,
    /// `MAX_WORKLOAD_CERT_TTL` (2160h).
    pub(crate) max_cert_ttl: Duration,
    /// `CITADEL_SELF_SIGNED_CA_CERT_TTL` (87600h).
    pub(crate) root_cert_ttl: Duration,
    /// `CITADEL_SELF_SIGNED_ROOT_CERT_CHECK_INTERVAL` (1h).
    pub(crate) root_check: Duration,
    /// `CITADEL_SELF_SIGNED_ROOT_CERT_GRACE_PERIOD_PERCENTILE` (20): renewed when so much is left.
    pub(crate) root_grace: u8,
    /// `USE_CACERTS_FOR_SELF_SIGNED_CA` (false): a root of our own is kept in `cacerts`.
    pub(crate) keep_in_cacerts: bool,
    /// `TOKEN_AUDIENCES` (istio-ca): for whom tokens of proxies are made.
    pub(crate) token_audiences: Vec<String>,
    /// `JWT_RULE`: an issuer whose tokens are checked by its public keys, as JSON of a JWTRule.
    pub(crate) jwt_rule: String,
    /// `TOKEN_ISSUER`: the same for an issuer that answers OIDC discovery; outside of clusters only.
    pub(crate) token_issuer: String,
    /// `AUDIENCE`: for whom the tokens of that issuer are made; the audiences above if empty.
    pub(crate) audience: String,
    /// `KUBERNETES_SERVICE_HOST`: set wherever the program runs as a pod.
    pub(crate) in_cluster: bool,
    /// `SSL_CERT_FILE`: the roots of the web; those of the system if empty.
    pub(crate) web_roots: String,
    /// `ROOT_CA_DIR` (./etc/cacerts): where a CA may be plugged in as files.
    pub(crate) root_ca_dir: PathBuf,
    /// `ISTIOD_CUSTOM_HOST`: more names for the program's own certificate.
    pub(crate) custom_hosts: Vec<String>,
    /// `ISTIOD_ADDR`: under which proxies know the program; its host is in the certificate.
    pub(crate) address: String,
    /// `INJECT_ENABLED` (true).
    pub(crate) inject: bool,
    /// `WEBHOOK_CLIENT_CA_FILE`: who calls webhooks shows a certificate of these roots; all may if empty.
    pub(crate) webhook_callers: String,
    /// `ENABLE_NATIVE_SIDECARS` (auto): where the cluster can, always, or never.
    pub(crate) native_sidecars: NativeSidecars,
    /// `ENABLE_LEADER_ELECTION` (true): of several replicas one writes.
    pub(crate) leader_election: bool,
    /// `PILOT_ENABLE_STATUS` (true): what is wrong with an object is written into its status.
    pub(crate) write_status: bool,
    /// `PILOT_JWT_ENABLE_REMOTE_JWKS` (istiod): who fetches keys of token issuers: `istiod` or false,
    /// `hybrid` or true, `envoy`.
    pub(crate) key_fetch: KeyFetch,
    /// `PILOT_JWT_PUB_KEY_REFRESH_INTERVAL` (20m): how old keys of token issuers may get.
    pub(crate) key_refresh: Duration,
    /// `PILOT_PROMETHEUS_URL`: a Prometheus that the page asks for traffic; the proxies if empty.
    pub(crate) prometheus: String,
    /// `PILOT_ENABLE_MULTIPLE_CUSTOM_AUTHZ_PROVIDERS` (false).
    pub(crate) several_authorizers: bool,
}

impl Variables {
    /// Reads them; the faults are sentences for people.
    pub(crate) fn read(env: &Env) -> Result<Self, Vec<String>> {
        let mut read = Read { env, faults: Vec::new() };
        let variables = Self {
            debounce_after: read.duration("PILOT_DEBOUNCE_AFTER", "100ms"),
            debounce_max: read.duration("PILOT_DEBOUNCE_MAX", "10s"),
            debounce_endpoints: read.flag("PILOT_ENABLE_EDS_DEBOUNCE", true),
            stream_rate: read.parsed("PILOT_MAX_REQUESTS_PER_SECOND", 0.0),
            workers: read.parsed("PILOT_PUSH_THROTTLE", 0),
            revision: read.text("REVISION", ""),
            cluster_id: read.text("CLUSTER_ID", "Kubernetes"),
            namespace: read.text("POD_NAMESPACE", "istio-system"),
            pod_name: read.text("POD_NAME", &read.text("HOSTNAME", "istiod")),
            debug_auth: read.flag("ENABLE_DEBUG_ENDPOINT_AUTH", true),
            trust_domain: read.text("TRUST_DOMAIN", ""),
            bundle_endpoints: {
                let text = read.text("SPIFFE_BUNDLE_ENDPOINTS", "");
                crate::trust::endpoints(&text, &mut read.faults)
            },
            ca_server: read.flag("ENABLE_CA_SERVER", true),
            external_ca: !read.choice("EXTERNAL_CA", &["", "ISTIOD_RA_KUBERNETES_API"]).is_empty(),
            k8s_signer: read.text("K8S_SIGNER", ""),
            signer_domain: read.text("CERT_SIGNER_DOMAIN", ""),
            compliance: read.choice("COMPLIANCE_POLICY", &["", "fips-140-2", "pqc"]),
            cert_ttl: read.duration("DEFAULT_WORKLOAD_CERT_TTL", "24h"),
            max_cert_ttl: read.duration("MAX_WORKLOAD_CERT_TTL", "2160h"),
            root_cert_ttl: read.duration("CITADEL_SELF_SIGNED_CA_CERT_TTL", "87600h"),
            root_check: read.duration("CITADEL_SELF_SIGNED_ROOT_CERT_CHECK_INTERVAL", "1h"),
            root_grace: read.parsed("CITADEL_SELF_SIGNED_ROOT_CERT_GRACE_PERIOD_PERCENTILE", 20),
            keep_in_cacerts: read.flag("USE_CACERTS_FOR_SELF_SIGNED_CA", false),
            token_audiences: read.list_or("TOKEN_AUDIENCES", "istio-ca"),
            jwt_rule: read.text("JWT_RULE", ""),
            token_issuer: read.text("TOKEN_ISSUER", ""),
            audience: read.text("AUDIENCE", ""),
            in_cluster: read.set("KUBERNETES_SERVICE_HOST").is_some(),
            web_roots: read.text("SSL_CERT_FILE", ""),
            root_ca_dir: read.text("ROOT_CA_DIR", "./etc/cacerts").into(),
            custom_hosts: read.list("ISTIOD_CUSTOM_HOST"),
            address: read.text("ISTIOD_ADDR", ""),
            inject: read.flag("INJECT_ENABLED", true),
            webhook_callers: read.text("WEBHOOK_CLIENT_CA_FILE", ""),
            native_sidecars: read.parsed("ENABLE_NATIVE_SIDECARS", NativeSidecars::Auto),
            leader_election: read.flag("ENABLE_LEADER_ELECTION", true),
            write_status: read.flag("PILOT_ENABLE_STATUS", true),
            key_fetch: read.key_fetch("PILOT_JWT_ENABLE_REMOTE_JWKS"),
            key_refresh: read.duration("PILOT_JWT_PUB_KEY_REFRESH_INTERVAL", "20m"),
            prometheus: read.text("PILOT_PROMETHEUS_URL", ""),
            several_authorizers: read.flag("PILOT_ENABLE_MULTIPLE_CUSTOM_AUTHZ_PROVIDERS", false),
        };
        if read.faults.is_empty() { Ok(variables) } else { Err(read.faults) }
    }
}

impl Variables {
    /// Names that the program is called by besides those of its Services.
    pub(crate) fn hosts(&self) -> Vec<String> {
        let address = self.address.rsplit_once(':').map_or(&*self.address, |(host, _)| host);
        let own = Some(address.to_owned()).filter(|host| !host.is_empty());
        self.custom_hosts.iter().cloned().chain(own).collect()
    }
}

struct Read<'a> {
    env: &'a Env,
    faults: Vec<String>,
}

impl Read<'_> {
    fn set(&self, name: &str) -> Option<&str> {
        self.env.var(name).filter(|value| !value.is_empty())
    }

    fn text(&self, name: &str, default: &str) -> String {
        self.set(name).unwrap_or(default).to_owned()
    }

    fn list(&self, name: &str) -> Vec<String> {
        self.list_or(name, "")
    }

    fn list_or(&self, name: &str, default: &str) -> Vec<String> {
        let items = self.set(name).unwrap_or(default).split(',').map(str::trim);
        items.filter(|item| !item.is_empty()).map(str::to_owned).collect()
    }

    fn duration(&mut self, name: &str, default: &str) -> Duration {
        let text = self.text(name, default);
        duration::parse(&text).unwrap_or_else(|why| {
            self.faults.push(format!("{name}={text:?} {why}"));
            Duration::ZERO
        })
    }

    fn flag(&mut self, name: &str, default: bool) -> bool {
        match self.set(name) {
            None => default,
            Some("1" | "t" | "T" | "true" | "TRUE" | "True") => true,
            Some("0" | "f" | "F" | "false" | "FALSE" | "False") => false,
            Some(other) => {
                let fault = format!("{name}={other:?} is neither true nor false");
                self.faults.push(fault);
                default
            }
        }
    }

    fn choice(&mut self, name: &str, all: &[&str]) -> String {
        let text = self.text(name, "");
        if all.contains(&text.as_str()) {
            return text;
        }
        let others = all.iter().filter(|one| !one.is_empty()).copied().collect::<Vec<_>>();
        self.faults.push(format!("{name}={text:?} is not one of {}", others.join(", ")));
        String::new()
    }

    fn key_fetch(&mut self, name: &str) -> KeyFetch {
        match self.set(name) {
            None | Some("false" | "istiod") => KeyFetch::ControlPlane,
            Some("true" | "hybrid") => KeyFetch::Hybrid,
            Some("envoy") => KeyFetch::Proxy,
            Some(other) => {
                let fault = format!("{name}={other:?} is none of istiod, hybrid and envoy");
                self.faults.push(fault);
                KeyFetch::ControlPlane
            }
        }
    }

    fn parsed<T: std::str::FromStr>(&mut self, name: &str, default: T) -> T {
        let Some(text) = self.set(name) else { return default };
        match text.parse() {
            Ok(value) => value,
            Err(_) => {
                let fault = format!("{name}={text:?} cannot be read");
                self.faults.push(fault);
                default
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Variables, Vec<String>> {
        Variables::read(&pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
    }

    #[test]
    fn defaults_are_istios() {
        let variables = read(&[]).unwrap();
        assert_eq!(variables.debounce_after, Duration::from_millis(100));
        assert_eq!(variables.cluster_id, "Kubernetes");
        assert!(variables.debounce_endpoints && variables.debug_auth);
    }

    #[test]
    fn all_faults_are_reported_together() {
        let faults =
            read(&[("PILOT_DEBOUNCE_MAX", "soon"), ("INJECT_ENABLED", "maybe")]).unwrap_err();
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults[0].contains("PILOT_DEBOUNCE_MAX") && faults[1].contains("INJECT_ENABLED"));
    }
}
