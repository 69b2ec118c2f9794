//! One step of a path into an object, as `fieldsV1` writes it: `f:name`, `k:{…}`, `v:…`, `i:3`.

use std::{cmp::Ordering, fmt};

use serde_json::{Map, Value};

use crate::typeinfo::{ListKind, ListShape, TypeInfo};

#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A member of a map.
    Field(String),
    /// An item of a list map, by its key fields in the order of their names.
    Key(Vec<(String, Value)>),
    /// An item of a set.
    Item(Value),
    /// An item by its place.
    Index(i64),
}

impl Step {
    pub(crate) fn field(name: &str) -> Self {
        Self::Field(name.to_owned())
    }

    /// Reads a key of `fieldsV1`. `None` for one that is not understood.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        match kind {
            "f" => Some(Self::Field(rest.to_owned())),
            "v" => serde_json::from_str(rest).ok().map(Self::Item),
            "i" => rest.parse().ok().map(Self::Index),
            "k" => {
                let keys: Map<String, Value> = serde_json::from_str(rest).ok()?;
                let mut keys: Vec<_> = keys.into_iter().collect();
                keys.sort_by(|(a, _), (b, _)| a.cmp(b));
                Some(Self::Key(keys))
            }
            _ => None,
        }
    }

    /// The key of `fieldsV1`.
    pub(crate) fn encode(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Item(value) => format!("v:{value}"),
            Self::Index(at) => format!("i:{at}"),
            Self::Key(keys) => {
                let parts: Vec<_> = keys
                    .iter()
                    .map(|(name, value)| format!("{}:{value}", Value::from(name.as_str())))
                    .collect();
                format!("k:{{{}}}", parts.join(","))
            }
        }
    }

    /// The step to an item of a list that is a map or a set.
    pub(crate) fn to_item(ty: &TypeInfo, list: &ListShape, item: &Value) -> Result<Self, String> {
        match &list.kind {
            ListKind::Atomic => Err("invalid indexing of non-associative list".to_owned()),
            ListKind::Set => match item {
                Value::Null => {
                    Err("associative list without keys has an element that's an explicit null"
                        .to_owned())
                }
                Value::Object(_) => {
                    Err("associative list without keys has an element that's a map type".to_owned())
                }
                Value::Array(_) => {
                    Err("not supported: associative list with lists as elements".to_owned())
                }
                scalar => Ok(Self::Item(scalar.clone())),
            },
            ListKind::Map(names) => {
                let Value::Object(item) = item else {
                    return Err(match item {
                        Value::Null => "associative list with keys may not have a null element",
                        _ => "associative list with keys may not have non-map elements",
                    }
                    .to_owned());
                };
                let declared = ty.node(list.element).map.as_ref();
                let default = |name: &str| {
                    declared
                        .and_then(|map| map.fields.get(name))
                        .and_then(|field| field.default.clone())
                };
                let mut keys: Vec<(String, Value)> = names
                    .iter()
                    .filter_map(|name| {
                        let value = item.get(name).cloned().or_else(|| default(name))?;
                        Some((name.clone(), value))
                    })
                    .collect();
                if keys.is_empty() {
                    let names: Vec<_> = names.iter().map(|name| format!("{name:?}")).collect();
                    return Err(format!(
                        "associative list with keys has an element that omits all key fields [{}] \
                         (and doesn't have default values for any key fields)",
                        names.join(" ")
                    ));
                }
                keys.sort_by(|(a, _), (b, _)| a.cmp(b));
                Ok(Self::Key(keys))
            }
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Item(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Item(value) => write!(f, "[={value}]"),
            Self::Index(at) => write!(f, "[{at}]"),
            Self::Key(keys) => {
                let parts: Vec<_> = keys.iter().map(|(k, v)| format!("{k}={v}")).collect();
                write!(f, "[{}]", parts.join(","))
            }
        }
    }
}

impl Ord for Step {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            (Self::Item(a), Self::Item(b)) => compare_values(a, b),
            (Self::Key(a), Self::Key(b)) => {
                for ((name_a, a), (name_b, b)) in a.iter().zip(b) {
                    let order = name_a.cmp(name_b).then_with(|| compare_values(a, b));
                    if order.is_ne() {
                        return order;
                    }
                }
                a.len().cmp(&b.len())
            }
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Step {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Step {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Step {}

/// A total order of JSON values: numbers, texts, bools, then the rest by their JSON.
fn compare_values(a: &Value, b: &Value) -> Ordering {
    let rank = |value: &Value| match value {
        Value::Number(_) => 0u8,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        _ => 3,
    };
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => a.as_f64().unwrap_or(0.0).total_cmp(&b.as_f64().unwrap_or(0.0)),
        },
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        _ => rank(a).cmp(&rank(b)).then_with(|| a.to_string().cmp(&b.to_string())),
    }
}
