//! What the page is told: one struct a row, with the field names that the JSON has.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::Serialize;

/// Tells what there is right now. Answers are made when they are asked for, so they must be cheap.
pub trait World: Send + Sync + 'static {
    fn overview(&self) -> Overview;
    /// Whether all workloads are known that were there before.
    fn is_ready(&self) -> bool;
    fn workloads(&self) -> Vec<Workload>;
    fn workload(&self, namespace: &str, name: &str) -> Option<WorkloadDetail>;
    fn services(&self) -> Vec<Service>;
    fn objects(&self) -> Vec<Object>;
    /// One object with its specification.
    fn object(&self, kind: &str, namespace: &str, name: &str) -> Option<serde_json::Value>;
    fn pushes(&self) -> Report;
    /// Proxies whose metrics can be asked for.
    fn scrapeable(&self) -> Vec<Scrapeable>;
}

/// A proxy that may be asked for its metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scrapeable {
    /// `NAMESPACE/POD`
    pub name: String,
    /// Where Envoy shows its metrics.
    pub metrics: SocketAddr,
    /// Where the agent shows its own.
    pub agent: SocketAddr,
}

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    pub version: String,
    pub cluster: String,
    pub revision: String,
    pub root_namespace: String,
    pub trust_domain: String,
    pub ready: bool,
    pub services: usize,
    pub workloads: usize,
    pub proxies: usize,
    pub objects: usize,
    pub errors: usize,
    pub warnings: usize,
    pub refusals: usize,
    pub namespaces: Vec<String>,
    /// Median and 99th percentile of the seconds from a change to the last proxy that has it.
    pub convergence: Option<(f64, f64)>,
}

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    pub namespace: String,
    /// The pod or WorkloadEntry.
    pub name: String,
    /// What owns it.
    pub workload: String,
    pub kind: String,
    pub app: String,
    pub version: String,
    pub addresses: Vec<String>,
    pub node: String,
    pub identity: Option<String>,
    /// `STRICT`, `PERMISSIVE`, `DISABLE`: what it asks of its callers.
    pub mutual_tls: String,
    pub services: Vec<String>,
    /// None: no proxy of it is connected to this control plane.
    pub proxy: Option<Proxy>,
    /// Whether it should have one.
    pub injected: bool,
    pub certificate: Option<Certificate>,
}

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Proxy {
    pub id: String,
    pub kind: String,
    pub version: String,
    pub since: String,
    /// `SYNCED`, `STALE`, `ERROR` or `NOT SENT` by type: `cds`, `lds` …
    pub state: BTreeMap<String, String>,
    pub refused: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Certificate {
    /// Seconds that were left when the proxy was asked last.
    pub expires_in: f64,
    /// How many seconds ago that was.
    pub asked: f64,
}

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Service {
    pub namespace: String,
    pub name: String,
    pub host: String,
    pub kind: String,
    pub addresses: Vec<String>,
    /// `80/http`
    pub ports: Vec<String>,
    pub endpoints: usize,
    pub healthy: usize,
    pub workloads: Vec<String>,
    pub objects: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Object {
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub created: Option<String>,
    pub findings: Vec<Finding>,
}

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    pub code: String,
    /// `Error`, `Warning` or `Info`.
    pub severity: String,
    pub field: Option<String>,
    pub message: String,
}

/// What was sent and how it was taken.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub types: Vec<Push>,
    pub refusals: Vec<Refusal>,
    /// Proxies that have not answered yet, and since when.
    pub waiting: Vec<Refusal>,
}

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Push {
    pub kind: String,
    pub pushes: u64,
    pub refused: u64,
    pub resources: u64,
    pub bytes: u64,
}

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    pub proxy: String,
    pub namespace: String,
    pub kind: String,
    pub at: String,
    pub message: String,
    pub objects: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadDetail {
    #[serde(flatten)]
    pub row: Workload,
    pub labels: BTreeMap<String, String>,
    /// Its configuration in words: a heading and its sentences.
    pub words: Vec<(String, Vec<String>)>,
    /// How many resources it was given, by type.
    pub resources: BTreeMap<String, usize>,
}
