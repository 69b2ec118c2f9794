//! What an expression left: nothing, or a value, and whether Go would know its type.

use crate::value::Value;

/// Go tells a missing key from a key that holds nil: fields of the first are missing too, fields
/// of the second are an error.
#[derive(Clone, Debug)]
pub(super) enum Operand {
    /// No value at all.
    Invalid,
    /// An element of a list or map of anything; `Nil` inside is a nil that was found.
    Held(Value),
    /// A value of known type, never `Nil`.
    Bare(Value),
}

impl From<Value> for Operand {
    fn from(value: Value) -> Self {
        match value {
            Value::Nil => Self::Invalid,
            value => Self::Bare(value),
        }
    }
}

impl Operand {
    pub(super) fn element(value: Value, held: bool) -> Self {
        if held { Self::Held(value) } else { Self::Bare(value) }
    }

    /// What a function gave: a nil counts as found.
    pub(super) fn result(value: Value) -> Self {
        match value {
            Value::Nil => Self::Held(Value::Nil),
            value => Self::Bare(value),
        }
    }

    /// What a pipeline passes on: the value itself, its holder forgotten.
    pub(super) fn opened(self) -> Self {
        match self {
            Self::Held(value) => Self::from(value),
            other => other,
        }
    }

    pub(super) fn value(&self) -> Option<&Value> {
        match self {
            Self::Invalid | Self::Held(Value::Nil) => None,
            Self::Held(value) | Self::Bare(value) => Some(value),
        }
    }

    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Invalid | Self::Held(_) => "interface {}",
            Self::Bare(value) => value.type_name(),
        }
    }
}
