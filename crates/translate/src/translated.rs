//! What every translator returns: a value, always, and what there is to say about its inputs.

/// A value and the diagnostics that came up on the way. `D` is the diagnostic of the `api` crate.
#[derive(Clone, Debug, PartialEq)]
pub struct Translated<T, D = String> {
    pub value: T,
    pub diagnostics: Vec<D>,
}

impl<T, D> Translated<T, D> {
    pub fn new(value: T) -> Self {
        Self { value, diagnostics: Vec::new() }
    }

    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Translated<U, D> {
        Translated { value: f(self.value), diagnostics: self.diagnostics }
    }
}

impl<T, D> From<T> for Translated<T, D> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}
