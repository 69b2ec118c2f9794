//! Gateways with TLS: every mode, where certificates come from, who gets them, and that they may
//! change while requests go on.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use ironsail_testkit::{
    Ask, Authority, Case, Traffic, ask, eventually, gateway_pod, may_read_secrets, mesh_case,
};

fn app(name: &str, inject: bool) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{app: {name}, sidecar.istio.io/inject: '{inject}'}}}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: echo
    args: [serve, --http, '8080', --https, '8443', --tcp, '9000']
    env: [{{name: VERSION, value: {name}}}]
---
apiVersion: v1
kind: Service
metadata: {{name: {name}}}
spec:
  selector: {{app: {name}}}
  ports:
  - {{name: http, port: 80, targetPort: 8080}}
  - {{name: https, port: 443, targetPort: 8443}}
  - {{name: tcp, port: 9000}}
---"
    )
}

/// A Gateway with one server on 443, and what it is routed by.
fn server(tls: &str, hosts: &str, protocol: &str) -> String {
    format!(
        "
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {{name: secure}}
spec:
  selector: {{istio: edge}}
  servers: [{{port: {{number: 443, name: secure, protocol: {protocol}}}, hosts: [{hosts}], tls: {{{tls}}}}}]
---"
    )
}

const TO_A: &str = "
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: secure}
spec:
  hosts: ['*.example.com']
  gateways: [secure]
  http: [{route: [{destination: {host: a, port: {number: 80}}}]}]
---";

/// HTTPS to the gateway for `host`, whose certificate must be one of the authority's.
fn https(host: &str) -> Ask {
    ask("https://edge/").header(&format!("Host: {host}")).args(&[
        "--sni",
        host,
        "--ca",
        "/tmp/root.pem",
    ])
}

#[test]
fn tls_at_gateways() {
    mesh_case("tls", async |case| {
        let (ours, others) = (Authority::new("ours"), Authority::new("others"));
        case.tls_secret("web", Some(&ours.issue(&["a.example.com", "b.example.com"])), None).await;
        case.apply(&may_read_secrets("edge")).await;
        case.apply(&gateway_pod("edge", "edge")).await;
        case.apply(&gateway_pod("poor", "poor")).await;
        case.apply(&(app("a", false) + &app("b", true) + &app("client", false))).await;
        case.apply(&app("member", true)).await;
        for pod in ["edge", "poor", "a", "b", "client", "member"] {
            case.ready(&format!("pod/{pod}")).await;
        }
        case.put_file("client", "/tmp/root.pem", &ours.root).await;
        let (mine, theirs) = (ours.issue(&["me.example.com"]), others.issue(&["me.example.com"]));
        for (name, issued) in [("mine", &mine), ("theirs", &theirs)] {
            case.put_file("client", &format!("/tmp/{name}.pem"), &issued.certificate).await;
            case.put_file("client", &format!("/tmp/{name}.key"), &issued.key).await;
        }
        let traffic = Traffic::new(case, "client");
        simple(case, &traffic, &ours).await;
        mutual(case, &traffic, &ours).await;
        passed_through(&traffic).await;
        passed_on(case, &traffic).await;
        parameters(case, &traffic).await;
        rights(case, &traffic).await;
        under_load(case, &traffic, &ours).await;
        traffic.done().await;
    });
}

async fn simple(case: &Case, traffic: &Traffic<'_>, ours: &Authority) {
    let web = server("mode: SIMPLE, credentialName: web", "'*.example.com'", "HTTPS") + TO_A;
    traffic
        .behaves(
            "SIMPLE shows the Secret's certificate, and the backend is told of HTTPS",
            &web,
            vec![
                https("a.example.com").status(200).version("a").sees("x-forwarded-proto", "https"),
                https("a.example.com").misses("x-forwarded-client-cert"),
                ask("h2://edge/")
                    .header("Host: a.example.com")
                    .args(&["--sni", "a.example.com"])
                    .version("a"),
            ],
        )
        .await;
    traffic
        .still(
            "a server name that no server has gets no connection",
            vec![ask("https://edge/").args(&["--sni", "a.example.org"]).fails()],
        )
        .await;
    case.tls_secret("other", Some(&ours.issue(&["c.example.com"])), None).await;
    let two = "
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: secure}
spec:
  selector: {istio: edge}
  servers:
  - {port: {number: 443, name: https-a, protocol: HTTPS}, hosts: [a.example.com], tls: {mode: SIMPLE, credentialName: web}}
  - {port: {number: 443, name: https-c, protocol: HTTPS}, hosts: [c.example.com], tls: {mode: SIMPLE, credentialName: other}}
---"
    .to_owned()
        + TO_A;
    traffic
        .behaves(
            "two hosts on one port have their own certificates",
            &two,
            vec![https("a.example.com").version("a"), https("c.example.com").version("a")],
        )
        .await;
    traffic
        .still(
            "a request for a host of the other server does not find it",
            vec![
                ask("https://edge/")
                    .header("Host: c.example.com")
                    .args(&["--sni", "a.example.com"])
                    .status(404),
            ],
        )
        .await;
    let tcp = server("mode: SIMPLE, credentialName: web", "a.example.com", "TLS")
        + "
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: secure}
spec:
  hosts: [a.example.com]
  gateways: [secure]
  tcp: [{route: [{destination: {host: a, port: {number: 9000}}}]}]
";
    traffic
        .behaves(
            "TLS around TCP is taken off",
            &tcp,
            vec![
                ask("tls://edge:443/")
                    .args(&["--sni", "a.example.com", "--ca", "/tmp/root.pem", "-d", "hi"])
                    .version("a")
                    .reports("/body", "hi"),
            ],
        )
        .await;
    let missing = server("mode: SIMPLE, credentialName: late", "'*.example.com'", "HTTPS") + TO_A;
    traffic
        .behaves(
            "without its Secret a server takes no connection",
            &missing,
            vec![https("a.example.com").fails()],
        )
        .await;
    case.tls_secret("late", Some(&ours.issue(&["a.example.com"])), None).await;
    traffic.still("it does when the Secret comes", vec![https("a.example.com").version("a")]).await;
}

async fn mutual(case: &Case, traffic: &Traffic<'_>, ours: &Authority) {
    let shown = |who: &str| {
        let (cert, key) = (format!("/tmp/{who}.pem"), format!("/tmp/{who}.key"));
        https("a.example.com").args(&["--cert", &cert, "--key", &key])
    };
    let web = ours.issue(&["a.example.com"]);
    case.tls_secret("both", Some(&web), Some(&ours.root)).await;
    let both = server("mode: MUTUAL, credentialName: both", "a.example.com", "HTTPS") + TO_A;
    traffic
        .behaves(
            "MUTUAL takes clients with a certificate of the Secret's root only",
            &both,
            vec![
                shown("mine").status(200).version("a").all(
                    "the client's certificate is told",
                    |all| {
                        all[0].body["headers"]["x-forwarded-client-cert"]
                            .to_string()
                            .contains("DNS=me.example.com")
                    },
                ),
                https("a.example.com").fails(),
                shown("theirs").fails(),
            ],
        )
        .await;
    case.tls_secret("split", Some(&web), None).await;
    case.tls_secret("split-cacert", None, Some(&ours.root)).await;
    let split = server("mode: MUTUAL, credentialName: split", "a.example.com", "HTTPS") + TO_A;
    traffic
        .behaves(
            "the roots may lie in a Secret of their own",
            &split,
            vec![
                shown("mine").version("a"),
                shown("theirs").fails(),
                https("a.example.com").fails(),
            ],
        )
        .await;
    let optional =
        server("mode: OPTIONAL_MUTUAL, credentialName: both", "a.example.com", "HTTPS") + TO_A;
    traffic
        .behaves(
            "OPTIONAL_MUTUAL takes clients without a certificate, and none with a wrong one",
            &optional,
            vec![
                shown("mine").version("a"),
                https("a.example.com").version("a"),
                shown("theirs").fails(),
            ],
        )
        .await;
    let named = server(
        "mode: MUTUAL, credentialName: both, subjectAltNames: [you.example.com]",
        "a.example.com",
        "HTTPS",
    ) + TO_A;
    traffic.behaves("subjectAltNames say which clients", &named, vec![shown("mine").fails()]).await;
}

async fn passed_through(traffic: &Traffic<'_>) {
    let through = server("mode: PASSTHROUGH", "'*.example.com'", "TLS")
        + "
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: secure}
spec:
  hosts: ['*.example.com']
  gateways: [secure]
  tls:
  - match: [{sniHosts: [a.example.com]}]
    route: [{destination: {host: a, port: {number: 443}}}]
  - match: [{sniHosts: [b.example.com]}]
    route: [{destination: {host: b, port: {number: 443}}}]
";
    let to =
        |host: &str| ask("https://edge/").header(&format!("Host: {host}")).args(&["--sni", host]);
    traffic
        .behaves(
            "PASSTHROUGH goes by server name, and leaves TLS to the backend",
            &through,
            vec![
                to("a.example.com").version("a").reports("/tls/sni", "a.example.com"),
                to("b.example.com").version("b").reports("/tls/sni", "b.example.com"),
                to("c.example.com").fails(),
            ],
        )
        .await;
}

async fn passed_on(case: &Case, traffic: &Traffic<'_>) {
    let ns = &case.namespace;
    let edge = case.wait("pod/edge", "addressed", |pod| pod["status"]["podIP"].is_string()).await;
    let ip = edge["status"]["podIP"].as_str().unwrap().to_owned();
    let rules = format!(
        "
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {{name: secure}}
spec:
  selector: {{istio: edge}}
  servers:
  - {{port: {{number: 15443, name: tls, protocol: TLS}}, hosts: ['*.{ns}.svc.cluster.local'], tls: {{mode: AUTO_PASSTHROUGH}}}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: far}}
spec:
  hosts: [far.internal]
  addresses: [240.1.1.1]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{{number: 80, name: http, protocol: HTTP}}]
  endpoints: [{{address: {ip}, ports: {{http: 15443}}}}]
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {{name: far}}
spec:
  host: far.internal
  trafficPolicy: {{tls: {{mode: ISTIO_MUTUAL, sni: outbound_.80_._.b.{ns}.svc.cluster.local, subjectAltNames: ['spiffe://cluster.local/ns/{ns}/sa/default']}}}}
"
    );
    traffic
        .behaves(
            "AUTO_PASSTHROUGH passes mTLS of the mesh on by its server name",
            &rules,
            vec![
                ask("http://240.1.1.1/")
                    .header("Host: far.internal")
                    .from("member")
                    .status(200)
                    .version("b")
                    .all("the caller is known behind the gateway", |all| {
                        all[0].body["headers"]["x-forwarded-client-cert"]
                            .to_string()
                            .contains("/sa/default")
                    }),
            ],
        )
        .await;
    traffic
        .still(
            "without mTLS nobody passes",
            vec![
                ask("https://edge:15443/")
                    .args(&["--sni", &format!("outbound_.80_._.b.{ns}.svc.cluster.local")])
                    .fails(),
            ],
        )
        .await;
    let mutual = server("mode: ISTIO_MUTUAL", "a.example.com", "HTTPS")
        + TO_A
        + "
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: edge}
spec:
  host: edge
  trafficPolicy: {portLevelSettings: [{port: {number: 443}, tls: {mode: ISTIO_MUTUAL, sni: a.example.com}}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: to-edge}
spec:
  hosts: [a.example.com]
  http: [{route: [{destination: {host: edge, port: {number: 443}}}]}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: a}
spec:
  hosts: [a.example.com]
  addresses: [240.1.1.2]
  location: MESH_EXTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: 240.1.1.3}]
";
    traffic
        .behaves(
            "ISTIO_MUTUAL takes members of the mesh",
            &mutual,
            vec![
                ask("http://240.1.1.2/")
                    .header("Host: a.example.com")
                    .from("member")
                    .status(200)
                    .version("a")
                    .unmarked(),
                ask("https://edge/").args(&["--sni", "a.example.com"]).fails(),
            ],
        )
        .await;
}

/// How curl ends with these arguments: 0 if it got an answer.
async fn curl(case: &Case, args: &[&str]) -> i32 {
    let base = [
        "curl",
        "-sk",
        "-o",
        "/dev/null",
        "-m",
        "10",
        "--connect-to",
        "a.example.com:443:edge:443",
    ];
    let command = [&base[..], args, &["https://a.example.com/"]].concat();
    case.exec_in("client", "main", &command).await.code
}

async fn parameters(case: &Case, traffic: &Traffic<'_>) {
    let newest = server(
        "mode: SIMPLE, credentialName: web, minProtocolVersion: TLSV1_3",
        "a.example.com",
        "HTTPS",
    ) + TO_A;
    traffic.behaves("TLS 1.3 alone", &newest, vec![https("a.example.com").version("a")]).await;
    eventually("older versions are refused", async || {
        let (old, new) = (curl(case, &["--tls-max", "1.2"]).await, curl(case, &[]).await);
        if old != 0 && new == 0 { Ok(()) } else { Err(format!("{old} {new}")) }
    })
    .await;
    let suite = server(
        "mode: SIMPLE, credentialName: web, maxProtocolVersion: TLSV1_2, cipherSuites: [ECDHE-ECDSA-AES256-GCM-SHA384]",
        "a.example.com",
        "HTTPS",
    ) + TO_A;
    traffic.behaves("one cipher suite", &suite, vec![https("a.example.com").version("a")]).await;
    eventually("other suites and newer versions are refused", async || {
        let good = curl(case, &["--ciphers", "ECDHE-ECDSA-AES256-GCM-SHA384"]).await;
        let bad = curl(case, &["--ciphers", "ECDHE-ECDSA-AES128-GCM-SHA256"]).await;
        let new = curl(case, &["--tlsv1.3"]).await;
        if good == 0 && bad != 0 && new != 0 { Ok(()) } else { Err(format!("{good} {bad} {new}")) }
    })
    .await;
}

async fn rights(case: &Case, traffic: &Traffic<'_>) {
    let at = |name: &str| {
        server("mode: SIMPLE, credentialName: web", "a.example.com", "HTTPS")
            .replace("name: secure}", &format!("name: secure-{name}}}"))
            .replace("istio: edge", &format!("istio: {name}"))
    };
    let both = at("edge") + &at("poor") + &TO_A.replace("[secure]", "[secure-edge, secure-poor]");
    let poor =
        || ask("https://poor/").header("Host: a.example.com").args(&["--sni", "a.example.com"]);
    traffic
        .behaves(
            "a gateway whose account may not read Secrets gets none",
            &both,
            vec![https("a.example.com").version("a"), poor().fails()],
        )
        .await;
    let dump = case
        .exec_in(
            "poor",
            "istio-proxy",
            &["curl", "-s", "localhost:15000/config_dump?resource=dynamic_active_secrets"],
        )
        .await;
    assert!(!dump.stdout.contains("PRIVATE"), "{}", dump.stdout);
}

/// Certificates, hosts and listeners change while a client asks all the time.
async fn under_load(case: &Case, traffic: &Traffic<'_>, ours: &Authority) {
    let base = server("mode: SIMPLE, credentialName: web", "'*.example.com'", "HTTPS") + TO_A;
    traffic.behaves("before the load", &base, vec![https("a.example.com").version("a")]).await;
    // Twenty at least, however fast the changes are.
    let line = "touch /tmp/load; n=0; while [ -e /tmp/load ] || [ $n -lt 20 ]; do n=$((n+1)); \
        curl -s -m 60 -o /dev/null -w '%{http_code}\\n' --cacert /tmp/root.pem \
        --connect-to a.example.com:443:edge:443 https://a.example.com/; done | sort | uniq -c";
    let command = ["sh", "-c", line];
    let load = case.exec_in("client", "main", &command);
    let work = async {
        for turn in 0..10u32 {
            let name = format!("turn-{turn}.example.com");
            case.tls_secret("web", Some(&ours.issue(&["a.example.com", &name])), None).await;
            let more = format!(
                "
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {{name: more}}
spec:
  selector: {{istio: edge}}
  servers:
  - {{port: {{number: {}, name: http, protocol: HTTP}}, hosts: ['*']}}
  - {{port: {{number: 443, name: https-{turn}, protocol: HTTPS}}, hosts: [more-{turn}.example.org], tls: {{mode: SIMPLE, credentialName: web}}}}
",
                9100 + turn % 2
            );
            case.apply(&more).await;
            eventually("the new certificate is shown", async || {
                let code = case
                    .exec_in(
                        "client",
                        "main",
                        &[
                            "curl",
                            "-s",
                            "-o",
                            "/dev/null",
                            "-m",
                            "5",
                            "--cacert",
                            "/tmp/root.pem",
                            "--connect-to",
                            &format!("{name}:443:edge:443"),
                            &format!("https://{name}/"),
                        ],
                    )
                    .await
                    .code;
                if code == 0 { Ok(()) } else { Err(format!("curl ends with {code}")) }
            })
            .await;
        }
        case.exec_in("client", "main", &["rm", "/tmp/load"]).await;
    };
    let (seen, ()) = futures::join!(load, work);
    let lines: Vec<&str> = seen.stdout.lines().map(str::trim).collect();
    assert!(lines.len() == 1 && lines[0].ends_with(" 200"), "{seen:?}");
    let count: u32 = lines[0].split(' ').next().unwrap().parse().unwrap();
    assert!(count >= 20, "only {count} requests were sent");
    case.kubectl_says(&["delete", "gateways.networking.istio.io", "more"]);
}
