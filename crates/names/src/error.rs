//! What is wrong with a name.

/// A text that is not the name it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {what}: {why}")]
pub struct Error {
    /// What it should have been, with its article.
    pub what: &'static str,
    pub text: String,
    pub why: &'static str,
}

impl Error {
    pub(crate) fn new(what: &'static str, text: &str, why: &'static str) -> Self {
        // Enough to recognise it, not enough to fill a log.
        let text = text.chars().take(300).collect();
        Self { what, text, why }
    }
}
