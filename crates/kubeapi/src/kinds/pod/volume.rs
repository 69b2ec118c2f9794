//! Volumes of a pod: exactly one source each, and paths that stay inside the volume.

use std::collections::HashSet;

use ironsail_schema::{FieldError, Reason};

use super::super::at::{At, Errors};
use super::super::name;
use super::env;

const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];
const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
const HOST_PATH_TYPES: [&str; 8] = [
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];

/// `volumes` of a pod; returns their names.
pub(super) fn validate<'a>(volumes: &At<'a>, errors: &mut Errors) -> HashSet<&'a str> {
    let mut names = HashSet::new();
    for volume in volumes.items() {
        let before = errors.len();
        let own = volume.get("name");
        source(&volume, errors);
        if own.need(errors) {
            errors.extend(name::label(own.str()).into_iter().map(|w| own.invalid(w)));
            if names.contains(own.str()) {
                errors.push(own.duplicate());
            }
        }
        // A broken volume is not there for the mounts either.
        if errors.len() == before {
            names.insert(own.str());
        }
    }
    names
}

fn source(volume: &At<'_>, errors: &mut Errors) {
    let mut found = 0;
    for kind in SOURCES {
        let at = volume.get(kind);
        if !at.is_set() {
            continue;
        }
        found += 1;
        if found > 1 {
            errors.push(at.forbidden("may not specify more than 1 volume type"));
            continue;
        }
        match kind {
            "hostPath" => host_path(&at, errors),
            "secret" => {
                at.get("secretName").need(errors);
                mode(&at.get("defaultMode"), errors);
                items(&at, errors);
            }
            "configMap" => {
                at.get("name").need(errors);
                mode(&at.get("defaultMode"), errors);
                items(&at, errors);
            }
            "downwardAPI" => {
                mode(&at.get("defaultMode"), errors);
                at.get("items").items().for_each(|item| downward(&item, errors));
            }
            "projected" => projected(&at, errors),
            "emptyDir" => super::resource::quantity(&at.get("sizeLimit"), errors),
            "persistentVolumeClaim" => {
                at.get("claimName").need(errors);
            }
            "csi" => {
                at.get("driver").need(errors);
            }
            "ephemeral" => {
                at.get("volumeClaimTemplate").need(errors);
            }
            _ => {}
        }
    }
    if found == 0 {
        errors.push(volume.required("must specify a volume type"));
    }
}

fn host_path(at: &At<'_>, errors: &mut Errors) {
    let path = at.get("path");
    if path.need(errors) {
        no_backsteps(&path, errors);
    }
    at.get("type").one_of_if_set(&HOST_PATH_TYPES, errors);
}

fn items(source: &At<'_>, errors: &mut Errors) {
    for item in source.get("items").items() {
        item.get("key").need(errors);
        inside(&item.get("path"), errors);
        mode(&item.get("mode"), errors);
    }
}

fn downward(item: &At<'_>, errors: &mut Errors) {
    inside(&item.get("path"), errors);
    let (field, resource) = (item.get("fieldRef"), item.get("resourceFieldRef"));
    if field.is_set() {
        env::volume_field(&field, errors);
        if resource.is_set() {
            errors.push(FieldError::invalid(
                item.path.clone(),
                "resource",
                "fieldRef and resourceFieldRef can not be specified simultaneously",
            ));
        }
    } else if resource.is_set() {
        env::resource(&resource, true, errors);
    } else {
        errors.push(item.required("one of fieldRef and resourceFieldRef is required"));
    }
    mode(&item.get("mode"), errors);
}

fn projected(at: &At<'_>, errors: &mut Errors) {
    const KINDS: [&str; 6] = [
        "secret",
        "configMap",
        "downwardAPI",
        "serviceAccountToken",
        "clusterTrustBundle",
        "podCertificate",
    ];
    mode(&at.get("defaultMode"), errors);
    let mut paths = HashSet::new();
    for source in at.get("sources").items() {
        let given: Vec<_> = KINDS.iter().filter(|kind| source.get(kind).is_set()).collect();
        if given.len() > 1 {
            errors.push(source.forbidden("may not specify more than 1 volume type per source"));
        }
        for kind in given {
            projection(kind, &source.get(kind), errors);
            for path in taken(kind, &source.get(kind)) {
                if !paths.insert(path.to_owned()) {
                    errors.push(FieldError::invalid(
                        at.path.clone(),
                        path,
                        "conflicting duplicate paths",
                    ));
                }
            }
        }
    }
}

fn projection(kind: &str, at: &At<'_>, errors: &mut Errors) {
    match kind {
        "secret" | "configMap" => {
            at.get("name").need(errors);
            items(at, errors);
        }
        // Reported at the list, not at the item.
        "downwardAPI" => at.get("items").items().for_each(|item| {
            downward(&At { value: item.value, path: at.path.clone() }, errors);
        }),
        "serviceAccountToken" => {
            let seconds = at.get("expirationSeconds");
            if seconds.int() < 600 {
                errors.push(seconds.invalid("may not specify a duration less than 10 minutes"));
            } else if seconds.int() > 1 << 32 {
                errors.push(seconds.invalid("may not specify a duration larger than 2^32 seconds"));
            }
            inside(&at.get("path"), errors);
        }
        "clusterTrustBundle" => {
            let (own, signer) = (at.get("name"), at.get("signerName"));
            if own.is_set() && signer.is_set() {
                errors.push(at.invalid("only one of name and signerName may be used"));
            } else if !own.is_set() && !signer.is_set() {
                errors.push(at.required("either name or signerName must be specified"));
            }
            inside(&at.get("path"), errors);
        }
        _ => {}
    }
}

/// The paths a projection writes to.
fn taken<'a>(kind: &str, at: &At<'a>) -> Vec<&'a str> {
    match kind {
        "serviceAccountToken" => Vec::new(),
        "clusterTrustBundle" => vec![at.get("path").str()],
        _ => at.get("items").items().map(|item| item.get("path").str()).collect(),
    }
}

fn mode(at: &At<'_>, errors: &mut Errors) {
    if at.is_set() && !(0..=0o777).contains(&at.int()) {
        errors.push(at.invalid(MODE));
    }
}

/// A relative path that stays where it is.
fn inside(path: &At<'_>, errors: &mut Errors) {
    if !path.need(errors) {
        return;
    }
    relative(path, errors);
    if path.str().starts_with("..") && !path.str().starts_with("../") && path.str() != ".." {
        errors.push(path.invalid("must not start with '..'"));
    }
}

fn relative(path: &At<'_>, errors: &mut Errors) {
    if path.str().starts_with('/') {
        errors.push(path.invalid("must be a relative path"));
    }
    no_backsteps(path, errors);
}

fn no_backsteps(path: &At<'_>, errors: &mut Errors) {
    if path.str().split('/').any(|part| part == "..") {
        errors.push(path.invalid("must not contain '..'"));
    }
}

/// `volumeMounts` of a container.
pub(super) fn mounts(container: &At<'_>, volumes: &HashSet<&str>, errors: &mut Errors) {
    let mut paths = HashSet::new();
    let privileged = container.dig("securityContext.privileged").bool();
    for mount in container.get("volumeMounts").items() {
        let own = mount.get("name");
        own.need(errors);
        if !volumes.contains(own.str()) {
            errors.push(FieldError::new(own.path.clone(), Reason::NotFound, own.str().into(), ""));
        }
        let path = mount.get("mountPath");
        path.need(errors);
        if !paths.insert(path.str()) {
            errors.push(path.invalid("must be unique"));
        }
        // The real server reports these at the list, without the index.
        let here = At { value: mount.value, path: container.get("volumeMounts").path };
        let (sub, expression) = (here.get("subPath"), here.get("subPathExpr"));
        if !sub.is_empty() {
            relative(&sub, errors);
        }
        if !expression.is_empty() {
            if !sub.is_empty() {
                errors.push(
                    mount
                        .get("subPathExpr")
                        .invalid("subPathExpr and subPath are mutually exclusive"),
                );
            }
            relative(&expression, errors);
        }
        let propagation = here.get("mountPropagation");
        propagation.one_of_if_set(&["Bidirectional", "HostToContainer", "None"], errors);
        if propagation.str() == "Bidirectional" && !privileged {
            errors.push(propagation.forbidden(
                "Bidirectional mount propagation is available only to privileged containers",
            ));
        }
        let recursive = mount.get("recursiveReadOnly");
        recursive.one_of_if_set(&["Disabled", "Enabled", "IfPossible"], errors);
        if matches!(recursive.str(), "Enabled" | "IfPossible") && !mount.get("readOnly").bool() {
            errors.push(recursive.forbidden("may only be specified when readOnly is true"));
        }
    }
}
