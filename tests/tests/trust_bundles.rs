//! Whom a workload trusts besides its own mesh: roots that the mesh configuration adds, for the own
//! domain and for others, and certificates that were taken back.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "trust/stage.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod stage;

use std::time::Duration;

use ironsail_testkit::{Case, SYSTEM, eventually, mesh_case_within};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use serde_json::{Value, json};

use stage::{Root, eve_gets, nothing_was_refused, reported, set_up, trustz};

async fn mesh(case: &Case, more: Value) {
    let mut mesh = json!({
        "rootNamespace": SYSTEM,
        "trustDomain": "cluster.local",
        "defaultConfig": {"discoveryAddress": "istiod.istio-system.svc:15012"},
    });
    for (key, value) in more.as_object().unwrap() {
        mesh[key] = value.clone();
    }
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "istio", "namespace": SYSTEM}, "data": {"mesh": mesh.to_string()}});
    case.try_apply(object).await.unwrap();
}

#[test]
fn roots_speak_for_their_own_domain_and_what_was_taken_back_is_refused() {
    mesh_case_within(Duration::from_secs(600), "bundles", async |case| {
        let labels = json!({"istio-injection": "enabled"});
        let object = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": case.namespace, "labels": labels}});
        case.try_apply(object).await.unwrap();
        set_up(case).await;
        case.apply(
            "{apiVersion: security.istio.io/v1, kind: PeerAuthentication, \
             metadata: {name: default}, spec: {mtls: {mode: STRICT}}}",
        )
        .await;
        domains(case).await;
        revoked(case).await;
        nothing_was_refused(case).await;
    });
}

async fn domains(case: &Case) {
    let (own, far, nobody) = (Root::new("own"), Root::new("far"), Root::new("nobody"));
    let member = "spiffe://cluster.local/ns/x/sa/y";
    let foreign = "spiffe://far.example/ns/x/sa/y";
    eve_gets(case, "a stranger is refused", &own.leaf(member, 1), "000").await;
    mesh(
        case,
        json!({"caCertificates": [
            {"pem": own.pem()},
            {"pem": far.pem(), "trustDomains": ["far.example"]},
            {"spiffeBundleUrl": "https://127.0.0.1:1/bundle", "trustDomains": ["away.example"]},
            {"pem": "nonsense"},
        ]}),
    )
    .await;
    eve_gets(case, "a root of the own domain vouches", &own.leaf(member, 2), "200").await;
    eve_gets(case, "a member of another domain comes in", &far.leaf(foreign, 3), "200").await;
    eve_gets(case, "but not under our names", &far.leaf(member, 4), "000").await;
    eve_gets(case, "nor ours under theirs", &own.leaf(foreign, 5), "000").await;
    eve_gets(case, "nor anybody else", &nobody.leaf(foreign, 6), "000").await;
    // Members of the mesh go on speaking to each other.
    let answer = case.call("pod/client", "http://server:8080/").await;
    assert_eq!(answer.status, Some(200), "{answer:?}");
    let page = trustz(case).await;
    assert_eq!(page["otherDomains"]["far.example"][0]["fingerprint"], *far.fingerprint(), "{page}");
    let problems = page["problems"].to_string();
    assert!(problems.contains("caCertificates[3]"), "{page}");
    eventually("the endpoint that does not answer is told of", async || {
        let endpoints = trustz(case).await["bundleEndpoints"].clone();
        match endpoints["https://127.0.0.1:1/bundle"]["error"].is_string() {
            true => Ok(()),
            false => Err(endpoints),
        }
    })
    .await;
    mesh(case, json!({})).await;
    eve_gets(case, "what is trusted no more is refused", &far.leaf(foreign, 7), "000").await;
    eve_gets(case, "also of the own domain", &own.leaf(member, 8), "000").await;
}

async fn list(case: &Case) -> Option<String> {
    let maps: Api<ConfigMap> = Api::namespaced(case.client.clone(), &case.namespace);
    let map = maps.get_opt("istio-ca-crl").await.unwrap()?;
    map.data?.get("ca-crl.pem").cloned()
}

async fn revoked(case: &Case) {
    let root = Root::new("plugged in");
    case.try_apply(root.cacerts(None)).await.unwrap();
    let print = root.fingerprint();
    reported(case, "certificates are of the new root", |report| report["leaf"]["root"] == *print)
        .await;
    let member = "spiffe://cluster.local/ns/x/sa/y";
    let (good, bad) = (root.leaf(member, 77), root.leaf(member, 78));
    eve_gets(case, "a certificate of the root", &bad, "200").await;
    assert_eq!(list(case).await, None, "there is no list yet");
    case.try_apply(root.cacerts(Some(&[78]))).await.unwrap();
    eve_gets(case, "a certificate that was taken back", &bad, "000").await;
    eve_gets(case, "another one of the same root", &good, "200").await;
    assert!(list(case).await.is_some_and(|text| text.contains("X509 CRL")));
    let answer = case.call("pod/client", "http://server:8080/").await;
    assert_eq!(answer.status, Some(200), "{answer:?}");
    case.try_apply(root.cacerts(None)).await.unwrap();
    eve_gets(case, "the list is gone", &bad, "200").await;
}
