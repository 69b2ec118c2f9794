//! Attempts to become somebody else: at the certificate authority, at discovery and at a sidecar, with
//! tokens, certificate requests and certificates that were made up, stolen, outlived or meant for others.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "attack/door.rs"]
mod door;
#[path = "attack/forge.rs"]
mod forge;

use std::time::Duration;

use base64::Engine;
use door::{Door, Proof};
use forge::{Forger, Signer, Wanted, real_token};
use ironsail_identity::{CertificateRequest, Credential, KeyKind, PrivateKey, San};
use ironsail_names::SpiffeId;
use ironsail_testkit::{Case, eventually, mesh_case};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;
use tonic::Code;

const HOUR: Duration = Duration::from_secs(3600);

fn account(name: &str) -> String {
    format!("{{apiVersion: v1, kind: ServiceAccount, metadata: {{name: {name}}}}}")
}

fn request(names: &[San]) -> String {
    let key = PrivateKey::generate(KeyKind::EcdsaP256).unwrap();
    CertificateRequest::make(&key, names).unwrap()
}

fn uri(text: &str) -> San {
    San::Uri(text.to_owned())
}

#[test]
fn a_token_that_is_not_for_us_is_nothing() {
    mesh_case("attack-token", async |case| {
        case.apply(&account("eve")).await;
        case.apply(&account("gone")).await;
        let ns = &case.namespace;
        let door = Door::open(case).await;
        let csr = request(&[uri(&format!("spiffe://cluster.local/ns/{ns}/sa/eve"))]);
        let real = real_token(case, "eve", "istio-ca", None).await;
        // The way is right: with the real one both doors are open.
        let got = door.sign(Proof::token(&real), &csr, HOUR, None).await.unwrap();
        assert_eq!(got[0].spiffe().unwrap().service_account.as_str(), "eve");
        assert_eq!(door.discover(Proof::token(&real), ns).await, Ok(()));

        let forger = Forger::new(case, &real);
        let admin = json!("system:serviceaccount:istio-system:istiod");
        let tokens = [
            ("none at all", String::new()),
            ("no token", "no.to.ken".to_owned()),
            ("without a signature", forger.unsigned()),
            ("signed by another key", forger.by_another_key()),
            ("signed with the public key", forger.by_the_public_key()),
            ("another name, same signature", forger.with_a_borrowed_signature("sub", admin)),
            ("expired", forger.but("exp", json!(1_700_000_000))),
            ("not valid yet", forger.but("nbf", json!(4_000_000_000_u64))),
            ("of another issuer", forger.but("iss", json!("https://issuer.evil.test"))),
            ("for another audience", real_token(case, "eve", "vault", None).await),
            (
                "for the API server",
                real_token(case, "eve", "https://kubernetes.default.svc", None).await,
            ),
            ("of an account that is gone", stolen_from_account(case).await),
            ("of a pod that is gone", stolen_from_pod(case).await),
        ];
        let before = failures(case).await;
        for (what, token) in &tokens {
            let proof = Proof::token(token);
            let signed = door.sign(proof, &csr, HOUR, None).await;
            assert_eq!(signed.err(), Some(Code::Unauthenticated), "the CA, a token {what}");
            let served = door.discover(proof, ns).await;
            assert_eq!(served, Err(Code::Unauthenticated), "discovery, a token {what}");
        }
        // One that is longer than any is not even looked at.
        let long = "x".repeat(20_000);
        assert!(door.sign(Proof::token(&long), &csr, HOUR, None).await.is_err());
        assert!(door.discover(Proof::token(&long), ns).await.is_err());
        // What is refused is counted.
        let refused = failures(case).await - before;
        assert!(refused >= f64::from(u32::try_from(tokens.len()).unwrap()), "{refused}");
    });
}

/// What the CA says of callers that it did not know.
async fn failures(case: &Case) -> f64 {
    let page = case.page(15014, "/metrics").await.body;
    let line = page.lines().find(|l| l.starts_with("citadel_server_authentication_failure_count"));
    line.and_then(|line| line.rsplit(' ').next()).and_then(|n| n.parse().ok()).unwrap_or(0.0)
}

async fn stolen_from_account(case: &Case) -> String {
    let token = real_token(case, "gone", "istio-ca", None).await;
    let accounts: Api<ServiceAccount> = Api::namespaced(case.client.clone(), &case.namespace);
    accounts.delete("gone", &DeleteParams::default()).await.unwrap();
    token
}

/// The token of a pod ends with it, whoever has it then.
async fn stolen_from_pod(case: &Case) -> String {
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: victim}, spec: {serviceAccountName: eve,
        terminationGracePeriodSeconds: 0, containers: [{name: main, image: busybox, command: [sleep, '1000']}]}}";
    case.apply(pod).await;
    let token = real_token(case, "eve", "istio-ca", Some("victim")).await;
    let pods: Api<Pod> = Api::namespaced(case.client.clone(), &case.namespace);
    pods.delete("victim", &DeleteParams::default().grace_period(0)).await.unwrap();
    case.gone("pod/victim").await;
    token
}

#[test]
fn a_request_gets_its_callers_name_or_nothing() {
    mesh_case("attack-request", async |case| {
        case.apply(&account("eve")).await;
        let ns = &case.namespace;
        let door = Door::open(case).await;
        let token = real_token(case, "eve", "istio-ca", None).await;
        let proof = Proof::token(&token);
        let own = format!("spiffe://cluster.local/ns/{ns}/sa/eve");
        let other = format!("spiffe://cluster.local/ns/{ns}/sa/alice");

        // Names of others, in whatever company.
        for names in [
            vec![uri(&other)],
            vec![uri("spiffe://cluster.local/ns/istio-system/sa/istiod")],
            vec![uri(&own), uri(&other)],
            vec![uri(&format!("spiffe://evil.test/ns/{ns}/sa/eve"))],
            vec![uri(&format!("spiffe://cluster.local/ns/{ns}/sa/*"))],
            vec![uri("spiffe://cluster.local/*")],
            vec![uri("*")],
            vec![uri(&format!("{own}/../alice"))],
            vec![San::Dns("*".to_owned())],
            vec![uri(&own), San::Dns("istiod.istio-system.svc".to_owned())],
            vec![uri(&own), San::Ip("10.0.0.1".parse().unwrap())],
        ] {
            let signed = door.sign(proof, &request(&names), HOUR, None).await;
            assert_eq!(signed.err(), Some(Code::PermissionDenied), "{names:?}");
        }
        // In the name of another, as node proxies ask.
        let wanted: SpiffeId = other.parse().unwrap();
        let signed = door.sign(proof, &request(&[uri(&other)]), HOUR, Some(&wanted)).await;
        assert_eq!(signed.err(), Some(Code::Unauthenticated));

        // What is no request, or asks for what no workload needs.
        let stranger = other_key(&own);
        let large = format!("{}{}", request(&[uri(&own)]), "A".repeat(60_000));
        let huge = "A".repeat(2_000_000);
        for (what, csr, lifetime, code) in [
            ("an authority", authority_request(&own), HOUR, Code::InvalidArgument),
            ("another's key", stranger, HOUR, Code::InvalidArgument),
            ("oversized", large, HOUR, Code::InvalidArgument),
            ("larger than a message may be", huge, HOUR, Code::OutOfRange),
            ("garbage", "garbage".to_owned(), HOUR, Code::InvalidArgument),
            ("empty", String::new(), HOUR, Code::InvalidArgument),
            ("for ever", request(&[uri(&own)]), 1_000_000 * HOUR, Code::InvalidArgument),
        ] {
            let signed = door.sign(proof, &csr, lifetime, None).await;
            assert_eq!(signed.err(), Some(code), "{what}");
        }
        // An honest one still gets a leaf, for its own name only and no authority.
        let signed = door.sign(proof, &request(&[uri(&own)]), HOUR, None).await.unwrap();
        assert_eq!(signed[0].sans(), [uri(&own)]);
        assert!(!signed[0].is_authority());
    });
}

/// A request for a certificate that may sign others.
fn authority_request(name: &str) -> String {
    let mut params = rcgen::CertificateParams::default();
    params.subject_alt_names = vec![rcgen::SanType::URI(name.try_into().unwrap())];
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    params.serialize_request(&key).unwrap().pem().unwrap()
}

/// A request for a key that the requester does not have.
fn other_key(name: &str) -> String {
    let base64 = base64::engine::general_purpose::STANDARD;
    let key = PrivateKey::generate(KeyKind::EcdsaP256).unwrap();
    let victim = PrivateKey::generate(KeyKind::EcdsaP256).unwrap();
    let pem = CertificateRequest::make(&key, &[uri(name)]).unwrap();
    let body: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    let mut der = base64.decode(body).unwrap();
    let (own, wanted) = (key.public_der(), victim.public_der());
    let at = der.windows(own.len()).position(|bytes| bytes == own).unwrap();
    der[at..at + own.len()].copy_from_slice(wanted);
    let (begin, end) = ("-----BEGIN CERTIFICATE REQUEST-----", "-----END CERTIFICATE REQUEST-----");
    format!("{begin}\n{}\n{end}\n", base64.encode(der))
}

const SERVER: &str = "
apiVersion: v1
kind: Pod
metadata: {name: server, labels: {app: server, sidecar.istio.io/inject: 'true'}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: echo, args: [serve, --http, '8080']}]
---
apiVersion: v1
kind: Pod
metadata: {name: eve, labels: {app: eve, sidecar.istio.io/inject: 'false'}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: busybox, command: [sleep, '1000']}]
---
apiVersion: v1
kind: Service
metadata: {name: server}
spec: {selector: {app: server}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: strict}
spec: {mtls: {mode: STRICT}}
";

/// Certificates by what is wrong with them.
fn certificates(mesh: &Signer, ns: &str) -> Vec<(&'static str, Credential)> {
    let eve = format!("spiffe://cluster.local/ns/{ns}/sa/eve");
    let foreign = format!("spiffe://evil.test/ns/{ns}/sa/eve");
    let good = mesh.issue(&Wanted::named(&eve));
    vec![
        ("of another root", Signer::impostor(mesh).issue(&Wanted::named(&eve))),
        ("of nobody but itself", Signer::itself(&eve)),
        ("expired", mesh.issue(&Wanted::ended(&eve))),
        ("not valid yet", mesh.issue(&Wanted::to_come(&eve))),
        ("of another trust domain", mesh.issue(&Wanted::named(&foreign))),
        ("signed by a workload", Signer::below(&good).issue(&Wanted::named(&eve))),
    ]
}

#[test]
fn a_certificate_that_is_not_of_the_mesh_opens_nothing() {
    mesh_case("attack-certificate", async |case| {
        let ns = &case.namespace;
        let mesh = Signer::of_the_mesh(case).await;
        let eve = format!("spiffe://cluster.local/ns/{ns}/sa/eve");
        let good = mesh.issue(&Wanted::named(&eve));
        let revoked = Wanted { serial: [0x5a; 16], ..Wanted::named(&eve) };
        let list = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "istio-ca-crl"},
            "data": {"ca-crl.pem": mesh.revoke(&[revoked.serial])}});
        case.try_apply(list).await.unwrap();
        case.apply(SERVER).await;
        at_the_control_plane(case, &good, &mesh).await;
        case.ready("pod/server").await;
        case.ready("pod/eve").await;
        let mut bad = certificates(&mesh, ns);
        bad.push(("without a name of the mesh", mesh.issue(&Wanted::named("eve.test"))));
        bad.push(("taken back", mesh.issue(&revoked)));
        at_a_sidecar(case, &good, &bad).await;
    });
}

async fn at_the_control_plane(case: &Case, good: &Credential, mesh: &Signer) {
    let (ns, door) = (&case.namespace, Door::open(case).await);
    let csr = request(&[]);
    let proof = Proof::certificate(good);
    let signed = door.sign(proof, &csr, HOUR, None).await.unwrap();
    assert_eq!(signed[0].sans(), good.leaf().sans());
    assert_eq!(door.discover(proof, ns).await, Ok(()));
    // A proxy is of its certificate's namespace, whatever it says.
    assert_eq!(door.discover(proof, "istio-system").await, Err(Code::PermissionDenied));
    let mut bad = certificates(mesh, ns);
    bad.push(("without a name of the mesh", mesh.issue(&Wanted::named("eve.test"))));
    for (what, certificate) in &bad {
        let proof = Proof::certificate(certificate);
        assert!(door.sign(proof, &csr, HOUR, None).await.is_err(), "the CA, one {what}");
        assert!(door.discover(proof, ns).await.is_err(), "discovery, one {what}");
    }
}

async fn at_a_sidecar(case: &Case, good: &Credential, bad: &[(&str, Credential)]) {
    let ask = async |name: &str| {
        let line = format!(
            "curl -sk -o /dev/null -m 20 -w '%{{http_code}}' --cert /tmp/{name}.pem --key /tmp/{name}.key https://server:80/"
        );
        case.exec_in("eve", "main", &["sh", "-c", &line]).await.stdout
    };
    put(case, "good", good).await;
    eventually("who has a certificate of the mesh is served", async || {
        let code = ask("good").await;
        if code == "200" { Ok(()) } else { Err(code) }
    })
    .await;
    for (number, (what, certificate)) in bad.iter().enumerate() {
        let name = format!("bad-{number}");
        put(case, &name, certificate).await;
        assert_eq!(ask(&name).await, "000", "a sidecar, a certificate {what}");
    }
    // The others were refused for what they are: the good one is still served, nobody without any.
    assert_eq!(ask("good").await, "200");
    let plain = "curl -s -o /dev/null -m 20 -w '%{http_code}' http://server/";
    assert_eq!(case.exec_in("eve", "main", &["sh", "-c", plain]).await.stdout, "000");
    let none = "curl -sk -o /dev/null -m 20 -w '%{http_code}' https://server:80/";
    assert_eq!(case.exec_in("eve", "main", &["sh", "-c", none]).await.stdout, "000");
}

async fn put(case: &Case, name: &str, certificate: &Credential) {
    let (chain, key) = (certificate.chain_pem(), certificate.key().to_pem());
    let line = format!(
        "cat > /tmp/{name}.pem <<'EOF'\n{chain}\nEOF\ncat > /tmp/{name}.key <<'EOF'\n{}\nEOF",
        key.as_str()
    );
    let done = case.exec_in("eve", "main", &["sh", "-c", &line]).await;
    assert_eq!(done.code, 0, "{done:?}");
}
