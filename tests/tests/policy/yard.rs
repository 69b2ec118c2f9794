//! A small mesh for tests of policies: a server in every protocol, clients inside and outside of the
//! mesh, and rows of policies with what each client then gets.
//!
//! A row is judged only when the server's proxy has it: with every row an AUDIT policy without effect
//! is written that has a number of its own, and the proxy is asked whether it knows the number.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use ironsail_testkit::{Case, SYSTEM, case_within, eventually, mesh, mesh_on};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, AttachParams, DeleteParams, DynamicObject};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::time::{Duration, Instant};

/// One policy, or several, and what clients get under it.
pub(crate) struct Row {
    /// A policy of this name is written unless `policies` says otherwise.
    pub(crate) name: &'static str,
    pub(crate) policies: String,
    /// Client, what it asks (a line of shell, see `WORDS`), and what it gets.
    pub(crate) asks: &'static [(&'static str, &'static str, &'static str)],
    /// What the server's log says about it, with `NS` for the namespace.
    pub(crate) decided: &'static [&'static str],
}

/// Words that rows ask with: a status, `000` for no answer; `ok` or `reset` for plain connections.
const WORDS: &str = r#"
E=$(type -P echo)
get() { curl -s -o /dev/null -m 10 -w '%{http_code}\n' "$@"; }
tcp() { $E call --timeout 5000 -d hello "tcp://echo:$1/" 2>/dev/null | grep -q '"body":{' && builtin echo ok || builtin echo reset; }
grpc() { $E call --timeout 5000 "grpc://echo:7070/" 2>/dev/null | sed -n 's/^{"status":\([0-9]*\).*/\1/p' | head -n 1; }
told() { curl -s -m 10 "$@"; builtin echo; }
"#;

/// A table of fifty rows on a machine that does much else.
const LONGEST: Duration = Duration::from_secs(900);

/// How long a row may take to become true for a client.
const PATIENCE: Duration = Duration::from_secs(120);

/// Clients: alice and bob in the server's namespace, carol in another one, eve without a sidecar.
const CLIENTS: [(&str, bool, bool); 4] =
    [("alice", true, false), ("bob", true, false), ("carol", true, true), ("eve", false, false)];

/// Plain HTTP connections are not kept, so that no request is judged by an older row.
const ONE_REQUEST: &str = "
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: echo}
spec: {host: echo, trafficPolicy: {connectionPool: {http: {maxRequestsPerConnection: 1}}}}
";

pub(crate) struct Yard<'a> {
    pub(crate) case: &'a Case,
    /// The namespace of those who are not in the server's.
    pub(crate) other: String,
    /// What `@name@` stands for in policies and asks.
    pub(crate) names: RefCell<BTreeMap<&'static str, String>>,
    rows: Cell<u32>,
    written: RefCell<Vec<Value>>,
    /// The pod that serves.
    server: RefCell<String>,
}

/// Runs a test in such a mesh. `mesh` is added to the mesh configuration.
pub(crate) fn yard(name: &str, mesh_config: &str, test: impl AsyncFnOnce(&Yard<'_>)) {
    yard_on(mesh(), name, mesh_config, test);
}

/// The same on a podlet of its own making.
pub(crate) fn yard_with(
    shared: &'static ironsail_testkit::Shared,
    name: &str,
    mesh_config: &str,
    test: impl AsyncFnOnce(&Yard<'_>),
) {
    yard_on(mesh_on(shared), name, mesh_config, test);
}

fn yard_on(
    podlet: &'static ironsail_testkit::Podlet,
    name: &str,
    mesh_config: &str,
    test: impl AsyncFnOnce(&Yard<'_>),
) {
    case_within(LONGEST, podlet, name, async |case| {
        let other = format!("{}-other", case.namespace);
        let yard = Yard {
            case,
            other,
            names: RefCell::default(),
            rows: Cell::new(0),
            written: RefCell::default(),
            server: RefCell::default(),
        };
        yard.set_up(mesh_config).await;
        test(&yard).await;
        yard.nothing_was_refused().await;
        yard.case.kubectl_says(&["delete", "namespace", &yard.other, "--wait=false"]);
    });
}

impl Yard<'_> {
    async fn set_up(&self, mesh_config: &str) {
        self.mesh(mesh_config).await;
        for namespace in [&self.case.namespace, &self.other] {
            let labels = json!({"istio-injection": "enabled"});
            let object = json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": namespace, "labels": labels}});
            self.case.try_apply(object).await.unwrap();
        }
        self.case.sample("echo/echo.yaml").await;
        self.case.apply(ONE_REQUEST).await;
        for (client, inside, elsewhere) in CLIENTS {
            let namespace = if elsewhere { &self.other } else { &self.case.namespace };
            self.case.apply(&format!(
                "{{apiVersion: v1, kind: ServiceAccount, metadata: {{name: {client}, namespace: {namespace}}}}}"
            )).await;
            self.case.apply(&pod(client, namespace, inside)).await;
        }
        self.case.ready("deployment/echo").await;
        let line = ["get", "pods", "-l", "app=echo", "-o", "jsonpath={.items[0].metadata.name}"];
        self.server.replace(self.case.kubectl_says(&line));
        for (client, _, elsewhere) in CLIENTS {
            let namespace = if elsewhere { &self.other } else { &self.case.namespace };
            let pod = format!("pod/{client}");
            let line = ["-n", namespace, "wait", "--for=condition=Ready", &pod, "--timeout=170s"];
            self.case.kubectl_says(&line);
        }
    }

    /// Sets the mesh configuration: what all tests want, and `more`.
    pub(crate) async fn mesh(&self, more: &str) {
        let mut mesh: Value = json!({
            "accessLogFile": "/dev/stdout",
            "rootNamespace": SYSTEM,
            "trustDomain": "cluster.local",
            "defaultConfig": {"discoveryAddress": "istiod.istio-system.svc:15012"},
        });
        let more: Value = ironsail_yaml::parse(&self.named(more)).unwrap_or_default();
        for (key, value) in more.as_object().into_iter().flatten() {
            mesh[key] = value.clone();
        }
        let data = json!({"mesh": mesh.to_string()});
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "istio", "namespace": SYSTEM}, "data": data});
        self.case.try_apply(map).await.unwrap();
    }

    /// `NS` is the namespace of the server, `OTHER` the other one; see also `names`.
    pub(crate) fn named(&self, text: &str) -> String {
        let mut text = word(&word(text, "OTHER", &self.other), "NS", &self.case.namespace);
        for (name, value) in self.names.borrow().iter() {
            text = text.replace(&format!("@{name}@"), value);
        }
        text
    }

    /// Writes the policies of each row, asks, and forgets them again; then looks for what decided.
    pub(crate) async fn rows(&self, rows: &[Row]) {
        let (mut behaviours, mut wrong) = (0, Vec::new());
        for row in rows {
            wrong.extend(self.become_true(row).await);
            behaviours += row.asks.len();
        }
        assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), self.log());
        self.forget().await;
        let mut looks = 0;
        eventually("the log says what decided", async || {
            let log = self.log();
            let is_told =
                |row: &&Row| row.decided.iter().all(|text| log.contains(&self.named(text)));
            let missing: Vec<&Row> = rows.iter().filter(|row| !is_told(row)).collect();
            let Some(row) = missing.first() else { return Ok(()) };
            // The log is written once a second. What is not in it long after was decided by the row
            // before, whose answers were the same: the proxy was still changing over.
            looks += 1;
            if looks % 100 == 0 {
                let _ = self.become_true(row).await;
                self.forget().await;
            }
            Err(format!("{:?} of {:?} not in\n{log}", row.decided, row.name))
        })
        .await;
        println!("{} rows, {behaviours} behaviours", rows.len());
    }

    /// What of a row does not become true.
    async fn become_true(&self, row: &Row) -> Vec<String> {
        self.forget().await;
        self.write(&row.policies).await;
        self.wait_for_mark().await;
        let mut by_client: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
        for (client, ask, wanted) in row.asks {
            by_client.entry(client).or_default().push((ask, wanted));
        }
        let mut wrong = Vec::new();
        for (client, asks) in by_client {
            // The proxy has the row; clients may still be on their way to know of it.
            let end = Instant::now() + PATIENCE;
            while let Err(why) = self.judge(client, &asks).await {
                if Instant::now() > end {
                    wrong.push(format!("row {:?}, {client}: {why}", row.name));
                    break;
                }
            }
        }
        wrong
    }

    async fn judge(&self, client: &str, asks: &[(&str, &str)]) -> Result<(), String> {
        let script: Vec<String> = asks.iter().map(|(ask, _)| self.named(ask)).collect();
        let got = self.run(client, &script.join("\n")).await;
        let got: Vec<&str> = got.lines().collect();
        let wrong: Vec<_> = asks
            .iter()
            .enumerate()
            .filter(|(i, (_, wanted))| got.get(*i) != Some(&self.named(wanted).as_str()))
            .map(|(i, (ask, wanted))| format!("{ask}: {:?}, not {wanted}", got.get(i)))
            .collect();
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
    }

    /// From now on the rows are about the proxy of another pod of the namespace.
    pub(crate) fn watch(&self, pod: &str) {
        self.server.replace(pod.to_owned());
    }

    /// What a script in a client's pod prints.
    pub(crate) async fn run(&self, client: &str, script: &str) -> String {
        let elsewhere = CLIENTS.iter().any(|(name, _, elsewhere)| *name == client && *elsewhere);
        let namespace = if elsewhere { &self.other } else { &self.case.namespace };
        self.script(namespace, client, "main", &format!("{WORDS}\n{script}")).await
    }

    /// What a script beside the server's proxy prints.
    pub(crate) async fn at_proxy(&self, script: &str) -> String {
        let server = self.server.borrow().clone();
        self.script(&self.case.namespace, &server, "istio-proxy", script).await
    }

    async fn script(&self, namespace: &str, pod: &str, container: &str, script: &str) -> String {
        let pods: Api<Pod> = Api::namespaced(self.case.client.clone(), namespace);
        let how = AttachParams::default().container(container).stdout(true).stderr(false);
        let command = ["bash", "-c", script];
        let mut process = match pods.exec(pod, command, &how).await {
            Ok(process) => process,
            Err(error) => return format!("exec: {error}"),
        };
        let mut said = String::new();
        let mut out = process.stdout().unwrap();
        let _ = out.read_to_string(&mut said).await;
        said
    }

    /// Writes objects and remembers them, to be forgotten with the row.
    pub(crate) async fn write(&self, yaml: &str) {
        let yaml = self.named(yaml);
        let documents = ironsail_yaml::documents(&yaml).unwrap();
        for document in documents.into_iter().filter(|document| !document.is_null()) {
            let made = self.case.try_apply(document.clone()).await;
            made.unwrap_or_else(|error| panic!("{error}\n{document}"));
            self.written.borrow_mut().push(document);
        }
    }

    /// Deletes what the row wrote.
    pub(crate) async fn forget(&self) {
        for object in self.written.take() {
            let object: DynamicObject = serde_json::from_value(object).unwrap();
            let gvk = GroupVersionKind::try_from(object.types.as_ref().unwrap()).unwrap();
            let (resource, _) =
                kube::discovery::pinned_kind(&self.case.client, &gvk).await.unwrap();
            let namespace = object.metadata.namespace.as_ref().unwrap_or(&self.case.namespace);
            let api: Api<DynamicObject> =
                Api::namespaced_with(self.case.client.clone(), namespace, &resource);
            let name = object.metadata.name.as_deref().unwrap();
            api.delete(name, &DeleteParams::default()).await.unwrap();
        }
    }

    /// Until the server's proxy has all that was written so far.
    pub(crate) async fn wait_for_mark(&self) {
        let number = 10_000 + self.rows.get();
        self.rows.set(self.rows.get() + 1);
        let mark = format!(
            "{{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, metadata: {{name: mark}}, \
             spec: {{action: AUDIT, rules: [{{to: [{{operation: {{ports: ['{number}']}}}}]}}]}}}}"
        );
        self.case.apply(&mark).await;
        let dump = "curl -s 'localhost:15000/config_dump?resource=dynamic_listeners'";
        let port = format!("\"destination_port\":{number}");
        eventually("the proxy has the policies", async || {
            let said = self.at_proxy(dump).await;
            let dump: Value = serde_json::from_str(&said).map_err(|_| said)?;
            let listeners = dump["configs"].as_array().into_iter().flatten();
            // Not one that is still warming up beside the one that serves.
            let mut active = listeners.map(|listener| listener["active_state"].to_string());
            if active.any(|text| text.contains(&port)) { Ok(()) } else { Err(format!("no {port}")) }
        })
        .await;
    }

    /// The log of the server's proxy.
    pub(crate) fn log(&self) -> String {
        let server = self.server.borrow().clone();
        self.case.kubectl_says(&["logs", &server, "-c", "istio-proxy", "--tail=-1"])
    }

    /// No proxy refused what it was sent.
    async fn nothing_was_refused(&self) {
        let metrics = self.case.page(15014, "/metrics").await.body;
        let counts = metrics.lines().filter(|line| line.starts_with("pilot_total_xds_rejects"));
        let refused: Vec<_> = counts.filter(|line| !line.ends_with(" 0.0")).collect();
        assert!(
            refused.is_empty(),
            "{refused:?}\n{}",
            self.case.page(15014, "/debug/syncz").await.body
        );
    }
}

/// Replaces `name` where it is a word of its own.
fn word(text: &str, name: &str, value: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(name) {
        let before = rest[..at].chars().next_back().or(out.chars().next_back());
        let after = rest[at + name.len()..].chars().next();
        let inside = [before, after].into_iter().flatten().any(|c| c.is_ascii_alphanumeric());
        out.push_str(&rest[..at]);
        out.push_str(if inside { name } else { value });
        rest = &rest[at + name.len()..];
    }
    out + rest
}

fn pod(name: &str, namespace: &str, inside: bool) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: {namespace}, labels: {{app: {name}, sidecar.istio.io/inject: '{inside}'}}}}
spec:
  serviceAccountName: {name}
  terminationGracePeriodSeconds: 0
  containers: [{{name: main, image: echo, command: [sleep, infinity]}}]
"
    )
}

/// An AuthorizationPolicy for the server.
pub(crate) fn policy(name: &str, action: &str, rules: &str) -> String {
    format!(
        "---\n{{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, metadata: {{name: {name}}}, \
         spec: {{action: {action}, selector: {{matchLabels: {{app: echo}}}}, rules: {rules}}}}}\n"
    )
}
