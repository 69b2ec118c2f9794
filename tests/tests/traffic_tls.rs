//! DestinationRule: TLS to the other side in every mode, PROXY protocol and tunnels.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "world/echo.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod echo;

use echo::{SERVICE, SUBSETS, client, server};
use ironsail_testkit::{Ask, Case, Traffic, ask, mesh_case};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use serde_json::{Value, json};

/// An authority of the test's own, and what it signs.
struct Authority {
    root: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        // With the same name the certificates that it signs would seem to have signed themselves.
        params.distinguished_name.push(rcgen::DnType::CommonName, "root of the test");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let root = params.self_signed(&key).unwrap().pem();
        Self { root, issuer: Issuer::new(params, key) }
    }

    /// A Secret with a certificate for `name`, its key and the authority.
    fn secret(&self, secret: &str, name: &str) -> Value {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret}, "type": "Opaque",
            "stringData": {"tls.crt": cert.pem(), "tls.key": key.serialize_pem(), "ca.crt": self.root}})
    }
}

/// A server with the test's certificate, outside of the mesh.
const SECURE: &str = "
apiVersion: v1
kind: Service
metadata: {name: secure}
spec:
  selector: {app: secure}
  ports:
  - {name: http, port: 80, targetPort: 8443}
  - {name: http-plain, port: 8000, targetPort: 8080}
  - {name: http2, port: 85, targetPort: 8443}
  - {name: tcp, port: 9000, targetPort: 9443}
---
apiVersion: v1
kind: Pod
metadata: {name: secure, labels: {app: secure, sidecar.istio.io/inject: 'false'}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: echo
    args: [serve, --http, '8080', --https, '8443', --tls, '9443', --cert, /certs/tls.crt, --key, /certs/tls.key]
    env: [{name: VERSION, value: secure}]
    readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1}
    volumeMounts: [{name: certs, mountPath: /certs}]
  volumes: [{name: certs, secret: {secretName: server-cert}}]
---
# Whoever names a Secret must be allowed to read it.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules: [{apiGroups: [''], resources: [secrets], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: default, namespace: NAMESPACE}]
---
apiVersion: v1
kind: Service
metadata: {name: forward}
spec:
  selector: {app: forward}
  ports: [{name: tcp, port: 3128}]
---
apiVersion: v1
kind: Pod
metadata: {name: forward, labels: {app: forward, sidecar.istio.io/inject: 'false'}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: echo, args: [serve, --http, '8080', --connect, '3128']}]
";

async fn world(case: &Case) {
    let authority = Authority::new();
    case.try_apply(authority.secret("server-cert", "secure.example")).await.unwrap();
    case.try_apply(authority.secret("client-cert", "client.example")).await.unwrap();
    let (one, two) = (server("echo", "v1", true), server("echo", "v2", false));
    let mount = "  annotations:
    sidecar.istio.io/userVolume: '{\"certs\": {\"secret\": {\"secretName\": \"client-cert\"}}}'
    sidecar.istio.io/userVolumeMount: '{\"certs\": {\"mountPath\": \"/etc/certs\", \"readOnly\": true}}'
spec:";
    let client = client("client", "team: red").replace(
        "metadata: {name: client, labels: {app: client, team: red}}\nspec:",
        &format!("metadata:\n  name: client\n  labels: {{app: client, team: red}}\n{mount}"),
    );
    let secure = SECURE.replace("NAMESPACE", &case.namespace);
    let parts = [SERVICE, SUBSETS, &secure, &one, &two, &client];
    echo::start(case, &parts, &["echo-v1", "echo-v2", "secure", "forward", "client"]).await;
}

/// A rule for `host` with this TLS, and more of the spec.
fn rule(host: &str, policy: &str, more: &str) -> String {
    format!(
        "
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {{name: {host}-tls}}
spec:
  host: {host}
  trafficPolicy: {policy}
{more}"
    )
}

fn tls(settings: &str) -> String {
    rule("secure", &format!("{{tls: {{{settings}}}}}"), "")
}

fn secure() -> Ask {
    ask("http://secure/")
}

const CA: &str = "caCertificates: /etc/certs/ca.crt";
const NAMES: &str = "sni: secure.example, subjectAltNames: [secure.example]";

#[test]
fn the_other_side_is_spoken_to_as_the_rule_says() {
    mesh_case("tls", async |case| {
        world(case).await;
        let t = Traffic::new(case, "client");
        one_sided(&t).await;
        mutual(&t).await;
        credentials(&t).await;
        mesh(&t).await;
        wrapped(&t, case).await;
        t.done().await;
    });
}

async fn one_sided(t: &Traffic<'_>) {
    let works = || secure().status(200).version("secure").reports("/tls/sni", "secure.example");
    t.behaves(
        "SIMPLE with a file of roots",
        &tls(&format!("mode: SIMPLE, {NAMES}, {CA}")),
        vec![works().all("no certificate of the client", |all| {
            all[0].body["tls"].get("client_names").is_none()
        })],
    )
    .await;
    let wrong =
        format!("mode: SIMPLE, sni: secure.example, subjectAltNames: [other.example], {CA}");
    t.behaves(
        "SIMPLE with a name that the server has not",
        &tls(&wrong),
        vec![secure().status(503)],
    )
    .await;
    let system = format!("mode: SIMPLE, {NAMES}");
    t.behaves("SIMPLE with the system's roots", &tls(&system), vec![secure().status(503)]).await;
    let skip = "mode: SIMPLE, sni: secure.example, insecureSkipVerify: true";
    t.behaves("SIMPLE with insecureSkipVerify", &tls(skip), vec![works()]).await;
    let unnamed = format!("mode: SIMPLE, subjectAltNames: [secure.example], {CA}");
    t.behaves(
        "SIMPLE without sni asks for the host",
        &tls(&unnamed),
        vec![secure().status(200).reports("/tls/sni", "secure")],
    )
    .await;
    let ports = rule(
        "secure",
        &format!(
            "{{portLevelSettings: [{{port: {{number: 80}}, tls: {{mode: SIMPLE, {NAMES}, {CA}}}}}]}}"
        ),
        "",
    );
    t.behaves(
        "tls of one port",
        &ports,
        vec![
            works(),
            ask("http://secure:8000/")
                .status(200)
                .all("in the clear", |all| all[0].body.get("tls").is_none()),
        ],
    )
    .await;
    let simple = tls(&format!("mode: SIMPLE, {NAMES}, {CA}"));
    t.behaves(
        "SIMPLE over HTTP/2",
        &simple,
        vec![
            ask("h2c://secure:85/")
                .status(200)
                .reports("/protocol", "HTTP/2.0")
                .reports("/tls/alpn", "h2"),
        ],
    )
    .await;
    t.behaves(
        "SIMPLE for TCP",
        &simple,
        vec![ask("tcp://secure:9000").works().reports("/tls/sni", "secure.example")],
    )
    .await;
}

async fn mutual(t: &Traffic<'_>) {
    let files = "clientCertificate: /etc/certs/tls.crt, privateKey: /etc/certs/tls.key";
    t.behaves(
        "MUTUAL with files",
        &tls(&format!("mode: MUTUAL, {NAMES}, {CA}, {files}")),
        vec![secure().status(200).all("the client's name is seen", |all| {
            all[0].body["tls"]["client_names"]
                .as_array()
                .is_some_and(|n| n.iter().any(|n| n == "client.example"))
        })],
    )
    .await;
}

async fn credentials(t: &Traffic<'_>) {
    let selected = "  workloadSelector: {matchLabels: {team: red}}\n";
    let with =
        |settings: &str, more: &str| rule("secure", &format!("{{tls: {{{settings}}}}}"), more);
    let seen = |all: &[ironsail_testkit::Answer]| {
        all[0].body["tls"]["client_names"]
            .as_array()
            .is_some_and(|n| n.iter().any(|n| n == "client.example"))
    };
    let both = format!("mode: MUTUAL, {NAMES}, credentialName: client-cert");
    t.behaves(
        "MUTUAL with credentialName",
        &with(&both, selected),
        vec![secure().status(200).all("the client's name is seen", seen)],
    )
    .await;
    let simple = format!("mode: SIMPLE, {NAMES}, credentialName: client-cert");
    t.behaves(
        "SIMPLE with credentialName",
        &with(&simple, selected),
        vec![secure().status(200).all("no name of the client", move |all| !seen(all))],
    )
    .await;
    t.behaves(
        "credentialName for nobody in particular",
        &with(&both, ""),
        vec![secure().status(503)],
    )
    .await;
}

async fn mesh(t: &Traffic<'_>) {
    let to = |version: &str, mode: &str| {
        format!(
            "{SUBSETS}{mode}---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{name: route}}
spec:
  hosts: [echo]
  http: [{{route: [{{destination: {{host: echo, subset: {version}}}}}]}}]
"
        )
    };
    let get = || ask("http://echo/");
    t.behaves(
        "mTLS without being asked",
        &to("v1", ""),
        vec![get().status(200).version("v1").all("the client is known", |all| {
            all[0].body["headers"]["x-forwarded-client-cert"][0]
                .as_str()
                .is_some_and(|v| v.contains("spiffe://"))
        })],
    )
    .await;
    t.behaves(
        "plaintext to who has no sidecar",
        &to("v2", ""),
        vec![get().status(200).version("v2")],
    )
    .await;
    let off = "  trafficPolicy: {tls: {mode: DISABLE}}\n";
    t.behaves(
        "DISABLE",
        &to("v1", off),
        vec![get().status(200).version("v1").misses("x-forwarded-client-cert")],
    )
    .await;
    let on = "  trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}\n";
    t.behaves(
        "ISTIO_MUTUAL",
        &to("v1", on),
        vec![get().status(200).version("v1").all("the client is known", |all| {
            all[0].body["headers"].get("x-forwarded-client-cert").is_some()
        })],
    )
    .await;
    t.behaves("ISTIO_MUTUAL to who has no sidecar", &to("v2", on), vec![get().status(503)]).await;
    let wrong = "  trafficPolicy: {tls: {mode: ISTIO_MUTUAL, subjectAltNames: ['spiffe://cluster.local/ns/other/sa/other']}}\n";
    t.behaves("ISTIO_MUTUAL with another's name", &to("v1", wrong), vec![get().status(503)]).await;
}

async fn wrapped(t: &Traffic<'_>, case: &Case) {
    let announce = format!(
        "{SUBSETS}  trafficPolicy: {{proxyProtocol: {{version: V1}}, tls: {{mode: DISABLE}}}}\n"
    );
    let to = |host: &str, port: u16| {
        format!(
            "---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{name: route}}
spec:
  hosts: [echo]
  tcp: [{{match: [{{port: 9000}}], route: [{{destination: {{host: {host}, port: {{number: {port}}}{}}}}}]}}]
",
            if host == "echo" { ", subset: v2" } else { "" }
        )
    };
    t.behaves(
        "proxyProtocol",
        &format!("{announce}{}", to("echo", 9000)),
        vec![
            ask("tcp://echo:9000").works().version("v2").all(
                "the first line is the proxy's",
                |all| {
                    all[0].body["body"].as_str().is_some_and(|line| line.starts_with("PROXY TCP4 "))
                },
            ),
        ],
    )
    .await;
    let address = async |pod: &str| {
        let pod = case.wait(&format!("pod/{pod}"), "there", |_| true).await;
        pod["status"]["podIP"].as_str().unwrap().to_owned()
    };
    let (target, proxy) = (address("echo-v2").await, address("forward").await);
    let tunnel = rule(
        "forward",
        &format!("{{tunnel: {{protocol: CONNECT, targetHost: {target}, targetPort: 9000}}}}"),
        "",
    );
    t.behaves(
        "tunnel",
        &format!("{tunnel}{}", to("forward", 3128)),
        vec![
            ask("tcp://echo:9000")
                .args(&["-d", "hallo"])
                .works()
                .version("v2")
                .reports("/body", "hallo")
                .all("by way of the proxy", move |all| {
                    all[0].body["peer"]
                        .as_str()
                        .is_some_and(|peer| peer.starts_with(&format!("{proxy}:")))
                }),
        ],
    )
    .await;
}
