//! The whole way of a request: method, path, query, headers and body into the server's handler, in
//! this process. A panic of the handler ends the fuzzer although the server catches it.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::{json, sample, scratch};
use arbitrary::{Arbitrary, Result, Unstructured};
use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use ironsail_kubeapi::admission::{Dial, Stream};
use ironsail_kubeapi::auth::{Peer, User};
use ironsail_kubeapi::{Config, Server, kinds};
use ironsail_sys::clock::Clock;

/// A server is used for so many inputs, then a new one is made.
const LIFE: usize = 2_000;
/// Requests that one input makes at most.
const MOST_REQUESTS: usize = 20;

struct NoDial;

impl Dial for NoDial {
    fn connect(&self, _: SocketAddr) -> BoxFuture<'_, std::io::Result<Box<dyn Stream>>> {
        Box::pin(async { Err(std::io::Error::other("nothing is called from here")) })
    }
}

struct Bench {
    runtime: tokio::runtime::Runtime,
    server: Server,
    _directory: tempfile::TempDir,
    inputs: usize,
}

impl Bench {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let directory = scratch();
        let config = Config {
            directory: directory.path().to_owned(),
            service_ranges: vec!["10.96.0.0/16".parse().expect("a network")],
            issuer: "https://kubernetes.default.svc".to_owned(),
            endpoint: None,
        };
        let open = Server::open(&config, Arc::new(NoDial), Clock::system());
        let server = runtime.block_on(open).expect("a server in an empty folder");
        // Something to change and delete.
        for object in sample::all().iter().rev() {
            let Some(path) = home(object) else { continue };
            let headers = vec![("content-type", "application/json".to_owned())];
            let body = object.to_string().into();
            let sent = Sent { method: Method::POST, path, headers, body, admin: true };
            runtime.block_on(send(&server, sent));
        }
        Self { runtime, server, _directory: directory, inputs: 0 }
    }
}

#[derive(Debug)]
struct Sent {
    method: Method,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    admin: bool,
}

const METHODS: [&str; 8] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "BREW"];
const NAMES: [&str; 6] = ["a", "b", "default", "things.fuzz.example", "A_", "%2e%2e"];
const SUBRESOURCES: [&str; 10] = [
    "status",
    "scale",
    "log",
    "exec",
    "portforward",
    "token",
    "eviction",
    "binding",
    "finalize",
    "x",
];
#[rustfmt::skip]
const KEYS: [&str; 18] = [
    "watch", "limit", "continue", "labelSelector", "fieldSelector", "resourceVersion",
    "resourceVersionMatch", "allowWatchBookmarks", "sendInitialEvents", "timeoutSeconds", "dryRun",
    "fieldManager", "force", "fieldValidation", "propagationPolicy", "gracePeriodSeconds",
    "includeObject", "pretty",
];
#[rustfmt::skip]
const VALUES: [&str; 22] = [
    "", "0", "1", "true", "false", "All", "Strict", "Warn", "Ignore", "a%3Db", "a%20in%20(b,c)",
    "%21a", "metadata.name%3Da", "status.phase%21%3DRunning", "NotOlderThan", "Exact",
    "99999999999999999999", "-1", "Background", "Foreground", "None",
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ",
];
const MEDIA: [&str; 9] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "text/plain",
    "application/json;charset=utf-8;as=Table",
];
const ACCEPT: [&str; 6] = [
    "*/*",
    "application/json",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/yaml",
    "image/png",
];
const DOCUMENTS: [&str; 10] = [
    "/",
    "/api",
    "/apis",
    "/api/v1",
    "/apis/apps/v1",
    "/openapi/v3",
    "/openapi/v3/apis/apps/v1",
    "/version",
    "/healthz",
    "/.well-known/openid-configuration",
];

fn path(u: &mut Unstructured<'_>) -> Result<String> {
    let mut out = match u.int_in_range(0..=15)? {
        0 => u.arbitrary::<&str>()?.to_owned(),
        1 => (*u.choose(&DOCUMENTS)?).to_owned(),
        2 | 3 => "/apis/fuzz.example/v1/namespaces/default/things".to_owned(),
        _ => {
            let kind = u.choose(kinds::all())?;
            let root = if kind.group.is_empty() { "api" } else { "apis" };
            let space = if kind.namespaced && u.ratio(7, 8)? { "/namespaces/default" } else { "" };
            format!("/{root}/{}{space}/{}", kind.api_version(), kind.plural)
        }
    };
    if u.ratio(2, 3)? {
        out = format!("{out}/{}", u.choose(&NAMES)?);
        if u.ratio(1, 4)? {
            out = format!("{out}/{}", u.choose(&SUBRESOURCES)?);
        }
    }
    let query = query(u)?;
    Ok(format!("{out}{query}"))
}

fn query(u: &mut Unstructured<'_>) -> Result<String> {
    let mut out = "?".to_owned();
    for _ in 0..u.int_in_range(0..=5_usize)?.saturating_sub(2) {
        let value = if u.ratio(15, 16)? { *u.choose(&VALUES)? } else { u.arbitrary()? };
        out = format!("{out}&{}={value}", u.choose(&KEYS)?);
    }
    Ok(out)
}

fn any_body(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    Ok(match u.int_in_range(0..=4)? {
        0 => u.arbitrary::<&[u8]>()?.to_vec(),
        1 => Vec::new(),
        2 => json::object(u)?.to_string().into(),
        3 => u.arbitrary::<json::Json>()?.0.to_string().into(),
        _ => sample::broken(u)?.to_string().into(),
    })
}

const PATCHES: [&str; 4] = [
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

impl<'a> Arbitrary<'a> for Sent {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let accept =
            if u.ratio(7, 8)? { ACCEPT[u.int_in_range(0..=3)?] } else { *u.choose(&ACCEPT)? };
        let mut headers = vec![("accept", accept.to_owned())];
        if u.ratio(1, 8)? {
            let keys = ["authorization", "impersonate-user", "user-agent", "upgrade", "connection"];
            headers.push((*u.choose(&keys)?, u.arbitrary()?));
        }
        let intent = u.int_in_range(0..=11)?;
        let body = if intent < 10 { sample::broken(u)? } else { serde_json::Value::Null };
        // Where objects of this kind live, and the one called a.
        let home =
            home(&body).unwrap_or_else(|| "/api/v1/namespaces/default/configmaps".to_owned());
        let sub = match u.int_in_range(0..=5)? {
            0 => "/status",
            1 => "/scale",
            _ => "",
        };
        let name =
            if body["kind"] == "CustomResourceDefinition" { "things.fuzz.example" } else { "a" };
        let one = format!("{home}/{name}");
        let query = query(u)?;
        let (method, path, media, body) = match intent {
            0..=2 => {
                ("POST", format!("{home}{query}"), "application/json", body.to_string().into())
            }
            3 | 4 => {
                ("PUT", format!("{one}{sub}{query}"), "application/json", body.to_string().into())
            }
            5..=7 => {
                let media = *u.choose(&PATCHES)?;
                let patch = match u.int_in_range(0..=2)? {
                    0 => operations(u)?,
                    1 => json::object(u)?,
                    _ => body,
                };
                (
                    "PATCH",
                    format!("{one}{sub}{query}&fieldManager=a"),
                    media,
                    patch.to_string().into(),
                )
            }
            8 => {
                let path = if u.arbitrary()? { home } else { one };
                ("GET", format!("{path}{query}"), "", Vec::new())
            }
            9 => ("DELETE", format!("{one}{query}"), "", Vec::new()),
            _ => {
                let path = path(u)?;
                (*u.choose(&METHODS)?, path, *u.choose(&MEDIA)?, any_body(u)?)
            }
        };
        if !media.is_empty() {
            headers.push(("content-type", media.to_owned()));
        }
        let method = method.parse().expect("a method");
        Ok(Self { method, path, headers, body, admin: u.ratio(15, 16)? })
    }
}

/// A JSON patch.
fn operations(u: &mut Unstructured<'_>) -> Result<serde_json::Value> {
    let mut out = Vec::new();
    for _ in 0..u.int_in_range(0..=4)? {
        let json::Json(value) = u.arbitrary()?;
        let op = u.choose(&["add", "remove", "replace", "test", "move", "copy", "x"])?;
        #[rustfmt::skip]
        let paths = [
            "/metadata/labels/a", "/metadata/name", "/spec", "/data/a", "/spec/ports/-",
            "/spec/template/spec/containers/0/image", "/metadata/finalizers", "/status", "",
            "/a~1b", "/metadata/managedFields", "/spec/replicas", "x",
        ];
        let (path, from) = (u.choose(&paths)?, u.choose(&paths)?);
        out.push(serde_json::json!({"op": op, "path": path, "from": from, "value": value}));
    }
    Ok(out.into())
}

/// Where objects of this kind are listed.
fn home(object: &serde_json::Value) -> Option<String> {
    let api_version = object["apiVersion"].as_str()?;
    if api_version == "fuzz.example/v1" {
        return Some("/apis/fuzz.example/v1/namespaces/default/things".to_owned());
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = kinds::by_kind(group, version, object["kind"].as_str()?)?;
    let root = if group.is_empty() { "api" } else { "apis" };
    let space = if kind.namespaced { "/namespaces/default" } else { "" };
    Some(format!("/{root}/{api_version}{space}/{}", kind.plural))
}

async fn send(server: &Server, sent: Sent) {
    let mut request = Request::builder().method(sent.method).uri(&sent.path);
    for (name, value) in &sent.headers {
        request = request.header(*name, value);
    }
    let Ok(request) = request.body(Full::new(Bytes::from(sent.body))) else { return };
    let peer = if sent.admin { Peer::InProcess(User::admin()) } else { Peer::Tls(None) };
    let response = server.handle(request, peer).await;
    let (parts, mut body) = response.into_parts();
    let mut whole = Vec::new();
    // A watch does not end: what is there is read, and no more waited for.
    let ended = loop {
        match body.frame().now_or_never() {
            None => break false,
            Some(None) => break true,
            Some(Some(frame)) => {
                let frame = frame.expect("a body from memory cannot fail");
                whole.extend_from_slice(&frame.into_data().unwrap_or_default());
            }
        }
    };
    let is_json = parts.headers.get("content-type").is_some_and(|v| v == "application/json");
    if ended && is_json && !whole.is_empty() && !sent.path.contains("watch=") {
        let parsed: std::result::Result<serde_json::Value, _> = serde_json::from_slice(&whole);
        assert!(parsed.is_ok(), "{}: {}", sent.path, String::from_utf8_lossy(&whole));
    }
}

thread_local! {
    static BENCH: RefCell<Option<Bench>> = const { RefCell::new(None) };
}

pub(crate) fn target(bytes: &[u8]) {
    BENCH.with_borrow_mut(|slot| {
        if slot.as_ref().is_some_and(|bench| bench.inputs >= LIFE) {
            *slot = None;
        }
        let bench = slot.get_or_insert_with(Bench::new);
        bench.inputs += 1;
        let mut rest = Unstructured::new(bytes);
        for _ in 0..MOST_REQUESTS {
            if rest.is_empty() {
                break;
            }
            let Ok(sent) = Sent::arbitrary(&mut rest) else { break };
            // A hook would be called over the network.
            if !sent.path.contains("admissionregistration") {
                bench.runtime.block_on(send(&bench.server, sent));
            }
        }
    });
}
