//! A set of templates that know each other, and the functions and limits they render with.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::Error;
use crate::exec;
use crate::functions::Functions;
use crate::limit::Limits;
use crate::node::Tree;
use crate::parse;
use crate::value::{Numbers, Value};

/// What a key is that a map does not have: Go's option `missingkey`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingKey {
    /// No value: prints as `<no value>`.
    #[default]
    Default,
    /// The zero value of the map's type.
    Zero,
    /// A mistake.
    Error,
}

/// Templates by name. Cheap to clone, and a clone may parse more without touching the first.
#[derive(Clone)]
pub struct Templates {
    trees: BTreeMap<String, Arc<Tree>>,
    functions: Arc<Functions>,
    limits: Limits,
    missing: MissingKey,
}

impl Templates {
    pub fn new(functions: Functions) -> Self {
        Self {
            trees: BTreeMap::new(),
            functions: Arc::new(functions),
            limits: Limits::default(),
            missing: MissingKey::default(),
        }
    }

    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    #[must_use]
    pub fn with_missing_key(self, missing: MissingKey) -> Self {
        Self { missing, ..self }
    }

    /// Adds the template `name` and those it defines. A later definition replaces an earlier one
    /// unless it is empty.
    pub fn parse(&mut self, name: &str, text: &str) -> Result<(), Error> {
        if text.len() > self.limits.text {
            let (template, limit) = (name.to_owned(), self.limits.text);
            return Err(Error::TooLong { template, size: text.len(), limit });
        }
        let functions = self.functions.clone();
        let trees = parse::parse(name, text, &|function| functions.get(function).is_some())?;
        for (name, tree) in trees {
            if !tree.is_empty() || !self.trees.contains_key(&name) {
                self.trees.insert(name, Arc::new(tree));
            }
        }
        Ok(())
    }

    /// Renders with JSON data whose numbers are floats, as in Go's untyped maps.
    pub fn render(&self, name: &str, data: &serde_json::Value) -> Result<String, Error> {
        self.render_value(name, Value::from_json(data, Numbers::Float)?)
    }

    pub fn render_value(&self, name: &str, data: Value) -> Result<String, Error> {
        let tree = self.trees.get(name).ok_or_else(|| Error::Unknown(name.to_owned()))?;
        exec::render(self, tree, data)
    }

    /// The names of all templates, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.trees.keys().map(String::as_str)
    }

    pub(crate) fn tree(&self, name: &str) -> Option<&Tree> {
        self.trees.get(name).map(Arc::as_ref)
    }

    pub(crate) fn functions(&self) -> &Functions {
        &self.functions
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn missing(&self) -> MissingKey {
        self.missing
    }
}
