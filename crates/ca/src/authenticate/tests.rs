//! Tokens of a real API, checked by it and by its keys; certificates; and none of them.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use http::{Extensions, HeaderMap};
use ironsail_identity::tls::{self, Shown, server_config};
use ironsail_identity::{KeyKind, RootBundle, San};
use ironsail_names::TrustDomains;
use ironsail_sys::clock::Clock;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::json;

use super::{Authenticator, ClientCertificates, Error, KeySource, OfflineTokens, TokenReviews};
use crate::caller::{BoundObject, Caller, Domains, Proof};
use crate::testing::{Cluster, ISSUER};

fn domains() -> Domains {
    let domain = |text: &str| text.parse().unwrap();
    Domains::new(TrustDomains::new(domain("cluster.local"), [domain("old-td")]))
}

fn audiences() -> Vec<String> {
    vec!["istio-ca".to_owned()]
}

fn by_review(client: kube::Client) -> Authenticator {
    let reviews = TokenReviews::new(client, "c1", audiences(), domains(), Clock::system());
    Authenticator::new([Arc::new(reviews) as Arc<dyn super::Method>])
}

fn by_keys(keys: KeySource, clock: Clock) -> Authenticator {
    let tokens = OfflineTokens::new(ISSUER, audiences(), keys, domains(), clock);
    Authenticator::new([Arc::new(tokens) as Arc<dyn super::Method>])
}

async fn ask(
    authenticator: &Authenticator,
    headers: &[(&'static str, &str)],
) -> Result<Caller, Error> {
    let headers: HeaderMap =
        headers.iter().map(|(k, v)| (k.parse().unwrap(), v.parse().unwrap())).collect();
    authenticator.authenticate(&headers, &Extensions::new()).await
}

async fn ask_with(authenticator: &Authenticator, token: &str) -> Result<Caller, Error> {
    ask(authenticator, &[("authorization", &format!("Bearer {token}"))]).await
}

#[tokio::test]
async fn a_token_is_known_by_review_and_by_keys_alike() {
    let cluster = Cluster::new().await;
    let uid = cluster.pod("foo", "p1", "sleep").await;
    let token = cluster.token(("foo", "sleep"), "istio-ca", Some("p1")).await;
    let expected = Caller {
        identity: "spiffe://cluster.local/ns/foo/sa/sleep".parse().unwrap(),
        proof: Proof::Token { pod: Some(BoundObject { name: "p1".into(), uid }), node: None },
        cluster: String::new(),
    };
    let reviewed = ask_with(&by_review(cluster.client()), &token).await;
    assert_eq!(reviewed, Ok(expected.clone()));
    let keys = KeySource::ApiServer(cluster.client());
    assert_eq!(ask_with(&by_keys(keys, Clock::system()), &token).await, Ok(expected));
}

#[tokio::test]
async fn tokens_that_are_not_for_us_are_refused() {
    let cluster = Cluster::new().await;
    let review = by_review(cluster.client());
    let keys = by_keys(KeySource::ApiServer(cluster.client()), Clock::system());
    let other = cluster.token(("foo", "sleep"), "vault", None).await;
    let good = cluster.token(("foo", "sleep"), "istio-ca", None).await;
    let forged = {
        let (head, signature) = good.rsplit_once('.').unwrap();
        format!("{head}.{}", signature.chars().rev().collect::<String>())
    };
    for token in [other.as_str(), forged.as_str(), "a.b.c", "words", "", &"x".repeat(20_000)] {
        for authenticator in [&review, &keys] {
            let result = ask_with(authenticator, token).await;
            assert!(matches!(result, Err(Error::Unknown { .. })), "{token:.20}: {result:?}");
        }
    }
    let result = ask(&review, &[]).await.unwrap_err().to_string();
    assert!(result.contains("no bearer token exists"), "{result}");
    assert!(ask(&review, &[("authorization", "Basic eDp5")]).await.is_err());
}

#[tokio::test]
async fn clusters_that_are_not_known_have_no_callers() {
    let cluster = Cluster::new().await;
    let token = format!("Bearer {}", cluster.token(("foo", "sleep"), "istio-ca", None).await);
    let reviews =
        TokenReviews::new(cluster.client(), "c1", audiences(), domains(), Clock::system());
    let review = Authenticator::new([Arc::new(reviews.clone()) as Arc<dyn super::Method>]);
    let at = |name| [("authorization", token.as_str()), ("clusterid", name)];
    assert_eq!(ask(&review, &at("c1")).await.unwrap().cluster, "");
    assert!(ask(&review, &at("c2")).await.is_err());
    let other = Cluster::new().await;
    reviews.set_remotes([("c2".to_owned(), other.client())].into_iter().collect());
    assert!(ask(&review, &at("c2")).await.is_err(), "the other cluster does not know the token");
    let token = format!("Bearer {}", other.token(("foo", "sleep"), "istio-ca", None).await);
    let at = [("authorization", token.as_str()), ("clusterid", "c2")];
    assert_eq!(ask(&review, &at).await.unwrap().cluster, "c2");
}

#[tokio::test]
async fn an_accepted_token_is_remembered_for_a_short_while() {
    let cluster = Cluster::new().await;
    cluster.pod("foo", "p1", "sleep").await;
    let token = cluster.token(("foo", "sleep"), "istio-ca", Some("p1")).await;
    let now = Arc::new(parking_lot::Mutex::new(Clock::system().now()));
    let told = now.clone();
    let clock = Clock::from_fn(move || *told.lock());
    let reviews = TokenReviews::new(cluster.client(), "c1", audiences(), domains(), clock);
    let review = Authenticator::new([Arc::new(reviews) as Arc<dyn super::Method>]);
    assert!(ask_with(&review, &token).await.is_ok());
    cluster.delete_pod("foo", "p1").await;
    assert!(ask_with(&review, &token).await.is_ok(), "remembered");
    *now.lock() += Duration::from_secs(31);
    assert!(ask_with(&review, &token).await.is_err(), "its pod is gone");
}

#[tokio::test]
async fn an_api_that_does_not_answer_is_not_a_refusal() {
    let cluster = Cluster::new().await;
    let token = cluster.token(("foo", "sleep"), "istio-ca", None).await;
    // Without the right to create TokenReviews.
    let result = ask_with(&by_review(cluster.nobody()), &token).await;
    assert!(matches!(result, Err(Error::Unavailable { .. })), "{result:?}");
    let missing = KeySource::File("/nowhere/keys.json".into());
    let result = ask_with(&by_keys(missing, Clock::system()), &token).await;
    assert!(matches!(result, Err(Error::Unavailable { .. })), "{result:?}");
}

/// A key set in a file, and tokens signed with its key.
struct Issuer {
    directory: tempfile::TempDir,
    key: EncodingKey,
}

impl Issuer {
    fn new() -> Self {
        use jsonwebtoken::jwk::{Jwk, JwkSet};
        let pair = rcgen::KeyPair::generate().unwrap();
        let key = EncodingKey::from_ec_pem(pair.serialize_pem().as_bytes()).unwrap();
        let mut public = Jwk::from_encoding_key(&key, Algorithm::ES256).unwrap();
        public.common.key_id = Some("k1".to_owned());
        let directory = tempfile::tempdir().unwrap();
        let set = serde_json::to_vec(&JwkSet { keys: vec![public] }).unwrap();
        std::fs::write(directory.path().join("keys.json"), set).unwrap();
        Self { directory, key }
    }

    fn keys(&self) -> KeySource {
        KeySource::File(self.directory.path().join("keys.json"))
    }

    fn sign(&self, id: Option<&str>, claims: &serde_json::Value) -> String {
        let mut header = Header::new(Algorithm::ES256);
        header.kid = id.map(str::to_owned);
        jsonwebtoken::encode(&header, claims, &self.key).unwrap()
    }
}

const NOW: u64 = 1_700_000_000;

fn claims() -> serde_json::Value {
    json!({"iss": ISSUER, "aud": "istio-ca", "exp": NOW + 600, "nbf": NOW - 10,
        "sub": "system:serviceaccount:foo:sleep"})
}

#[tokio::test]
async fn every_claim_of_a_token_counts() {
    let issuer = Issuer::new();
    let clock = Clock::fixed(std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(NOW));
    let authenticator = by_keys(issuer.keys(), clock);
    assert!(ask_with(&authenticator, &issuer.sign(Some("k1"), &claims())).await.is_ok());
    assert!(ask_with(&authenticator, &issuer.sign(None, &claims())).await.is_ok());
    let unnamed = ask_with(&authenticator, &issuer.sign(Some("k2"), &claims())).await;
    assert!(unnamed.is_err());
    let bound =
        |account| json!({"namespace": "foo", "serviceaccount": {"name": account, "uid": "u"}});
    for (field, value, fine) in [
        ("iss", json!("https://evil"), false),
        ("aud", json!(["vault", "istio-ca"]), true),
        ("aud", json!(["vault"]), false),
        ("aud", json!(null), false),
        ("exp", json!(NOW - 61), false),
        ("exp", json!("never"), false),
        ("nbf", json!(NOW + 61), false),
        ("sub", json!("system:node:a"), false),
        ("sub", json!("system:serviceaccount:foo"), false),
        ("sub", json!("system:serviceaccount:foo:../bar"), false),
        ("kubernetes.io", bound("sleep"), true),
        ("kubernetes.io", bound("other"), false),
    ] {
        let mut changed = claims();
        changed[field] = value;
        let result = ask_with(&authenticator, &issuer.sign(Some("k1"), &changed)).await;
        assert_eq!(result.is_ok(), fine, "{changed}: {result:?}");
    }
}

#[tokio::test]
async fn a_token_signed_with_a_shared_secret_or_another_key_is_refused() {
    let issuer = Issuer::new();
    let clock = Clock::fixed(std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(NOW));
    let authenticator = by_keys(issuer.keys(), clock);
    let shared = EncodingKey::from_secret(b"keys.json");
    let mut header = Header::new(Algorithm::HS256);
    header.kid = Some("k1".to_owned());
    let token = jsonwebtoken::encode(&header, &claims(), &shared).unwrap();
    assert!(ask_with(&authenticator, &token).await.is_err());
    let token = Issuer::new().sign(Some("k1"), &claims());
    assert!(ask_with(&authenticator, &token).await.is_err());
    // alg none
    let none = "eyJhbGciOiJub25lIn0.e30.";
    assert!(ask_with(&authenticator, none).await.is_err());
}

#[tokio::test]
async fn changed_keys_are_found_when_a_token_names_them() {
    let (old, new) = (Issuer::new(), Issuer::new());
    let now = Arc::new(parking_lot::Mutex::new(
        std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(NOW),
    ));
    let told = now.clone();
    let authenticator = by_keys(old.keys(), Clock::from_fn(move || *told.lock()));
    assert!(ask_with(&authenticator, &old.sign(Some("k1"), &claims())).await.is_ok());
    let text = std::fs::read_to_string(new.directory.path().join("keys.json")).unwrap();
    let text = text.replace("k1", "k9");
    std::fs::write(old.directory.path().join("keys.json"), text).unwrap();
    let token = new.sign(Some("k9"), &claims());
    assert!(ask_with(&authenticator, &token).await.is_err(), "looked a moment ago");
    *now.lock() += Duration::from_secs(11);
    assert!(ask_with(&authenticator, &token).await.is_ok());
    assert!(ask_with(&authenticator, &old.sign(Some("k1"), &claims())).await.is_err());
}

/// Serves what OIDC discovery needs over TLS; gives its address and the root to trust.
async fn serve_keys(set: Vec<u8>) -> (String, RootBundle) {
    let strongbox = Arc::new(crate::MemoryStrongbox::default());
    let settings = crate::AuthoritySettings::default();
    let authority = crate::Authority::open(settings, strongbox, domains(), Clock::system());
    let authority = authority.await.unwrap();
    let name = San::Dns("localhost".to_owned());
    let credential = authority.issue_server(&[name], KeyKind::EcdsaP256, Duration::from_secs(3600));
    let shown = Shown::new(credential.unwrap());
    let config = server_config(&shown, tls::ClientCertificates::Ignored, &[]).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let document = json!({"issuer": base, "jwks_uri": format!("{base}/keys")}).to_string();
    tokio::spawn(async move {
        let mut incoming = std::pin::pin!(tls::incoming(listener, Arc::new(config)));
        while let Some((io, _)) = incoming.next().await {
            let (set, document) = (set.clone(), document.clone());
            let answer = move |request: http::Request<hyper::body::Incoming>| {
                let body = match request.uri().path() {
                    "/keys" => set.clone(),
                    "/.well-known/openid-configuration" => document.clone().into_bytes(),
                    _ => b"{}".to_vec(),
                };
                let body = http_body_util::Full::new(std::io::Cursor::new(body));
                async move { Ok::<_, std::convert::Infallible>(http::Response::new(body)) }
            };
            let service = hyper::service::service_fn(answer);
            let io = hyper_util::rt::TokioIo::new(io);
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(io, service));
        }
    });
    (base, authority.roots().borrow().clone())
}

#[tokio::test]
async fn keys_are_fetched_from_an_issuer_that_is_trusted() {
    let issuer = Issuer::new();
    let set = std::fs::read(issuer.directory.path().join("keys.json")).unwrap();
    let (url, roots) = serve_keys(set).await;
    let stranger = serve_keys(Vec::new()).await.1;
    let clock = Clock::fixed(std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(NOW));
    let token = issuer.sign(Some("k1"), &claims());
    let keys_url = format!("{url}/keys");
    for (source, fine) in [
        (KeySource::Issuer { url: url.clone(), roots: roots.clone() }, true),
        (KeySource::Url { url: keys_url.clone(), roots: roots.clone() }, true),
        (KeySource::Url { url: format!("{url}/elsewhere"), roots: roots.clone() }, false),
        (KeySource::Url { url: keys_url.replace("https", "http"), roots }, false),
        (KeySource::Url { url: keys_url, roots: stranger }, false),
    ] {
        let result = ask_with(&by_keys(source, clock.clone()), &token).await;
        assert_eq!(result.is_ok(), fine, "{result:?}");
    }
}

#[tokio::test]
async fn nothing_shown_is_nobody() {
    let certificates = ClientCertificates::new(domains());
    let authenticator = Authenticator::new([Arc::new(certificates) as Arc<dyn super::Method>]);
    let error = ask(&authenticator, &[]).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "no method knows the caller: ClientCertAuthenticator: no client certificate is presented"
    );
}
