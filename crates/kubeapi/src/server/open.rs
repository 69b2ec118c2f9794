//! Opening the API: the store, who may do what, and the objects that exist from the start.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use ipnet::IpNet;
use ironsail_sys::clock::Clock;
use parking_lot::RwLock;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Server, Shared, upkeep};
use crate::addresses::Addresses;
use crate::admission::{Admission, Dial};
use crate::auth::review::Reviews;
use crate::auth::token::{self, Tokens};
use crate::auth::{Authenticator, Authorizer, Objects, Peer, User, builtin};
use crate::crd::Keeper;
use crate::registry::Registry;
use crate::store::{self, Limits, Store};

/// How an API is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where state and keys are kept.
    pub directory: PathBuf,
    /// The service CIDRs, the primary family first; at least one.
    pub service_ranges: Vec<IpNet>,
    /// The issuer of service-account tokens.
    pub issuer: String,
    /// Where the Service `kubernetes` leads; without it, the Service has no endpoints.
    pub endpoint: Option<SocketAddr>,
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("opening the store in {path}", path = .path.display())]
    Store { path: PathBuf, source: store::Error },
    #[error("opening the signing key of service-account tokens")]
    Tokens(#[from] token::Error),
    #[error("no service CIDR is given")]
    NoServiceRange,
    #[error("creating {what}: {why}")]
    Bootstrap { what: String, why: String },
}

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

impl Server {
    /// Opens the API and makes what every cluster has from the start.
    pub async fn open(
        config: &Config,
        dial: Arc<dyn Dial>,
        clock: Clock,
    ) -> Result<Self, OpenError> {
        Self::open_with(config, dial, clock, Limits::default()).await
    }

    pub(super) async fn open_with(
        config: &Config,
        dial: Arc<dyn Dial>,
        clock: Clock,
        limits: Limits,
    ) -> Result<Self, OpenError> {
        let primary = *config.service_ranges.first().ok_or(OpenError::NoServiceRange)?;
        let path = config.directory.join("store");
        let store =
            Store::open(&path, limits).map_err(|source| OpenError::Store { path, source })?;
        let server = Self::assemble(store, config, dial, clock)?;
        server.bootstrap(primary, config.endpoint).await?;
        let keeper = Keeper::start(&server).await;
        if server.shared.custom.set(keeper).is_err() {
            unreachable!("a server is opened once");
        }
        tokio::spawn(upkeep::run(Arc::downgrade(&server.shared)));
        Ok(server)
    }

    fn assemble(
        store: Store,
        config: &Config,
        dial: Arc<dyn Dial>,
        clock: Clock,
    ) -> Result<Self, OpenError> {
        let objects: Arc<dyn Objects> = Arc::new(store.reader().clone());
        let keys: &Path = &config.directory;
        let tokens = Tokens::open(keys, &config.issuer, objects.clone(), clock.clone())?;
        let tokens = Arc::new(tokens);
        let authorizer = Arc::new(Authorizer::new(objects.clone()));
        let addresses = Addresses::new(&config.service_ranges);
        for service in store.reader().list("", "services", None).objects {
            addresses.learn(&service.value());
        }
        let shared = Shared {
            registry: Registry::builtin(),
            authenticator: Authenticator::new(tokens.clone(), authorizer.clone()),
            reviews: Reviews::new(tokens.clone(), authorizer.clone(), clock.clone()),
            admission: Admission::new(objects, dial),
            streams: RwLock::new(None),
            ended: CancellationToken::new(),
            custom: OnceLock::new(),
            store,
            clock,
            authorizer,
            tokens,
            addresses,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    async fn bootstrap(
        &self,
        primary: IpNet,
        endpoint: Option<SocketAddr>,
    ) -> Result<(), OpenError> {
        for name in NAMESPACES {
            let object = json!({"metadata": {"name": name}});
            self.ensure("/api/v1/namespaces", name, &object, false).await?;
        }
        for object in builtin::objects() {
            let plural = if object["kind"] == "ClusterRole" {
                "clusterroles"
            } else {
                "clusterrolebindings"
            };
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let path = format!("/apis/rbac.authorization.k8s.io/v1/{plural}");
            self.ensure(&path, &name, &object, true).await?;
        }
        let service = kubernetes_service(primary, endpoint);
        self.ensure("/api/v1/namespaces/default/services", "kubernetes", &service, false).await?;
        if let Some(endpoint) = endpoint {
            let (endpoints, slice) = kubernetes_endpoints(endpoint);
            let path = "/api/v1/namespaces/default/endpoints";
            self.ensure(path, "kubernetes", &endpoints, true).await?;
            let path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
            self.ensure(path, "kubernetes", &slice, true).await?;
        }
        Ok(())
    }

    /// Creates an object unless it is there; `renew` overwrites what is there.
    async fn ensure(
        &self,
        collection: &str,
        name: &str,
        object: &Value,
        renew: bool,
    ) -> Result<(), OpenError> {
        let path = format!("{collection}/{name}");
        let (code, answer) = match self.ask(Method::GET, &path, &Value::Null).await.0 {
            200 if renew => self.ask(Method::PUT, &path, object).await,
            200 => return Ok(()),
            _ => self.ask(Method::POST, collection, object).await,
        };
        if code < 300 {
            return Ok(());
        }
        Err(OpenError::Bootstrap { what: path, why: answer })
    }

    /// Sends one request as the API itself; answers its code and text.
    pub(crate) async fn ask(&self, method: Method, path: &str, object: &Value) -> (u16, String) {
        let media = if method == Method::PATCH {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let path: String = path.replace(':', "%3A");
        let body = Full::new(bytes::Bytes::from(object.to_string()));
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::USER_AGENT, "kube-apiserver")
            .header(http::header::CONTENT_TYPE, media)
            .body(body)
            .expect("method, path and body are fine");
        let user = User::known("system:apiserver", &["system:masters"]);
        let response = self.handle(request, Peer::InProcess(user)).await;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.map(http_body_util::Collected::to_bytes);
        (code, String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned())
    }
}

/// The first address of the range is the API's own.
fn kubernetes_service(primary: IpNet, endpoint: Option<SocketAddr>) -> Value {
    let first = match primary.network() {
        IpAddr::V4(base) => IpAddr::V4((u32::from(base) + 1).into()),
        IpAddr::V6(base) => IpAddr::V6((u128::from(base) + 1).into()),
    };
    let port = endpoint.map_or(443, |endpoint| endpoint.port());
    json!({
        "metadata": {
            "name": "kubernetes",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": first.to_string(),
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
            "sessionAffinity": "None",
            "type": "ClusterIP",
        },
    })
}

fn kubernetes_endpoints(endpoint: SocketAddr) -> (Value, Value) {
    let (address, port) = (endpoint.ip().to_string(), endpoint.port());
    let endpoints = json!({
        "metadata": {
            "name": "kubernetes",
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": [{
            "addresses": [{"ip": address}],
            "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
        }],
    });
    let slice = json!({
        "metadata": {
            "name": "kubernetes",
            "labels": {"kubernetes.io/service-name": "kubernetes"},
        },
        "addressType": if endpoint.is_ipv4() { "IPv4" } else { "IPv6" },
        "endpoints": [{"addresses": [address], "conditions": {"ready": true}}],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    });
    (endpoints, slice)
}
