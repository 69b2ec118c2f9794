//! A rotation as it lies in the cluster: the Secret `istio-ca-rotation` beside the CA's own, so that any
//! run of the command can go on with it.
//!
//! It holds the old material and the new, and says in annotations which step is under way.

use std::collections::BTreeMap;

use anyhow::Context as _;
use ironsail_ca::Files;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams};
use zeroize::Zeroizing;

use super::step::Step;
use crate::cluster::Cluster;

pub(super) const NAME: &str = "istio-ca-rotation";
const STEP: &str = "ironsail.io/ca-rotation-step";
const DONE: &str = "ironsail.io/ca-rotation-done";
const TARGET: &str = "ironsail.io/ca-rotation-secret";
const OLD: &str = "old.";
const NEW: &str = "new.";
const SECRET_TYPE: &str = "istio.io/ca-root";

/// A rotation under way, or done and not forgotten.
pub(super) struct Rotation {
    pub(super) step: Step,
    /// Every step is done.
    pub(super) done: bool,
    /// The Secret of the CA.
    pub(super) target: String,
    pub(super) old: Files,
    pub(super) new: Files,
    version: Option<String>,
}

impl Rotation {
    pub(super) fn new(target: &str, old: Files, new: Files) -> Self {
        let target = target.to_owned();
        Self { step: Step::Distribute, done: false, target, old, new, version: None }
    }

    fn parse(secret: Secret) -> anyhow::Result<Self> {
        let notes = secret.metadata.annotations.clone().unwrap_or_default();
        let note = |key: &str| notes.get(key).map(String::as_str).unwrap_or_default();
        let step = Step::parse(note(STEP))
            .with_context(|| format!("Secret {NAME} does not say which step it is in ({STEP})"))?;
        let (done, target) = (note(DONE) == "true", note(TARGET).to_owned());
        let (mut old, mut new) = (Files::new(), Files::new());
        for (name, content) in secret.data.unwrap_or_default() {
            let content = Zeroizing::new(content.0);
            if let Some(name) = name.strip_prefix(OLD) {
                old.insert(name.to_owned(), content);
            } else if let Some(name) = name.strip_prefix(NEW) {
                new.insert(name.to_owned(), content);
            }
        }
        Ok(Self { step, done, target, old, new, version: secret.metadata.resource_version })
    }

    fn object(&self, namespace: &str) -> Secret {
        let with = |prefix: &'static str, files: &Files| {
            let named = move |(name, content): (&String, &Zeroizing<Vec<u8>>)| {
                (format!("{prefix}{name}"), ByteString(content.to_vec()))
            };
            files.iter().map(named).collect::<Vec<_>>()
        };
        let notes = [
            (STEP, self.step.word().to_owned()),
            (DONE, self.done.to_string()),
            (TARGET, self.target.clone()),
        ];
        let notes = notes.into_iter().map(|(key, value)| (key.to_owned(), value));
        let data = with(OLD, &self.old).into_iter().chain(with(NEW, &self.new));
        Secret {
            metadata: ObjectMeta {
                name: Some(NAME.to_owned()),
                namespace: Some(namespace.to_owned()),
                annotations: Some(notes.collect()),
                resource_version: self.version.clone(),
                ..ObjectMeta::default()
            },
            type_: Some(SECRET_TYPE.to_owned()),
            data: Some(data.collect::<BTreeMap<_, _>>()),
            ..Secret::default()
        }
    }
}

/// The Secrets of the control plane's namespace.
pub(super) struct Store {
    api: Api<Secret>,
    namespace: String,
}

impl Store {
    pub(super) fn new(cluster: &Cluster) -> Self {
        let namespace = cluster.istio_namespace.clone();
        Self { api: Api::namespaced(cluster.client.clone(), &namespace), namespace }
    }

    pub(super) async fn rotation(&self) -> anyhow::Result<Option<Rotation>> {
        let found = self.api.get_opt(NAME).await;
        let found = found.with_context(|| format!("reading Secret {}/{NAME}", self.namespace))?;
        found.map(Rotation::parse).transpose()
    }

    /// Writes it; somebody who wrote in between is an error.
    pub(super) async fn keep(&self, rotation: &mut Rotation) -> anyhow::Result<()> {
        let (object, how) = (rotation.object(&self.namespace), PostParams::default());
        let written = match rotation.version {
            None => self.api.create(&how, &object).await,
            Some(_) => self.api.replace(NAME, &how, &object).await,
        };
        let written = written.with_context(|| {
            format!(
                "writing Secret {}/{NAME}; is somebody else rotating at the same time?",
                self.namespace
            )
        })?;
        rotation.version = written.metadata.resource_version;
        Ok(())
    }

    pub(super) async fn forget(&self) -> anyhow::Result<()> {
        match self.api.delete(NAME, &DeleteParams::default()).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => {
                Err(error).with_context(|| format!("deleting Secret {}/{NAME}", self.namespace))
            }
        }
    }

    pub(super) async fn files(&self, name: &str) -> anyhow::Result<Option<Files>> {
        let found = self.api.get_opt(name).await;
        let found = found.with_context(|| format!("reading Secret {}/{name}", self.namespace))?;
        Ok(found.map(|secret| {
            let data = secret.data.unwrap_or_default();
            data.into_iter().map(|(name, content)| (name, Zeroizing::new(content.0))).collect()
        }))
    }

    /// Puts files into a Secret that is there. True if that changed it.
    pub(super) async fn put(&self, name: &str, files: &Files) -> anyhow::Result<bool> {
        let doing = || format!("writing Secret {}/{name}", self.namespace);
        let mut secret = self.api.get(name).await.with_context(doing)?;
        let data = files.iter().map(|(name, content)| (name.clone(), ByteString(content.to_vec())));
        let data = Some(data.collect::<BTreeMap<_, _>>());
        if secret.data == data {
            return Ok(false);
        }
        secret.data = data;
        self.api.replace(name, &PostParams::default(), &secret).await.with_context(doing)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rotation_lies_in_the_cluster_whole() {
        let files = |text: &str| {
            Files::from([("ca-cert.pem".to_owned(), Zeroizing::new(text.as_bytes().to_vec()))])
        };
        let mut rotation = Rotation::new("cacerts", files("old"), files("new"));
        rotation.step = Step::Switch;
        let read = Rotation::parse(rotation.object("istio-system")).unwrap();
        assert_eq!((read.step, read.done, &*read.target), (Step::Switch, false, "cacerts"));
        assert_eq!((read.old, read.new), (files("old"), files("new")));
        assert!(Rotation::parse(Secret::default()).is_err());
    }
}
