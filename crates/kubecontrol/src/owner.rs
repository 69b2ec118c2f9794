//! Who controls an object: reading and writing controller references, and claiming objects that a
//! selector matches. [`claim`] decides and is pure, [`settle`] carries it out.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use kube::{Api, Resource};
use serde_json::json;

use crate::cache::{Cache, Object};
use crate::error::ActionError;
use crate::key::Key;
use crate::selector;
use crate::store::{is_deleted, name};

/// The reference of the controlling owner, if there is one.
pub(crate) fn controller(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.as_ref()?.iter().find(|o| o.controller == Some(true))
}

/// The key of the controller if it is of kind `K`.
pub(crate) fn controller_key<K: Resource<DynamicType = ()>>(meta: &ObjectMeta) -> Option<Key> {
    let owner = controller(meta)?;
    let group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group);
    (owner.kind == K::kind(&()) && group == K::group(&()))
        .then(|| Key::new(meta.namespace.as_deref().unwrap_or(""), &owner.name))
}

/// A reference that makes `owner` the controller.
pub(crate) fn reference<K: Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    let meta = owner.meta();
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: name(meta).to_string(),
        uid: meta.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Whether `meta` is controlled by the object with this uid.
pub(crate) fn is_controlled_by(meta: &ObjectMeta, owner: &ObjectMeta) -> bool {
    controller(meta).is_some_and(|c| Some(&c.uid) == owner.uid.as_ref())
}

/// What the objects of a namespace are to one controller.
#[derive(Debug)]
pub(crate) struct Claim<K> {
    pub(crate) mine: Vec<Arc<K>>,
    pub(crate) adopt: Vec<Arc<K>>,
    pub(crate) release: Vec<Arc<K>>,
}

pub(crate) fn claim<K: Resource>(
    owner: &ObjectMeta,
    wanted: &LabelSelector,
    objects: Vec<Arc<K>>,
) -> Claim<K> {
    let mut claim = Claim { mine: Vec::new(), adopt: Vec::new(), release: Vec::new() };
    for object in objects {
        let meta = object.meta();
        let fits = selector::matches(wanted, meta.labels.as_ref());
        match controller(meta) {
            Some(other) if Some(&other.uid) != owner.uid.as_ref() => {}
            Some(_) if fits => claim.mine.push(object),
            Some(_) if !is_deleted(owner) => claim.release.push(object),
            None if fits && !is_deleted(owner) && !is_deleted(meta) => claim.adopt.push(object),
            _ => {}
        }
    }
    claim
}

/// Adopts and releases; returns all that belongs to `owner` afterwards.
pub(crate) async fn settle<O: Object, K: Object>(
    owners: &Api<O>,
    owner: &O,
    api: &Api<K>,
    cache: &Cache<K>,
    claim: Claim<K>,
) -> Result<Vec<Arc<K>>, ActionError> {
    let mut mine = claim.mine;
    if !claim.adopt.is_empty() {
        // A cache may be behind: an owner that is being deleted must not adopt anything.
        let live = owners.get_metadata(name(owner.meta())).await;
        let live = live.map_err(|e| ActionError::new("read", name(owner.meta()), e))?;
        if live.metadata.uid != owner.meta().uid || is_deleted(&live.metadata) {
            return Ok(mine);
        }
    }
    for object in claim.adopt {
        let mut owners = object.meta().owner_references.clone().unwrap_or_default();
        owners.push(reference(owner));
        match set_owners(api, cache, object.meta(), &owners).await {
            Ok(adopted) => mine.push(adopted),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    for object in claim.release {
        let mut owners = object.meta().owner_references.clone().unwrap_or_default();
        owners.retain(|o| Some(&o.uid) != owner.meta().uid.as_ref());
        match set_owners(api, cache, object.meta(), &owners).await {
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
    }
    Ok(mine)
}

async fn set_owners<K: Object>(
    api: &Api<K>,
    cache: &Cache<K>,
    meta: &ObjectMeta,
    owners: &[OwnerReference],
) -> Result<Arc<K>, ActionError> {
    let body = json!({ "metadata": {
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
        "ownerReferences": owners,
    }});
    crate::write::merge(api, cache, name(meta), &body).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;

    fn meta(uid: &str, deleted: bool) -> ObjectMeta {
        let mut meta = ObjectMeta { uid: Some(uid.into()), ..ObjectMeta::default() };
        if deleted {
            meta.deletion_timestamp = crate::store::time(jiff::Timestamp::UNIX_EPOCH);
        }
        meta
    }

    fn pod(label: &str, controlled_by: Option<&str>, deleted: bool) -> Arc<Pod> {
        let mut pod = Pod { metadata: meta("p", deleted), ..Pod::default() };
        pod.metadata.labels = Some([("app".to_string(), label.to_string())].into());
        pod.metadata.owner_references = controlled_by.map(|uid| {
            vec![OwnerReference {
                uid: uid.into(),
                controller: Some(true),
                ..OwnerReference::default()
            }]
        });
        Arc::new(pod)
    }

    #[test]
    fn only_what_fits_is_claimed() {
        let wanted: LabelSelector =
            serde_json::from_str(r#"{"matchLabels":{"app":"web"}}"#).unwrap();
        // (label, controller, pod deleted, owner deleted) → (mine, adopted, released)
        let rows = [
            (("web", Some("o"), false, false), (1, 0, 0)),
            (("web", Some("o"), true, true), (1, 0, 0)),
            (("db", Some("o"), false, false), (0, 0, 1)),
            (("db", Some("o"), false, true), (0, 0, 0)),
            (("web", Some("other"), false, false), (0, 0, 0)),
            (("web", None, false, false), (0, 1, 0)),
            (("web", None, true, false), (0, 0, 0)),
            (("web", None, false, true), (0, 0, 0)),
            (("db", None, false, false), (0, 0, 0)),
        ];
        for ((label, by, deleted, owner_deleted), expected) in rows {
            let claim = claim(&meta("o", owner_deleted), &wanted, vec![pod(label, by, deleted)]);
            let counts = (claim.mine.len(), claim.adopt.len(), claim.release.len());
            assert_eq!(counts, expected, "{label} {by:?} {deleted} {owner_deleted}");
        }
    }
}
