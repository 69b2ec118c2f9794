//! Kubernetes Secrets of one namespace as a strongbox.

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, future};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watcher};
use tracing::debug;
use zeroize::Zeroizing;

use super::{Contents, Error, Strongbox};
use crate::material::Files;

/// The type of Secrets that hold a root, as Istio writes them.
const SECRET_TYPE: &str = "istio.io/ca-root";

/// Keeps secrets as Secrets.
#[derive(Clone)]
pub struct SecretStrongbox {
    api: Api<Secret>,
    namespace: String,
}

impl SecretStrongbox {
    pub fn new(client: kube::Client, namespace: &str) -> Self {
        Self { api: Api::namespaced(client, namespace), namespace: namespace.to_owned() }
    }

    fn object(&self, name: &str, version: Option<String>, files: Files) -> Secret {
        let bytes = |mut value: Zeroizing<Vec<u8>>| ByteString(std::mem::take(&mut *value));
        Secret {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(self.namespace.clone()),
                resource_version: version,
                ..ObjectMeta::default()
            },
            type_: Some(SECRET_TYPE.to_owned()),
            data: Some(files.into_iter().map(|(key, value)| (key, bytes(value))).collect()),
            ..Secret::default()
        }
    }
}

impl Strongbox for SecretStrongbox {
    fn read<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Contents>, Error>> {
        async move {
            let failed =
                |source| Error::Read { name: self.describe(name), source: Box::new(source) };
            let Some(secret) = self.api.get_opt(name).await.map_err(failed)? else {
                return Ok(None);
            };
            let data = secret.data.unwrap_or_default();
            let files = data.into_iter().map(|(key, value)| (key, Zeroizing::new(value.0)));
            let version = secret.metadata.resource_version.unwrap_or_default();
            Ok(Some(Contents { files: files.collect(), version }))
        }
        .boxed()
    }

    fn create<'a>(&'a self, name: &'a str, files: Files) -> BoxFuture<'a, Result<bool, Error>> {
        async move {
            let secret = self.object(name, None, files);
            match self.api.create(&PostParams::default(), &secret).await {
                Ok(_) => Ok(true),
                Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
                Err(source) => {
                    Err(Error::Create { name: self.describe(name), source: Box::new(source) })
                }
            }
        }
        .boxed()
    }

    fn replace<'a>(
        &'a self,
        name: &'a str,
        old: &'a Contents,
        files: Files,
    ) -> BoxFuture<'a, Result<bool, Error>> {
        async move {
            let failed =
                |source| Error::Replace { name: self.describe(name), source: Box::new(source) };
            // Labels and owners that others put on it stay.
            let Some(mut secret) = self.api.get_opt(name).await.map_err(failed)? else {
                return Ok(false);
            };
            secret.metadata.resource_version = Some(old.version.clone());
            secret.data = self.object(name, None, files).data;
            match self.api.replace(name, &PostParams::default(), &secret).await {
                Ok(_) => Ok(true),
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(false),
                Err(source) => Err(failed(source)),
            }
        }
        .boxed()
    }

    fn changes(&self, name: &str) -> BoxStream<'static, ()> {
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let name = self.describe(name);
        watcher(self.api.clone(), config)
            .default_backoff()
            .filter_map(move |event| {
                if let Err(error) = &event {
                    debug!(%error, "watching {name}");
                }
                let tells = matches!(
                    event,
                    Ok(watcher::Event::Apply(_)
                        | watcher::Event::Delete(_)
                        | watcher::Event::InitDone)
                );
                future::ready(tells.then_some(()))
            })
            .boxed()
    }

    fn describe(&self, name: &str) -> String {
        format!("secret {}/{name}", self.namespace)
    }
}
