//! podlet's API alone, in this process, with faults on demand: for tests of whatever watches and
//! writes, which need no pods.
//!
//! A [`Fault`] is asked about every request before the API is; watches that run can be cut or told
//! extra lines, as a bad network or a bad server would.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use ironsail_kubeapi::admission::{Dial, Stream};
use ironsail_kubeapi::auth::User;
use ironsail_kubeapi::{Body, BoxError, Config, InProcess, Server};
use ironsail_sys::clock::Clock;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::ApiResource;
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::broadcast;

/// What happens to a request instead of its answer.
#[derive(Clone, Debug)]
pub enum Fault {
    /// A `Status` of this code and reason.
    Status(u16, &'static str),
    /// The connection breaks before an answer.
    Refuse,
    /// No answer ever.
    Hang,
    /// A good answer that has nothing in it.
    Empty,
}

type Rule = Box<dyn FnMut(&http::Method, &str) -> Option<Fault> + Send>;

#[derive(Clone, Debug)]
enum Tamper {
    /// Watches whose path and query contain the text break.
    Cut(String),
    /// Such watches get one more line.
    Line(String, Bytes),
}

struct Shared {
    rules: Mutex<Vec<Rule>>,
    tamper: broadcast::Sender<Tamper>,
    asked: Mutex<Vec<String>>,
}

/// An API of a test's own.
pub struct Api {
    server: Server,
    shared: Arc<Shared>,
    _directory: tempfile::TempDir,
}

/// Nothing is reachable from an API alone, so it has no webhooks.
struct NoDial;

impl Dial for NoDial {
    fn connect(&self, _: SocketAddr) -> BoxFuture<'_, std::io::Result<Box<dyn Stream>>> {
        Box::pin(async { Err(std::io::Error::other("no webhooks here")) })
    }
}

impl Api {
    pub async fn open() -> Self {
        Self::open_with(Arc::new(NoDial)).await
    }

    /// With a way to webhooks.
    pub async fn open_with(dial: Arc<dyn Dial>) -> Self {
        let directory = tempfile::tempdir().expect("a folder for the API's state");
        let config = Config {
            directory: directory.path().to_owned(),
            service_ranges: vec!["10.96.0.0/16".parse().expect("a range")],
            issuer: "https://kubernetes.default.svc.cluster.local".to_owned(),
            endpoint: None,
        };
        let server = Server::open(&config, dial, Clock::system()).await.expect("the API opens");
        let (tamper, _) = broadcast::channel(64);
        let shared = Shared { rules: Mutex::default(), tamper, asked: Mutex::default() };
        Self { server, shared: Arc::new(shared), _directory: directory }
    }

    /// A client that the faults concern.
    pub fn client(&self) -> Client {
        let inner = self.server.service(User::admin());
        Client::new(Faulty { inner, shared: self.shared.clone() }, "default")
    }

    /// A client that they do not concern, for the test's own writes.
    pub fn admin(&self) -> Client {
        Client::new(self.server.service(User::admin()), "default")
    }

    /// From now on `rule` is asked with the method and the path with query of every request.
    pub fn fault(&self, rule: impl FnMut(&http::Method, &str) -> Option<Fault> + Send + 'static) {
        self.shared.rules.lock().push(Box::new(rule));
    }

    /// No more faults.
    pub fn heal(&self) {
        self.shared.rules.lock().clear();
    }

    /// Breaks the watches whose path and query contain `part`.
    pub fn cut(&self, part: &str) {
        let _ = self.shared.tamper.send(Tamper::Cut(part.to_owned()));
    }

    /// Puts a line into the watches whose path and query contain `part`.
    pub fn tell(&self, part: &str, line: &str) {
        let line = Bytes::from(format!("{line}\n"));
        let _ = self.shared.tamper.send(Tamper::Line(part.to_owned(), line));
    }

    /// Method and path with query of every request so far.
    pub fn asked(&self) -> Vec<String> {
        self.shared.asked.lock().clone()
    }

    /// Creates or replaces every object of a YAML text, like `kubectl apply --server-side`.
    pub async fn apply(&self, yaml: &str) {
        for document in ironsail_yaml::documents(yaml).expect("the test's YAML is right") {
            self.apply_value(document).await;
        }
    }

    pub async fn apply_value(&self, value: Value) {
        let (api, object) = self.locate(value);
        let params = PatchParams::apply("test").force();
        let name = object.name_any();
        if let Err(error) = api.patch(&name, &params, &Patch::Apply(&object)).await {
            panic!("applying {name}: {error}");
        }
    }

    /// Deletes what the YAML text names.
    pub async fn delete(&self, yaml: &str) {
        for document in ironsail_yaml::documents(yaml).expect("the test's YAML is right") {
            let (api, object) = self.locate(document);
            let name = object.name_any();
            let gone = api.delete(&name, &kube::api::DeleteParams::default()).await;
            gone.unwrap_or_else(|error| panic!("deleting {name}: {error}"));
        }
    }

    fn locate(&self, value: Value) -> (kube::Api<DynamicObject>, DynamicObject) {
        let object: DynamicObject = serde_json::from_value(value).expect("an object");
        let kind = object.types.clone().unwrap_or_default();
        let gvk = kube::core::GroupVersionKind::try_from(&kind).expect("apiVersion and kind");
        let resource = ApiResource::from_gvk(&gvk);
        let api = match object.namespace() {
            Some(ns) => kube::Api::namespaced_with(self.admin(), &ns, &resource),
            None => kube::Api::all_with(self.admin(), &resource),
        };
        (api, object)
    }

    /// Waits until CRDs that were just applied are served.
    pub async fn established(&self) {
        use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as ext;
        let api = kube::Api::<ext::CustomResourceDefinition>::all(self.admin());
        crate::eventually("custom resources are served", async || {
            let list = api.list(&kube::api::ListParams::default()).await;
            let list = list.map_err(|error| error.to_string())?;
            let waiting = list.items.iter().find(|crd| {
                let conditions = crd.status.as_ref().and_then(|s| s.conditions.as_ref());
                !conditions.is_some_and(|all| {
                    all.iter().any(|c| c.type_ == "Established" && c.status == "True")
                })
            });
            waiting.map_or(Ok(()), |crd| Err(format!("{} is not served yet", crd.name_any())))
        })
        .await;
    }
}

#[derive(Clone)]
struct Faulty {
    inner: InProcess,
    shared: Arc<Shared>,
}

impl tower::Service<Request<kube::client::Body>> for Faulty {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let Self { mut inner, shared } = self.clone();
        let target = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
        let method = request.method().clone();
        shared.asked.lock().push(format!("{method} {target}"));
        let fault = shared.rules.lock().iter_mut().find_map(|rule| rule(&method, &target));
        Box::pin(async move {
            match fault {
                Some(Fault::Status(code, reason)) => return Ok(refusal(code, reason)),
                Some(Fault::Refuse) => return Err("the test refuses this connection".into()),
                Some(Fault::Hang) => return std::future::pending().await,
                Some(Fault::Empty) => return Ok(answer(200, Bytes::new())),
                None => {}
            }
            // Before the watch begins, so that nothing told meanwhile is missed.
            let tamper = shared.tamper.subscribe();
            let answer = tower::Service::call(&mut inner, request).await;
            let answer = answer.unwrap_or_else(|never: Infallible| match never {});
            if !target.contains("watch=true") {
                return Ok(answer);
            }
            Ok(answer.map(|body| tampered(body, target, tamper)))
        })
    }
}

fn refusal(code: u16, reason: &str) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code, "reason": reason, "message": format!("the test says {reason}"),
    });
    answer(code, Bytes::from(status.to_string()))
}

fn answer(code: u16, body: Bytes) -> Response<Body> {
    Response::builder()
        .status(code)
        .header("content-type", "application/json")
        .body(Full::new(body).map_err(|never| match never {}).boxed_unsync())
        .expect("code and body are fine")
}

fn tampered(body: Body, target: String, mut tamper: broadcast::Receiver<Tamper>) -> Body {
    let stream = async_stream::stream! {
        let mut frames = body.into_data_stream();
        loop {
            tokio::select! {
                frame = frames.next() => match frame {
                    Some(Ok(bytes)) => yield Ok(Frame::data(bytes)),
                    Some(Err(error)) => {
                        yield Err(error);
                        return;
                    }
                    None => return,
                },
                told = tamper.recv() => match told {
                    Ok(Tamper::Cut(part)) if target.contains(&part) => {
                        yield Err(BoxError::from("the test cuts this watch"));
                        return;
                    }
                    Ok(Tamper::Line(part, line)) if target.contains(&part) => {
                        yield Ok(Frame::data(line));
                    }
                    _ => {}
                },
            }
        }
    };
    StreamBody::new(stream).boxed_unsync()
}
