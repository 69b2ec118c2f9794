//! What the patch algorithms must know of a type: which lists are sets or maps and by which keys,
//! which maps are atomic, which fields are declared.
//!
//! Types are nodes of a graph (they may refer to themselves). A node lists the shapes a value may
//! take; most have one, untyped ones have all three.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde_json::Value;

mod custom;

/// The type of one kind of object.
#[derive(Clone)]
pub struct TypeInfo {
    pub(crate) graph: Arc<Graph>,
    pub(crate) root: NodeId,
}

impl TypeInfo {
    /// A kind that nothing is known of: maps merge by name, lists are replaced as a whole.
    pub fn untyped() -> Self {
        Self { graph: Arc::new(Graph::new()), root: DEDUCED }
    }

    /// The type of a built-in kind. `None` when the kind is not built in.
    pub fn builtin(group: &str, version: &str, kind: &str) -> Option<Self> {
        crate::builtin::lookup(group, version, kind)
    }

    /// The type of a custom resource, given the schema of one of its versions.
    pub fn from_schema(schema: &ironsail_schema::Schema) -> Self {
        custom::from_schema(schema)
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.graph.nodes[id.0 as usize]
    }
}

impl fmt::Debug for TypeInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TypeInfo(node {} of {})", self.root.0, self.graph.nodes.len())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeId(pub(crate) u32);

/// Anything, as one leaf.
pub(crate) const UNTYPED: NodeId = NodeId(0);
/// Anything: maps merge by name, lists are leaves.
pub(crate) const DEDUCED: NodeId = NodeId(1);

#[derive(Clone, Debug)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
}

impl Graph {
    /// A graph with the two untyped nodes.
    pub(crate) fn new() -> Self {
        let any = |element: NodeId, atomic: bool| Node {
            scalar: Some(Scalar::Any),
            list: Some(ListShape { element: UNTYPED, kind: ListKind::Atomic }),
            map: Some(MapShape { fields: BTreeMap::new(), element: Some(element), atomic }),
        };
        Self { nodes: vec![any(UNTYPED, true), any(DEDUCED, false)] }
    }

    pub(crate) fn push(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        NodeId(u32::try_from(self.nodes.len() - 1).expect("far fewer than 2^32 types"))
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    pub(crate) scalar: Option<Scalar>,
    pub(crate) list: Option<ListShape>,
    pub(crate) map: Option<MapShape>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Number,
    Text,
    Bool,
    Any,
}

#[derive(Clone, Debug)]
pub(crate) struct ListShape {
    pub(crate) element: NodeId,
    pub(crate) kind: ListKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListKind {
    Atomic,
    Set,
    /// Items are told apart by these fields.
    Map(Vec<String>),
}

#[derive(Clone, Debug)]
pub(crate) struct MapShape {
    pub(crate) fields: BTreeMap<String, Field>,
    /// The type of members that are not declared; `None` when there may be none.
    pub(crate) element: Option<NodeId>,
    pub(crate) atomic: bool,
}

impl MapShape {
    /// The type of member `name`.
    pub(crate) fn member(&self, name: &str) -> Option<NodeId> {
        self.fields.get(name).map(|field| field.node).or(self.element)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) node: NodeId,
    /// The value of a key field that an item leaves out.
    pub(crate) default: Option<Value>,
    /// What an object that leaves this field out has there: structs of built-in kinds are never
    /// absent, only empty.
    pub(crate) empty: Option<Value>,
    /// How a strategic merge patch treats a list in this field.
    pub(crate) strategy: Strategy,
}

impl Field {
    pub(crate) fn plain(node: NodeId) -> Self {
        Self { node, default: None, empty: None, strategy: Strategy::default() }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Strategy {
    /// Merge the items (by `key`, or as a set of scalars) instead of replacing the list.
    pub(crate) merge: bool,
    pub(crate) key: Option<String>,
}

impl Node {
    /// The one shape that fits the value, or all shapes where none does (null fits any).
    pub(crate) fn shape_of(&self, value: &Value) -> Shape<'_> {
        let all = || {
            if let Some(map) = &self.map {
                Shape::Map(map)
            } else if self.scalar.is_some() {
                Shape::Scalar
            } else if let Some(list) = &self.list {
                Shape::List(list)
            } else {
                Shape::Scalar
            }
        };
        match value {
            Value::Null => all(),
            Value::Array(_) => self.list.as_ref().map_or_else(all, Shape::List),
            Value::Object(_) => self.map.as_ref().map_or_else(all, Shape::Map),
            _ if self.scalar.is_some() => Shape::Scalar,
            _ => all(),
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Shape<'a> {
    Scalar,
    List(&'a ListShape),
    Map(&'a MapShape),
}

impl Shape<'_> {
    pub(crate) fn same_kind(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}
