//! Why a pod is not injected although it should be, in words for the one who made the pod.

use crate::annotation::BadAnnotation;

/// A refusal, or a mistake in what the injector was given.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the pod is not an object with a spec")]
    NotAPod,
    #[error("{}", listed(.0))]
    Annotations(Vec<BadAnnotation>),
    #[error("annotation proxy.istio.io/overrides is not a list of containers: {0}")]
    Overrides(String),
    #[error("requested template {name:?} not found; have {known}")]
    UnknownTemplate { name: String, known: String },
    #[error("injection template {name:?} cannot be rendered: {cause}")]
    Render { name: String, cause: Box<ironsail_gotemplate::Error> },
    #[error("injection template {name:?} does not render to a part of a pod: {reason}")]
    Rendered { name: String, reason: String },
    #[error("merging injection template {name:?} into the pod: {cause}")]
    Merge { name: String, cause: Box<ironsail_patch::Error> },
    #[error("merging the pod's own container {name:?}: {cause}")]
    Override { name: String, cause: Box<ironsail_patch::Error> },
    #[error("injection template {name:?} cannot be read: {cause}")]
    Template { name: String, cause: Box<ironsail_gotemplate::Error> },
    #[error("the injection configuration: {0}")]
    Config(String),
    #[error("the injection values: {0}")]
    Values(String),
    #[error("the mesh configuration: {0}")]
    Mesh(String),
    #[error("document {index}: {reason}")]
    Document { index: usize, reason: String },
    #[error("{kind} {name:?} has no {path}")]
    NoTemplate { kind: String, name: String, path: &'static str },
}

fn listed(bad: &[BadAnnotation]) -> String {
    bad.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
