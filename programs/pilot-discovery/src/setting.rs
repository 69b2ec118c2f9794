//! What the program was told, checked: flags over environment over defaults.

use std::path::PathBuf;

use ironsail_api::ClusterId;
use ironsail_ca::ServingFiles;
use ironsail_identity::tls::Suites;
use ironsail_names::{ClusterDomain, Namespace, TrustDomain};

use crate::args::{Discovery, Registry};
use crate::env::Variables;
use crate::issuer::{self, Issuer};

/// Where a certificate to serve with is mounted, if no flag says otherwise: certificate, key, and the
/// places where its roots may be.
const MOUNTED: (&str, &str, [&str; 2]) = (
    "./var/run/secrets/istiod/tls/tls.crt",
    "./var/run/secrets/istiod/tls/tls.key",
    ["./var/run/secrets/istiod/ca/root-cert.pem", "./var/run/secrets/istiod/tls/ca.crt"],
);

/// The effective settings.
pub(crate) struct Setting {
    pub(crate) cluster: ClusterId,
    pub(crate) domain: ClusterDomain,
    /// Of the control plane itself.
    pub(crate) namespace: Namespace,
    /// Of the config map with the mesh configuration.
    pub(crate) mesh_namespace: Namespace,
    pub(crate) trust_domain: Option<TrustDomain>,
    pub(crate) objects: Objects,
    /// A certificate to serve with that is not of the mesh's own CA.
    pub(crate) serving: Option<ServingFiles>,
    pub(crate) suites: Suites,
    /// Whose tokens are checked by public keys.
    pub(crate) issuers: Vec<Issuer>,
    pub(crate) variables: Variables,
}

/// Where objects come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Objects {
    Files(PathBuf),
    Kubernetes { kubeconfig: Option<PathBuf> },
}

impl Setting {
    /// All that is wrong is told at once.
    pub(crate) fn of(args: &Discovery, variables: Variables) -> Result<Self, Vec<String>> {
        let mut faults = Vec::new();
        let cluster = args.sources.cluster_id.as_deref().unwrap_or(&variables.cluster_id);
        let namespace = args.namespace.as_deref().unwrap_or(&variables.namespace);
        let mesh_namespace = args.sources.registries_namespace.as_deref().unwrap_or(namespace);
        let domain = parse("--domain", &args.domain, &mut faults);
        let own = parse("--namespace", namespace, &mut faults);
        let mesh = parse("--clusterRegistriesNamespace", mesh_namespace, &mut faults);
        let trust_domain = match &*variables.trust_domain {
            "" => None,
            text => parse("TRUST_DOMAIN", text, &mut faults),
        };
        let objects = objects(args, &mut faults);
        let serving = serving(args, &mut faults);
        let suites = Suites::of(args.listen.cipher_suites.iter().map(|name| name.trim()));
        let suites = suites.unwrap_or_else(|error| {
            faults.push(format!("--tls-cipher-suites: {error}"));
            Suites::default()
        });
        let issuers = issuer::of(&variables, &mut faults);
        if !(1..100).contains(&variables.root_grace) {
            let name = "CITADEL_SELF_SIGNED_ROOT_CERT_GRACE_PERIOD_PERCENTILE";
            faults.push(format!("{name}={} is not between 1 and 99", variables.root_grace));
        }
        if variables.external_ca
            && variables.k8s_signer.is_empty()
            && variables.signer_domain.is_empty()
        {
            faults.push("EXTERNAL_CA needs K8S_SIGNER or CERT_SIGNER_DOMAIN".to_owned());
        }
        if args.log.target.iter().any(|target| target != "stderr") {
            faults.push("--log_target: only stderr is supported".to_owned());
        }
        match (domain, own, mesh, objects, faults.is_empty()) {
            (Some(domain), Some(namespace), Some(mesh_namespace), Some(objects), true) => {
                Ok(Self {
                    cluster: ClusterId::from(cluster),
                    domain,
                    namespace,
                    mesh_namespace,
                    trust_domain,
                    objects,
                    serving,
                    suites,
                    issuers,
                    variables,
                })
            }
            _ => Err(faults),
        }
    }
}

impl Setting {
    /// Workloads get certificates elsewhere, and so did this program: nothing of a CA is made here.
    pub(crate) fn has_foreign_ca(&self) -> bool {
        !self.variables.ca_server && self.serving.is_some()
    }
}

/// What the flags name, or what is mounted where everybody expects it.
fn serving(args: &Discovery, faults: &mut Vec<String>) -> Option<ServingFiles> {
    let listen = &args.listen;
    let files = [&listen.tls_cert, &listen.tls_key, &listen.ca_cert];
    if files.iter().all(|file| file.is_empty()) {
        let (certificate, key, roots) = MOUNTED;
        let there = |path: &str| Some(PathBuf::from(path)).filter(|path| path.exists());
        let roots = roots.into_iter().find_map(there)?;
        return Some(ServingFiles { certificate: there(certificate)?, key: there(key)?, roots });
    }
    if files.iter().any(|file| file.is_empty()) {
        let flags = "--tlsCertFile, --tlsKeyFile and --caCertFile";
        faults.push(format!("{flags} belong together: give all of them or none"));
        return None;
    }
    let [certificate, key, roots] = files.map(PathBuf::from);
    Some(ServingFiles { certificate, key, roots })
}

fn objects(args: &Discovery, faults: &mut Vec<String>) -> Option<Objects> {
    let sources = &args.sources;
    if !sources.config_dir.is_empty() {
        return Some(Objects::Files(PathBuf::from(&sources.config_dir)));
    }
    if !sources.registries.contains(&Registry::Kubernetes) {
        faults.push("--registries has no Kubernetes, and there is no --configDir".to_owned());
        return None;
    }
    let kubeconfig = Some(&sources.kubeconfig).filter(|path| !path.is_empty()).map(PathBuf::from);
    Some(Objects::Kubernetes { kubeconfig })
}

fn parse<T: std::str::FromStr<Err: std::fmt::Display>>(
    name: &str,
    text: &str,
    faults: &mut Vec<String>,
) -> Option<T> {
    text.parse().map_err(|error| faults.push(format!("{name} {text:?}: {error}"))).ok()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    fn setting(line: &str, env: &[(&str, &str)]) -> Result<Setting, Vec<String>> {
        let words = ["pilot-discovery", "discovery"].into_iter().chain(line.split_whitespace());
        let Command::Discovery(args) = Cli::parse_from(words).command else {
            panic!("no discovery")
        };
        let env = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Setting::of(&args, Variables::read(&env).unwrap())
    }

    #[test]
    fn a_flag_is_stronger_than_a_variable() {
        let env = [("POD_NAMESPACE", "from-env"), ("CLUSTER_ID", "c1")];
        let both = setting("--namespace from-flag --clusterID c2", &env).unwrap();
        assert_eq!((both.namespace.as_str(), both.cluster.as_str()), ("from-flag", "c2"));
        let env_only = setting("", &env).unwrap();
        assert_eq!((env_only.namespace.as_str(), env_only.cluster.as_str()), ("from-env", "c1"));
        assert_eq!(env_only.mesh_namespace.as_str(), "from-env");
    }

    #[test]
    fn files_stand_in_for_kubernetes() {
        let files = setting("--configDir /tmp/x --registries Mock", &[]).unwrap();
        assert_eq!(files.objects, Objects::Files("/tmp/x".into()));
        assert!(setting("--registries Mock", &[]).is_err());
    }

    #[test]
    fn files_of_a_serving_certificate_belong_together() {
        let all = setting("--tlsCertFile a --tlsKeyFile b --caCertFile c", &[]).unwrap();
        let [certificate, key, roots] = ["a", "b", "c"].map(PathBuf::from);
        assert_eq!(all.serving, Some(ServingFiles { certificate, key, roots }));
        assert!(setting("--tlsCertFile a --tlsKeyFile b", &[]).is_err());
        assert_eq!(setting("", &[]).unwrap().serving, None);
        let suites = "--tls-cipher-suites TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256";
        assert!(setting(suites, &[]).is_ok());
        assert!(setting(&format!("{suites},TLS_NONE"), &[]).is_err());
    }

    #[test]
    fn all_faults_are_told() {
        let faults = setting("--domain .. --namespace A_B --log_target x", &[]).err().unwrap();
        assert_eq!(faults.len(), 4, "{faults:?}");
    }
}
