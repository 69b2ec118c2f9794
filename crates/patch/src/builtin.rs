//! The types of the built-in kinds, read once from the table `builtin/types.txt`.
//!
//! The table is made by `examples/builtin_types.rs`. Lines are either kinds, `@group/version/Kind
//! type`, or types:
//!
//! ```text
//! type : field=T…     a struct            type ! field=T…    a struct that is replaced as a whole
//! type = T            another name
//!
//! T:  s n b x   text, number, bool, any scalar        ?  any leaf     ~  anything, maps merge
//!     [T]  [T;]  [T;key,key]   list: atomic, set, map by keys
//!     {T}  {T}!                map: by member, atomic
//!     type  type!  type+       a reference; as an atomic struct; as one merged by field
//! after a field's T:  ^JSON  what an empty object has in it; null where nothing is the default
//!                     %m  %m:key  patch strategy merge (by key)
//!                     %r  retainKeys, which only clients care for
//! ```

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, LazyLock},
};

use serde_json::Value;

use crate::typeinfo::{
    DEDUCED, Field, Graph, ListKind, ListShape, MapShape, Node, NodeId, Scalar, Strategy, TypeInfo,
    UNTYPED,
};

const TABLE: &str = include_str!("builtin/types.txt");

struct Builtin {
    graph: Arc<Graph>,
    kinds: HashMap<&'static str, NodeId>,
    object_meta: NodeId,
}

static BUILTIN: LazyLock<Builtin> = LazyLock::new(load);

pub(crate) fn lookup(group: &str, version: &str, kind: &str) -> Option<TypeInfo> {
    let root = *BUILTIN.kinds.get(format!("{group}/{version}/{kind}").as_str())?;
    Some(TypeInfo { graph: BUILTIN.graph.clone(), root })
}

/// Copies the type of `metadata` into another graph, with all it refers to.
pub(crate) fn object_meta_into(graph: &mut Graph) -> NodeId {
    import(&BUILTIN.graph, BUILTIN.object_meta, graph, &mut HashMap::new())
}

fn import(from: &Graph, id: NodeId, to: &mut Graph, done: &mut HashMap<u32, NodeId>) -> NodeId {
    if id == UNTYPED || id == DEDUCED {
        return id;
    }
    if let Some(copy) = done.get(&id.0) {
        return *copy;
    }
    let copy = to.push(Node::default());
    done.insert(id.0, copy);
    let mut node = from.nodes[id.0 as usize].clone();
    if let Some(list) = &mut node.list {
        list.element = import(from, list.element, to, done);
    }
    if let Some(map) = &mut node.map {
        for field in map.fields.values_mut() {
            field.node = import(from, field.node, to, done);
        }
        map.element = map.element.map(|element| import(from, element, to, done));
    }
    to.nodes[copy.0 as usize] = node;
    copy
}

fn load() -> Builtin {
    let mut loader = Loader { graph: Graph::new(), names: HashMap::new() };
    let types: Vec<(&str, &str)> =
        TABLE.lines().filter(|l| !l.starts_with('@')).filter_map(|l| l.split_once(' ')).collect();
    for (name, _) in &types {
        let id = loader.graph.push(Node::default());
        loader.names.insert(name, id);
    }
    for (name, definition) in &types {
        let node = loader.definition(definition);
        let id = loader.names[name];
        loader.graph.nodes[id.0 as usize] = node;
    }
    loader.relate_references();
    let kinds = TABLE
        .lines()
        .filter_map(|line| line.strip_prefix('@')?.split_once(' '))
        .filter_map(|(kind, name)| Some((kind, *loader.names.get(name)?)))
        .collect();
    let object_meta = loader.names["meta.v1.ObjectMeta"];
    Builtin { graph: Arc::new(loader.graph), kinds, object_meta }
}

struct Loader {
    graph: Graph,
    names: HashMap<&'static str, NodeId>,
}

impl Loader {
    fn definition(&mut self, text: &'static str) -> Node {
        if let Some(alias) = text.strip_prefix("= ") {
            let id = self.expression(alias);
            return self.graph.nodes[id.0 as usize].clone();
        }
        let (atomic, fields) = (text.starts_with('!'), text.get(1..).unwrap_or_default());
        let fields = fields.split_ascii_whitespace().filter_map(|f| f.split_once('=')).map(
            |(name, rest)| {
                let (rest, strategy) = rest.split_once('%').unwrap_or((rest, ""));
                let (expression, default) = rest.split_once('^').unwrap_or((rest, ""));
                let (merge, key) = strategy.split_once(':').unwrap_or((strategy, ""));
                let empty: Option<Value> = serde_json::from_str(default).ok();
                let field = Field {
                    node: self.expression(expression),
                    default: empty.clone().filter(|e| !e.is_null() && !e.is_object()),
                    empty,
                    strategy: Strategy {
                        merge: merge.starts_with('m'),
                        key: (!key.is_empty()).then(|| key.to_owned()),
                    },
                };
                (name.to_owned(), field)
            },
        );
        let fields: BTreeMap<_, _> = fields.collect();
        Node { map: Some(MapShape { fields, element: None, atomic }), ..Node::default() }
    }

    fn expression(&mut self, text: &'static str) -> NodeId {
        let scalar = |kind| Node { scalar: Some(kind), ..Node::default() };
        let node = match text {
            "?" => return UNTYPED,
            "~" => return DEDUCED,
            "s" => scalar(Scalar::Text),
            "n" => scalar(Scalar::Number),
            "b" => scalar(Scalar::Bool),
            "x" => scalar(Scalar::Any),
            _ if text.starts_with('[') => self.list(text),
            _ if text.starts_with('{') => {
                let (atomic, inner) = match text.strip_suffix('!') {
                    Some(rest) => (true, rest),
                    None => (false, text),
                };
                let element = Some(self.expression(&inner[1..inner.len() - 1]));
                let map = MapShape { fields: BTreeMap::new(), element, atomic };
                Node { map: Some(map), ..Node::default() }
            }
            _ => return self.reference(text),
        };
        self.graph.push(node)
    }

    fn list(&mut self, text: &'static str) -> Node {
        let inner = &text[1..text.len() - 1];
        // A nested list would carry its own semicolon; the outermost one comes last.
        let (element, kind) = match inner.rsplit_once(';') {
            Some((element, "")) => (element, ListKind::Set),
            Some((element, keys)) if !keys.ends_with(']') => {
                (element, ListKind::Map(keys.split(',').map(str::to_owned).collect()))
            }
            _ => (inner, ListKind::Atomic),
        };
        let element = self.expression(element);
        Node { list: Some(ListShape { element, kind }), ..Node::default() }
    }

    /// A reference that changes how the struct merges is filled in by [`Self::relate_references`],
    /// when all structs are known.
    fn reference(&mut self, text: &'static str) -> NodeId {
        let name = text.trim_end_matches(['!', '+']);
        match self.names.get(text) {
            Some(id) => *id,
            None if name != text => {
                let id = self.graph.push(Node::default());
                self.names.insert(text, id);
                id
            }
            None => DEDUCED,
        }
    }

    fn relate_references(&mut self) {
        let related: Vec<_> =
            self.names.iter().filter(|(name, _)| name.ends_with(['!', '+'])).collect();
        for (text, id) in related {
            let Some(source) = self.names.get(text.trim_end_matches(['!', '+'])) else { continue };
            let mut node = self.graph.nodes[source.0 as usize].clone();
            if let Some(map) = &mut node.map {
                map.atomic = text.ends_with('!');
            }
            self.graph.nodes[id.0 as usize] = node;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The list at a path of field names below a kind.
    fn list(kind: (&str, &str, &str), path: &[&str]) -> ListKind {
        let info = lookup(kind.0, kind.1, kind.2).expect("a built-in kind");
        let mut at = info.node(info.root);
        for name in path {
            let map = at.map.as_ref().expect("a struct");
            at = info.node(map.fields[*name].node);
            if let (Some(list), true) = (&at.list, name != path.last().expect("a path")) {
                at = info.node(list.element);
            }
        }
        at.list.as_ref().expect("a list").kind.clone()
    }

    #[test]
    fn lists_of_pods_and_services_have_their_keys() {
        let keys = |keys: &[&str]| ListKind::Map(keys.iter().map(|k| (*k).to_owned()).collect());
        let pod = ("", "v1", "Pod");
        assert_eq!(list(pod, &["spec", "containers"]), keys(&["name"]));
        assert_eq!(
            list(pod, &["spec", "containers", "ports"]),
            keys(&["containerPort", "protocol"])
        );
        assert_eq!(list(pod, &["spec", "tolerations"]), ListKind::Atomic);
        assert_eq!(list(pod, &["metadata", "finalizers"]), ListKind::Set);
        assert_eq!(list(("", "v1", "Service"), &["spec", "ports"]), keys(&["port", "protocol"]));
    }

    #[test]
    fn every_reference_of_the_table_is_known() {
        let graph = &BUILTIN.graph;
        for (id, node) in graph.nodes.iter().enumerate() {
            assert!(
                node.scalar.is_some() || node.list.is_some() || node.map.is_some(),
                "node {id} has no shape"
            );
        }
        assert!(BUILTIN.kinds.len() > 60);
        assert!(lookup("apps", "v1", "Nothing").is_none());
    }
}
