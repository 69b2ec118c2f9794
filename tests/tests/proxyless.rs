//! gRPC without a proxy: Python's own library asks the running control plane, or the agent that injection
//! put beside it, and calls a service.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use ironsail_sys::env::Env;
use ironsail_testkit::{SYSTEM, Shared, case_on, eventually, mesh_on};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};

const SERVER: &str = r#"
import grpc, socket
from concurrent import futures
class Echo(grpc.GenericRpcHandler):
    def service(self, details):
        if details.method == "/test.Echo/Say":
            return grpc.unary_unary_rpc_method_handler(lambda request, context: b"echo " + request)
server = grpc.server(futures.ThreadPoolExecutor(2), handlers=[Echo()])
server.add_insecure_port("0.0.0.0:9000")
server.start()
server.wait_for_termination()
"#;

const CLIENT: &str = r#"
import sys, grpc, grpc.experimental
credentials = grpc.xds_channel_credentials(grpc.experimental.insecure_channel_credentials())
say = grpc.secure_channel(sys.argv[1], credentials).unary_unary("/test.Echo/Say")
print(say(b"hello", timeout=60, wait_for_ready=True).decode())
"#;

/// Where scripts/setup puts grpcio.
fn library() -> PathBuf {
    let env = Env::of_process();
    let cache = match (env.var("IRONSAIL_CACHE"), env.var("HOME")) {
        (Some(cache), _) => PathBuf::from(cache),
        (None, home) => PathBuf::from(home.unwrap_or("/root")).join(".cache/ironsail"),
    };
    std::fs::canonicalize(cache.join("tools/grpcio")).expect("scripts/setup installs grpcio")
}

/// An image with Python and the library.
fn with_python(folder: &Path) -> Vec<String> {
    let file = folder.join("images.yaml");
    let mut map = std::fs::read_to_string(&file).unwrap();
    map += &format!(
        "  python: {{root: host, entrypoint: [python3], files: {{/opt/grpcio: {}}}, env: {{PYTHONPATH: /opt/grpcio}}}}\n",
        library().display()
    );
    std::fs::write(file, map).unwrap();
    Vec::new()
}

static MESH: Shared = Shared::new(with_python);

/// The control plane once more, with its plain port open to pods.
async fn open_istiod(client: &kube::Client) -> String {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), SYSTEM);
    let own = deployments.get("istiod").await.unwrap();
    let mut copy: Value = json!({"metadata": {"name": "istiod-open"}, "spec": own.spec});
    let labels = json!({"app": "istiod-open", "sidecar.istio.io/inject": "false"});
    copy["spec"]["selector"] = json!({"matchLabels": {"app": "istiod-open"}});
    copy["spec"]["template"]["metadata"]["labels"] = labels;
    let args = copy["spec"]["template"]["spec"]["containers"][0]["args"].as_array_mut().unwrap();
    args.push(json!("--grpcAddr=:15010"));
    let copy = serde_json::from_value(copy).unwrap();
    deployments.create(&PostParams::default(), &copy).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(client.clone(), SYSTEM);
    eventually("the open control plane is ready", async || {
        let list = pods.list(&ListParams::default().labels("app=istiod-open")).await;
        let pod = list.map_err(|e| e.to_string())?.items.into_iter().next();
        let status = pod.and_then(|pod| pod.status).ok_or("no pod")?;
        let ready = status.container_statuses.iter().flatten().any(|c| c.ready);
        let ip = status.pod_ip.filter(|_| ready);
        ip.ok_or_else(|| "not ready".to_owned())
    })
    .await
}

fn objects(namespace: &str, control_plane: &str) -> String {
    let node = format!("sidecar~10.0.0.1~client.{namespace}~{namespace}.svc.cluster.local");
    let bootstrap = json!({
        "xds_servers": [{"server_uri": format!("{control_plane}:15010"),
            "channel_creds": [{"type": "insecure"}], "server_features": ["xds_v3"]}],
        "node": {"id": node, "cluster": format!("client.{namespace}"),
            "metadata": {"GENERATOR": "grpc", "NAMESPACE": namespace, "CLUSTER_ID": "Kubernetes",
                "LABELS": {"app": "client"}}},
    });
    [
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "httpbin"},
            "spec": {"selector": {"app": "httpbin"},
                "ports": [{"name": "grpc", "port": 8000, "targetPort": 9000}]}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "httpbin"},
            "spec": {"selector": {"matchLabels": {"app": "httpbin"}}, "template": {
                "metadata": {"labels": {"app": "httpbin"}},
                "spec": {"containers": [{"name": "main", "image": "python", "args": ["-c", SERVER],
                    "readinessProbe": {"tcpSocket": {"port": 9000}, "periodSeconds": 1}}]}}}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "client"},
            "spec": {"containers": [{"name": "main", "image": "python",
                "command": ["sleep", "1000"],
                "env": [{"name": "GRPC_XDS_BOOTSTRAP_CONFIG", "value": bootstrap.to_string()}]}]}}),
    ]
    .map(|object| object.to_string())
    .join("\n---\n")
}

#[test]
fn python_calls_a_service_by_its_name() {
    case_on(mesh_on(&MESH), "proxyless", async |case| {
        let address = open_istiod(&case.client).await;
        case.apply(&objects(&case.namespace, &address)).await;
        case.ready("deployment/httpbin").await;
        case.ready("pod/client").await;
        let target = format!("xds:///httpbin.{}.svc.cluster.local:8000", case.namespace);
        let call =
            async |target: &str| case.exec("pod/client", &["python3", "-c", CLIENT, target]).await;
        eventually("the service answers", async || {
            let run = call(&target).await;
            let said = run.stdout.trim() == "echo hello";
            if said { Ok(()) } else { Err(format!("{}{}", run.stdout, run.stderr)) }
        })
        .await;
        // A route of the mesh counts for it too.
        case.apply(
            "{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: httpbin},
              spec: {hosts: [httpbin], http: [{route: [{destination: {host: httpbin}}],
              fault: {abort: {httpStatus: 403, percentage: {value: 100}}}}]}}",
        )
        .await;
        eventually("the fault is there", async || {
            let run = call(&target).await;
            let refused = run.stderr.contains("PERMISSION_DENIED");
            if refused { Ok(()) } else { Err(format!("{}{}", run.stdout, run.stderr)) }
        })
        .await;
    });
}

/// The client's pod as injection makes it: an agent beside the application, and no Envoy.
fn with_an_agent() -> String {
    let labels = json!({"app": "client", "sidecar.istio.io/inject": "true"});
    let server = json!({"app": "httpbin", "sidecar.istio.io/inject": "false"});
    [
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "httpbin"},
            "spec": {"selector": {"app": "httpbin"},
                "ports": [{"name": "grpc", "port": 8000, "targetPort": 9000}]}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "httpbin"},
            "spec": {"selector": {"matchLabels": {"app": "httpbin"}}, "template": {
                "metadata": {"labels": server},
                "spec": {"containers": [{"name": "main", "image": "python", "args": ["-c", SERVER],
                    "readinessProbe": {"tcpSocket": {"port": 9000}, "periodSeconds": 1}}]}}}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "client", "labels": labels,
                "annotations": {"inject.istio.io/templates": "grpc-agent"}},
            "spec": {"containers": [{"name": "main", "image": "python",
                "command": ["sleep", "1000"]}]}}),
    ]
    .map(|object| object.to_string())
    .join("\n---\n")
}

#[test]
fn python_calls_a_service_through_the_agent_beside_it() {
    case_on(mesh_on(&MESH), "grpc-agent", async |case| {
        let labels = json!({"istio-injection": "enabled"});
        let object = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": case.namespace, "labels": labels}});
        case.try_apply(object).await.unwrap();
        case.apply(&with_an_agent()).await;
        case.ready("deployment/httpbin").await;
        case.ready("pod/client").await;
        let target = format!("xds:///httpbin.{}.svc.cluster.local:8000", case.namespace);
        let call = ["python3", "-c", CLIENT, &target];
        eventually("an answer", async || {
            let run = case.exec_in("client", "main", &call).await;
            let answered = run.stdout.trim() == "echo hello";
            if answered { Ok(()) } else { Err(format!("{}{}", run.stdout, run.stderr)) }
        })
        .await;
        // What the library read is the agent's file, and its socket is the agent's.
        let show = "env | grep GRPC_XDS_BOOTSTRAP=; cat $GRPC_XDS_BOOTSTRAP";
        let shown = case.exec_in("client", "main", &["sh", "-c", show]).await.stdout;
        let file = "GRPC_XDS_BOOTSTRAP=/etc/istio/proxy/grpc-bootstrap.json";
        assert!(shown.contains(file), "{shown}");
        assert!(shown.contains("\"unix:///etc/istio/proxy/XDS\""), "{shown}");
        eventually("the agent's log", async || {
            let log = case.logs("client", "istio-proxy").await;
            let was_asked = log.contains("connected to upstream XDS server");
            if was_asked { Ok(()) } else { Err(log) }
        })
        .await;
        // Its certificates lie where that file says.
        let certificates = ["ls", "/var/lib/istio/data"];
        let listed = case.exec_in("client", "main", &certificates).await.stdout;
        assert!(listed.contains("cert-chain.pem") && listed.contains("key.pem"), "{listed}");
    });
}
