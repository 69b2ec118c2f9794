//! The control plane as pods of podlet: it starts from `manifests/`, keeps the mesh's root, and shows
//! itself to people and Prometheus.

use ironsail_testkit::{Case, SYSTEM, eventually, mesh_case};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;

#[test]
fn istiod_runs_as_the_deployment_of_the_manifests() {
    mesh_case("starts", async |case| {
        let pods: Api<Pod> = Api::namespaced(case.client.clone(), SYSTEM);
        let pod = pods.get(&case.istiod().await).await.unwrap();
        let container = &pod.spec.as_ref().unwrap().containers[0];
        let args = container.args.clone().unwrap().join(" ");
        let wanted = "discovery --monitoringAddr=:15014 --log_output_level=default:info \
            --domain cluster.local --keepaliveMaxServerConnectionAge 30m";
        assert_eq!(args, wanted);
        assert_eq!(container.security_context.as_ref().unwrap().run_as_user, Some(1337));
        let statuses = pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap();
        assert_eq!(statuses[0].restart_count, 0, "{statuses:?}");
        eventually("it is ready", async || {
            let page = case.page(8080, "/ready").await;
            if page.status == 200 { Ok(()) } else { Err(format!("{page:?}")) }
        })
        .await;
        let page = case.page(15014, "/version").await;
        assert_eq!(page.status, 200, "{page:?}");
        // The pages that Istio's tools read.
        let pages = "syncz adsz config_distribution connections registryz endpointz endpointShardz \
            configz clusterz networkz edsz pushcontext push_status cachez mesh instancesz \
            authorizationz telemetryz resourcesz inject list";
        for name in pages.split_whitespace() {
            let page = case.page(8080, &format!("/debug/{name}")).await;
            assert_eq!(page.status, 200, "{name}: {page:?}");
        }
        let services = case.page(8080, "/debug/registryz").await.json();
        let hosts: Vec<_> = services.as_array().unwrap().iter().map(|s| &s["hostname"]).collect();
        assert!(hosts.contains(&&json!("istiod.istio-system.svc.cluster.local")), "{hosts:?}");
    });
}

async fn root_of(case: &Case, namespace: &str) -> String {
    let maps: Api<ConfigMap> = Api::namespaced(case.client.clone(), namespace);
    eventually("the root certificate", async || {
        let map = maps.get("istio-ca-root-cert").await.map_err(|e| e.to_string())?;
        map.data.and_then(|d| d.get("root-cert.pem").cloned()).ok_or_else(|| "empty".to_owned())
    })
    .await
}

#[test]
fn every_namespace_has_the_root_certificate() {
    mesh_case("roots", async |case| {
        let secrets: Api<Secret> = Api::namespaced(case.client.clone(), SYSTEM);
        let secret = secrets.get("istio-ca-secret").await.unwrap();
        assert_eq!(secret.type_.as_deref(), Some("istio.io/ca-root"));
        let data = secret.data.unwrap();
        let own = String::from_utf8(data["ca-cert.pem"].0.clone()).unwrap();
        assert!(data.contains_key("ca-key.pem") && own.contains("BEGIN CERTIFICATE"), "{own}");
        for namespace in [&*case.namespace, "default", SYSTEM] {
            assert_eq!(root_of(case, namespace).await.trim(), own.trim(), "{namespace}");
        }
        // Whoever takes it away gets it back.
        let maps: Api<ConfigMap> = Api::namespaced(case.client.clone(), &case.namespace);
        maps.delete("istio-ca-root-cert", &DeleteParams::default()).await.unwrap();
        assert_eq!(root_of(case, &case.namespace).await.trim(), own.trim());
    });
}

const CALLER: &str = "
apiVersion: v1
kind: Pod
metadata: {name: caller}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: busybox
    command: [sleep, '1000']
    volumeMounts: [{name: token, mountPath: /var/run/secrets/tokens}]
  volumes:
  - name: token
    projected: {sources: [{serviceAccountToken: {audience: istio-ca, path: istio-token}}]}
";

/// Status and body of a request from the pod `caller`.
async fn curl(case: &Case, url: &str, token: bool) -> (String, String) {
    let header = match token {
        true => r#"-H "Authorization: Bearer $(cat /var/run/secrets/tokens/istio-token)""#,
        false => "",
    };
    let line = format!("curl -s -m 60 -w '\\n%{{http_code}}' {header} '{url}'");
    let run = case.exec("pod/caller", &["sh", "-c", &line]).await;
    let (body, status) = run.stdout.rsplit_once('\n').unwrap_or(("", &run.stdout));
    (status.to_owned(), body.to_owned())
}

#[test]
fn off_loopback_debug_pages_need_a_token() {
    mesh_case("token", async |case| {
        case.apply(CALLER).await;
        case.ready("pod/caller").await;
        let pods: Api<Pod> = Api::namespaced(case.client.clone(), SYSTEM);
        let pod = pods.get(&case.istiod().await).await.unwrap();
        let ip = pod.status.unwrap().pod_ip.unwrap();
        for page in ["syncz", "configz", "pprof/heap"] {
            let url = format!("http://{ip}:15014/debug/{page}");
            let (status, body) = curl(case, &url, false).await;
            assert_eq!(status, "401", "{url}: {body}");
            // The other port's pages are for the program's own machine, with a token or without.
            let url = format!("http://{ip}:8080/debug/{page}");
            assert_eq!(curl(case, &url, false).await.0, "403");
            assert_eq!(curl(case, &url, true).await.0, "403");
        }
        let (status, body) = curl(case, &format!("http://{ip}:15014/debug/syncz"), true).await;
        assert_eq!(status, "200", "{body}");
        // Another namespace's caller sees its own proxies, and nothing of the mesh's.
        let (status, _) = curl(case, &format!("http://{ip}:15014/debug/configz"), true).await;
        assert_ne!(status, "200");
        let url = format!("http://{ip}:15014/debug/pprof/heap");
        assert_eq!(curl(case, &url, true).await.0, "401");
        // What a kubelet or Prometheus must reach is open; ControlZ and plain discovery are not.
        assert_eq!(curl(case, &format!("http://{ip}:8080/ready"), false).await.0, "200");
        assert_eq!(curl(case, &format!("http://{ip}:15014/metrics"), false).await.0, "200");
        assert_eq!(curl(case, &format!("http://{ip}:9876/"), false).await.0, "000");
        assert_eq!(curl(case, &format!("http://{ip}:15010/"), false).await.0, "000");
    });
}

#[test]
fn metrics_have_the_names_of_istios_dashboards() {
    mesh_case("metrics", async |case| {
        let page = case.page(15014, "/metrics").await;
        assert_eq!(page.status, 200);
        for name in [
            "istio_build",
            "pilot_info",
            "pilot_xds",
            "pilot_services",
            "pilot_virt_services",
            "pilot_xds_pushes",
            "pilot_xds_push_time",
            "pilot_xds_config_size_bytes",
            "pilot_proxy_convergence_time",
            "pilot_debounce_time",
            "pilot_pushcontext_init_seconds",
            "pilot_push_triggers",
            "pilot_inbound_updates",
            "pilot_k8s_cfg_events",
            "pilot_k8s_reg_events",
            "pilot_total_xds_rejects",
            "pilot_total_xds_internal_errors",
            "galley_validation_passed",
            "galley_validation_failed",
            "sidecar_injection_requests_total",
            "sidecar_injection_success_total",
            "sidecar_injection_failure_total",
            "citadel_server_csr_count",
            "process_resident_memory_bytes",
        ] {
            assert!(
                page.body.contains(&format!("# TYPE {name}")),
                "{name} is missing: {}",
                page.body
            );
        }
    });
}

#[test]
fn controlz_changes_a_log_level() {
    mesh_case("controlz", async |case| {
        let pod = case.istiod().await;
        let page = case.page_of(&pod, 9876, "GET", "/", "").await;
        assert!(page.status == 200 && page.body.contains("pilot-discovery"), "{page:?}");
        let scopes = case.page_of(&pod, 9876, "GET", "/scopej/", "").await.json();
        assert!(scopes.to_string().contains("validation"), "{scopes}");
        let body = r#"{"name": "validation", "output_level": "debug"}"#;
        let put = case.page_of(&pod, 9876, "PUT", "/scopej/validation", body).await;
        assert!(put.status < 300, "{put:?}");
        let scope = case.page_of(&pod, 9876, "GET", "/scopej/validation", "").await.json();
        assert_eq!(scope["output_level"], "debug", "{scope}");
    });
}
