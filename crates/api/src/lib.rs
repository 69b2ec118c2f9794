//! The objects that a mesh is made of: Istio's, Kubernetes' as far as we use them, and the mesh
//! config; how they are read, what is wrong with them, and the CRDs of Istio's.
//!
//! JSON comes in, typed [`Object`]s and [`Diagnostic`]s go out. Pure: no IO, no clock, no lookups of
//! other objects. One bad object is that object's problem only.

pub mod crd;
mod decode;
mod diagnostic;
pub mod istio;
mod kind;
pub mod kube;
pub mod mesh;
mod meta;
mod object;
mod observed;
pub mod ratelimit;
mod validate;
pub mod wire;

pub use decode::{Decoded, decode, decode_any};
pub use diagnostic::{Code, Diagnostic, Severity};
pub use kind::Kind;
pub use meta::{Meta, OwnerRef};
pub use object::{ClusterId, Event, Object, ObjectKey, Resource};
pub use observed::Observed;
pub use validate::{check_regex, grpc_code, validate};
pub use wire::{Bytes, IntOrString, Struct};
