//! Subresources that are more than a part of their object: scale, binding, eviction, tokens, the end
//! of a namespace, and the streams of running pods.

pub(crate) mod namespace;
pub(crate) mod pod;
pub(crate) mod scale;
pub(crate) mod session;
pub(crate) mod stream;
