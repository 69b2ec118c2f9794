//! Where a check stands in an object, and what it found.

use crate::{Code, Diagnostic, Kind, Meta, Severity};

/// More than this is not reported of one object.
const MOST: usize = 128;

pub(super) struct Check<'a> {
    kind: Kind,
    meta: &'a Meta,
    path: String,
    found: Vec<Diagnostic>,
}

impl<'a> Check<'a> {
    pub(super) fn new(kind: Kind, meta: &'a Meta) -> Self {
        Self { kind, meta, path: String::new(), found: Vec::new() }
    }

    pub(super) fn meta(&self) -> &'a Meta {
        self.meta
    }

    pub(super) fn into_diagnostics(self) -> Vec<Diagnostic> {
        self.found
    }

    /// Does `inner` with the path led on to `field`.
    pub(super) fn within<R>(&mut self, field: &str, inner: impl FnOnce(&mut Self) -> R) -> R {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(field);
        let result = inner(self);
        self.path.truncate(length);
        result
    }

    /// Does `inner` for every item of a list.
    pub(super) fn each<T>(
        &mut self,
        field: &str,
        items: &[T],
        mut inner: impl FnMut(&mut Self, &T),
    ) {
        for (index, item) in items.iter().enumerate() {
            self.within(&format!("{field}[{index}]"), |check| inner(check, item));
        }
    }

    /// Does `inner` if the field is set.
    pub(super) fn some<T>(
        &mut self,
        field: &str,
        value: Option<&T>,
        inner: impl FnOnce(&mut Self, &T),
    ) {
        if let Some(value) = value {
            self.within(field, |check| inner(check, value));
        }
    }

    pub(super) fn error(&mut self, message: impl Into<String>) {
        self.push(Code::SCHEMA, Severity::Error, message.into());
    }

    pub(super) fn warn(&mut self, message: impl Into<String>) {
        self.push(Code::SCHEMA_WARNING, Severity::Warning, message.into());
    }

    pub(super) fn deprecated(&mut self, message: impl Into<String>) {
        self.push(Code::DEPRECATED, Severity::Warning, message.into());
    }

    pub(super) fn found(&mut self, code: Code, severity: Severity, message: impl Into<String>) {
        self.push(code, severity, message.into());
    }

    /// An error unless `good`.
    pub(super) fn require<M: Into<String>>(&mut self, good: bool, message: impl FnOnce() -> M) {
        if !good {
            self.error(message());
        }
    }

    /// An error if `result` is one.
    pub(super) fn take(&mut self, result: Result<(), String>) {
        if let Err(message) = result {
            self.error(message);
        }
    }

    /// An error at `field` if `result` is one.
    pub(super) fn take_at(&mut self, field: &str, result: Result<(), String>) {
        if result.is_err() {
            self.within(field, |check| check.take(result));
        }
    }

    fn push(&mut self, code: Code, severity: Severity, message: String) {
        if self.found.len() < MOST {
            let found = Diagnostic::new(code, severity, self.kind, self.meta, message);
            self.found.push(found.at(self.path.clone()));
        }
    }
}
