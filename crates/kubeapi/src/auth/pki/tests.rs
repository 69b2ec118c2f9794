//! The CA on disk, and TLS between a server and clients of it.

use std::os::unix::fs::PermissionsExt as _;
use std::time::SystemTime;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

fn open(directory: &Path, clock: &Clock) -> Pki {
    Pki::open(directory, &["10.96.0.1".parse().unwrap()], clock).unwrap()
}

#[test]
fn the_ca_stays_through_restarts_and_is_renewed_with_its_key() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pki");
    let now = Clock::system();
    let first = open(&path, &now).ca_pem().to_owned();
    assert_eq!(open(&path, &now).ca_pem(), first);
    let mode = std::fs::metadata(path.join("ca.key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let key = std::fs::read_to_string(path.join("ca.key")).unwrap();
    let later = Clock::fixed(now.now() + 6 * 365 * DAY);
    let renewed = open(&path, &later);
    assert_ne!(renewed.ca_pem(), first, "half of its life is over");
    assert_eq!(std::fs::read_to_string(path.join("ca.key")).unwrap(), key);
}

#[test]
fn a_broken_ca_is_named() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("ca.key"), "nonsense").unwrap();
    let error = Pki::open(directory.path(), &[], &Clock::system()).err().unwrap();
    assert!(error.to_string().contains("ca.key does not hold a usable CA"), "{error}");
}

#[test]
fn the_kubeconfig_is_yaml_that_carries_the_administrator() {
    let directory = tempfile::tempdir().unwrap();
    let pki = open(directory.path(), &Clock::system());
    let text = pki.kubeconfig("https://127.0.0.1:6443");
    let config: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(config["clusters"][0]["cluster"]["server"], "https://127.0.0.1:6443");
    let data = config["users"][0]["user"]["client-certificate-data"].as_str().unwrap();
    let pem = String::from_utf8(BASE64.decode(data).unwrap()).unwrap();
    let user = crate::auth::authenticate::user_of_certificate(&der(&pem).unwrap()).unwrap();
    assert_eq!(user.name, "kubernetes-admin");
    assert!(user.is_in(GROUP_MASTERS));
}

/// Connects with or without the administrator's certificate; gives what the server saw.
async fn connect(pki: &Pki, name: &'static str, with_certificate: bool) -> Option<usize> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(pki.ca_der.clone()).unwrap();
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let client = if with_certificate {
        let key = PrivatePkcs8KeyDer::from(pki.admin.key.serialize_der());
        let chain = vec![pki.admin.certificate.der().clone()];
        builder.with_client_auth_cert(chain, PrivateKeyDer::Pkcs8(key)).unwrap()
    } else {
        builder.with_no_client_auth()
    };
    let (near, far) = tokio::io::duplex(1 << 14);
    let acceptor = tokio_rustls::TlsAcceptor::from(pki.server_config().unwrap());
    let server = tokio::spawn(async move {
        let mut stream = acceptor.accept(far).await.ok()?;
        let seen = stream.get_ref().1.peer_certificates().map_or(0, <[_]>::len);
        stream.write_all(b"x").await.ok()?;
        Some(seen)
    });
    let connector = tokio_rustls::TlsConnector::from(Arc::new(client));
    if let Ok(mut stream) = connector.connect(ServerName::try_from(name).unwrap(), near).await {
        stream.read_u8().await.unwrap();
    }
    server.await.unwrap()
}

#[tokio::test]
async fn clients_reach_the_server_by_all_its_names_with_or_without_a_certificate() {
    let directory = tempfile::tempdir().unwrap();
    let pki = open(
        directory.path(),
        &Clock::fixed(SystemTime::UNIX_EPOCH + Clock::system().since_epoch()),
    );
    for name in ["localhost", "127.0.0.1", "::1", "10.96.0.1", "kubernetes.default.svc"] {
        assert_eq!(connect(&pki, name, false).await, Some(0), "{name}");
    }
    assert_eq!(connect(&pki, "localhost", true).await, Some(1));
    assert_eq!(connect(&pki, "example.org", true).await, None);
}
