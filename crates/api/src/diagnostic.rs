//! What is wrong with an object, said once and shown everywhere: webhook, status, analysis, log.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::{Kind, Meta};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Severity {
    Info,
    Warning,
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Info => "Info",
            Self::Warning => "Warning",
            Self::Error => "Error",
        })
    }
}

/// What kind of fault it is; stable, and Istio's own where Istio has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(pub &'static str);

impl Code {
    /// Something went wrong inside of us.
    pub const INTERNAL: Self = Self("IST0001");
    /// Still understood, no longer advised.
    pub const DEPRECATED: Self = Self("IST0002");
    /// Something is referred to that is not there.
    pub const REFERENCED_RESOURCE_NOT_FOUND: Self = Self("IST0101");
    /// The object does not fulfil its schema or makes no sense.
    pub const SCHEMA: Self = Self("IST0106");
    /// A rule that no request can reach.
    pub const UNREACHABLE_RULE: Self = Self("IST0130");
    /// A condition that an earlier one covers.
    pub const INEFFECTIVE_MATCH: Self = Self("IST0131");
    /// The object is legal and does something else than it seems to.
    pub const SCHEMA_WARNING: Self = Self("IST0133");
    /// A patch whose effect depends on the order of objects.
    pub const RELATIVE_OPERATION: Self = Self("IST0151");
    /// REPLACE where it has no effect.
    pub const REPLACE_OPERATION: Self = Self("IST0152");
    /// ADD where it has no effect.
    pub const ADD_OPERATION: Self = Self("IST0153");
    /// REMOVE where it has no effect.
    pub const REMOVE_OPERATION: Self = Self("IST0154");
    /// A field that nobody knows.
    pub const UNKNOWN_FIELD: Self = Self("IRN0001");
    /// A field that is understood and not acted upon yet.
    pub const NOT_SUPPORTED: Self = Self("IRN0002");
    /// Legal and probably not meant.
    pub const DOUBTFUL: Self = Self("IRN0003");
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0)
    }
}

/// One finding about one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Diagnostic {
    pub code: Code,
    pub severity: Severity,
    #[serde(serialize_with = "kind_name")]
    pub kind: Kind,
    /// Empty if the kind has none.
    pub namespace: String,
    pub name: String,
    /// Path of the field: `spec.http[0].timeout`.
    pub field: Option<String>,
    pub message: String,
}

fn kind_name<S: Serializer>(kind: &Kind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.name())
}

impl Diagnostic {
    #[must_use]
    pub fn new(
        code: Code,
        severity: Severity,
        kind: Kind,
        meta: &Meta,
        message: impl Into<String>,
    ) -> Self {
        Self {
            code,
            severity,
            kind,
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            field: None,
            message: message.into(),
        }
    }

    #[must_use]
    pub fn at(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into()).filter(|field| !field.is_empty());
        self
    }

    #[must_use]
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Understood, kept, and without effect so far.
    #[must_use]
    pub fn not_supported(kind: Kind, meta: &Meta, field: impl Into<String>) -> Self {
        Self::new(Code::NOT_SUPPORTED, Severity::Warning, kind, meta, "not supported yet").at(field)
    }
}

impl fmt::Display for Diagnostic {
    /// `Error [IST0106] (VirtualService default/reviews) spec.http[0].timeout: …`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, severity, kind, namespace, name, field, message } = self;
        write!(f, "{severity} [{code}] ({kind} ")?;
        if !namespace.is_empty() {
            write!(f, "{namespace}/")?;
        }
        write!(f, "{name}) ")?;
        if let Some(field) = field {
            write!(f, "{field}: ")?;
        }
        f.write_str(message)
    }
}
