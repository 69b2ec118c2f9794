//! From JSON to objects.
//!
//! A broken object costs only itself: it yields an error that names the field, and whatever could be
//! read besides is reported too.

use std::sync::Arc;

use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use crate::kube::{self, FromObject};
use crate::wire::{Problem, Reader, What, Wire};
use crate::{Code, Diagnostic, Kind, Meta, Object, Observed, Resource, Severity};

/// What became of one object.
#[derive(Clone, Debug)]
pub struct Decoded {
    /// The object, or the first thing that makes it unusable.
    pub object: Result<Object, Diagnostic>,
    /// All that is wrong with it, errors and warnings.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads an object by its own `apiVersion` and `kind`; `None` if it is of no kind of ours.
#[must_use]
pub fn decode_any(value: &Value) -> Option<Decoded> {
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
    Some(decode(Kind::find(text("apiVersion"), text("kind"))?, value))
}

/// Reads an object of a known kind; `apiVersion` and `kind` may be missing, as in lists.
#[must_use]
pub fn decode(kind: Kind, value: &Value) -> Decoded {
    macro_rules! by_kind {
        (kube: $($kube:ident)+; istio: $($istio:ident)+) => {
            match kind {
                $( Kind::$kube => core::<kube::$kube>(kind, value), )+
                $( Kind::$istio => {
                    istio(kind, value, |resource| Object::$istio(Arc::new(resource)))
                } )+
            }
        };
    }
    by_kind! {
        kube: Service EndpointSlice Pod Node Namespace Secret ConfigMap ServiceAccount Ingress
            IngressClass;
        istio: TrafficExtension WasmPlugin DestinationRule EnvoyFilter Gateway ProxyConfig
            ServiceEntry Sidecar VirtualService WorkloadEntry WorkloadGroup RateLimitPolicy AuthorizationPolicy
            PeerAuthentication RequestAuthentication Telemetry
    }
}

/// One of Kubernetes' own objects: fields that we do not use are left out in silence.
fn core<S: FromObject>(kind: Kind, value: &Value) -> Decoded
where
    Object: From<Resource<S>>,
{
    let mut reader = Reader::trimming();
    let meta = read_meta(value, &mut reader);
    let spec = S::from_object(value, &mut reader);
    let observed = Observed::default();
    let digest = digest(&meta, &spec, &observed);
    let resource = Resource { meta, spec, observed, digest };
    let problems = reader.into_problems();
    finish(kind, resource.meta.clone(), Object::from(resource), problems)
}

fn istio<S: Wire>(kind: Kind, value: &Value, make: impl FnOnce(Resource<S>) -> Object) -> Decoded {
    let mut reader = Reader::trimming();
    let meta = read_meta(value, &mut reader);
    let mut problems = reader.into_problems();
    let mut reader = Reader::new();
    let spec = match value.get("spec") {
        None | Some(Value::Null) => S::default(),
        Some(spec) => {
            reader.enter_field("spec");
            S::read(spec, &mut reader)
        }
    };
    problems.extend(reader.into_problems());
    let observed = Observed::read(kind, value);
    let digest = digest(&meta, &spec, &observed);
    let object = make(Resource { meta: meta.clone(), spec, observed, digest });
    finish(kind, meta, object, problems)
}

fn read_meta(value: &Value, reader: &mut Reader) -> Meta {
    reader.enter_field("metadata");
    let meta = Meta::read(value.get("metadata").unwrap_or(&Value::Null), reader);
    if meta.name.is_empty() {
        reader.enter_field("name");
        reader.invalid("an object must have a name");
        reader.leave();
    }
    reader.leave();
    meta
}

#[expect(clippy::needless_pass_by_value, reason = "the end of both")]
fn finish(kind: Kind, meta: Meta, object: Object, problems: Vec<Problem>) -> Decoded {
    let diagnose = |problem: &Problem| {
        let (code, severity, message) = match &problem.what {
            What::Unknown => {
                let name = problem.field.rsplit('.').next().unwrap_or_default();
                (Code::UNKNOWN_FIELD, Severity::Warning, format!("unknown field {name:?}"))
            }
            What::Invalid(reason) => (Code::SCHEMA, Severity::Error, reason.clone()),
        };
        Diagnostic::new(code, severity, kind, &meta, message).at(problem.field.clone())
    };
    let diagnostics: Vec<_> = problems.iter().map(diagnose).collect();
    let object = match diagnostics.iter().find(|diagnostic| diagnostic.is_error()) {
        Some(error) => Err(error.clone()),
        None => Ok(object),
    };
    Decoded { object, diagnostics }
}

/// Hash of all that can change what an object means.
fn digest<S: Wire>(meta: &Meta, spec: &S, observed: &Observed) -> u64 {
    let seen = Some(observed).filter(|observed| !observed.is_empty());
    let (name, namespace) = (&meta.name, &meta.namespace);
    let matters = (name, namespace, &meta.labels, &meta.annotations, spec.write(), seen);
    let bytes = serde_json::to_vec(&matters).expect("text keys only, so it can be written");
    xxh3_64(&bytes)
}

#[cfg(test)]
mod tests;
