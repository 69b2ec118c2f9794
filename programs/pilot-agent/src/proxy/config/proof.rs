//! Whom the workload says it is, who certifies it, and whom it trusts for that.

use std::path::PathBuf;
use std::time::Duration;

use ironsail_identity::{KeyKind, RenewalPolicy};
use ironsail_names::SpiffeId;

use super::Gather;

const CREDENTIALS: &str = "./var/run/secrets/workload-spiffe-credentials";
/// Where people mount certificates of their own.
const MOUNTED: &str = "./etc/certs";
const CRL: &str = "./var/run/secrets/istio/crl/ca-crl.pem";
const TOKEN: &str = "./var/run/secrets/tokens/istio-token";
const FIRST_PARTY_TOKEN: &str = "./var/run/secrets/kubernetes.io/serviceaccount/token";
const ISTIOD_ROOT: &str = "./var/run/secrets/istio/root-cert.pem";
const CLUSTER_ROOT: &str = "./var/run/secrets/kubernetes.io/serviceaccount/ca.crt";
const DAY: Duration = Duration::from_secs(24 * 3600);

pub(crate) struct Proof {
    pub(crate) identity: SpiffeId,
    /// Folders in which somebody else may keep the certificate, the strongest first.
    pub(crate) credentials: Vec<PathBuf>,
    /// A folder with a certificate that proves to the CA who asks, where there is no token.
    pub(crate) provisioned: Option<PathBuf>,
    /// Nobody is asked, even if the folder is still empty.
    pub(crate) files_only: bool,
    pub(crate) token: PathBuf,
    /// Certificates that the CA took back, if it says so in a file.
    pub(crate) crl: PathBuf,
    pub(crate) ca: String,
    pub(crate) xds_root: Option<PathBuf>,
    pub(crate) ca_root: Option<PathBuf>,
    pub(crate) key_kind: KeyKind,
    pub(crate) lifetime: Duration,
    pub(crate) renewal: RenewalPolicy,
    pub(crate) output_certs: Option<PathBuf>,
    pub(crate) cluster_id: String,
    /// Who is to sign, where the CA has others sign.
    pub(crate) signer: String,
}

impl Proof {
    /// The CA is the control plane unless another is named.
    pub(super) fn gather(
        gather: &mut Gather<'_>,
        discovery: &str,
        namespace: &str,
        account: &str,
    ) -> Self {
        let trust = gather.text("TRUST_DOMAIN").unwrap_or("cluster.local").to_owned();
        let identity = identity(gather, &trust, namespace, account);
        let first_party = gather.text("JWT_POLICY") == Some("first-party-jwt");
        let provider = gather.text("PILOT_CERT_PROVIDER").unwrap_or("istiod").to_owned();
        let key_kind = KeyKind::from_settings(
            gather.text("ECC_SIGNATURE_ALGORITHM"),
            gather.text("ECC_CURVE"),
            gather.text("WORKLOAD_RSA_KEY_SIZE"),
        );
        let key_kind = gather.parsed("the key of the workload", key_kind);
        Self {
            identity: identity.unwrap_or_else(nobody),
            credentials: [CREDENTIALS, MOUNTED].map(PathBuf::from).into(),
            provisioned: gather.text("PROV_CERT").map(PathBuf::from),
            crl: CRL.into(),
            files_only: gather.flag("FILE_MOUNTED_CERTS"),
            token: if first_party { FIRST_PARTY_TOKEN } else { TOKEN }.into(),
            ca: gather.text("CA_ADDR").unwrap_or(discovery).to_owned(),
            xds_root: root(gather.text("XDS_ROOT_CA"), &provider),
            ca_root: root(gather.text("CA_ROOT_CA"), &provider),
            key_kind: key_kind.unwrap_or_default(),
            lifetime: gather.duration("SECRET_TTL", DAY),
            renewal: RenewalPolicy {
                grace_ratio: gather.number("SECRET_GRACE_PERIOD_RATIO", 0.5),
                jitter: gather.number("SECRET_GRACE_PERIOD_RATIO_JITTER", 0.01),
            },
            output_certs: gather.text("OUTPUT_CERTS").map(PathBuf::from),
            signer: gather.text("ISTIO_META_CERT_SIGNER").unwrap_or_default().to_owned(),
            cluster_id: gather.text("ISTIO_META_CLUSTER_ID").unwrap_or("Kubernetes").to_owned(),
        }
    }
}

fn nobody() -> SpiffeId {
    "spiffe://cluster.local/ns/default/sa/default".parse().expect("a plain name")
}

fn identity(
    gather: &mut Gather<'_>,
    trust: &str,
    namespace: &str,
    account: &str,
) -> Option<SpiffeId> {
    let trust_domain = gather.parsed("TRUST_DOMAIN", trust.parse());
    let namespace = gather.parsed("POD_NAMESPACE", namespace.parse());
    let service_account = gather.parsed("SERVICE_ACCOUNT", account.parse());
    Some(SpiffeId {
        trust_domain: trust_domain?,
        namespace: namespace?,
        service_account: service_account?,
    })
}

fn root(named: Option<&str>, provider: &str) -> Option<PathBuf> {
    match (named, provider) {
        (Some(path), _) => Some(path.into()),
        (None, "istiod") => Some(ISTIOD_ROOT.into()),
        (None, "kubernetes") => Some(CLUSTER_ROOT.into()),
        (None, path) if path.starts_with('/') || path.starts_with('.') => Some(path.into()),
        _ => None,
    }
}
