//! Handshakes in memory: who is let in, and what follows changes.

use std::sync::Arc;

use rustls_pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::{
    ClientCertificates, PeerCertificates, Shown, Trusted, server_config, to_dns_name, to_workloads,
};
use crate::issue::tests::{issued, issued_until, root};
use crate::{
    Certificate, Credential, KeyKind, PrivateKey, Profile, RootBundle, San, TrustBundles,
    empty_name,
};

struct Mesh {
    certificate: Certificate,
    key: PrivateKey,
}

impl Mesh {
    fn new(name: &str) -> Self {
        let key = PrivateKey::generate(KeyKind::EcdsaP256).unwrap();
        Self { certificate: root(name, &key), key }
    }

    fn credential(&self, name: San) -> Credential {
        let key = PrivateKey::generate(KeyKind::EcdsaP256).unwrap();
        let above = (&self.certificate, &self.key);
        let leaf = issued(above, empty_name(), &key, &[name], Profile::Leaf);
        Credential::new(Arc::new(key), vec![leaf]).unwrap()
    }

    fn workload(&self, id: &str) -> Credential {
        self.credential(San::Uri(id.to_owned()))
    }

    fn server(&self) -> Shown {
        Shown::new(self.credential(San::Dns("istiod.istio-system.svc".to_owned())))
    }

    fn bundles(&self) -> TrustBundles {
        TrustBundles::of(RootBundle::new([self.certificate.clone()]))
    }

    fn trusted(&self) -> Trusted {
        Trusted::new(self.bundles())
    }
}

/// One connection and one byte each way; the server's view of the client, or either side's error.
async fn connect(
    server: rustls::ServerConfig,
    client: rustls::ClientConfig,
) -> Result<Option<PeerCertificates>, String> {
    let (near, far) = tokio::io::duplex(64 << 10);
    let acceptor = TlsAcceptor::from(Arc::new(server));
    let connector = TlsConnector::from(Arc::new(client));
    let name = ServerName::try_from("istiod.istio-system.svc").unwrap();
    let serving = async {
        let mut stream = acceptor.accept(near).await.map_err(|error| error.to_string())?;
        let certificates = PeerCertificates::of(stream.get_ref().1);
        stream.write_all(b"x").await.map_err(|error| error.to_string())?;
        Ok(certificates)
    };
    let asking = async {
        let mut stream = connector.connect(name, far).await.map_err(|error| error.to_string())?;
        stream.read_u8().await.map_err(|error| error.to_string())
    };
    let (served, asked) = tokio::join!(serving, asking);
    asked.and(served)
}

const A: &str = "spiffe://td/ns/a/sa/a";

#[tokio::test]
async fn a_client_without_certificate_is_let_in_when_that_is_optional_only() {
    let mesh = Mesh::new("one");
    for (clients, fine) in [
        (ClientCertificates::Ignored, true),
        (ClientCertificates::Optional(mesh.trusted()), true),
        (ClientCertificates::Required(mesh.trusted()), false),
    ] {
        let server = server_config(&mesh.server(), clients, &["h2"]).unwrap();
        let client = to_dns_name(&mesh.trusted(), &Shown::default(), &["h2"]).unwrap();
        let result = connect(server, client).await;
        assert_eq!(result.is_ok(), fine, "{result:?}");
        assert!(!fine || result.unwrap().is_none());
    }
}

#[tokio::test]
async fn a_member_is_known_by_its_identity() {
    let mesh = Mesh::new("one");
    let clients = ClientCertificates::Optional(mesh.trusted());
    let server = server_config(&mesh.server(), clients, &[]).unwrap();
    let client = to_dns_name(&mesh.trusted(), &Shown::new(mesh.workload(A)), &[]).unwrap();
    let seen = connect(server, client).await.unwrap().unwrap();
    assert_eq!(seen.identity().unwrap().to_string(), A);
}

#[tokio::test]
async fn a_certificate_that_is_over_is_not_shown() {
    let mesh = Mesh::new("one");
    let key = PrivateKey::generate(KeyKind::EcdsaP256).unwrap();
    let (above, name) = ((&mesh.certificate, &mesh.key), [San::Uri(A.to_owned())]);
    let leaf = issued_until(above, empty_name(), &key, &name, Profile::Leaf, 1_700_000_000);
    let over = Shown::new(Credential::new(Arc::new(key), vec![leaf]).unwrap());
    let clients = ClientCertificates::Optional(mesh.trusted());
    let server = server_config(&mesh.server(), clients, &[]).unwrap();
    let client = to_dns_name(&mesh.trusted(), &over, &[]).unwrap();
    assert_eq!(connect(server, client).await, Ok(None));
}

#[tokio::test]
async fn a_certificate_of_another_mesh_or_of_nobody_is_refused() {
    let (mesh, other) = (Mesh::new("one"), Mesh::new("two"));
    let nobody = mesh.credential(San::Dns("a.b".to_owned()));
    for credential in [other.workload(A), nobody] {
        let clients = ClientCertificates::Optional(mesh.trusted());
        let server = server_config(&mesh.server(), clients, &[]).unwrap();
        let client = to_dns_name(&mesh.trusted(), &Shown::new(credential), &[]).unwrap();
        assert!(connect(server, client).await.is_err());
    }
}

#[tokio::test]
async fn a_root_speaks_for_its_own_trust_domain_only() {
    let (mesh, other) = (Mesh::new("one"), Mesh::new("two"));
    let mut bundles = mesh.bundles();
    bundles.by_domain.insert("td2".parse().unwrap(), other.bundles().own);
    let trusted = Trusted::new(bundles);
    for (credential, fine) in [
        (mesh.workload(A), true),
        (other.workload("spiffe://td2/ns/a/sa/a"), true),
        (other.workload(A), false),
        (mesh.workload("spiffe://td2/ns/a/sa/a"), false),
    ] {
        let clients = ClientCertificates::Required(trusted.clone());
        let server = server_config(&mesh.server(), clients, &[]).unwrap();
        let client = to_dns_name(&mesh.trusted(), &Shown::new(credential.clone()), &[]).unwrap();
        assert_eq!(connect(server, client).await.is_ok(), fine, "{credential:?}");
    }
}

#[tokio::test]
async fn a_server_must_have_the_name_and_the_root() {
    let (mesh, other) = (Mesh::new("one"), Mesh::new("two"));
    let elsewhere = Shown::new(mesh.credential(San::Dns("other.svc".to_owned())));
    for (shown, trusted, fine) in [
        (mesh.server(), mesh.trusted(), true),
        (elsewhere, mesh.trusted(), false),
        (mesh.server(), other.trusted(), false),
        (mesh.server(), Trusted::default(), false),
        (Shown::default(), mesh.trusted(), false),
    ] {
        let server = server_config(&shown, ClientCertificates::Ignored, &[]).unwrap();
        let client = to_dns_name(&trusted, &Shown::default(), &[]).unwrap();
        assert_eq!(connect(server, client).await.is_ok(), fine);
    }
}

#[tokio::test]
async fn a_workload_is_who_it_was_expected_to_be() {
    let mesh = Mesh::new("one");
    let b = "spiffe://td/ns/a/sa/b";
    for (wanted, fine) in [(vec![A], true), (vec![b, A], true), (vec![], true), (vec![b], false)] {
        let shown = Shown::new(mesh.workload(A));
        let clients = ClientCertificates::Required(mesh.trusted());
        let server = server_config(&shown, clients, &[]).unwrap();
        let wanted = wanted.into_iter().map(|id| id.parse().unwrap()).collect();
        let own = Shown::new(mesh.workload(b));
        let client = to_workloads(wanted, &mesh.trusted(), &own, &[]).unwrap();
        assert_eq!(connect(server, client).await.is_ok(), fine);
    }
}

#[tokio::test]
async fn configurations_follow_what_is_shown_and_trusted() {
    let (old, new) = (Mesh::new("old"), Mesh::new("new"));
    let (shown, trusted, own) = (old.server(), old.trusted(), Shown::new(old.workload(A)));
    let clients = ClientCertificates::Required(trusted.clone());
    let server = server_config(&shown, clients, &[]).unwrap();
    let client = to_dns_name(&trusted, &own, &[]).unwrap();
    assert!(connect(server.clone(), client.clone()).await.is_ok());

    trusted.set(new.bundles());
    assert!(connect(server.clone(), client.clone()).await.is_err());
    shown.set((*new.server().current().unwrap()).clone());
    own.set(new.workload(A));
    assert!(connect(server, client).await.is_ok());
}

#[tokio::test]
async fn a_listener_passes_on_who_came_and_outlives_bad_clients() {
    use futures::StreamExt as _;
    let mesh = Mesh::new("one");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let clients = ClientCertificates::Optional(mesh.trusted());
    let config = server_config(&mesh.server(), clients, &[]).unwrap();
    let mut incoming = Box::pin(super::incoming(listener, Arc::new(config)));

    let mut garbage = tokio::net::TcpStream::connect(address).await.unwrap();
    garbage.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let _silent = tokio::net::TcpStream::connect(address).await.unwrap();
    let client = to_dns_name(&mesh.trusted(), &Shown::new(mesh.workload(A)), &[]).unwrap();
    let dialing = tokio::spawn(async move {
        let io = tokio::net::TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("istiod.istio-system.svc").unwrap();
        TlsConnector::from(Arc::new(client)).connect(name, io).await.unwrap()
    });
    let (_, known) = incoming.next().await.unwrap();
    let own = dialing.await.unwrap().get_ref().0.local_addr().unwrap();
    assert_eq!(known.get::<std::net::SocketAddr>(), Some(&own));
    assert_eq!(known.get::<PeerCertificates>().unwrap().identity().unwrap().to_string(), A);
}

#[tokio::test]
async fn our_own_ends_exchange_keys_that_quantum_computers_do_not_break() {
    let mesh = Mesh::new("one");
    let server = server_config(&mesh.server(), ClientCertificates::Ignored, &[]).unwrap();
    let client = to_dns_name(&mesh.trusted(), &Shown::default(), &[]).unwrap();
    let (near, far) = tokio::io::duplex(64 << 10);
    let accepting = TlsAcceptor::from(Arc::new(server));
    let accepting = accepting.accept(near);
    let name = ServerName::try_from("istiod.istio-system.svc").unwrap();
    let connecting = TlsConnector::from(Arc::new(client)).connect(name, far);
    let (served, asked) = tokio::join!(accepting, connecting);
    for group in [
        served.unwrap().get_ref().1.negotiated_key_exchange_group(),
        asked.unwrap().get_ref().1.negotiated_key_exchange_group(),
    ] {
        assert_eq!(group.unwrap().name(), rustls::NamedGroup::X25519MLKEM768);
    }
}
