//! The type of a custom resource from its structural schema.

use std::collections::BTreeMap;

use ironsail_schema::{Additional, ListType, Schema, Type};

use super::{
    DEDUCED, Field, Graph, ListKind, ListShape, MapShape, Node, NodeId, Scalar, TypeInfo, UNTYPED,
};

pub(super) fn from_schema(schema: &Schema) -> TypeInfo {
    let mut graph = Graph::new();
    let object_meta = crate::builtin::object_meta_into(&mut graph);
    let root = Builder { graph: &mut graph, object_meta }.object_root(schema);
    TypeInfo { graph: std::sync::Arc::new(graph), root }
}

struct Builder<'a> {
    graph: &'a mut Graph,
    object_meta: NodeId,
}

impl Builder<'_> {
    /// The object itself: its metadata is that of every object, whatever the schema says.
    fn object_root(&mut self, schema: &Schema) -> NodeId {
        let mut node = self.node(schema, false);
        self.add_object_fields(&mut node);
        self.graph.push(node)
    }

    fn add_object_fields(&mut self, node: &mut Node) {
        let text = self.graph.push(Node { scalar: Some(Scalar::Text), ..Node::default() });
        if let Some(map) = &mut node.map {
            map.fields.insert("apiVersion".to_owned(), Field::plain(text));
            map.fields.insert("kind".to_owned(), Field::plain(text));
            map.fields.insert("metadata".to_owned(), Field::plain(self.object_meta));
        }
    }

    /// `open`: unknown fields are kept here because a schema further up says so.
    fn node(&mut self, schema: &Schema, open: bool) -> Node {
        let open = open || schema.preserve_unknown;
        let scalar = |kind| Node { scalar: Some(kind), ..Node::default() };
        let mut node = match schema.kind {
            None => Node {
                scalar: Some(Scalar::Any),
                list: Some(self.list(schema, open)),
                map: Some(self.map(schema, open)),
            },
            Some(Type::Object) => Node { map: Some(self.map(schema, open)), ..Node::default() },
            Some(Type::Array) => Node { list: Some(self.list(schema, open)), ..Node::default() },
            Some(Type::Integer | Type::Number) => scalar(Scalar::Number),
            Some(Type::Boolean) => scalar(Scalar::Bool),
            Some(Type::String) if schema.has_format() => scalar(Scalar::Any),
            Some(Type::String) => scalar(Scalar::Text),
        };
        if schema.embedded_resource {
            self.add_object_fields(&mut node);
        }
        node
    }

    fn child(&mut self, schema: &Schema, open: bool) -> NodeId {
        let node = self.node(schema, open);
        self.graph.push(node)
    }

    fn list(&mut self, schema: &Schema, open: bool) -> ListShape {
        let kind = match schema.list_type {
            ListType::Atomic => ListKind::Atomic,
            ListType::Set => ListKind::Set,
            ListType::Map => ListKind::Map(schema.list_map_keys.clone()),
        };
        let element = match &schema.items {
            Some(items) => self.child(items, open),
            None => UNTYPED,
        };
        ListShape { element, kind }
    }

    fn map(&mut self, schema: &Schema, open: bool) -> MapShape {
        let mut fields = BTreeMap::new();
        for (name, property) in &schema.properties {
            let mut field = Field::plain(self.child(property, open));
            field.default.clone_from(&property.default);
            fields.insert(name.clone(), field);
        }
        let element = match &schema.additional {
            Additional::Absent if open || fields.is_empty() => Some(DEDUCED),
            Additional::Absent => None,
            Additional::Any => Some(DEDUCED),
            Additional::Schema(schema) => Some(self.child(schema, open)),
        };
        MapShape { fields, element, atomic: schema.map_atomic }
    }
}
