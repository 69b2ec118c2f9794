//! Values as a template sees them: Go's dynamic types, as far as JSON data and functions need them.
//!
//! JSON comes in by [`Value::from_json`]; maps are shared and can change under a template's `set`,
//! lists never change. A value belongs to one thread: it is built, rendered and dropped there.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::error::Error;
use crate::limit::DEEPEST_VALUE;

/// One value. The names are those of Go's types where there is a choice.
#[derive(Clone, Debug, Default)]
pub enum Value {
    #[default]
    Nil,
    Bool(bool),
    /// Go's `int`: literals, `len`, `int`.
    Int(i64),
    /// Go's `int64`: what sprig's arithmetic gives.
    Int64(i64),
    /// Go's `uint8`: one byte of a string.
    Byte(u8),
    Float(f64),
    Str(Rc<str>),
    List(List),
    Map(Map),
}

/// What a list or map holds, as far as Go's type of it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elem {
    Any,
    Str,
    Int,
}

/// A list; `nil` ones print as empty but are `null` in JSON.
#[derive(Clone, Debug)]
pub struct List {
    items: Rc<Items>,
    elem: Elem,
    nil: bool,
}

/// A map with sorted keys, shared by everybody who holds it.
#[derive(Clone, Debug)]
pub struct Map {
    entries: Rc<Entries>,
    elem: Elem,
}

#[derive(Debug)]
struct Items(Vec<Value>);

#[derive(Debug)]
struct Entries(RefCell<BTreeMap<Rc<str>, Value>>);

/// What type the whole numbers of JSON get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// All numbers are `float64`, as Go decodes JSON and YAML into untyped maps.
    Float,
    /// Whole numbers are `int`, as fields of Go's structs are.
    Int,
}

impl Value {
    pub fn from_json(json: &serde_json::Value, numbers: Numbers) -> Result<Self, Error> {
        Self::read(json, numbers, 0).ok_or(Error::TooDeep(DEEPEST_VALUE))
    }

    fn read(json: &serde_json::Value, numbers: Numbers, depth: usize) -> Option<Self> {
        if depth > DEEPEST_VALUE {
            return None;
        }
        Some(match json {
            serde_json::Value::Null => Self::Nil,
            serde_json::Value::Bool(b) => Self::Bool(*b),
            serde_json::Value::Number(n) => match (numbers, n.as_i64()) {
                (Numbers::Int, Some(whole)) => Self::Int(whole),
                _ => Self::Float(n.as_f64().unwrap_or(f64::NAN)),
            },
            serde_json::Value::String(s) => Self::from(s.as_str()),
            serde_json::Value::Array(items) => {
                let items: Option<Vec<_>> =
                    items.iter().map(|item| Self::read(item, numbers, depth + 1)).collect();
                Self::List(List::new(items?))
            }
            serde_json::Value::Object(fields) => {
                let map = Map::new();
                for (key, field) in fields {
                    map.insert(key, Self::read(field, numbers, depth + 1)?);
                }
                Self::Map(map)
            }
        })
    }

    /// The value as JSON, if it has at most `most` parts: a template may nest a map in itself.
    /// A number that JSON does not have is null.
    pub fn to_json(&self, most: usize) -> Option<serde_json::Value> {
        let mut left = most;
        self.write(&mut left, 0)
    }

    fn write(&self, left: &mut usize, depth: usize) -> Option<serde_json::Value> {
        *left = left.checked_sub(1)?;
        if depth > DEEPEST_VALUE {
            return None;
        }
        Some(match self {
            Self::Nil => serde_json::Value::Null,
            Self::Bool(b) => (*b).into(),
            Self::Int(n) | Self::Int64(n) => (*n).into(),
            Self::Byte(b) => (*b).into(),
            #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and small")]
            Self::Float(f) if f.fract() == 0.0 && f.abs() < 9.0e15 => (*f as i64).into(),
            Self::Float(f) => (*f).into(),
            Self::Str(text) => (&**text).into(),
            Self::List(list) => {
                let items = list.items().iter().map(|item| item.write(left, depth + 1));
                items.collect::<Option<Vec<_>>>()?.into()
            }
            Self::Map(map) => {
                let entries = map.entries();
                let written =
                    entries.iter().map(|(k, v)| Some((k.to_string(), v.write(left, depth + 1)?)));
                serde_json::Value::Object(written.collect::<Option<_>>()?)
            }
        })
    }

    /// A Go `map[string]string`: a missing key is empty text, not nothing.
    pub fn string_map<K: AsRef<str>, V: Into<Rc<str>>>(
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let map = Map { elem: Elem::Str, ..Map::new() };
        for (key, text) in entries {
            map.insert(key.as_ref(), Self::Str(text.into()));
        }
        Self::Map(map)
    }

    pub fn strings<S: Into<Rc<str>>>(items: impl IntoIterator<Item = S>) -> Self {
        let items = items.into_iter().map(|s| Self::Str(s.into())).collect();
        Self::List(List { elem: Elem::Str, ..List::new(items) })
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Str(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_map(&self) -> Option<&Map> {
        match self {
            Self::Map(map) => Some(map),
            _ => None,
        }
    }

    pub fn as_list(&self) -> Option<&List> {
        match self {
            Self::List(list) => Some(list),
            _ => None,
        }
    }

    pub fn is_nil(&self) -> bool {
        matches!(self, Self::Nil)
    }

    /// Go's truth: not the zero value of its type.
    pub fn is_true(&self) -> bool {
        match self {
            Self::Nil => false,
            Self::Bool(b) => *b,
            Self::Int(n) | Self::Int64(n) => *n != 0,
            Self::Byte(n) => *n != 0,
            Self::Float(f) => *f != 0.0,
            Self::Str(s) => !s.is_empty(),
            Self::List(list) => !list.items().is_empty(),
            Self::Map(map) => !map.is_empty(),
        }
    }

    /// Go's name of the type, as `%T` prints it.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Nil => "<nil>",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Int64(_) => "int64",
            Self::Byte(_) => "uint8",
            Self::Float(_) => "float64",
            Self::Str(_) => "string",
            Self::List(list) => match list.elem {
                Elem::Any => "[]interface {}",
                Elem::Str => "[]string",
                Elem::Int => "[]int",
            },
            Self::Map(map) => match map.elem {
                Elem::Any => "map[string]interface {}",
                Elem::Str => "map[string]string",
                Elem::Int => "map[string]int",
            },
        }
    }

    /// Go's name of the kind.
    pub(crate) fn kind_name(&self) -> &'static str {
        match self {
            Self::Nil => "invalid",
            Self::List(_) => "slice",
            Self::Map(_) => "map",
            scalar => scalar.type_name(),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Str(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Str(text.into())
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Self::Bool(b)
    }
}

impl From<Vec<Value>> for Value {
    fn from(items: Vec<Value>) -> Self {
        Self::List(List::new(items))
    }
}

impl From<Map> for Value {
    fn from(map: Map) -> Self {
        Self::Map(map)
    }
}

impl List {
    pub fn new(items: Vec<Value>) -> Self {
        Self { items: Rc::new(Items(items)), elem: Elem::Any, nil: false }
    }

    pub(crate) fn of(elem: Elem, items: Vec<Value>) -> Self {
        Self { elem, ..Self::new(items) }
    }

    pub(crate) fn nil(elem: Elem) -> Self {
        Self { elem, nil: true, ..Self::new(Vec::new()) }
    }

    pub fn items(&self) -> &[Value] {
        &self.items.0
    }

    pub fn elem(&self) -> Elem {
        self.elem
    }

    pub fn is_nil(&self) -> bool {
        self.nil
    }

    /// Tells lists apart, not their contents.
    pub(crate) fn identity(&self) -> usize {
        Rc::as_ptr(&self.items).addr()
    }
}

impl Default for Map {
    fn default() -> Self {
        Self::new()
    }
}

impl Map {
    pub fn new() -> Self {
        Self { entries: Rc::new(Entries(RefCell::default())), elem: Elem::Any }
    }

    pub fn elem(&self) -> Elem {
        self.elem
    }

    pub fn get(&self, key: &str) -> Option<Value> {
        self.entries.0.borrow().get(key).cloned()
    }

    pub fn contains(&self, key: &str) -> bool {
        self.entries.0.borrow().contains_key(key)
    }

    pub fn insert(&self, key: &str, value: Value) {
        let old = self.entries.0.borrow_mut().insert(key.into(), value);
        drop(old);
    }

    pub fn remove(&self, key: &str) {
        let old = self.entries.0.borrow_mut().remove(key);
        drop(old);
    }

    pub fn len(&self) -> usize {
        self.entries.0.borrow().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn keys(&self) -> Vec<Rc<str>> {
        self.entries.0.borrow().keys().cloned().collect()
    }

    /// The entries as they are now, by key; the map may change while they are looked at.
    pub fn entries(&self) -> Vec<(Rc<str>, Value)> {
        self.entries.0.borrow().iter().map(|(k, v)| (k.clone(), v.clone())).collect()
    }

    /// An empty map of the same type.
    pub(crate) fn empty_like(&self) -> Self {
        Self { elem: self.elem, ..Self::new() }
    }

    /// Tells maps apart, not their contents.
    pub(crate) fn identity(&self) -> usize {
        Rc::as_ptr(&self.entries).addr()
    }
}

// Templates can nest values without end (`$x = list $x` in a loop), so dropping must not recurse.
impl Drop for Items {
    fn drop(&mut self) {
        bury(std::mem::take(&mut self.0));
    }
}

impl Drop for Entries {
    fn drop(&mut self) {
        bury(self.0.take().into_values().collect());
    }
}

fn bury(mut waiting: Vec<Value>) {
    while let Some(value) = waiting.pop() {
        match value {
            Value::List(list) => {
                if let Ok(mut items) = Rc::try_unwrap(list.items) {
                    waiting.append(&mut items.0);
                }
            }
            Value::Map(map) => {
                if let Ok(entries) = Rc::try_unwrap(map.entries) {
                    waiting.extend(entries.0.take().into_values());
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_values_are_dropped_without_recursion() {
        let mut value = Value::Nil;
        for _ in 0..200_000 {
            let map = Map::new();
            map.insert("a", value);
            value = Value::from(vec![Value::from(map)]);
        }
        drop(value);
    }

    #[test]
    fn json_deeper_than_the_limit_is_refused() {
        let mut json = serde_json::Value::Null;
        for _ in 0..=DEEPEST_VALUE {
            json = serde_json::json!([json]);
        }
        assert!(Value::from_json(&json, Numbers::Float).is_err());
    }

    #[test]
    fn whole_numbers_are_what_the_caller_says() {
        let json = serde_json::json!(3);
        assert!(matches!(Value::from_json(&json, Numbers::Float), Ok(Value::Float(_))));
        assert!(matches!(Value::from_json(&json, Numbers::Int), Ok(Value::Int(3))));
    }
}
