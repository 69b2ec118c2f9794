//! What tests of trust share: authorities of their own, two pods with proxies, and what the control
//! plane says about them.

use std::collections::BTreeMap;

use ironsail_testkit::{Case, SYSTEM, eventually};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose, SanType,
    SerialNumber,
};
use serde_json::{Value, json};

/// A root that signs whatever a test wants.
pub(crate) struct Root(CertifiedIssuer<'static, KeyPair>);

impl Root {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// As the control plane shows it.
    pub(crate) fn fingerprint(&self) -> String {
        use sha2::Digest as _;
        sha2::Sha256::digest(self.0.der()).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Certificate and key of a workload.
    pub(crate) fn leaf(&self, identity: &str, serial: u64) -> (String, String) {
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::URI(identity.try_into().unwrap())];
        params.serial_number = Some(SerialNumber::from(serial));
        // Without it a certificate may be used for anything, also to sign: Envoy refuses that.
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }

    /// Files of the Secret `cacerts` in which this root signs itself; `list` is what it took back.
    pub(crate) fn cacerts(&self, list: Option<&[u64]>) -> Value {
        let pem = self.pem();
        let crl = list.map(|serials| self.crl(serials)).unwrap_or_default();
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "cacerts", "namespace": SYSTEM},
            "stringData": {
                "ca-cert.pem": pem, "ca-key.pem": self.0.key().serialize_pem(),
                "cert-chain.pem": pem, "root-cert.pem": pem, "ca-crl.pem": crl,
            }
        })
    }

    fn crl(&self, serials: &[u64]) -> String {
        let revoked = |serial: &u64| rcgen::RevokedCertParams {
            serial_number: (*serial).into(),
            revocation_time: rcgen::date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let params = rcgen::CertificateRevocationListParams {
            this_update: rcgen::date_time_ymd(2024, 1, 1),
            next_update: rcgen::date_time_ymd(4000, 1, 1),
            crl_number: 1.into(),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: rcgen::KeyIdMethod::Sha256,
        };
        params.signed_by(&self.0).unwrap().pem().unwrap()
    }
}

fn pod(name: &str, inject: bool) -> String {
    // Certificates are renewed every ten seconds, long before they run out.
    let config = "{proxyMetadata: {SECRET_TTL: 120s, SECRET_GRACE_PERIOD_RATIO: \"0.92\"}, \
                  proxyStatsMatcher: {inclusionRegexps: [\".*ssl.curves.*\"]}}";
    format!(
        "
apiVersion: v1
kind: ServiceAccount
metadata: {{name: {name}}}
---
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  labels: {{app: {name}, sidecar.istio.io/inject: '{inject}'}}
  annotations: {{proxy.istio.io/config: '{config}'}}
spec:
  serviceAccountName: {name}
  terminationGracePeriodSeconds: 0
  containers: [{{name: main, image: echo, args: [serve, --http, '8080']}}]
---
apiVersion: v1
kind: Service
metadata: {{name: {name}}}
spec:
  selector: {{app: {name}}}
  ports: [{{name: http, port: 8080}}]
---"
    )
}

/// New connections all the time, so that every request stands for a handshake soon.
const SHORT_CONNECTIONS: &str = "
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: server}
spec: {host: server, trafficPolicy: {connectionPool: {http: {maxRequestsPerConnection: 50}}}}
---";

/// A server and a client with proxies, and eve without one; ready and speaking.
pub(crate) async fn set_up(case: &Case) {
    case.apply(&(pod("server", true) + &pod("client", true) + &pod("eve", false))).await;
    case.apply(SHORT_CONNECTIONS).await;
    for name in ["pod/server", "pod/client", "pod/eve"] {
        case.ready(name).await;
    }
    eventually("the client reaches the server", async || {
        let answer = case.call("pod/client", "http://server:8080/").await;
        if answer.status == Some(200) { Ok(()) } else { Err(format!("{answer:?}")) }
    })
    .await;
}

/// `/debug/trustz`.
pub(crate) async fn trustz(case: &Case) -> Value {
    case.page(15014, "/debug/trustz").await.json()
}

/// What the agents of the namespace said last, by pod.
pub(crate) async fn reports(case: &Case) -> BTreeMap<String, Value> {
    let page = trustz(case).await;
    let own = |row: &&Value| row["namespace"] == case.namespace.as_str();
    let rows = page["proxies"].as_array().into_iter().flatten().filter(own);
    let name = |row: &Value| row["proxy"].as_str().unwrap_or_default().to_owned();
    rows.map(|row| (name(row), row["reported"].clone())).collect()
}

/// Waits until both proxies of the namespace report what `good` wants.
pub(crate) async fn reported(case: &Case, what: &str, good: impl Fn(&Value) -> bool) {
    eventually(what, async || {
        let all = reports(case).await;
        match all.len() == 2 && all.values().all(&good) {
            true => Ok(()),
            false => Err(format!("{all:?}")),
        }
    })
    .await;
}

/// What eve gets from the server with a certificate of her own: a status, or `000`.
pub(crate) async fn eve(case: &Case, (certificate, key): &(String, String)) -> String {
    let line = format!(
        "cat > /tmp/c.pem <<'EOF'\n{certificate}EOF\ncat > /tmp/k.pem <<'EOF'\n{key}EOF\n\
         curl -s -o /dev/null -m 10 -w '%{{http_code}}' -k --cert /tmp/c.pem --key /tmp/k.pem \
         https://server:8080/"
    );
    case.exec("pod/eve", &["sh", "-c", &line]).await.stdout
}

/// Waits until eve gets that.
pub(crate) async fn eve_gets(case: &Case, what: &str, leaf: &(String, String), wanted: &str) {
    eventually(what, async || {
        let got = eve(case, leaf).await;
        if got == wanted { Ok(()) } else { Err(got) }
    })
    .await;
}

/// No proxy of the namespace refused anything.
pub(crate) async fn nothing_was_refused(case: &Case) {
    let page = case.page(15014, "/debug/syncz").await.json();
    let own =
        |row: &&Value| row["proxy"].as_str().is_some_and(|name| name.ends_with(&case.namespace));
    for row in page.as_array().into_iter().flatten().filter(own) {
        let bad = row.as_object().into_iter().flatten().find(|(key, _)| key.ends_with("_error"));
        assert!(bad.is_none(), "{row}");
    }
    for pod in ["server", "client"] {
        let log = case.logs(pod, "istio-proxy").await;
        let refused = log.lines().find(|line| line.contains("the proxy refused a secret"));
        assert_eq!(refused, None);
    }
}
