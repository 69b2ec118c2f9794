//! Behaviours as tables: rules are applied, requests are sent, the answers are as wanted.
//!
//! In: YAML, and requests with what must be true of their answers. Out: a panic that names the
//! behaviour, the request and what came back. A VirtualService gets one more route that only answers
//! with a number, so that it is known when the proxies have it: no behaviour is tested with the rules
//! of the one before it.

mod ask;

use std::cell::{Cell, RefCell};

use kube::api::{Api, DeleteParams, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

pub use ask::{Ask, ask};

use crate::case::Case;
use crate::traffic::Answer;
use crate::wait::eventually;

/// An object that a behaviour made: kind, namespace, name.
type Made = (GroupVersionKind, String, String);

/// One client and the behaviours that it has seen.
pub struct Traffic<'a> {
    case: &'a Case,
    /// The pod that asks, by `echo call` in its container `main`.
    from: String,
    made: RefCell<Vec<Made>>,
    count: Cell<u32>,
}

impl<'a> Traffic<'a> {
    pub fn new(case: &'a Case, from: &str) -> Self {
        Self { case, from: from.to_owned(), made: RefCell::default(), count: Cell::new(0) }
    }

    /// Brings `rules` into effect in place of those before, and asks until all is as wanted.
    pub async fn behaves(&self, name: &str, rules: &str, asks: Vec<Ask>) {
        let start = tokio::time::Instant::now();
        let marked = self.put(rules).await;
        self.seen(name, marked, &asks).await;
        eventually(name, async || {
            for ask in &asks {
                self.ask(ask).await?;
            }
            Ok(())
        })
        .await;
        println!("{name}: {} ms", start.elapsed().as_millis());
    }

    /// Like `behaves`, with the rules that are there.
    pub async fn still(&self, name: &str, asks: Vec<Ask>) {
        eventually(name, async || {
            for ask in &asks {
                self.ask(ask).await?;
            }
            Ok(())
        })
        .await;
    }

    /// The answers to one request, whatever they are.
    pub async fn answers(&self, ask: &Ask) -> Vec<Answer> {
        let from = ask.from.as_deref().unwrap_or(&self.from);
        let mut command = vec!["echo", "call", ask.url.as_str()];
        command.extend(ask.args.iter().map(String::as_str));
        let count = ask.count.to_string();
        command.extend(["-n", &count]);
        let run = self.case.exec_in(from, "main", &command).await;
        let parse = |line: &str| {
            serde_json::from_str(line)
                .unwrap_or_else(|e| panic!("echo call printed {line:?} ({e}); {}", run.stderr))
        };
        let answers: Vec<Answer> = run.stdout.lines().map(parse).collect();
        assert!(!answers.is_empty(), "echo call {command:?} printed nothing: {}", run.stderr);
        answers
    }

    /// How the requests of `echo load` ended.
    pub async fn load(&self, args: &[&str]) -> Value {
        let command = [&["echo", "load"], args].concat();
        let run = self.case.exec_in(&self.from, "main", &command).await;
        serde_json::from_str(&run.stdout).unwrap_or_else(|e| panic!("no summary ({e}): {run:?}"))
    }

    async fn ask(&self, ask: &Ask) -> Result<(), String> {
        let answers = self.answers(ask).await;
        ask.judge(&answers).map_err(|why| {
            let first = answers.first().expect("one answer at least");
            format!("{} {:?}: {why}; {} answers, as {first:?}", ask.url, ask.args, answers.len())
        })
    }

    /// Applies the documents, removes what the behaviour before made; the number that the first
    /// VirtualService answers with.
    async fn put(&self, rules: &str) -> Option<u32> {
        let number = self.count.get() + 1;
        self.count.set(number);
        let mut marked = None;
        let mut made = Vec::new();
        for mut object in ironsail_yaml::documents(rules).expect("the behaviour's YAML") {
            if marked.is_none() && mark(&mut object, number) {
                marked = Some(number);
            }
            made.push(self.identity(&object));
            let applied = self.case.try_apply(object).await;
            applied.unwrap_or_else(|e| panic!("the behaviour's YAML is refused: {e}\n{rules}"));
        }
        let before = self.made.replace(made.clone());
        for old in before.into_iter().filter(|old| !made.contains(old)) {
            self.delete(&old).await;
        }
        marked
    }

    fn identity(&self, object: &Value) -> Made {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let (group, version) = version.rsplit_once('/').unwrap_or(("", &version));
        let metadata = &object["metadata"];
        let namespace = metadata["namespace"].as_str().unwrap_or(&self.case.namespace).to_owned();
        (GroupVersionKind::gvk(group, version, &kind), namespace, text(&metadata["name"]))
    }

    async fn delete(&self, (kind, namespace, name): &Made) {
        let resource = ApiResource::from_gvk(kind);
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.case.client.clone(), namespace, &resource);
        // It may be gone already, by the test's own doing.
        let _ = api.delete(name, &DeleteParams::default()).await;
    }

    /// Waits until the proxy of the first asker has the marked VirtualService.
    async fn seen(&self, name: &str, marked: Option<u32>, asks: &[Ask]) {
        let first = asks.iter().find(|ask| ask.is_http() && !ask.unmarked);
        let (Some(number), Some(first)) = (marked, first) else { return };
        let probe = first.probe(&path(number));
        eventually(&format!("{name}: its rules reach the proxy"), async || {
            let answers = self.answers(&probe).await;
            match &answers[0].body {
                Value::Number(n) if n.as_u64() == Some(number.into()) => Ok(()),
                _ => Err(format!("{:?}", answers[0])),
            }
        })
        .await;
    }

    /// Removes all rules, and makes sure that no proxy of the mesh ever refused anything.
    pub async fn done(&self) {
        for old in self.made.take() {
            self.delete(&old).await;
        }
        self.case.nothing_was_refused().await;
    }
}

fn path(number: u32) -> String {
    format!("/-/rules/{number}")
}

/// Adds the route that says which rules these are; false if the object has no place for it.
fn mark(object: &mut Value, number: u32) -> bool {
    let hosts = object["spec"]["hosts"].as_array().is_some_and(|hosts| !hosts.is_empty());
    if object["kind"] != "VirtualService" || !hosts {
        return false;
    }
    let Some(routes) = object["spec"]["http"].as_array_mut() else { return false };
    let body = json!({"string": number.to_string()});
    routes.insert(
        0,
        json!({"match": [{"uri": {"exact": path(number)}}],
            "directResponse": {"status": 200, "body": body}}),
    );
    true
}

impl Case {
    /// Whether proxies took all that they were sent, since the control plane runs.
    pub async fn nothing_was_refused(&self) {
        let metrics = self.page(15014, "/metrics").await.body;
        let counts = metrics.lines().filter(|line| line.starts_with("pilot_total_xds_rejects"));
        let none = |line: &&str| line.ends_with(" 0") || line.ends_with(" 0.0");
        let bad: Vec<&str> = counts.filter(|line| !none(line)).collect();
        if !bad.is_empty() {
            let status = self.page(15014, "/debug/syncz").await.body;
            let notes = self.page(15014, "/debug/push_status").await.body;
            panic!("a proxy refused what it was sent: {bad:?}\n{status}\n{notes}");
        }
    }
}
