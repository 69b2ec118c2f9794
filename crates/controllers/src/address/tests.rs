//! The writer against podlet's API.

use ironsail_testkit::{Api as TestApi, eventually};

use super::*;

fn crd() -> Value {
    let kind = Kind::ServiceEntry;
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.crd_name()},
        "spec": {
            "group": kind.group(), "scope": "Namespaced",
            "names": {
                "kind": kind.name(), "plural": kind.plural(),
                "singular": "serviceentry", "listKind": "ServiceEntryList",
            },
            "versions": [{
                "name": kind.version(), "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    })
}

fn entry(name: &str, rest: &str) -> String {
    format!(
        "{{apiVersion: networking.istio.io/v1, kind: ServiceEntry, \
         metadata: {{name: {name}, namespace: default}}, spec: {{hosts: [{name}.com], {rest}}}}}"
    )
}

async fn addresses(api: &TestApi, name: &str) -> Vec<String> {
    let entries = super::api(&api.admin(), Some("default"));
    let status = entries.get(name).await.unwrap().data["status"].clone();
    let all = status["addresses"].as_array().cloned().unwrap_or_default();
    all.iter().map(|one| one["value"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn entries_without_addresses_get_some_that_stay() {
    let api = TestApi::open().await;
    let stop = CancellationToken::new();
    // The CRD may come later.
    let task = tokio::spawn(run(api.client(), stop.clone()));
    api.apply_value(crd()).await;
    api.established().await;
    api.apply(&entry("own", "addresses: [10.0.0.1], resolution: STATIC")).await;
    api.apply(&entry("a", "resolution: DNS")).await;
    let first = eventually("addresses are given", async || {
        let given = addresses(&api, "a").await;
        if given.len() == 2 { Ok(given) } else { Err(format!("{given:?}")) }
    })
    .await;
    assert!(addresses(&api, "own").await.is_empty());
    stop.cancel();
    task.await.unwrap();
    // Another leader gives the same.
    let stop = CancellationToken::new();
    let task = tokio::spawn(run(api.client(), stop.clone()));
    api.apply(&entry("b", "resolution: DNS")).await;
    eventually("addresses are given", async || {
        let given = addresses(&api, "b").await;
        if given.len() == 2 { Ok(()) } else { Err(format!("{given:?}")) }
    })
    .await;
    assert_eq!(addresses(&api, "a").await, first);
    stop.cancel();
    task.await.unwrap();
}
