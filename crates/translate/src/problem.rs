//! What is wrong with an object, found while routes or listeners are made of it.

use ironsail_api::{Code, Diagnostic, Kind, Meta, Severity};

/// Two objects want the same host, port or server name.
pub(crate) const CONFLICT: Code = Code("IST0109");

/// Collects what is to be told to the owner of one object.
pub(crate) struct Problems<'a> {
    kind: Kind,
    meta: &'a Meta,
    found: &'a mut Vec<Diagnostic>,
}

impl<'a> Problems<'a> {
    pub(crate) fn new(kind: Kind, meta: &'a Meta, found: &'a mut Vec<Diagnostic>) -> Self {
        Self { kind, meta, found }
    }

    /// The part has no effect, in the direction that the message says.
    pub(crate) fn invalid(&mut self, field: &str, message: impl Into<String>) {
        self.add(Code::SCHEMA, Severity::Error, field, message);
    }

    /// It refers to what is not there.
    pub(crate) fn missing(&mut self, field: &str, message: impl Into<String>) {
        self.add(Code::REFERENCED_RESOURCE_NOT_FOUND, Severity::Error, field, message);
    }

    /// Somebody else has what it wants.
    pub(crate) fn conflict(&mut self, field: &str, message: impl Into<String>) {
        self.add(CONFLICT, Severity::Error, field, message);
    }

    /// Understood, but not acted on yet.
    pub(crate) fn unsupported(&mut self, field: &str) {
        self.add(Code::NOT_SUPPORTED, Severity::Warning, field, "not supported yet");
    }

    fn add(&mut self, code: Code, severity: Severity, field: &str, message: impl Into<String>) {
        let found = Diagnostic::new(code, severity, self.kind, self.meta, message).at(field);
        // One object is looked at from many sides; once is enough.
        if !self.found.contains(&found) {
            self.found.push(found);
        }
    }
}
