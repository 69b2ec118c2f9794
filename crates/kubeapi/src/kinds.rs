//! The built-in kinds: what each is called, what shape it has, what is filled in, refused and shown.
//!
//! In come JSON values of objects; out go the same values decoded, defaulted and prepared, lists of
//! [`FieldError`], and table cells. Everything here is a pure function of its arguments: no store, no
//! clock, no user. What needs those (resource versions, uids, addresses, quotas) is done by the caller.
//!
//! Order of use for a create: `decode`, `default`, the system's own metadata (name, uid), admission,
//! `prepare_create`, `validate_create`; for an update: `decode`, `default`, `prepare_update`,
//! admission, `validate_update`.

use std::borrow::Cow;
use std::sync::LazyLock;
use std::time::SystemTime;

use ironsail_schema::FieldError;
use serde_json::Value;

mod admission;
mod age;
mod apps;
mod at;
mod authentication;
mod authorization;
mod autoscaling;
mod batch;
mod certificates;
mod configuration;
mod coordination;
pub(crate) mod custom;
mod decode;
mod definition;
mod discovery;
mod endpoints;
mod event;
mod limits;
mod meta;
mod name;
mod namespace;
mod networking;
mod node;
mod openapi;
mod parse;
mod pod;
mod policy;
pub mod protobuf;
pub mod quantity;
mod rbac;
mod scheduling;
mod selector;
mod service;
mod table;
mod wire;

pub use age::human_duration;
pub use decode::{DecodeError, Decoded};
pub use name::NameRule;
pub use openapi::openapi;
pub use parse::{Parsed, parse};
pub use table::Column;

/// One built-in kind in one version.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub singular: &'static str,
    pub short_names: &'static [&'static str],
    pub categories: &'static [&'static str],
    pub namespaced: bool,
    /// Names only; [`Kind::subresource`] tells the rest.
    pub subresources: &'static [&'static str],
    /// Of the resource itself. A kind with `create` alone is virtual: asked, answered, never stored.
    pub verbs: &'static [&'static str],
    /// Which names its objects may have.
    pub names: NameRule,
    /// The package of its wire type, as in `core.v1`.
    package: &'static str,
    /// Whether `metadata.generation` is kept.
    generation: Generation,
    behaviour: Behaviour,
}

/// When `metadata.generation` rises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Generation {
    /// Never; it stays unset.
    None,
    /// With every change outside `metadata` and `status`.
    Content,
}

/// What a family knows about a kind; the defaults do nothing.
#[derive(Clone, Copy, Debug)]
struct Behaviour {
    default: fn(&mut Value),
    prepare_create: fn(&mut Value),
    prepare_update: fn(&mut Value, &Value, Option<&str>),
    validate: fn(&Value, &mut Vec<FieldError>),
    validate_update: fn(&Value, &Value, &mut Vec<FieldError>),
    columns: &'static [Column],
    row: fn(&Value, SystemTime) -> Vec<Value>,
    /// Fields for selectors besides `metadata.name` and `metadata.namespace`.
    selectable: &'static [&'static str],
}

const BEHAVIOUR: Behaviour = Behaviour {
    default: |_| {},
    prepare_create: |_| {},
    prepare_update: |_, _, _| {},
    validate: |_, _| {},
    validate_update: |_, _, _| {},
    columns: table::NAME_AGE,
    row: table::name_age,
    selectable: &[],
};

const ALL_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// A stored, namespaced kind; the families override what differs.
const STORED: Kind = Kind {
    group: "",
    version: "v1",
    kind: "",
    plural: "",
    singular: "",
    short_names: &[],
    categories: &[],
    namespaced: true,
    subresources: &[],
    verbs: ALL_VERBS,
    names: NameRule::Subdomain,
    package: "core.v1",
    generation: Generation::None,
    behaviour: BEHAVIOUR,
};

/// A kind that is only ever posted and answered.
const VIRTUAL: Kind = Kind { verbs: &["create"], namespaced: false, ..STORED };

/// Every built-in kind, grouped by API group.
pub fn all() -> &'static [Kind] {
    static ALL: LazyLock<Vec<Kind>> = LazyLock::new(|| {
        [
            namespace::KINDS,
            node::KINDS,
            pod::KINDS,
            service::KINDS,
            endpoints::KINDS,
            configuration::KINDS,
            limits::KINDS,
            event::KINDS,
            apps::KINDS,
            batch::KINDS,
            discovery::KINDS,
            networking::KINDS,
            rbac::KINDS,
            coordination::KINDS,
            admission::KINDS,
            definition::KINDS,
            authentication::KINDS,
            authorization::KINDS,
            autoscaling::KINDS,
            policy::KINDS,
            certificates::KINDS,
            scheduling::KINDS,
        ]
        .concat()
    });
    &ALL
}

/// Kinds without a resource of their own: bodies of subresources and of deletes.
pub fn embedded() -> &'static [Kind] {
    const BODY: Kind = Kind { verbs: &[], ..VIRTUAL };
    static EMBEDDED: &[Kind] = &[
        Kind {
            group: "autoscaling",
            kind: "Scale",
            singular: "scale",
            package: "autoscaling.v1",
            behaviour: autoscaling::SCALE,
            ..BODY
        },
        Kind {
            group: "policy",
            kind: "Eviction",
            singular: "eviction",
            package: "policy.v1",
            ..BODY
        },
        Kind {
            group: "authentication.k8s.io",
            kind: "TokenRequest",
            singular: "tokenrequest",
            package: "authentication.v1",
            behaviour: authentication::TOKEN_REQUEST,
            ..BODY
        },
        Kind { kind: "DeleteOptions", singular: "deleteoptions", package: "meta.v1", ..BODY },
    ];
    EMBEDDED
}

/// The kind named in an object, with or without a resource of its own.
pub fn by_kind(group: &str, version: &str, kind: &str) -> Option<&'static Kind> {
    let is = |k: &&Kind| k.kind == kind && k.group == group && k.version == version;
    all().iter().find(is).or_else(|| embedded().iter().find(is))
}

/// A part of a resource with an address of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subresource {
    /// Of the kind that is sent and answered there; the parent's own for most.
    pub group: Cow<'static, str>,
    pub version: Cow<'static, str>,
    pub kind: Cow<'static, str>,
    pub verbs: &'static [&'static str],
}

impl Kind {
    /// As in `apps/v1`, or `v1` for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Whether objects of this kind are kept.
    pub fn is_stored(&self) -> bool {
        self.verbs.contains(&"get")
    }

    pub fn has_subresource(&self, name: &str) -> bool {
        self.subresources.contains(&name)
    }

    /// What is spoken at a subresource; `None` if this kind does not have it.
    pub fn subresource(&self, name: &str) -> Option<Subresource> {
        const READ_WRITE: &[&str] = &["get", "patch", "update"];
        if !self.has_subresource(name) {
            return None;
        }
        let sub = |group, version, kind, verbs| Subresource {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed(version),
            kind: Cow::Borrowed(kind),
            verbs,
        };
        let own = |verbs| sub(self.group, self.version, self.kind, verbs);
        let other = |group, kind, verbs| sub(group, "v1", kind, verbs);
        Some(match name {
            "scale" => other("autoscaling", "Scale", READ_WRITE),
            "eviction" => other("policy", "Eviction", &["create"]),
            "binding" => other("", "Binding", &["create"]),
            "token" => other("authentication.k8s.io", "TokenRequest", &["create"]),
            "log" => own(&["get"]),
            "finalize" => own(&["update"]),
            "exec" => other("", "PodExecOptions", &["create", "get"]),
            "attach" => other("", "PodAttachOptions", &["create", "get"]),
            "portforward" => other("", "PodPortForwardOptions", &["create", "get"]),
            _ => own(READ_WRITE),
        })
    }

    /// Checks the types, drops what is unknown and writes zeros, quantities and times canonically.
    pub fn decode(&self, value: Value) -> Result<Decoded, DecodeError> {
        decode::decode(self, value)
    }

    /// Fills in what a user may leave out.
    pub fn default(&self, obj: &mut Value) {
        (self.behaviour.default)(obj);
    }

    /// Drops what a create may not set: the status where it is a subresource. Starts the generation.
    pub fn prepare_create(&self, obj: &mut Value) {
        // A node says what it is when it joins, in one go.
        if self.has_subresource("status") && self.kind != "Node" {
            self.reset_status(obj);
        }
        let Some(meta) = obj.get_mut("metadata").and_then(Value::as_object_mut) else { return };
        match self.generation {
            Generation::None => meta.remove("generation"),
            Generation::Content => meta.insert("generation".to_owned(), Value::from(1)),
        };
        (self.behaviour.prepare_create)(obj);
    }

    /// Keeps each endpoint to its part: the main one leaves the status alone, `status` leaves all
    /// else alone. The generation rises when the content changed.
    pub fn prepare_update(&self, new: &mut Value, old: &Value, subresource: Option<&str>) {
        meta::prepare_update(self, new, old, subresource);
        (self.behaviour.prepare_update)(new, old, subresource);
        meta::raise_generation(self.generation == Generation::Content, new, old);
    }

    /// What is wrong with a new object; empty if nothing is.
    pub fn validate_create(&self, obj: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if self.is_stored() {
            meta::validate(self.names, self.namespaced, self.finalizers(), obj, &mut errors);
        }
        (self.behaviour.validate)(obj, &mut errors);
        errors
    }

    /// What is wrong with a changed object, including what may not change.
    pub fn validate_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        meta::validate_update(new, old, self.finalizers(), &mut errors);
        (self.behaviour.validate)(new, &mut errors);
        (self.behaviour.validate_update)(new, old, &mut errors);
        errors
    }

    /// The columns of `kubectl get`; those with priority 1 show with `-o wide`.
    pub fn columns(&self) -> &'static [Column] {
        self.behaviour.columns
    }

    /// One cell per column.
    pub fn cells(&self, obj: &Value, now: SystemTime) -> Vec<Value> {
        (self.behaviour.row)(obj, now)
    }

    /// The value of a field for a field selector; `None` if the field cannot be selected by.
    pub fn field(&self, obj: &Value, path: &str) -> Option<Option<String>> {
        table::field(self, obj, path)
    }

    /// The paths [`Kind::field`] knows.
    pub fn selectable(&self) -> impl Iterator<Item = &'static str> {
        let namespace = self.namespaced.then_some("metadata.namespace");
        ["metadata.name"]
            .into_iter()
            .chain(namespace)
            .chain(self.behaviour.selectable.iter().copied())
    }

    fn finalizers(&self) -> meta::Finalizers {
        match self.group {
            crate::crd::GROUP => meta::Finalizers::Any,
            _ => meta::Finalizers::WithDomain,
        }
    }

    fn reset_status(&self, obj: &mut Value) {
        let empty = decode::empty(self.package, self.kind, "status");
        if let (Some(map), Some(empty)) = (obj.as_object_mut(), empty) {
            map.insert("status".to_owned(), empty);
        }
    }
}

#[cfg(test)]
mod tests;
