//! What can go wrong with a template, in the words that users of Go's templates know.
//!
//! [`Error`] leaves the crate; [`Fault`] is what a function says, before its place is known.

/// A template that cannot be read, or cannot be rendered with this data.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("template: {template}:{line}: {problem}")]
    Parse { template: String, line: usize, problem: String },
    #[error("template: {file}:{line}:{column}: executing {template:?} at <{at}>: {problem}")]
    Execute {
        /// The text in which the failing action stands.
        file: String,
        line: usize,
        /// Bytes from the start of the line, counted from 0 as Go does.
        column: usize,
        /// The template that was running: `file`, or one defined in it.
        template: String,
        /// The failing expression.
        at: String,
        problem: String,
        /// A limit was hit; the template may be right for smaller data.
        bounded: bool,
    },
    #[error("template: no template {0:?} is defined")]
    Unknown(String),
    #[error("template: {template} has {size} bytes, more than the {limit} allowed")]
    TooLong { template: String, size: usize, limit: usize },
    #[error("template: the data is nested deeper than {0} levels")]
    TooDeep(usize),
}

impl Error {
    /// Whether a limit was hit rather than a mistake found.
    pub fn is_bounded(&self) -> bool {
        match self {
            Self::Execute { bounded, .. } => *bounded,
            Self::TooLong { .. } | Self::TooDeep(_) => true,
            Self::Parse { .. } | Self::Unknown(_) => false,
        }
    }
}

/// Why a function gives no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The arguments, or what they led to.
    Problem(String),
    /// A limit of the rendering.
    Bound(String),
}

impl Fault {
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Problem(text) | Self::Bound(text) => text,
        }
    }
}

impl From<String> for Fault {
    fn from(problem: String) -> Self {
        Self::Problem(problem)
    }
}

impl From<&str> for Fault {
    fn from(problem: &str) -> Self {
        Self::Problem(problem.to_owned())
    }
}
