//! The same on Secrets of a Kubernetes API.

use std::sync::Arc;
use std::time::Duration;

use ironsail_sys::clock::Clock;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use super::domains;
use crate::authority::{Authority, CA_SECRET, Settings};
use crate::strongbox::{SecretStrongbox, Strongbox};
use crate::testing::Cluster;

async fn replica(cluster: &Cluster) -> Arc<Authority> {
    let strongbox: Arc<dyn Strongbox> =
        Arc::new(SecretStrongbox::new(cluster.client(), "istio-system"));
    Authority::open(Settings::default(), strongbox, domains(), Clock::system()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn replicas_agree_through_the_secret() {
    let cluster = Cluster::new().await;
    let all = futures::future::join_all((0..8).map(|_| replica(&cluster))).await;
    let first = all[0].signing();
    assert!(all.iter().all(|one| one.signing().certificate() == first.certificate()));
    let api: Api<Secret> = Api::namespaced(cluster.client(), "istio-system");
    let secret = api.get(CA_SECRET).await.unwrap();
    assert_eq!(secret.type_.as_deref(), Some("istio.io/ca-root"));
    let pem = &secret.data.unwrap()["ca-cert.pem"].0;
    assert_eq!(String::from_utf8_lossy(pem), first.certificate().to_pem());
}

#[tokio::test]
async fn a_replaced_secret_is_followed_and_only_one_replica_replaces_it() {
    let cluster = Cluster::new().await;
    let authority = replica(&cluster).await;
    let strongbox = SecretStrongbox::new(cluster.client(), "istio-system");
    let old = strongbox.read(CA_SECRET).await.unwrap().unwrap();
    let mut changed = authority.generation();
    let running = authority.clone();
    let task = tokio::spawn(async move { running.run().await });

    let other = crate::strongbox::MemoryStrongbox::default();
    let made =
        Authority::open(Settings::default(), Arc::new(other.clone()), domains(), Clock::system());
    let made = made.await.unwrap();
    let files = other.read(CA_SECRET).await.unwrap().unwrap().files;
    assert!(strongbox.replace(CA_SECRET, &old, files.clone()).await.unwrap());
    assert!(!strongbox.replace(CA_SECRET, &old, files).await.unwrap(), "it has changed since");
    tokio::time::timeout(Duration::from_secs(30), changed.changed()).await.unwrap().unwrap();
    assert_eq!(authority.signing().certificate(), made.signing().certificate());
    assert_eq!(authority.roots().borrow().certificates().len(), 2, "the old one stays trusted");
    task.abort();
}

#[tokio::test]
async fn labels_of_others_survive_a_replacement() {
    let cluster = Cluster::new().await;
    replica(&cluster).await;
    let api: Api<Secret> = Api::namespaced(cluster.client(), "istio-system");
    let label = Patch::Merge(json!({"metadata": {"labels": {"team": "a"}}}));
    api.patch(CA_SECRET, &PatchParams::default(), &label).await.unwrap();
    let strongbox = SecretStrongbox::new(cluster.client(), "istio-system");
    let old = strongbox.read(CA_SECRET).await.unwrap().unwrap();
    assert!(strongbox.replace(CA_SECRET, &old, old.files.clone()).await.unwrap());
    let labels = api.get(CA_SECRET).await.unwrap().metadata.labels.unwrap();
    assert_eq!(labels["team"], "a");
    assert!(!strongbox.create(CA_SECRET, old.files.clone()).await.unwrap(), "there is one");
}
