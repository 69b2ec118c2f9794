//! Reads `openAPIV3Schema` of a CRD version into a [`Schema`], or says in which fields it is wrong.

use serde_json::{Map, Value};

use crate::{
    FieldError,
    cel::Rule,
    format::Format,
    node::{Additional, Limits, ListType, Schema, Type},
    pattern::Pattern,
    structural,
};

/// How deep schemas may nest. Real ones stay below 40; readers of JSON stop at 128.
pub(crate) const MAX_DEPTH: usize = 100;
/// How many nodes one schema may have, nested alternatives included.
const MAX_NODES: usize = 100_000;

impl Schema {
    /// Reads and checks the schema of a CRD version. `path` is where it stands in the CRD, as in
    /// `spec.versions[0].schema.openAPIV3Schema`.
    pub fn parse(schema: &Value, path: &str) -> Result<Self, Vec<FieldError>> {
        crate::cel::with_deep_stack(|| Self::parse_here(schema, path))
    }

    fn parse_here(schema: &Value, path: &str) -> Result<Self, Vec<FieldError>> {
        let mut reader = Reader { errors: Vec::new(), nodes: 0 };
        let node = reader.schema(schema, path, 0);
        if reader.errors.is_empty() {
            reader.errors = structural::check(schema, path);
        }
        if reader.errors.is_empty() {
            reader.errors = structural::check_defaults(&node, path);
        }
        if reader.errors.is_empty() { Ok(node) } else { Err(reader.errors) }
    }
}

struct Reader {
    errors: Vec<FieldError>,
    nodes: usize,
}

impl Reader {
    fn schema(&mut self, value: &Value, path: &str, depth: usize) -> Schema {
        self.nodes += 1;
        let Value::Object(map) = value else {
            self.wrong(path, value, "must be an object");
            return Schema::default();
        };
        if depth > MAX_DEPTH || self.nodes > MAX_NODES {
            if self.errors.is_empty() {
                self.errors
                    .push(FieldError::forbidden(path, "the schema is too deep or too large"));
            }
            return Schema::default();
        }
        let mut out = Schema {
            kind: self.kind(map, path),
            nullable: self.flag(map, "nullable", path),
            default: map.get("default").filter(|d| !d.is_null()).cloned(),
            preserve_unknown: self.flag(map, "x-kubernetes-preserve-unknown-fields", path),
            embedded_resource: self.flag(map, "x-kubernetes-embedded-resource", path),
            int_or_string: self.flag(map, "x-kubernetes-int-or-string", path),
            map_atomic: map.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic"),
            list_type: match map.get("x-kubernetes-list-type").and_then(Value::as_str) {
                Some("set") => ListType::Set,
                Some("map") => ListType::Map,
                _ => ListType::Atomic,
            },
            list_map_keys: self.texts(map, "x-kubernetes-list-map-keys", path),
            ..Schema::default()
        };
        if let Some(properties) = map.get("properties") {
            match properties {
                Value::Object(properties) => {
                    for (name, property) in properties {
                        let at = format!("{path}.properties[{name}]");
                        let property = self.schema(property, &at, depth + 1);
                        out.properties.insert(name.clone(), property);
                    }
                }
                other => self.wrong(&format!("{path}.properties"), other, "must be an object"),
            }
        }
        out.items = map
            .get("items")
            .map(|items| Box::new(self.schema(items, &format!("{path}.items"), depth + 1)));
        out.additional = match map.get("additionalProperties") {
            None | Some(Value::Null | Value::Bool(false)) => Additional::Absent,
            Some(Value::Bool(true)) => Additional::Any,
            Some(schema) => Additional::Schema(Box::new(self.schema(
                schema,
                &format!("{path}.additionalProperties"),
                depth + 1,
            ))),
        };
        out.limits = self.limits(map, path, &out, depth);
        out.rules = self.rules(map, path);
        let own = out.rules.iter().map(Rule::depth);
        let members = out.properties.values().map(|p| p.rule_depth);
        let items = out.items.iter().map(|items| items.rule_depth);
        let additional = match &out.additional {
            Additional::Schema(schema) => schema.rule_depth,
            _ => 0,
        };
        out.rule_depth = own.chain(members).chain(items).max().unwrap_or(0).max(additional);
        out
    }

    fn limits(
        &mut self,
        map: &Map<String, Value>,
        path: &str,
        node: &Schema,
        depth: usize,
    ) -> Option<Box<Limits>> {
        let before = self.errors.len();
        let format_name = map
            .get("format")
            .and_then(Value::as_str)
            .filter(|name| Format::is_known(name, node.kind));
        let limits = Limits {
            format_name: format_name.map(str::to_owned),
            format: format_name.and_then(Format::parse),
            pattern: self.pattern(map, path),
            one_of_values: map.get("enum").and_then(Value::as_array).cloned(),
            minimum: self.number(map, "minimum", path),
            maximum: self.number(map, "maximum", path),
            exclusive_minimum: self.flag(map, "exclusiveMinimum", path),
            exclusive_maximum: self.flag(map, "exclusiveMaximum", path),
            multiple_of: self.number(map, "multipleOf", path),
            min_length: self.count(map, "minLength", path),
            max_length: self.count(map, "maxLength", path),
            min_items: self.count(map, "minItems", path),
            max_items: self.count(map, "maxItems", path),
            min_properties: self.count(map, "minProperties", path),
            max_properties: self.count(map, "maxProperties", path),
            unique_items: self.flag(map, "uniqueItems", path),
            required: self.texts(map, "required", path),
            all_of: self.several(map, "allOf", path, depth),
            any_of: self.several(map, "anyOf", path, depth),
            one_of: self.several(map, "oneOf", path, depth),
            not: map
                .get("not")
                .map(|not| Box::new(self.schema(not, &format!("{path}.not"), depth + 1))),
        };
        let present = [
            "format",
            "pattern",
            "enum",
            "minimum",
            "maximum",
            "multipleOf",
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "minProperties",
            "maxProperties",
            "uniqueItems",
            "required",
            "allOf",
            "anyOf",
            "oneOf",
            "not",
        ];
        let any = self.errors.len() != before || present.iter().any(|name| map.contains_key(*name));
        any.then(|| Box::new(limits))
    }

    fn kind(&mut self, map: &Map<String, Value>, path: &str) -> Option<Type> {
        let kind = match map.get("type") {
            None | Some(Value::Null) => return None,
            Some(Value::String(kind)) => kind.as_str(),
            Some(other) => {
                self.wrong(&format!("{path}.type"), other, "must be a string");
                return None;
            }
        };
        Some(match kind {
            "" => return None,
            "object" => Type::Object,
            "array" => Type::Array,
            "string" => Type::String,
            "integer" => Type::Integer,
            "number" => Type::Number,
            "boolean" => Type::Boolean,
            other => {
                let known = ["array", "boolean", "integer", "number", "object", "string"];
                self.errors.push(FieldError::not_supported(format!("{path}.type"), other, &known));
                return None;
            }
        })
    }

    fn pattern(&mut self, map: &Map<String, Value>, path: &str) -> Option<Pattern> {
        let text = map.get("pattern").and_then(Value::as_str).filter(|text| !text.is_empty())?;
        match Pattern::parse(text) {
            Ok(pattern) => Some(pattern),
            Err(error) => {
                let detail = format!("must be a valid regular expression, but isn't: {error}");
                self.errors.push(FieldError::invalid(format!("{path}.pattern"), text, detail));
                None
            }
        }
    }

    fn rules(&mut self, map: &Map<String, Value>, path: &str) -> Vec<Rule> {
        let Some(list) = map.get("x-kubernetes-validations") else { return Vec::new() };
        let Value::Array(list) = list else {
            self.wrong(&format!("{path}.x-kubernetes-validations"), list, "must be a list");
            return Vec::new();
        };
        let mut rules = Vec::new();
        for (at, rule) in list.iter().enumerate() {
            match Rule::parse(rule, &format!("{path}.x-kubernetes-validations[{at}]")) {
                Ok(rule) => rules.push(rule),
                Err(errors) => self.errors.extend(errors),
            }
        }
        rules
    }

    fn several(
        &mut self,
        map: &Map<String, Value>,
        name: &str,
        path: &str,
        depth: usize,
    ) -> Vec<Schema> {
        match map.get(name) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(all)) => all
                .iter()
                .enumerate()
                .map(|(at, schema)| self.schema(schema, &format!("{path}.{name}[{at}]"), depth + 1))
                .collect(),
            Some(other) => {
                self.wrong(&format!("{path}.{name}"), other, "must be a list");
                Vec::new()
            }
        }
    }

    fn flag(&mut self, map: &Map<String, Value>, name: &str, path: &str) -> bool {
        match map.get(name) {
            None | Some(Value::Null) => false,
            Some(Value::Bool(flag)) => *flag,
            Some(other) => {
                self.wrong(&format!("{path}.{name}"), other, "must be a boolean");
                false
            }
        }
    }

    fn number(&mut self, map: &Map<String, Value>, name: &str, path: &str) -> Option<f64> {
        match map.get(name) {
            None | Some(Value::Null) => None,
            Some(Value::Number(number)) => number.as_f64(),
            Some(other) => {
                self.wrong(&format!("{path}.{name}"), other, "must be a number");
                None
            }
        }
    }

    fn count(&mut self, map: &Map<String, Value>, name: &str, path: &str) -> Option<u64> {
        match map.get(name) {
            None | Some(Value::Null) => None,
            Some(value) => {
                let count = value.as_u64();
                if count.is_none() {
                    self.wrong(
                        &format!("{path}.{name}"),
                        value,
                        "must be a whole number that is not negative",
                    );
                }
                count
            }
        }
    }

    fn texts(&mut self, map: &Map<String, Value>, name: &str, path: &str) -> Vec<String> {
        let all = match map.get(name) {
            None | Some(Value::Null) => return Vec::new(),
            Some(Value::Array(all)) => all,
            Some(other) => {
                self.wrong(&format!("{path}.{name}"), other, "must be a list");
                return Vec::new();
            }
        };
        let texts: Vec<String> = all.iter().filter_map(|t| t.as_str().map(str::to_owned)).collect();
        if texts.len() != all.len() {
            self.errors.push(FieldError::invalid(
                format!("{path}.{name}"),
                "",
                "must be a list of strings",
            ));
        }
        texts
    }

    fn wrong(&mut self, path: &str, value: &Value, detail: &str) {
        let shown =
            if value.is_object() || value.is_array() { Value::from("") } else { value.clone() };
        self.errors.push(FieldError::invalid(path, shown, detail));
    }
}
