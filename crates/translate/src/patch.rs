//! EnvoyFilters: the last stage, on resources that are translated already.
//!
//! In: a resource and the patches that are about its proxy, in Istio's order. Out: the resource with
//! every patch that fits, or nothing where a patch removes it. A patch that cannot be read, that finds
//! nothing to work on in a way that is an error, or that Envoy would refuse, is reported with its object
//! and left out alone; the rest applies. Nothing here makes routes or filters of its own.

mod bootstrap;
mod cluster;
mod extension;
mod list;
mod listener;
mod merge;
mod network;
mod route;
mod rules;
mod select;
mod stock;
mod value;

use ironsail_api::istio::networking::{
    ApplyTo, EnvoyConfigObjectPatch, EnvoyFilter, ObjectMatch, Operation, PatchContext,
};
use ironsail_api::{Diagnostic, Kind, Resource};

use crate::Key;
use crate::problem::Problems;

pub(crate) use network::in_manager;
pub use select::{Attempt, Patches, contexts};
pub use value::check_object;

/// Which side of the mesh a resource is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Context {
    Inbound,
    Outbound,
    Gateway,
}

/// What a patch may change, as far as keys of views are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Listener,
    Route,
    Cluster,
    Extension,
}

/// One patch of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patch<'a> {
    pub(crate) object: &'a Resource<EnvoyFilter>,
    pub(crate) index: usize,
}

impl<'a> Patch<'a> {
    pub(crate) fn spec(&self) -> &'a EnvoyConfigObjectPatch {
        &self.object.spec.config_patches[self.index]
    }

    fn apply_to(&self) -> ApplyTo {
        self.spec().apply_to
    }

    fn operation(&self) -> Operation {
        self.spec().patch.as_ref().map(|patch| patch.operation).unwrap_or_default()
    }

    fn merges(&self) -> bool {
        matches!(self.operation(), Operation::Merge | Operation::MergeAndReplaceList)
    }

    fn object_match(&self) -> Option<&'a ObjectMatch> {
        self.spec().r#match.as_ref().map(|rule| &rule.object)
    }

    fn is_for(&self, context: Context) -> bool {
        match self.spec().r#match.as_ref().map(|rule| rule.context).unwrap_or_default() {
            PatchContext::Any => true,
            PatchContext::SidecarInbound => context == Context::Inbound,
            PatchContext::SidecarOutbound => context == Context::Outbound,
            PatchContext::Gateway => context == Context::Gateway,
            PatchContext::Waypoint => false,
        }
    }

    /// Listeners and clusters that are added without a context are added once, where clients are.
    fn adds_to(&self, context: Context) -> bool {
        let any = self.spec().r#match.as_ref().is_none_or(|rule| rule.context == PatchContext::Any);
        self.operation() == Operation::Add
            && self.is_for(context)
            && !(any && context == Context::Inbound)
    }

    /// Tells the owner that the patch is left out.
    fn refuse(&self, found: &mut Vec<Diagnostic>, why: impl Into<String>) {
        let field = format!("spec.configPatches[{}].patch", self.index);
        let mut problems = Problems::new(Kind::EnvoyFilter, &self.object.meta, found);
        problems.invalid(&field, format!("{}; the patch is left out", why.into()));
    }

    fn write(&self, key: Key) -> Key {
        key.digest(self.object.digest).number(self.index as u64)
    }
}

/// Whether a message keeps the rules that Envoy's API has for it; why not.
pub fn check<M: ironsail_proto::Name>(message: &M) -> Result<(), String> {
    rules::check(&value::dynamic(message)?)
}
