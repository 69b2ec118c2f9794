//! One folder of `testdata`: objects and a proxy in, resources out.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ironsail_api::mesh::{MeshConfig, MeshNetworks};
use ironsail_api::{ClusterId, Event, decode_any};
use ironsail_model::{Proxy, ProxyClass, Scope, Settings, Snapshot, Store};
use ironsail_proto::envoy::config::core::v3::Node;
use ironsail_proto::from_json;
use ironsail_translate::{cluster, endpoint, grpc, nametable, secret};
use serde_json::{Map, Value, json};

pub(crate) struct Case {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) class: ProxyClass,
    pub(crate) scope: Scope,
    /// What `proxy.yaml` says beside the node.
    settings: Value,
}

/// All folders of `testdata`, by name.
pub(crate) fn folders() -> Vec<PathBuf> {
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let entries = std::fs::read_dir(testdata).unwrap();
    let mut folders: Vec<PathBuf> =
        entries.map(|e| e.unwrap().path()).filter(|p| p.is_dir()).collect();
    folders.sort();
    folders
}

impl Case {
    pub(crate) fn load(folder: &Path) -> Self {
        let read = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap();
        let settings: Value = ironsail_yaml::parse(&read("proxy.yaml")).unwrap();
        let documents = ironsail_yaml::documents(&read("input.yaml")).unwrap();
        let snapshot = snapshot(&documents);
        let node: Node = from_json(&settings["node"]).unwrap();
        let proxy = Proxy::parse(&node, &ClusterId::from("Kubernetes")).unwrap();
        let class = snapshot.class_of(&proxy);
        let scope = Scope::of(&snapshot, &class);
        Self { snapshot, class, scope, settings }
    }

    /// The section names to write down; none: all.
    pub(crate) fn shows(&self, section: &str) -> bool {
        let shown: Vec<&str> = strings(&self.settings["show"]).collect();
        shown.is_empty() || shown.contains(&section)
    }

    /// Whether a resource is among those to write down: by name or prefix; none: all.
    fn takes(&self, name: &str) -> bool {
        let mut only = strings(&self.settings["only"]).peekable();
        only.peek().is_none() || only.any(|prefix| name.starts_with(prefix))
    }

    fn strings(&self, key: &str) -> Vec<&str> {
        strings(&self.settings[key]).collect()
    }

    /// Everything that the case is about, as the expectation has it.
    pub(crate) fn translate(&self) -> Value {
        let mut out = Sections { case: self, map: Map::new(), diagnostics: BTreeSet::new() };
        let (snapshot, scope, class) = (&*self.snapshot, &self.scope, &self.class);
        for view in cluster::views(snapshot, scope, class) {
            out.add("clusters", &view.name(), &cluster::translate(&view));
        }
        for view in endpoint::views(snapshot, scope, class) {
            out.add("endpoints", &view.asked_as(), &endpoint::translate(&view));
        }
        for view in secret::views(snapshot, class, self.strings("secrets"), true) {
            let made = secret::translate(&view);
            out.diagnostics.extend(made.diagnostics.iter().map(ToString::to_string));
            if let Some(value) = made.value {
                out.add("secrets", view.name, &value.into());
            }
        }
        if self.settings["names"] == json!(true) {
            let view = nametable::view(snapshot, scope, class);
            out.add("names", "", &nametable::translate(&view));
        }
        self.grpc(&mut out);
        out.finish()
    }

    fn grpc(&self, out: &mut Sections<'_>) {
        let (snapshot, scope, class) = (&*self.snapshot, &self.scope, &self.class);
        for name in self.strings("listeners") {
            let view = grpc::listener_view(snapshot, scope, class, name);
            let view = view.unwrap_or_else(|| panic!("no listener is called {name}"));
            out.add("listeners", name, &grpc::translate_listener(&view));
        }
        for name in self.strings("routes") {
            let view = grpc::route_view(snapshot, scope, class, name);
            let view = view.unwrap_or_else(|| panic!("no routes are called {name}"));
            out.add("routes", name, &grpc::translate_route(&view));
        }
        for name in self.strings("grpcClusters") {
            let view = grpc::cluster_view(snapshot, scope, class, name);
            let view = view.unwrap_or_else(|| panic!("no cluster is called {name}"));
            out.add("grpcClusters", name, &grpc::translate_cluster(&view));
        }
    }
}

/// A snapshot of the objects. A ConfigMap `istio` in `istio-system` is the mesh configuration.
pub(crate) fn snapshot(documents: &[Value]) -> Arc<Snapshot> {
    let cluster = ClusterId::from("Kubernetes");
    let mut store = Store::new(Settings::default());
    for document in documents {
        if document["kind"] == "ConfigMap" && document["metadata"]["name"] == "istio" {
            let text = |key: &str| document["data"][key].as_str().unwrap_or_default();
            let read = |key: &str| ironsail_yaml::parse(text(key)).unwrap();
            let mesh = MeshConfig::parse(&read("mesh"));
            let networks = MeshNetworks::parse(&read("meshNetworks"));
            assert!(mesh.problems.is_empty() && networks.problems.is_empty());
            store.set_mesh(mesh.value, networks.value);
            continue;
        }
        let decoded = decode_any(document).unwrap_or_else(|| panic!("an object: {document}"));
        let object = decoded.object.unwrap_or_else(|e| panic!("{e}"));
        store.apply(Event::Apply { cluster: cluster.clone(), object });
    }
    store.take().expect("there are objects").snapshot
}

struct Sections<'a> {
    case: &'a Case,
    map: Map<String, Value>,
    diagnostics: BTreeSet<String>,
}

impl Sections<'_> {
    fn add<M: ironsail_proto::Name>(
        &mut self,
        section: &str,
        name: &str,
        made: &ironsail_translate::Translated<M>,
    ) {
        self.diagnostics.extend(made.diagnostics.iter().map(ToString::to_string));
        // Whatever is shown or not: it must be readable as JSON.
        let json = ironsail_proto::to_json(&made.value).unwrap();
        if self.case.shows(section) && self.case.takes(name) {
            let list = self.map.entry(section).or_insert_with(|| json!([]));
            list.as_array_mut().unwrap().push(json);
        }
    }

    fn finish(mut self) -> Value {
        let all: Vec<Value> = self.diagnostics.into_iter().map(Value::String).collect();
        if !all.is_empty() {
            self.map.insert("diagnostics".into(), Value::Array(all));
        }
        Value::Object(self.map)
    }
}

fn strings(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().map_or(&[][..], Vec::as_slice).iter().filter_map(Value::as_str)
}
