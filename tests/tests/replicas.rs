//! More than one replica, and another authority: what only a leader does goes on when it goes, and a
//! root that is plugged in is taken up.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use ironsail_testkit::{Case, SYSTEM, eventually, mesh_case};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use serde_json::json;

async fn root_of(case: &Case, namespace: &str) -> String {
    let maps: Api<ConfigMap> = Api::namespaced(case.client.clone(), namespace);
    eventually("the root certificate", async || {
        let map = maps.get("istio-ca-root-cert").await.map_err(|e| e.to_string())?;
        map.data.and_then(|d| d.get("root-cert.pem").cloned()).ok_or_else(|| "empty".to_owned())
    })
    .await
}

#[test]
fn another_replica_takes_over_what_the_leader_did() {
    mesh_case("leader", async |case| {
        let patch = Patch::Merge(json!({"spec": {"replicas": 2}}));
        let deployments: Api<k8s_openapi::api::apps::v1::Deployment> =
            Api::namespaced(case.client.clone(), SYSTEM);
        deployments.patch("istiod", &PatchParams::default(), &patch).await.unwrap();
        let pods: Api<Pod> = Api::namespaced(case.client.clone(), SYSTEM);
        let leases: Api<Lease> = Api::namespaced(case.client.clone(), SYSTEM);
        let holder = async |lease: &str| {
            let lease = leases.get(lease).await.map_err(|e| e.to_string())?;
            let holder = lease.spec.and_then(|s| s.holder_identity).filter(|h| !h.is_empty());
            holder.ok_or_else(|| "nobody leads".to_owned())
        };
        let name = "istio-namespace-controller-election";
        eventually("two replicas", async || {
            let all = pods.list(&ListParams::default().labels("app=istiod")).await;
            let ready = all.map_err(|e| e.to_string())?.items.into_iter().filter(|pod| {
                let all = pod.status.iter().flat_map(|s| s.container_statuses.iter().flatten());
                all.into_iter().any(|c| c.ready) && pod.metadata.deletion_timestamp.is_none()
            });
            if ready.count() == 2 { Ok(()) } else { Err("not both".to_owned()) }
        })
        .await;
        let first = eventually("a leader", async || holder(name).await).await;
        pods.delete(&first, &DeleteParams::default()).await.unwrap();
        let second = eventually("another leader", async || {
            holder(name).await.and_then(|h| if h == first { Err(h) } else { Ok(h) })
        })
        .await;
        assert_ne!(first, second);
        // And it does the work.
        let maps: Api<ConfigMap> = Api::namespaced(case.client.clone(), &case.namespace);
        root_of(case, &case.namespace).await;
        maps.delete("istio-ca-root-cert", &DeleteParams::default()).await.unwrap();
        root_of(case, &case.namespace).await;
    });
}

/// A root and an intermediate below it, as an administrator brings them.
fn authority(name: &str) -> serde_json::Value {
    let params = |common: String| {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, common);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params
    };
    let root_key = KeyPair::generate().unwrap();
    let of_root = params(format!("{name} root"));
    let root = of_root.self_signed(&root_key).unwrap();
    let key = KeyPair::generate().unwrap();
    let issuer = Issuer::new(of_root, root_key);
    let own = params(format!("{name} intermediate")).signed_by(&key, &issuer).unwrap();
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "cacerts", "namespace": SYSTEM},
        "stringData": {
            "ca-cert.pem": own.pem(), "ca-key.pem": key.serialize_pem(),
            "cert-chain.pem": own.pem(), "root-cert.pem": root.pem(),
        }
    })
}

#[test]
fn a_plugged_in_authority_is_taken_up_and_replaced() {
    mesh_case("cacerts", async |case| {
        for name in ["first", "second"] {
            let secret = authority(name);
            let root = secret["stringData"]["root-cert.pem"].as_str().unwrap().trim().to_owned();
            case.try_apply(secret).await.unwrap();
            eventually("the new root is everywhere", async || {
                let given = root_of(case, &case.namespace).await;
                if given.contains(&root) { Ok(()) } else { Err(given) }
            })
            .await;
        }
    });
}
