//! The CRDs of Istio's kinds, generated from the types.
