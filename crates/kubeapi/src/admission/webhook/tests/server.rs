//! A webhook over real TLS, for tests.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use crate::admission::{Dial, Stream};

/// What the server does with a question.
#[derive(Clone)]
pub(super) enum Reply {
    /// An AdmissionReview with this response and the right uid.
    Response(Value),
    Raw(Vec<u8>),
    Status(u16),
    Hang,
    Close,
}

type Handler = dyn Fn(&Value) -> Reply + Send + Sync;

pub(super) struct Server {
    pub(super) ca_pem: String,
    pub(super) port: u16,
    calls: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    pub(super) async fn start(handler: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Self {
        Self::for_name("hook.sys.svc", handler).await
    }

    /// With a certificate of a CA of its own.
    pub(super) async fn for_name(
        name: &str,
        handler: impl Fn(&Value) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, &ca).unwrap();
        Self::serve(ca.pem(), leaf.der().clone(), &key, Arc::new(handler)).await
    }

    /// With a certificate that is its own CA, as `openssl req -x509` makes it.
    pub(super) async fn self_signed(
        handler: impl Fn(&Value) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let mut params = CertificateParams::new(["hook.sys.svc".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let leaf = params.self_signed(&key).unwrap();
        Self::serve(leaf.pem(), leaf.der().clone(), &key, Arc::new(handler)).await
    }

    async fn serve(
        ca_pem: String,
        leaf: CertificateDer<'static>,
        key: &KeyPair,
        handler: Arc<Handler>,
    ) -> Self {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![leaf], key)
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let task = tokio::spawn({
            let calls = Arc::clone(&calls);
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let (acceptor, handler) = (acceptor.clone(), Arc::clone(&handler));
                    tokio::spawn(connection(stream, acceptor, handler, Arc::clone(&calls)));
                }
            }
        });
        Self { ca_pem, port, calls, task }
    }

    /// Requests seen so far.
    pub(super) fn calls(&self) -> Vec<String> {
        self.calls.lock().clone()
    }

    /// Dials this server whatever the address.
    pub(super) fn dial(&self) -> Arc<dyn Dial> {
        Arc::new(ToPort(self.port))
    }

    /// Stops listening; when this returns nobody gets in.
    pub(super) async fn stop(&mut self) {
        self.task.abort();
        let ended = (&mut self.task).await;
        assert!(ended.is_err_and(|e| e.is_cancelled()));
    }
}

struct ToPort(u16);

impl Dial for ToPort {
    fn connect(&self, _address: SocketAddr) -> BoxFuture<'_, std::io::Result<Box<dyn Stream>>> {
        Box::pin(async move {
            let stream = TcpStream::connect(("127.0.0.1", self.0)).await?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }
}

async fn connection(
    stream: TcpStream,
    acceptor: tokio_rustls::TlsAcceptor,
    handler: Arc<Handler>,
    calls: Arc<Mutex<Vec<String>>>,
) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let service =
        hyper::service::service_fn(move |request: http::Request<hyper::body::Incoming>| {
            let (handler, calls) = (Arc::clone(&handler), Arc::clone(&calls));
            async move {
                calls.lock().push(format!("{} {}", request.method(), request.uri()));
                let path = request.uri().path().to_owned();
                let body =
                    request.into_body().collect().await.map_err(std::io::Error::other)?.to_bytes();
                let mut review: Value = serde_json::from_slice(&body).unwrap();
                review["path"] = json!(path);
                answer(handler(&review), &review).await
            }
        });
    // A reply of `Close` ends the connection with an error on purpose.
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn answer(reply: Reply, review: &Value) -> std::io::Result<http::Response<Full<Bytes>>> {
    let (code, body) = match reply {
        Reply::Response(mut response) => {
            response["uid"] = review["request"]["uid"].clone();
            let answer = json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response });
            (200, answer.to_string().into_bytes())
        }
        Reply::Raw(bytes) => (200, bytes),
        Reply::Status(code) => (code, vec![]),
        Reply::Hang => std::future::pending().await,
        Reply::Close => return Err(std::io::Error::other("closing")),
    };
    Ok(http::Response::builder().status(code).body(Full::new(Bytes::from(body))).unwrap())
}
