//! The writer against podlet's API.

use ironsail_api::{Code, Kind, Meta, Severity};
use ironsail_testkit::{Api as TestApi, eventually};
use serde_json::{Value, json};

use super::*;

fn crd() -> Value {
    let kind = Kind::VirtualService;
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.crd_name()},
        "spec": {
            "group": kind.group(), "scope": "Namespaced",
            "names": {
                "kind": kind.name(), "plural": kind.plural(),
                "singular": "virtualservice", "listKind": "VirtualServiceList",
            },
            "versions": [{
                "name": kind.version(), "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    })
}

fn virtual_service(name: &str, host: &str) -> String {
    format!(
        "{{apiVersion: networking.istio.io/v1, kind: VirtualService, \
         metadata: {{name: {name}, namespace: default}}, spec: {{hosts: [{host}]}}}}"
    )
}

fn key(name: &str) -> ObjectKey {
    ObjectKey {
        cluster: "here".into(),
        kind: Kind::VirtualService,
        namespace: "default".into(),
        name: name.into(),
    }
}

fn finding(generation: i64, message: &str) -> Finding {
    let meta = Meta::default();
    let wrong =
        Diagnostic::new(Code::SCHEMA, Severity::Error, Kind::VirtualService, &meta, message);
    Finding { generation, diagnostics: vec![wrong] }
}

struct Bench {
    api: TestApi,
    findings: watch::Sender<All>,
    stop: CancellationToken,
}

impl Bench {
    async fn new() -> Self {
        let api = TestApi::open().await;
        api.apply_value(crd()).await;
        api.established().await;
        for name in ["bad", "good"] {
            api.apply(&virtual_service(name, "a")).await;
        }
        Self { api, findings: watch::Sender::default(), stop: CancellationToken::new() }
    }

    fn start(&mut self) -> tokio::task::JoinHandle<()> {
        self.stop = CancellationToken::new();
        let config = Config {
            client: self.api.client(),
            cluster: "here".into(),
            findings: self.findings.subscribe(),
            pace: Duration::from_millis(5),
            clock: Clock::system(),
        };
        tokio::spawn(run(config, self.stop.clone()))
    }

    fn say(&self, all: &[(&str, Finding)]) {
        let all = all.iter().map(|(name, finding)| (key(name), finding.clone())).collect();
        self.findings.send_replace(Arc::new(all));
    }

    async fn status(&self, name: &str) -> Value {
        let object = api(&self.api.admin(), &key(name)).get(name).await.unwrap();
        object.data["status"].clone()
    }

    async fn condition(&self, name: &str, is: impl Fn(&Value) -> bool) -> Value {
        eventually("the condition is as expected", async || {
            let condition = self.status(name).await["conditions"][0].clone();
            if is(&condition) { Ok(condition) } else { Err(condition.to_string()) }
        })
        .await
    }

    fn writes(&self) -> usize {
        self.api.asked().iter().filter(|line| line.starts_with("PATCH")).count()
    }
}

#[tokio::test]
async fn findings_come_into_the_status_and_go_again() {
    let mut bench = Bench::new().await;
    let task = bench.start();
    bench.say(&[("bad", finding(1, "one")), ("missing", finding(1, "x"))]);
    bench.condition("bad", |c| c["message"] == "[IST0106] one").await;
    assert_eq!(bench.status("good").await, Value::Null);
    // The same again costs nothing; another generation is told.
    bench.say(&[("bad", finding(1, "one"))]);
    bench.api.apply(&virtual_service("bad", "b")).await;
    bench.say(&[("bad", finding(2, "one"))]);
    bench.condition("bad", |c| c["observedGeneration"] == 2).await;
    assert_eq!(bench.writes(), 2);
    bench.say(&[]);
    bench.condition("bad", |c| c["status"] == "True").await;
    assert!(bench.status("bad").await.get("validationMessages").is_none());
    assert_eq!(bench.writes(), 3);
    bench.stop.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn what_an_earlier_leader_wrote_is_taken_back() {
    let mut bench = Bench::new().await;
    let task = bench.start();
    bench.say(&[("bad", finding(1, "one"))]);
    bench.condition("bad", |c| c["status"] == "False").await;
    bench.stop.cancel();
    task.await.unwrap();
    bench.say(&[]);
    let task = bench.start();
    bench.condition("bad", |c| c["status"] == "True").await;
    bench.stop.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn a_write_in_between_is_not_overwritten() {
    let mut bench = Bench::new().await;
    let raced = std::sync::atomic::AtomicBool::new(false);
    let (sender, mut racing) = tokio::sync::mpsc::unbounded_channel();
    bench.api.fault(move |method, _| {
        let first =
            method == http::Method::PATCH && !raced.swap(true, std::sync::atomic::Ordering::SeqCst);
        first.then(|| {
            let _ = sender.send(());
            ironsail_testkit::Fault::Status(409, "Conflict")
        })
    });
    let task = bench.start();
    bench.say(&[("bad", finding(1, "one"))]);
    racing.recv().await.unwrap();
    bench.condition("bad", |c| c["status"] == "False").await;
    assert_eq!(bench.writes(), 2);
    bench.stop.cancel();
    task.await.unwrap();
}
