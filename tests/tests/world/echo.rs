//! Pods for tests of traffic: clients with a sidecar, and versions of one service.

use std::fmt::Write as _;

use ironsail_testkit::Case;

/// A service with a port for each protocol.
pub(crate) const SERVICE: &str = "
apiVersion: v1
kind: Service
metadata: {name: echo, labels: {app: echo}}
spec:
  selector: {app: echo}
  ports:
  - {name: http, port: 80, targetPort: 8080}
  - {name: http2, port: 85, targetPort: 8085}
  - {name: http-other, port: 8000, targetPort: 8080}
  - {name: grpc, port: 7070}
  - {name: tcp, port: 9000}
  - {name: tcp-other, port: 9010}
  - {name: tls, port: 9443}
";

/// What the rules of most tests need: a subset for each version.
pub(crate) const SUBSETS: &str = "
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: echo}
spec:
  host: echo
  subsets:
  - {name: v1, labels: {version: v1}}
  - {name: v2, labels: {version: v2}}
  - {name: v3, labels: {version: v3}}
";

/// A client: the echo program, with a sidecar, that waits to be told what to ask.
pub(crate) fn client(name: &str, labels: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{app: {name}, {labels}}}}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{{name: main, image: echo, args: [serve, --http, '8080']}}]
"
    )
}

/// A server of `app` in one version; with a sidecar if `mesh`.
pub(crate) fn server(app: &str, version: &str, mesh: bool) -> String {
    let ports = "--http, '8080,8085,7070,8081', --https, '8443', --tcp, '9000,9010', --tls, '9443'";
    format!(
        "
apiVersion: v1
kind: Pod
metadata:
  name: {app}-{version}
  labels: {{app: {app}, version: {version}, sidecar.istio.io/inject: '{mesh}'}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: echo
    args: [serve, {ports}]
    env:
    - {{name: VERSION, value: {version}}}
    - {{name: SERVICE, value: {app}}}
    readinessProbe: {{httpGet: {{path: /ready, port: 8080}}, periodSeconds: 1}}
"
    )
}

/// Makes the namespace one of the mesh and starts the pods in it.
pub(crate) async fn start(case: &Case, yaml: &[&str], pods: &[&str]) {
    case.join_mesh().await;
    for part in yaml {
        case.apply(part).await;
    }
    for pod in pods {
        case.ready(&format!("pod/{pod}")).await;
    }
}

/// A VirtualService called `route` for the host `echo` with these HTTP routes, which are YAML in the
/// flow style, one a line.
pub(crate) fn routes(http: &[&str]) -> String {
    let mut out = String::from(
        "
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: route}
spec:
  hosts: [echo]
  http:
",
    );
    for route in http {
        let _ = writeln!(out, "  - {route}");
    }
    out
}

/// `destination`s of a version.
pub(crate) const TO_V1: &str = "route: [{destination: {host: echo, subset: v1}}]";
pub(crate) const TO_V2: &str = "route: [{destination: {host: echo, subset: v2}}]";

/// Requests that match go to v2, all others to v1.
pub(crate) fn v2_if(matching: &str) -> String {
    routes(&[&format!("{{match: [{matching}], {TO_V2}}}"), &format!("{{{TO_V1}}}")])
}
