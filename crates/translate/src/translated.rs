//! What every translator returns: a value, always, and what there is to say about its inputs.

use ironsail_api::Diagnostic;

/// A value and the diagnostics that came up on the way.
#[derive(Clone, Debug, PartialEq)]
pub struct Translated<T> {
    pub value: T,
    pub diagnostics: Vec<Diagnostic>,
}

impl<T> Translated<T> {
    pub fn new(value: T) -> Self {
        Self { value, diagnostics: Vec::new() }
    }

    #[must_use]
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Translated<U> {
        Translated { value: f(self.value), diagnostics: self.diagnostics }
    }
}

impl<T> From<T> for Translated<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}
