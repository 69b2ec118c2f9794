//! The page with a mesh that is made up. The proxies are made up as well: one listener shows the metrics
//! of all of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::get;
use ironsail_console::{
    Finding, Object, Overview, Proxy, Push, Refusal, Report, Scrapeable, Service, Traffic,
    Workload, WorkloadDetail, World, router,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// How many services a namespace has.
const IN_NAMESPACE: usize = 25;

struct Made {
    services: usize,
    metrics: SocketAddr,
}

fn namespace(at: usize) -> String {
    const NAMES: [&str; 8] =
        ["shop", "billing", "search", "media", "accounts", "logistics", "support", "reports"];
    let number = at / IN_NAMESPACE;
    match number / NAMES.len() {
        0 => NAMES[number].to_owned(),
        round => format!("{}-{round}", NAMES[number % NAMES.len()]),
    }
}

fn name(at: usize) -> String {
    const NAMES: [&str; 10] = [
        "frontend", "cart", "orders", "prices", "stock", "users", "mail", "images", "audit",
        "cache",
    ];
    format!("{}-{}", NAMES[at % NAMES.len()], at % IN_NAMESPACE)
}

fn host(at: usize) -> String {
    format!("{}.{}.svc.cluster.local", name(at), namespace(at))
}

/// Whom a service calls: two of its own namespace, now and then one of those that everybody uses.
fn calls(at: usize, services: usize) -> Vec<usize> {
    let first = at / IN_NAMESPACE * IN_NAMESPACE;
    let within = |n: usize| first + n % IN_NAMESPACE;
    let mut to = vec![within(at * 2 + 1), within(at * 2 + 2)];
    to.retain(|other| *other > at && *other < services);
    if at % 5 == 2 && at >= IN_NAMESPACE {
        let namespace = match at % IN_NAMESPACE {
            7 => 4,
            12 => 1,
            _ => 3,
        };
        to.push(namespace * IN_NAMESPACE + at % 3);
    }
    to
}

impl Made {
    fn row(&self, at: usize) -> Workload {
        let state = if at % 97 == 13 { "ERROR" } else { "SYNCED" };
        let states = ["cds", "lds", "rds", "eds"].map(|kind| (kind.to_owned(), state.to_owned()));
        Workload {
            namespace: namespace(at),
            name: format!("{}-6d5f9c7b8-{at:05}", name(at)),
            workload: name(at),
            kind: "Deployment".into(),
            app: name(at),
            version: format!("v{}", at % 3 + 1),
            addresses: vec![format!("10.{}.{}.{}", 1 + at / 250, at % 250, 10 + at % 200)],
            node: format!("node-{}", at % 9),
            identity: Some(format!("spiffe://cluster.local/ns/{}/sa/{}", namespace(at), name(at))),
            mutual_tls: if at % 40 == 7 { "PERMISSIVE".into() } else { "STRICT".into() },
            services: vec![host(at)],
            proxy: (at % 61 != 9).then(|| Proxy {
                id: format!("{}.{}", name(at), namespace(at)),
                kind: "sidecar".into(),
                version: "1.28.0".into(),
                since: "2026-01-01T00:00:00Z".into(),
                state: BTreeMap::from(states),
                refused: (state == "ERROR").then(|| "lds refused: duplicate address".to_owned()),
            }),
            injected: true,
            certificate: None,
        }
    }
}

impl World for Made {
    fn overview(&self) -> Overview {
        let mut namespaces: Vec<String> = (0..self.services).map(namespace).collect();
        namespaces.dedup();
        Overview {
            version: "0.1.0".into(),
            cluster: "Kubernetes".into(),
            root_namespace: "istio-system".into(),
            trust_domain: "cluster.local".into(),
            ready: true,
            services: self.services,
            workloads: self.services,
            proxies: self.services,
            objects: 3,
            errors: 1,
            warnings: 1,
            refusals: 1,
            namespaces,
            convergence: Some((0.01, 0.1)),
            ..Overview::default()
        }
    }

    fn is_ready(&self) -> bool {
        true
    }

    fn workloads(&self) -> Vec<Workload> {
        (0..self.services).map(|at| self.row(at)).collect()
    }

    fn workload(&self, namespace: &str, name: &str) -> Option<WorkloadDetail> {
        let row =
            self.workloads().into_iter().find(|w| w.namespace == namespace && w.name == name)?;
        let words = vec![
            (
                "What it takes".to_owned(),
                vec!["cart:80 as http on its port 8080, by mutual TLS only".to_owned()],
            ),
            (
                "Who may call it".to_owned(),
                vec!["Everybody: there is no AuthorizationPolicy for it".to_owned()],
            ),
        ];
        let resources = BTreeMap::from([("cds".to_owned(), 512), ("lds".to_owned(), 37)]);
        let labels = BTreeMap::from([("app".to_owned(), row.app.clone())]);
        Some(WorkloadDetail { row, labels, words, resources })
    }

    fn services(&self) -> Vec<Service> {
        let one = |at: usize| Service {
            namespace: namespace(at),
            name: name(at),
            host: host(at),
            kind: "ClusterIp".into(),
            addresses: vec![format!("10.96.{}.{}", at / 250, at % 250)],
            ports: vec!["80/http".into()],
            endpoints: 2,
            healthy: if at % 50 == 3 { 0 } else { 2 },
            workloads: vec![name(at)],
            objects: if at.is_multiple_of(9) {
                vec![format!("VirtualService/{}/{}", namespace(at), name(at))]
            } else {
                Vec::new()
            },
        };
        (0..self.services).map(one).collect()
    }

    fn objects(&self) -> Vec<Object> {
        let finding = |severity: &str, message: &str| Finding {
            code: "IST0101".into(),
            severity: severity.into(),
            field: Some("spec.http[0].route[0].destination.host".into()),
            message: message.into(),
        };
        let one = |name: &str, findings: Vec<Finding>| Object {
            kind: "VirtualService".into(),
            namespace: "shop".into(),
            name: name.into(),
            created: Some("2026-01-01T00:00:00Z".into()),
            findings,
        };
        vec![
            one("cart", vec![finding("Error", "there is no service carts.shop.svc.cluster.local")]),
            one("orders", vec![finding("Warning", "the subset v9 has no pods")]),
            one("<b>prices</b>", Vec::new()),
        ]
    }

    fn object(&self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let metadata = json!({"namespace": namespace, "name": name});
        let findings: Vec<Value> = self
            .objects()
            .into_iter()
            .filter(|object| object.name == name)
            .flat_map(|object| object.findings)
            .map(|finding| json!(finding))
            .collect();
        Some(
            json!({"kind": kind, "metadata": metadata, "spec": {"hosts": [name]}, "findings": findings}),
        )
    }

    fn pushes(&self) -> Report {
        let push = |kind: &str| Push {
            kind: kind.into(),
            pushes: 1234,
            refused: 1,
            resources: 56789,
            bytes: 12_345_678,
        };
        let refusal = Refusal {
            proxy: "cart.shop".into(),
            namespace: "shop".into(),
            kind: "lds".into(),
            at: "2026-01-01T00:00:00Z".into(),
            message: "duplicate address 0.0.0.0:80".into(),
            objects: vec!["/apis/networking.istio.io/v1/namespaces/shop/envoy-filter/mine".into()],
        };
        Report {
            types: ["cds", "lds", "rds", "eds"].map(push).into(),
            refusals: vec![refusal],
            waiting: Vec::new(),
        }
    }

    fn scrapeable(&self) -> Vec<Scrapeable> {
        // One proxy tells of all.
        vec![Scrapeable { name: "all/of-them".into(), metrics: self.metrics, agent: self.metrics }]
    }
}

/// Counts up with every look, as a proxy's numbers do.
fn metrics(services: usize, look: u64) -> String {
    let mut text = "istio_agent_cert_expiry_seconds{resource_name=\"default\"} 43200\n".to_owned();
    for at in 0..services {
        for to in calls(at, services) {
            let labels = |reporter: &str| {
                format!(
                    "reporter=\"{reporter}\",source_workload=\"{}\",source_workload_namespace=\"{}\",source_canonical_service=\"{}\",\
                     source_canonical_revision=\"v1\",destination_workload=\"{}\",destination_workload_namespace=\"{}\",\
                     destination_canonical_service=\"{}\",destination_canonical_revision=\"v1\",destination_service=\"{}\",\
                     destination_service_name=\"{}\",destination_service_namespace=\"{}\",request_protocol=\"http\"",
                    name(at),
                    namespace(at),
                    name(at),
                    name(to),
                    namespace(to),
                    name(to),
                    host(to),
                    name(to),
                    namespace(to)
                )
            };
            let count = look * (10 + (at as u64 * 7) % 90);
            let failed = if at % 31 == 4 { count / 10 } else { 0 };
            let security = if at % 40 == 7 { "none" } else { "mutual_tls" };
            let _ = writeln!(
                text,
                "istio_requests_total{{{},response_code=\"200\",response_flags=\"-\",connection_security_policy=\"unknown\"}} {}",
                labels("source"),
                count - failed
            );
            let _ = writeln!(
                text,
                "istio_requests_total{{{},response_code=\"503\",response_flags=\"UF\",connection_security_policy=\"unknown\"}} {failed}",
                labels("source")
            );
            let _ = writeln!(
                text,
                "istio_requests_total{{{},response_code=\"200\",response_flags=\"-\",connection_security_policy=\"{security}\"}} {count}",
                labels("destination")
            );
            for (end, part) in [("5", 60), ("10", 90), ("25", 97), ("100", 100), ("+Inf", 100)] {
                let _ = writeln!(
                    text,
                    "istio_request_duration_milliseconds_bucket{{{},le=\"{end}\"}} {}",
                    labels("source"),
                    count * part / 100
                );
            }
        }
    }
    text
}

async fn shown(
    State((services, looks)): State<(usize, Arc<AtomicU64>)>,
    Path(_): Path<String>,
) -> String {
    metrics(services, looks.fetch_add(1, Ordering::Relaxed) + 1)
}

/// Serves the page; gives its address.
pub(crate) async fn serve(services: usize) -> String {
    let proxies = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let metrics = proxies.local_addr().unwrap();
    let world: Arc<dyn World> = Arc::new(Made { services, metrics });
    let app = Router::new()
        .route("/stats/{what}", get(shown))
        .with_state((services, Arc::new(AtomicU64::new(0))));
    tokio::spawn(async move { axum::serve(proxies, app).await });
    let traffic = Traffic::new(None);
    let page = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mesh/", page.local_addr().unwrap());
    let scopes = get(async || axum::Json(json!([{"name": "ads", "output_level": "info"}])));
    let app = router(world.clone(), traffic.clone()).route("/scopej/", scopes);
    tokio::spawn(async move { traffic.run(world, CancellationToken::new()).await });
    tokio::spawn(async move { axum::serve(page, app).await });
    url
}
