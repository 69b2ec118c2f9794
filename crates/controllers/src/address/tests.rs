//! The writer against podlet's API.

use ironsail_testkit::{Api as TestApi, eventually};
use serde_json::{Value, json};

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

async fn become_(api: &TestApi, name: &str, expected: &[String]) {
    eventually("the status shows the addresses", async || {
        let shown = addresses(api, name).await;
        if shown == expected { Ok(()) } else { Err(format!("{shown:?}")) }
    })
    .await;
}

/// The model's own words on these entries.
fn model(entries: &[&str]) -> (All, Vec<String>) {
    let settings = ironsail_model::Settings { cluster: "here".into(), ..Default::default() };
    let mut store = ironsail_model::Store::new(settings);
    for text in entries {
        let value = ironsail_yaml::documents(text).unwrap().remove(0);
        let object = ironsail_api::decode_any(&value).unwrap().object.unwrap();
        store.apply(ironsail_api::Event::Apply { cluster: "here".into(), object });
    }
    let given = of_snapshot(&store.take().unwrap().snapshot, &"here".into());
    let of_a = given.get(&("default".to_owned(), "a".to_owned())).cloned().unwrap_or_default();
    (given, of_a.iter().map(|given| given.address.to_string()).collect())
}

#[tokio::test]
async fn entries_without_addresses_show_what_the_model_gave_them() {
    let (own, a) =
        (entry("own", "addresses: [10.0.0.1], resolution: STATIC"), entry("a", "resolution: DNS"));
    let (given, of_a) = model(&[&own, &a]);
    assert_eq!((given.len(), of_a.len()), (1, 2), "{given:?}");
    let api = TestApi::open().await;
    let (sender, receiver) = watch::channel(given);
    let stop = CancellationToken::new();
    // The CRD may come later.
    let task = tokio::spawn(run(api.client(), receiver, stop.clone()));
    api.apply_value(crd()).await;
    api.established().await;
    api.apply(&own).await;
    api.apply(&a).await;
    become_(&api, "a", &of_a).await;
    assert!(addresses(&api, "own").await.is_empty());
    // What the model takes away, goes; what somebody else writes is put right.
    sender.send_replace(All::default());
    become_(&api, "a", &[]).await;
    sender.send_replace(model(&[&a]).0);
    become_(&api, "a", &of_a).await;
    let evil = json!({"status": {"addresses": [{"host": "a.com", "value": "1.2.3.4"}]}});
    let entries = super::api(&api.admin(), Some("default"));
    entries.patch_status("a", &PatchParams::default(), &Patch::Merge(&evil)).await.unwrap();
    become_(&api, "a", &of_a).await;
    stop.cancel();
    task.await.unwrap();
}
