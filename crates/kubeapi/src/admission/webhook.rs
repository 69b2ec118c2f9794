//! Admission webhooks: which are asked about a request, in what order, and what their answers and
//! failures mean.
//!
//! Configurations are compiled once per change. Mutating webhooks run one after the other, by the
//! names of their configurations; validating ones run side by side.

use std::sync::Arc;

use futures::future::join_all;
use parking_lot::Mutex;
use serde_json::Value;

use super::{Dial, Request, Settle, Warnings};
use crate::auth::{Objects, Refusal};

mod call;
mod condition;
mod hook;
mod matching;
mod review;
#[cfg(test)]
mod tests;
mod tls;

use hook::Hook;
use matching::View;
use review::Failure;

const GROUP: &str = "admissionregistration.k8s.io";
const MUTATING: &str = "mutatingwebhookconfigurations";
const VALIDATING: &str = "validatingwebhookconfigurations";

/// All hooks of one resource at one state of the store.
type Compiled = Option<(u64, Arc<[Arc<Hook>]>)>;

pub(super) struct Webhooks {
    objects: Arc<dyn Objects>,
    caller: call::Caller,
    mutating: Mutex<Compiled>,
    validating: Mutex<Compiled>,
}

/// What the mutating webhooks did so far for one request.
#[derive(Default)]
pub(super) struct Round {
    /// Some webhook changed the object.
    pub(super) changed: bool,
    pub(super) warnings: Warnings,
    /// Hooks with `reinvocationPolicy: IfNeeded` that were called.
    called: Vec<Arc<Hook>>,
    /// Those of them after which the object was changed by others.
    needed: Vec<Arc<Hook>>,
    again: bool,
}

impl Round {
    /// The second round, in which only hooks are called that saw the object before others
    /// changed it: all of them where a built-in rule did.
    pub(super) fn begin_again(&mut self, built_in_changed: bool) {
        self.again = true;
        if built_in_changed {
            self.needed.clone_from(&self.called);
        }
    }

    fn skips(&self, hook: &Arc<Hook>) -> bool {
        self.again && !self.needed.iter().any(|n| Arc::ptr_eq(n, hook))
    }

    fn note(&mut self, hook: &Arc<Hook>, changed: bool) {
        if self.again {
            return;
        }
        if changed {
            self.changed = true;
            self.needed.clone_from(&self.called);
        }
        if hook.reinvoke {
            self.called.push(Arc::clone(hook));
        }
    }
}

impl Webhooks {
    pub(super) fn new(objects: Arc<dyn Objects>, dial: Arc<dyn Dial>) -> Self {
        Self {
            caller: call::Caller::new(Arc::clone(&objects), dial),
            objects,
            mutating: Mutex::new(None),
            validating: Mutex::new(None),
        }
    }

    pub(super) async fn mutate(
        &self,
        request: &mut Request,
        settle: Settle<'_>,
        round: &mut Round,
    ) -> Result<(), Refusal> {
        if is_exempt(request) {
            return Ok(());
        }
        let hooks = self.hooks(MUTATING, &self.mutating);
        for hook in hooks.iter().filter(|hook| !round.skips(hook)).cloned().collect::<Vec<_>>() {
            let Some(view) = matching::view(&hook, request, &*self.objects)? else { continue };
            let verdict = match self.ask(&hook, request, &view).await {
                Ok(verdict) => verdict,
                Err(refusal) => refusal.map_or(Ok(review::Verdict::default()), Err)?,
            };
            round.warnings.extend(verdict.warnings);
            let changed = match verdict.patch {
                Some(patch) => apply(&hook, request, &view, &patch, settle)?,
                None => false,
            };
            round.note(&hook, changed);
        }
        Ok(())
    }

    pub(super) async fn validate(&self, request: &Request) -> Result<Warnings, Refusal> {
        if is_exempt(request) {
            return Ok(Warnings::new());
        }
        let mut wanted = Vec::new();
        for hook in self.hooks(VALIDATING, &self.validating).iter() {
            if let Some(view) = matching::view(hook, request, &*self.objects)? {
                wanted.push((Arc::clone(hook), view));
            }
        }
        let calls = wanted.iter().map(|(hook, view)| self.ask(hook, request, view));
        let mut warnings = Warnings::new();
        let mut first_refusal = None;
        for answer in join_all(calls).await {
            match answer {
                Ok(verdict) => warnings.extend(verdict.warnings),
                Err(Some(refusal)) => {
                    first_refusal.get_or_insert(refusal);
                }
                Err(None) => {}
            }
        }
        first_refusal.map_or(Ok(warnings), Err)
    }

    /// The verdict of one webhook; `Err(None)` where it failed and its failure is to be ignored.
    async fn ask(
        &self,
        hook: &Hook,
        request: &Request,
        view: &View,
    ) -> Result<review::Verdict, Option<Refusal>> {
        if request.dry_run && !hook.allows_dry_run {
            let name = &hook.name;
            let text = format!("admission webhook {name:?} does not support dry run");
            return Err(Some(Refusal::bad_request(text)));
        }
        let asked = review::request(request, view);
        let answer = self.caller.post(hook, &asked.body).await;
        match answer.and_then(|body| review::verdict(hook, &asked.uid, &body)) {
            Ok(verdict) => Ok(verdict),
            Err(Failure::Denied(refusal)) => Err(Some(refusal)),
            Err(Failure::Call(why)) if hook.fail => Err(Some(Refusal::internal(format!(
                "failed calling webhook {:?}: {why}",
                hook.name
            )))),
            Err(Failure::Call(why)) => {
                tracing::warn!(webhook = hook.name, %why, "failed calling webhook; ignored");
                Err(None)
            }
        }
    }

    fn hooks(&self, resource: &str, compiled: &Mutex<Compiled>) -> Arc<[Arc<Hook>]> {
        let version = self.objects.version(GROUP, resource);
        if let Some((known, hooks)) = compiled.lock().as_ref()
            && *known == version
        {
            return Arc::clone(hooks);
        }
        let mut configurations = self.objects.list(GROUP, resource, None);
        configurations
            .sort_by(|a, b| a["metadata"]["name"].as_str().cmp(&b["metadata"]["name"].as_str()));
        let hooks: Arc<[_]> = configurations
            .iter()
            .flat_map(|c| c["webhooks"].as_array().into_iter().flatten())
            .map(|hook| Arc::new(Hook::parse(hook)))
            .collect();
        *compiled.lock() = Some((version, Arc::clone(&hooks)));
        hooks
    }
}

/// Webhooks have no say about webhooks, else nobody could remove a broken one.
fn is_exempt(request: &Request) -> bool {
    request.group == GROUP
        && [
            MUTATING,
            VALIDATING,
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
        ]
        .contains(&request.resource.as_str())
}

/// Applies a webhook's patch to the object in the version that the webhook saw; tells whether the
/// object is another one now.
fn apply(
    hook: &Hook,
    request: &mut Request,
    view: &View,
    patch: &json_patch::Patch,
    settle: Settle<'_>,
) -> Result<bool, Refusal> {
    let Some(before) = &request.object else {
        let text =
            format!("webhook {:?} sent a patch for an object that is being deleted", hook.name);
        return Err(Refusal::internal(text));
    };
    let mut after = view.convert(before);
    json_patch::patch(&mut after, patch).map_err(|e| {
        Refusal::internal(format!("webhook {:?}: applying its patch: {e}", hook.name))
    })?;
    if !after.is_object() {
        let text = format!("webhook {:?}: its patch leaves no object", hook.name);
        return Err(Refusal::internal(text));
    }
    if after["apiVersion"] == Value::String(view.api_version.clone()) {
        after["apiVersion"] = before["apiVersion"].clone();
    }
    if after == *before {
        return Ok(false);
    }
    settle(&mut after)?;
    let changed = after != *before;
    request.object = Some(after);
    Ok(changed)
}
