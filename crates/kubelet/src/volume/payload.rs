//! The files of configMap, secret, downwardAPI and projected volumes, as values.
//!
//! In come the volume's source, the objects and the downward facts; out go paths with contents and
//! modes. Service-account tokens are passed in: who asks the API for them is not decided here.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapVolumeSource, DownwardAPIVolumeFile, DownwardAPIVolumeSource, KeyToPath,
    ProjectedVolumeSource, Secret, SecretVolumeSource, ServiceAccountTokenProjection,
};

use crate::env::Objects;
use crate::field::{self, Facts};

/// What Kubernetes gives to files whose mode nobody named.
pub const DEFAULT_MODE: u32 = 0o644;
/// All files of one volume together; etcd takes less in one object.
const MAX_BYTES: usize = 16 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    pub bytes: Vec<u8>,
    pub mode: u32,
    /// Who owns it, where that is not root.
    pub owner: Option<u32>,
}

/// Files by their path inside the volume.
pub type Payload = BTreeMap<String, File>;

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error("configmap \"{0}\" not found")]
    NoConfigMap(String),
    #[error("secret \"{0}\" not found")]
    NoSecret(String),
    #[error("configmap references non-existent config key: {0}")]
    NoConfigKey(String),
    #[error("references non-existent secret key: {0}")]
    NoSecretKey(String),
    #[error("invalid path {0:?}: must be relative and must not contain \"..\"")]
    Path(String),
    #[error("the volume has more than {MAX_BYTES} bytes")]
    TooLarge,
    #[error("projected source {0} is not supported by podlet")]
    Unsupported(&'static str),
    #[error("no token for audience {0:?} yet")]
    NoToken(String),
    #[error(transparent)]
    Field(#[from] field::Error),
}

/// Service-account tokens by the projection that wants them.
pub type Tokens<'a> = dyn Fn(&ServiceAccountTokenProjection) -> Option<String> + 'a;

/// Where a volume's files come from.
#[derive(Clone, Debug)]
pub enum Source {
    ConfigMap(ConfigMapVolumeSource),
    Secret(SecretVolumeSource),
    Downward(DownwardAPIVolumeSource),
    Projected(ProjectedVolumeSource),
}

/// Who token files belong to: Kubernetes narrows their mode when it knows.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokenOwner {
    pub user: Option<u32>,
    pub group: Option<u32>,
}

/// All files of a volume.
pub fn build(
    source: &Source,
    facts: &Facts<'_>,
    objects: &dyn Objects,
    tokens: &Tokens<'_>,
    owner: TokenOwner,
) -> Result<Payload, Error> {
    let mut out = Payload::new();
    match source {
        Source::ConfigMap(s) => {
            let from = objects.config_map(&s.name);
            config_map(
                &mut out,
                from.as_deref(),
                &s.name,
                s.items.as_deref(),
                (mode(s.default_mode), s.optional),
            )?;
        }
        Source::Secret(s) => {
            let name = s.secret_name.clone().unwrap_or_default();
            let from = objects.secret(&name);
            secret(
                &mut out,
                from.as_deref(),
                &name,
                s.items.as_deref(),
                (mode(s.default_mode), s.optional),
            )?;
        }
        Source::Downward(s) => downward(&mut out, s.items.as_deref(), mode(s.default_mode), facts)?,
        Source::Projected(s) => {
            let default = mode(s.default_mode);
            for source in s.sources.iter().flatten() {
                if let Some(p) = &source.config_map {
                    let from = objects.config_map(&p.name);
                    config_map(
                        &mut out,
                        from.as_deref(),
                        &p.name,
                        p.items.as_deref(),
                        (default, p.optional),
                    )?;
                }
                if let Some(p) = &source.secret {
                    let from = objects.secret(&p.name);
                    secret(
                        &mut out,
                        from.as_deref(),
                        &p.name,
                        p.items.as_deref(),
                        (default, p.optional),
                    )?;
                }
                if let Some(p) = &source.downward_api {
                    downward(&mut out, p.items.as_deref(), default, facts)?;
                }
                if let Some(p) = &source.service_account_token {
                    let missing = || Error::NoToken(p.audience.clone().unwrap_or_default());
                    let bytes = tokens(p).ok_or_else(missing)?.into_bytes();
                    let private = owner.user.is_some() || owner.group.is_some();
                    let file = File {
                        bytes,
                        mode: if private { 0o600 } else { default },
                        owner: owner.user,
                    };
                    add(&mut out, &p.path, file)?;
                }
                if source.cluster_trust_bundle.is_some() {
                    return Err(Error::Unsupported("clusterTrustBundle"));
                }
                if source.pod_certificate.is_some() {
                    return Err(Error::Unsupported("podCertificate"));
                }
            }
        }
    }
    if out.values().map(|f| f.bytes.len()).sum::<usize>() > MAX_BYTES {
        return Err(Error::TooLarge);
    }
    Ok(out)
}

fn mode(mode: Option<i32>) -> u32 {
    mode.and_then(|m| u32::try_from(m).ok()).map_or(DEFAULT_MODE, |m| m & 0o777)
}

fn add(out: &mut Payload, path: &str, file: File) -> Result<(), Error> {
    let bad = path.is_empty()
        || path.starts_with('/')
        || path.contains('\0')
        || path.split('/').any(|part| part.is_empty() || part == ".." || part == ".")
        || path.starts_with("..");
    if bad {
        return Err(Error::Path(path.to_owned()));
    }
    out.insert(path.to_owned(), file);
    Ok(())
}

fn config_map(
    out: &mut Payload,
    map: Option<&ConfigMap>,
    name: &str,
    items: Option<&[KeyToPath]>,
    (default, optional): (u32, Option<bool>),
) -> Result<(), Error> {
    let optional = optional == Some(true);
    let Some(map) = map else {
        return if optional { Ok(()) } else { Err(Error::NoConfigMap(name.to_owned())) };
    };
    let mut all: BTreeMap<&str, &[u8]> = BTreeMap::new();
    all.extend(map.data.iter().flatten().map(|(k, v)| (k.as_str(), v.as_bytes())));
    all.extend(map.binary_data.iter().flatten().map(|(k, v)| (k.as_str(), v.0.as_slice())));
    pick(out, &all, items, (default, optional), Error::NoConfigKey)
}

fn secret(
    out: &mut Payload,
    secret: Option<&Secret>,
    name: &str,
    items: Option<&[KeyToPath]>,
    (default, optional): (u32, Option<bool>),
) -> Result<(), Error> {
    let optional = optional == Some(true);
    let Some(secret) = secret else {
        return if optional { Ok(()) } else { Err(Error::NoSecret(name.to_owned())) };
    };
    let all = secret.data.iter().flatten().map(|(k, v)| (k.as_str(), v.0.as_slice())).collect();
    pick(out, &all, items, (default, optional), Error::NoSecretKey)
}

fn pick(
    out: &mut Payload,
    all: &BTreeMap<&str, &[u8]>,
    items: Option<&[KeyToPath]>,
    (default, optional): (u32, bool),
    missing: impl Fn(String) -> Error,
) -> Result<(), Error> {
    let file = |bytes: &[u8], mode| File { bytes: bytes.to_vec(), mode, owner: None };
    let Some(items) = items.filter(|i| !i.is_empty()) else {
        return all.iter().try_for_each(|(key, bytes)| add(out, key, file(bytes, default)));
    };
    for item in items {
        match all.get(item.key.as_str()) {
            Some(bytes) => {
                let own = item.mode.map_or(default, |m| mode(Some(m)));
                add(out, &item.path, file(bytes, own))?;
            }
            None if optional => {}
            None => return Err(missing(item.key.clone())),
        }
    }
    Ok(())
}

fn downward(
    out: &mut Payload,
    items: Option<&[DownwardAPIVolumeFile]>,
    default: u32,
    facts: &Facts<'_>,
) -> Result<(), Error> {
    for item in items.unwrap_or_default() {
        let text = match (&item.field_ref, &item.resource_field_ref) {
            (Some(field), _) => facts.field(&field.field_path)?,
            (None, Some(resource)) => facts.resource(resource, None)?,
            (None, None) => String::new(),
        };
        let own = item.mode.map_or(default, |m| mode(Some(m)));
        add(out, &item.path, File { bytes: text.into_bytes(), mode: own, owner: None })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
