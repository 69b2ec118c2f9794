//! Watches against podlet's API, with faults.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use ironsail_testkit::{Api as TestApi, Fault, eventually};
use serde_json::{Value, json};
use tokio::sync::mpsc::Receiver;

use super::*;

struct Bench {
    api: TestApi,
    events: Receiver<Event>,
    board: Board,
    stop: CancellationToken,
    selectors: watch::Sender<Arc<Selectors>>,
    secrets: watch::Sender<Arc<BTreeSet<String>>>,
}

/// A CRD that takes anything, so that bad objects get past the API.
fn crd(kind: Kind) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.crd_name()},
        "spec": {
            "group": kind.group(),
            "scope": "Namespaced",
            "names": {
                "kind": kind.name(), "plural": kind.plural(),
                "singular": kind.name().to_lowercase(), "listKind": format!("{kind}List"),
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

impl Bench {
    async fn prepare() -> Self {
        let api = TestApi::open().await;
        let (_, events) = crate::channel();
        Self {
            api,
            events,
            board: Board::default(),
            stop: CancellationToken::new(),
            selectors: watch::Sender::default(),
            secrets: watch::Sender::default(),
        }
    }

    fn start(&mut self, kinds: &[Kind]) {
        let (sender, events) = crate::channel();
        self.events = events;
        let config = Config {
            kinds: kinds.to_vec(),
            selectors: self.selectors.subscribe(),
            secrets: Scope::In(self.secrets.subscribe()),
            ..Config::new(self.api.client(), "kube".into())
        };
        tokio::spawn(run(config, sender, self.board.clone(), self.stop.clone()));
    }

    /// The next event, in words; the namespaces and objects that every API has are left out.
    async fn next(&mut self) -> String {
        loop {
            let wait = tokio::time::timeout(Duration::from_secs(30), self.events.recv()).await;
            let word = match wait.expect("an event in time").expect("the source runs") {
                Event::Synced { kind, .. } => format!("{kind} synced"),
                Event::Delete(key) => format!("- {} {}/{}", key.kind, key.namespace, key.name),
                Event::Apply { object, .. } => {
                    let meta = object.meta();
                    format!("+ {} {}/{}", object.kind(), meta.namespace, meta.name)
                }
            };
            let usual = [
                "Namespace /",
                "Service default/kubernetes",
                "Namespace synced",
                "Secret synced",
                "ConfigMap synced",
            ];
            if !usual.iter().any(|part| word.contains(part)) {
                return word;
            }
        }
    }

    async fn expect(&mut self, words: &[&str]) {
        for word in words {
            assert_eq!(self.next().await, *word);
        }
    }

    /// Proves that nothing was waiting: the next event is that of a change made now.
    async fn nothing_but(&mut self, marker: &str) {
        self.api.apply(&service("default", marker, 80)).await;
        self.expect(&[&format!("+ Service default/{marker}")]).await;
    }

    /// Waits until a watch of this resource is open.
    async fn watching(&self, part: &str, at_least: usize) {
        eventually("a watch is open", async || {
            let asked = self.api.asked();
            let count =
                asked.iter().filter(|l| l.contains("watch=true") && l.contains(part)).count();
            if count >= at_least { Ok(()) } else { Err(format!("{asked:#?}")) }
        })
        .await;
    }
}

fn service(namespace: &str, name: &str, port: u32) -> String {
    format!(
        "{{apiVersion: v1, kind: Service, metadata: {{name: {name}, namespace: {namespace}}}, \
         spec: {{ports: [{{port: {port}}}]}}}}"
    )
}

fn namespace(name: &str, mesh: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}, labels: {{mesh: '{mesh}'}}}}}}"
    )
}

fn virtual_service(name: &str, hosts: &str) -> String {
    format!(
        "{{apiVersion: networking.istio.io/v1, kind: VirtualService, \
         metadata: {{name: {name}, namespace: default}}, spec: {{hosts: {hosts}}}}}"
    )
}

#[tokio::test]
async fn everything_is_told_once_then_every_change() {
    let mut bench = Bench::prepare().await;
    bench.api.apply(&service("default", "a", 80)).await;
    bench.start(&[Kind::Service]);
    bench.expect(&["+ Service default/a", "Service synced"]).await;
    bench.api.apply(&service("default", "a", 81)).await;
    bench.expect(&["+ Service default/a"]).await;
    bench.api.delete(&service("default", "a", 81)).await;
    bench.expect(&["- Service default/a"]).await;
    bench.stop.cancel();
}

#[tokio::test]
async fn what_others_write_into_status_makes_no_event() {
    let mut bench = Bench::prepare().await;
    bench.api.apply_value(crd(Kind::VirtualService)).await;
    bench.api.established().await;
    bench.api.apply(&virtual_service("v", "[a]")).await;
    bench.start(&[Kind::Service, Kind::VirtualService]);
    let mut words = [bench.next().await, bench.next().await, bench.next().await];
    words.sort();
    assert_eq!(words, ["+ VirtualService default/v", "Service synced", "VirtualService synced"]);
    let path = "/apis/networking.istio.io/v1/namespaces/default/virtualservices/v/status";
    let patch = json!({"status": {"conditions": [{"type": "Reconciled"}]}}).to_string();
    let request = http::Request::patch(path)
        .header("content-type", "application/merge-patch+json")
        .body(patch.into_bytes())
        .unwrap();
    bench.api.admin().request::<Value>(request).await.unwrap();
    // Changes of one kind come in order: the next one to be told is the one that matters.
    bench.api.apply(&virtual_service("w", "[a]")).await;
    bench.expect(&["+ VirtualService default/w"]).await;
    bench.stop.cancel();
}

#[tokio::test]
async fn a_watch_that_breaks_goes_on_where_it_was() {
    let mut bench = Bench::prepare().await;
    bench.api.apply(&service("default", "a", 80)).await;
    bench.start(&[Kind::Service]);
    bench.expect(&["+ Service default/a", "Service synced"]).await;
    bench.api.cut("/services");
    bench.api.apply(&service("default", "b", 80)).await;
    bench.api.delete(&service("default", "a", 80)).await;
    bench.expect(&["+ Service default/b", "- Service default/a"]).await;
    let lists = bench
        .api
        .asked()
        .iter()
        .filter(|line| line.contains("/services") && line.contains("sendInitial"))
        .count();
    assert_eq!(lists, 1, "{:#?}", bench.api.asked());
    bench.stop.cancel();
}

/// Everything that says "your version is too old", at the start of a watch and in the middle of it.
async fn after_expiry(in_the_middle: bool) {
    let mut bench = Bench::prepare().await;
    for name in ["stays", "changes", "vanishes"] {
        bench.api.apply(&service("default", name, 80)).await;
    }
    bench.start(&[Kind::Service]);
    let expected = ["changes", "stays", "vanishes"].map(|name| format!("+ Service default/{name}"));
    let mut told = [bench.next().await, bench.next().await, bench.next().await];
    told.sort();
    assert_eq!(told, expected);
    bench.expect(&["Service synced"]).await;
    // Nobody hears what happens now.
    let deaf = Arc::new(AtomicBool::new(true));
    let (silent, expired) = (deaf.clone(), AtomicU32::new(0));
    bench.api.fault(move |_, path| {
        if !path.contains("/services") || !path.contains("resourceVersion=") {
            return None;
        }
        if silent.load(Ordering::SeqCst) {
            return Some(Fault::Refuse);
        }
        (expired.fetch_add(1, Ordering::SeqCst) == 0 && !in_the_middle)
            .then_some(Fault::Status(410, "Expired"))
    });
    bench.api.cut("/services");
    bench.watching("services?watch=true&allowWatchBookmarks=true&timeoutSeconds", 2).await;
    bench.api.delete(&service("default", "vanishes", 80)).await;
    bench.api.apply(&service("default", "changes", 81)).await;
    bench.api.apply(&service("default", "new", 80)).await;
    if in_the_middle {
        // The first thing that the next watch hears is that it is too late.
        bench.api.heal();
        let mut told = Vec::new();
        bench.watching("/services", 3).await;
        bench.api.tell(
            "/services",
            r#"{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}"#,
        );
        for _ in 0..3 {
            told.push(bench.next().await);
        }
        told.sort();
        assert_eq!(
            told,
            ["+ Service default/changes", "+ Service default/new", "- Service default/vanishes"]
        );
        bench.watching("sendInitialEvents", 2).await;
    } else {
        deaf.store(false, Ordering::SeqCst);
        let mut told = [bench.next().await, bench.next().await, bench.next().await];
        told.sort();
        assert_eq!(
            told,
            ["+ Service default/changes", "+ Service default/new", "- Service default/vanishes"]
        );
    }
    bench.nothing_but("marker").await;
    bench.stop.cancel();
}

#[tokio::test]
async fn a_version_that_expired_leads_to_a_list_with_the_difference() {
    after_expiry(false).await;
}

#[tokio::test]
async fn a_watch_that_is_told_of_expiry_lists_again() {
    after_expiry(true).await;
}

#[tokio::test]
async fn an_api_that_is_away_is_waited_for() {
    let mut bench = Bench::prepare().await;
    let away = Arc::new(AtomicBool::new(true));
    let is_away = away.clone();
    bench.api.fault(move |_, path| {
        let concerned = path.contains("/services") || path.contains("/version");
        (concerned && is_away.load(Ordering::SeqCst)).then_some(Fault::Refuse)
    });
    bench.start(&[Kind::Service]);
    eventually(
        "some tries",
        async || {
            if bench.api.asked().len() > 2 { Ok(()) } else { Err(String::new()) }
        },
    )
    .await;
    away.store(false, Ordering::SeqCst);
    bench.expect(&["Service synced"]).await;
    bench.stop.cancel();
}

#[tokio::test]
async fn a_server_that_ends_every_watch_at_once_is_not_asked_without_a_pause() {
    let mut bench = Bench::prepare().await;
    bench.start(&[Kind::Service]);
    bench.expect(&["Service synced"]).await;
    bench.api.fault(|_, path| path.contains("/services").then_some(Fault::Empty));
    let begun = tokio::time::Instant::now();
    bench.api.cut("/services");
    bench.watching("/services", 5).await;
    assert!(
        begun.elapsed() > Duration::from_millis(300),
        "asked again after {:?}",
        begun.elapsed()
    );
    bench.api.heal();
    bench.nothing_but("marker").await;
    bench.stop.cancel();
}

#[tokio::test]
async fn a_server_without_streamed_lists_is_asked_page_by_page() {
    let mut bench = Bench::prepare().await;
    for number in 0..3 {
        bench.api.apply(&service("default", &format!("s{number}"), 80)).await;
    }
    bench.api.fault(|_, path| {
        path.contains("sendInitialEvents").then_some(Fault::Status(422, "Invalid"))
    });
    bench.start(&[Kind::Service]);
    bench.expect(&["+ Service default/s0", "+ Service default/s1", "+ Service default/s2"]).await;
    bench.expect(&["Service synced"]).await;
    bench.api.delete(&service("default", "s1", 80)).await;
    bench.expect(&["- Service default/s1"]).await;
    bench.stop.cancel();
}

#[tokio::test]
async fn a_bad_object_costs_only_itself_and_keeps_its_last_good_state() {
    let mut bench = Bench::prepare().await;
    bench.api.apply_value(crd(Kind::VirtualService)).await;
    bench.api.established().await;
    bench.api.apply(&virtual_service("never-good", "5")).await;
    bench.api.apply(&virtual_service("turns-bad", "[a]")).await;
    bench.start(&[Kind::VirtualService]);
    bench.expect(&["+ VirtualService default/turns-bad", "VirtualService synced"]).await;
    bench.api.apply(&virtual_service("turns-bad", "5")).await;
    // Garbage between the lines does not end the watch either.
    bench.watching("virtualservices", 1).await;
    bench.api.tell("virtualservices", "garbage");
    bench.api.tell("virtualservices", r#"{"type":"ADDED","object":{"metadata":7}}"#);
    bench.api.apply(&virtual_service("after", "[a]")).await;
    bench.expect(&["+ VirtualService default/after"]).await;
    let findings = bench.board.findings().objects;
    let names: Vec<_> = findings.keys().map(|key| key.name.to_string()).collect();
    assert_eq!(names, ["never-good", "turns-bad"]);
    assert!(
        findings.values().all(|all| all.diagnostics[0].field.as_deref() == Some("spec.hosts")),
        "{findings:?}"
    );
    // A list does not take the last good state away, and an end takes away both.
    bench.api.delete(&virtual_service("never-good", "5")).await;
    bench.api.delete(&virtual_service("turns-bad", "5")).await;
    bench.expect(&["- VirtualService default/turns-bad"]).await;
    assert!(bench.board.findings().objects.is_empty());
    bench.stop.cancel();
}

#[tokio::test]
async fn a_crd_may_come_late_and_go_again() {
    let mut bench = Bench::prepare().await;
    bench.start(&[Kind::VirtualService]);
    bench.expect(&["VirtualService synced"]).await;
    bench.api.apply_value(crd(Kind::VirtualService)).await;
    bench.api.established().await;
    bench.api.apply(&virtual_service("v", "[a]")).await;
    bench.expect(&["+ VirtualService default/v"]).await;
    bench.api.delete(&crd(Kind::VirtualService).to_string()).await;
    bench.expect(&["- VirtualService default/v"]).await;
    eventually("the resource is not served any more", async || {
        let api = ::kube::Api::<::kube::api::DynamicObject>::all_with(
            bench.api.admin(),
            &::kube::core::ApiResource::from_gvk(&::kube::core::GroupVersionKind::gvk(
                "networking.istio.io",
                "v1",
                "VirtualService",
            )),
        );
        match api.list(&::kube::api::ListParams::default()).await {
            Err(_) => Ok(()),
            Ok(_) => Err("still served".to_owned()),
        }
    })
    .await;
    bench.api.apply_value(crd(Kind::VirtualService)).await;
    bench.api.established().await;
    bench.api.apply(&virtual_service("w", "[a]")).await;
    bench.expect(&["+ VirtualService default/w"]).await;
    bench.stop.cancel();
}

#[tokio::test]
async fn objects_come_and_go_with_the_selection_of_their_namespaces() {
    let mut bench = Bench::prepare().await;
    for (name, mesh) in [("in", "yes"), ("out", "no")] {
        bench.api.apply(&namespace(name, mesh)).await;
        bench.api.apply(&service(name, "s", 80)).await;
    }
    bench.selectors.send_replace(Arc::new(Selectors::labels(&[("mesh", "yes")])));
    bench.start(&[Kind::Service]);
    bench.expect(&["+ Service in/s", "Service synced"]).await;
    bench.api.apply(&namespace("out", "yes")).await;
    bench.expect(&["+ Service out/s"]).await;
    bench.api.apply(&namespace("in", "no")).await;
    bench.expect(&["- Service in/s"]).await;
    // What happens there meanwhile is not told, but is not forgotten.
    bench.api.apply(&service("in", "t", 80)).await;
    bench.selectors.send_replace(Arc::default());
    let mut told = Vec::new();
    while told.len() < 2 {
        let word = bench.next().await;
        if word != "+ Service default/kubernetes" {
            told.push(word);
        }
    }
    told.sort();
    assert_eq!(told, ["+ Service in/s", "+ Service in/t"]);
    bench.stop.cancel();
}

#[tokio::test]
async fn secrets_are_watched_only_where_somebody_asks() {
    let mut bench = Bench::prepare().await;
    let secret = |namespace: &str, kind: &str| {
        format!(
            "{{apiVersion: v1, kind: Secret, metadata: {{name: {}, namespace: {namespace}}}, type: {kind}}}",
            kind.rsplit('/').next().unwrap().to_lowercase()
        )
    };
    bench.api.apply(&namespace("other", "no")).await;
    bench.api.apply(&secret("default", "Opaque")).await;
    bench.api.apply(&secret("default", "helm.sh/release.v1")).await;
    bench.api.apply(&secret("other", "Opaque")).await;
    bench.secrets.send_replace(Arc::new(BTreeSet::from(["default".to_owned()])));
    bench.start(&[]);
    bench.expect(&["+ Secret default/opaque"]).await;
    bench.secrets.send_replace(Arc::new(BTreeSet::from(["other".to_owned()])));
    let mut told = [bench.next().await, bench.next().await];
    told.sort();
    assert_eq!(told, ["+ Secret other/opaque", "- Secret default/opaque"]);
    bench.stop.cancel();
}

#[tokio::test]
async fn every_kind_is_synced_even_without_any_crd() {
    let mut bench = Bench::prepare().await;
    bench.start(Kind::ALL);
    let mut synced = BTreeMap::new();
    while synced.len() < Kind::ALL.len() {
        let wait = tokio::time::timeout(Duration::from_secs(30), bench.events.recv());
        if let Event::Synced { kind, .. } = wait.await.expect("in time").expect("it runs") {
            *synced.entry(kind).or_insert(0) += 1;
        }
    }
    assert!(synced.values().all(|count| *count == 1), "{synced:?}");
    bench.stop.cancel();
}
