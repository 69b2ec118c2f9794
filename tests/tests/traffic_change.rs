//! A hundred changes while requests come at five hundred a second, half of them inside the mesh and half
//! through a gateway by HTTPS: none may fail. What changes are routes, weights and subsets, the gateway's
//! servers, listeners and routes, and its certificate.

#[path = "world/echo.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod echo;

use echo::{SERVICE, SUBSETS, client, routes, server};
use ironsail_testkit::{
    Authority, Case, Traffic, ask, eventually, gateway_pod, may_read_secrets, mesh_case,
};
use serde_json::{Value, json};

/// Half of them the gateway's, which come in turns of four.
const CHANGES: u32 = 104;

const HOST: &str = "shop.example.com";

async fn world(case: &Case, ours: &Authority) {
    let (v1, v2) = (server("echo", "v1", true), server("echo", "v2", true));
    let (load, client) = (client("load", "team: red"), client("client", "team: red"));
    let outside = client
        .replace("name: client", "name: outside")
        .replace("labels: {", "labels: {sidecar.istio.io/inject: 'false', ");
    let (edge, rights) = (gateway_pod("edge", "edge"), may_read_secrets("edge"));
    case.tls_secret("shop", Some(&ours.issue(&[HOST])), None).await;
    let parts = [SERVICE, SUBSETS, &v1, &v2, &load, &client, &outside, &rights, &edge, ENTRANCE];
    let pods = ["echo-v1", "echo-v2", "load", "client", "outside", "edge"];
    echo::start(case, &parts, &pods).await;
    case.put_file("outside", "/tmp/root.pem", &ours.root).await;
}

/// The server that requests come through, and its routes.
const ENTRANCE: &str = "
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: shop}
spec:
  selector: {istio: edge}
  servers: [{port: {number: 443, name: shop, protocol: HTTPS}, hosts: ['*.example.com'], tls: {mode: SIMPLE, credentialName: shop}}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: shop}
spec:
  hosts: [shop.example.com]
  gateways: [shop]
  http: [{route: [{destination: {host: echo, subset: v1, port: {number: 80}}}]}]
";

/// HTTPS through the gateway.
const THROUGH: [&str; 7] =
    ["https://edge/", "-H", "Host: shop.example.com", "--sni", HOST, "--ca", "/tmp/root.pem"];

/// Certificate, servers, listeners or routes of the gateway, by turns.
async fn change_gateway(case: &Case, ours: &Authority, number: u32) {
    let turn = number / 4;
    match number % 4 {
        0 => {
            let names = [HOST, &format!("turn-{turn}.example.com")];
            case.tls_secret("shop", Some(&ours.issue(&names)), None).await;
        }
        1 => {
            let more = format!(
                "
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {{name: more}}
spec:
  selector: {{istio: edge}}
  servers:
  - {{port: {{number: {}, name: plain, protocol: HTTP}}, hosts: ['*']}}
  - {{port: {{number: 443, name: more, protocol: HTTPS}}, hosts: [more-{turn}.example.org], tls: {{mode: SIMPLE, credentialName: shop}}}}
",
                9100 + turn % 3
            );
            case.apply(&more).await;
        }
        2 => {
            let (a, b) = (turn * 4 % 101, 100 - turn * 4 % 101);
            let to = |subset: &str, weight: u32| {
                format!(
                    "{{destination: {{host: echo, subset: {subset}, port: {{number: 80}}}}, weight: {weight}}}"
                )
            };
            let routes = format!(
                "  http: [{{match: [{{uri: {{prefix: /turn-{turn}}}}}], directResponse: {{status: 204}}}}, {{route: [{}, {}]}}]\n",
                to("v1", a),
                to("v2", b)
            );
            let at = ENTRANCE.find("  http:").expect("the routes are last");
            let rule = ENTRANCE[..at].rsplit("---").next().expect("the rule");
            case.apply(&format!("{rule}{routes}")).await;
        }
        _ => {
            let hosts = format!("hosts: ['*.example.com', also-{turn}.example.org]");
            let gateway = ENTRANCE.split("---").next().expect("the gateway");
            case.apply(&gateway.replace("hosts: ['*.example.com']", &hosts)).await;
        }
    }
}

/// Weights, matches, headers and subsets as the number says; a request of any time has a route.
async fn change(case: &Case, number: u32) {
    let (a, b) = (number % 101, 100 - number % 101);
    let subset = format!("n{}", number % 12);
    let to = |weight: u32, subset: &str| {
        format!("{{destination: {{host: echo, subset: {subset}}}, weight: {weight}}}")
    };
    let split = match number % 4 {
        0 => format!("{{route: [{{destination: {{host: echo, subset: {subset}}}}}]}}"),
        1 => "{route: [{destination: {host: echo}}]}".to_owned(),
        _ => format!("{{route: [{}, {}]}}", to(a, "v1"), to(b, "v2")),
    };
    let matched = format!(
        "{{match: [{{headers: {{x-number: {{exact: '{number}'}}}}}}], headers: {{response: {{set: {{x-number: '{number}'}}}}}}, route: [{{destination: {{host: echo, subset: v2}}}}]}}"
    );
    // A subset is there before a route that names it and stays for a while after, as a careful user
    // has it: rules of two kinds may be seen in another order than they were made in.
    let mut rule: Value = ironsail_yaml::documents(SUBSETS).expect("YAML").remove(0);
    let subsets = rule["spec"]["subsets"].as_array_mut().expect("a list");
    let version = if number % 8 < 4 { "v1" } else { "v2" };
    subsets.push(json!({"name": subset, "labels": {"version": version}}));
    for before in 1..6 {
        let name = format!("n{}", (number + 12 - before) % 12);
        subsets.push(json!({"name": name, "labels": {"app": "echo"}}));
    }
    case.try_apply(rule).await.expect("the rule is accepted");
    case.apply(&routes(&[&matched, &split])).await;
}

/// Every request had its answer, and there were enough of them.
fn all_answered(seen: &Value) {
    println!("{seen}");
    assert_eq!(seen["errors"], json!({}), "{seen}");
    let statuses = seen["statuses"].as_object().expect("by status");
    assert!(statuses.keys().eq(["200"]), "{seen}");
    let sent = seen["sent"].as_u64().expect("a number");
    assert!(sent > 500, "{seen}");
}

#[test]
fn no_request_fails_while_rules_gateways_and_certificates_change() {
    mesh_case("change", async |case| {
        let ours = Authority::new("ours");
        world(case, &ours).await;
        let (inside, outside) = (Traffic::new(case, "load"), Traffic::new(case, "outside"));
        let client = Traffic::new(case, "client");
        client.still("it works", vec![ask("http://echo/").status(200)]).await;
        let through = || ask(THROUGH[0]).args(&THROUGH[1..]);
        outside.still("through the gateway too", vec![through().status(200)]).await;
        let how = [
            "--rate",
            "250",
            "--workers",
            "8",
            "--while",
            "/tmp/load",
            "--seconds",
            "300",
            "--timeout",
            "60000",
        ];
        let changes = async {
            for number in 0..CHANGES / 2 {
                change(case, number).await;
                change_gateway(case, &ours, number).await;
            }
            let last = CHANGES / 2 - 1;
            let line = format!("x-number: {last}");
            let wanted = ask("http://echo/")
                .header(&line)
                .status(200)
                .returns("x-number", &last.to_string());
            client.still("the last change is there", vec![wanted]).await;
            let turn = last / 4;
            let newest = format!("turn-{turn}.example.com");
            eventually("the gateway's last changes are there", async || {
                let path = format!("https://edge/turn-{turn}");
                let route = ask(&path).args(&THROUGH[1..]);
                let routed = outside.answers(&route).await[0].status;
                // A name that only the newest certificate has.
                let target = format!("{newest}:443:edge:443");
                let url = format!("https://{newest}/");
                let curl =
                    ["curl", "-s", "-o", "/dev/null", "-m", "5", "--cacert", "/tmp/root.pem"];
                let shown = [&curl[..], &["--connect-to", &target, &url]].concat();
                let code = case.exec_in("outside", "main", &shown).await.code;
                let there = routed == Some(204) && code == 0;
                if there { Ok(()) } else { Err(format!("{routed:?}, curl ends with {code}")) }
            })
            .await;
            for pod in ["load", "outside"] {
                case.exec_in(pod, "main", &["rm", "/tmp/load"]).await;
            }
        };
        let (plain, tls) = ([&["http://echo/"], &how[..]].concat(), [&THROUGH[..], &how].concat());
        let (seen, through, ()) = futures::join!(inside.load(&plain), outside.load(&tls), changes);
        all_answered(&seen);
        all_answered(&through);
        client.done().await;
    });
}
