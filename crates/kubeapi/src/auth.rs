//! Who is asking, and may they: certificates and tokens become a [`User`], RBAC objects become
//! yes or no.
//!
//! Everything here reads objects through [`Objects`] and writes none; answers of refusal are
//! [`Refusal`]s, which the HTTP side turns into a `Status`.

pub mod authenticate;
pub mod builtin;
mod file;
pub mod objects;
pub mod pki;
pub mod rbac;
pub mod refusal;
pub mod review;
pub(crate) mod selector;
pub mod token;
pub mod user;

pub use authenticate::{Authenticator, Peer};
pub use objects::Objects;
pub use rbac::{Access, Authorizer, Target};
pub use refusal::Refusal;
pub use user::User;
