//! Which patches are about a proxy, and in which order they apply.

use std::sync::Arc;

use ironsail_api::istio::networking::{ApplyTo, EnvoyFilter, ProxyMatch};
use ironsail_api::{Code, Diagnostic, Kind, Resource, Severity};
use ironsail_model::config::Target;
use ironsail_model::{ProxyClass, ProxyKind, Snapshot};
use regex::Regex;

use super::{Context, Patch, Stage};
use crate::Key;

/// A program for a version's pattern may be this large.
const MAX_PROGRAM: usize = 1 << 20;

/// The patches for proxies of one class.
#[derive(Clone, Debug, Default)]
pub struct Patches<'a> {
    pub(super) all: Vec<Patch<'a>>,
}

/// Patches that are tried together.
#[derive(Clone, Debug)]
pub struct Attempt<'a> {
    pub patches: Patches<'a>,
    /// Nothing else is left to try.
    pub is_last: bool,
    out: Vec<&'a Resource<EnvoyFilter>>,
}

impl Attempt<'_> {
    /// What the owners of what is left out are told.
    pub fn told(&self, what: &str, why: &str) -> Vec<Diagnostic> {
        let one = |object: &&Resource<EnvoyFilter>| {
            let text = format!("Envoy refused {what} with its patches, which are left out: {why}");
            let (code, severity) = (Code::SCHEMA, Severity::Error);
            let one = Diagnostic::new(code, severity, Kind::EnvoyFilter, &object.meta, text);
            one.at("spec.configPatches")
        };
        self.out.iter().map(one).collect()
    }
}

impl<'a> Patches<'a> {
    /// By priority, then those of the root namespace, then the oldest first.
    pub fn of(snapshot: &'a Snapshot, class: &ProxyClass) -> Self {
        if class.kind == ProxyKind::GrpcClient {
            return Self::default();
        }
        let root = snapshot.root_namespace();
        let mut objects: Vec<&'a Arc<Resource<EnvoyFilter>>> =
            snapshot.config.envoy_filters.for_workload(root, Target::from(class));
        // The sort is stable, and what is selected comes with the root namespace first.
        objects.sort_by_key(|object| object.spec.priority);
        let mut all = Vec::new();
        for object in objects {
            for (index, patch) in object.spec.config_patches.iter().enumerate() {
                let proxy = patch.r#match.as_ref().and_then(|rule| rule.proxy.as_ref());
                if proxy.is_none_or(|proxy| is_meant(proxy, class)) {
                    all.push(Patch { object, index });
                }
            }
        }
        Self { all }
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether one of them may change resources of this stage.
    pub fn concern(&self, stage: Stage, context: Context) -> bool {
        self.of_stage(stage, context).next().is_some()
    }

    /// The key of a resource with all patches that may change it: equal keys, equal bytes.
    pub fn key(&self, key: u64, stage: Stage, context: Context) -> u64 {
        let patches: Vec<_> = self.of_stage(stage, context).collect();
        if patches.is_empty() {
            return key;
        }
        Key::new("patched").digest(key).each(patches, |key, patch| patch.write(key)).finish()
    }

    /// What is tried if Envoy refused the attempts before: all patches; then all but those of one object,
    /// the last that applies first; then none. The objects that are left out come with it. The last
    /// attempt is the one that must do.
    pub fn attempt(&self, number: usize, stage: Stage, context: Context) -> Attempt<'a> {
        let mut objects: Vec<&'a Resource<EnvoyFilter>> = Vec::new();
        for patch in self.of_stage(stage, context) {
            if !objects.iter().any(|one| std::ptr::eq(*one, patch.object)) {
                objects.push(patch.object);
            }
        }
        let single = objects.len() == 1;
        let last = if objects.is_empty() {
            0
        } else if single {
            1
        } else {
            objects.len() + 1
        };
        let out: Vec<_> = match number {
            0 => Vec::new(),
            _ if number >= last => objects,
            _ => vec![objects[objects.len() - number]],
        };
        let is_out = |one: &Patch<'_>| out.iter().any(|object| std::ptr::eq(*object, one.object));
        let all = self.all.iter().copied().filter(|one| !is_out(one)).collect();
        Attempt { patches: Self { all }, is_last: number >= last, out }
    }

    pub(super) fn of_stage(
        &self,
        stage: Stage,
        context: Context,
    ) -> impl Iterator<Item = Patch<'a>> + use<'_, 'a> {
        let inline = stage == Stage::Listener && context == Context::Inbound;
        let all = self.all.iter().copied().filter(move |patch| patch.is_for(context));
        all.filter(move |patch| {
            let of = stage_of(patch.apply_to());
            // Routes to the workload itself are a part of its listener.
            of == Some(stage) || (inline && of == Some(Stage::Route))
        })
    }

    pub(super) fn to(
        &self,
        target: ApplyTo,
        context: Context,
    ) -> impl Iterator<Item = Patch<'a>> + use<'_, 'a> {
        let all = self.all.iter().copied();
        all.filter(move |patch| patch.apply_to() == target && patch.is_for(context))
    }
}

fn stage_of(target: ApplyTo) -> Option<Stage> {
    Some(match target {
        // The bootstrap is no resource of a running proxy.
        ApplyTo::Invalid | ApplyTo::Bootstrap => return None,
        ApplyTo::Listener
        | ApplyTo::FilterChain
        | ApplyTo::NetworkFilter
        | ApplyTo::HttpFilter
        | ApplyTo::ListenerFilter => Stage::Listener,
        ApplyTo::RouteConfiguration | ApplyTo::VirtualHost | ApplyTo::HttpRoute => Stage::Route,
        ApplyTo::Cluster => Stage::Cluster,
        ApplyTo::ExtensionConfig => Stage::Extension,
    })
}

/// The sides that a kind of proxy has.
pub fn contexts(kind: ProxyKind) -> &'static [Context] {
    match kind {
        ProxyKind::Sidecar => &[Context::Outbound, Context::Inbound],
        ProxyKind::Router => &[Context::Gateway],
        ProxyKind::Waypoint | ProxyKind::Ztunnel | ProxyKind::GrpcClient => &[],
    }
}

fn is_meant(rule: &ProxyMatch, class: &ProxyClass) -> bool {
    let version = || {
        let own = class.metadata.get("ISTIO_VERSION").map_or("", String::as_str);
        let pattern = regex::RegexBuilder::new(&rule.proxy_version).size_limit(MAX_PROGRAM).build();
        pattern.is_ok_and(|pattern: Regex| !own.is_empty() && pattern.is_match(own))
    };
    (rule.proxy_version.is_empty() || version())
        && rule.metadata.iter().all(|(name, value)| class.metadata.get(name) == Some(value))
}
