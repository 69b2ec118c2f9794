//! Why a patch was refused, with the HTTP status that says so to a client.

/// A refused patch. The texts name what is wrong in words that Kubernetes users know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The patch itself cannot be read.
    #[error("error decoding patch: {0}")]
    Malformed(String),
    #[error("The allowed maximum operations in a JSON patch is {max}, got {0}", max = crate::json::MAX_OPERATIONS)]
    TooManyOperations(usize),
    /// The patch can be read, but not be applied to this object.
    #[error("{0}")]
    DoesNotApply(String),
    /// A strategic merge patch that contradicts itself or the type.
    #[error("{0}")]
    BadStrategicPatch(String),
    /// The outcome would be larger or deeper than an object may be.
    #[error("the patched object would be too large: {0}")]
    TooLarge(&'static str),
    /// Server-side apply: the object does not fit the type.
    #[error("{0}")]
    NotTyped(String),
    /// Server-side apply: the request contradicts itself.
    #[error("{0}")]
    BadApply(String),
}

impl Error {
    /// The HTTP status a server answers with.
    pub fn code(&self) -> u16 {
        match self {
            Self::Malformed(_) | Self::BadStrategicPatch(_) | Self::BadApply(_) => 400,
            Self::TooManyOperations(_) | Self::TooLarge(_) => 413,
            Self::DoesNotApply(_) => 422,
            Self::NotTyped(_) => 500,
        }
    }
}
