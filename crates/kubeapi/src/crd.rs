//! Custom resources: CustomResourceDefinitions come in through the API as ordinary objects and
//! become served resources here.
//!
//! [`Keeper`] follows the definitions: it compiles their schemas ([`version`]), settles who gets
//! which names ([`names`]), serves them ([`resource`]) and says so in their status; when one is
//! deleted it deletes its objects first ([`cleanup`]). [`check`] is asked before a definition is
//! stored.

mod check;
mod cleanup;
mod column;
mod jsonpath;
mod keeper;
mod names;
mod openapi;
mod resource;
mod version;

#[cfg(test)]
mod tests;

pub(crate) use check::check;
pub(crate) use keeper::Keeper;

pub(crate) const GROUP: &str = "apiextensions.k8s.io";
pub(crate) const PLURAL: &str = "customresourcedefinitions";
/// Holds a deleted definition until its objects are gone.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
