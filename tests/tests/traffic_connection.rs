//! VirtualService: connections that are not HTTP, by address, port, client and server name.

#[path = "world/echo.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod echo;

use echo::{SERVICE, SUBSETS, client, server};
use ironsail_testkit::{Ask, Case, Traffic, ask, mesh_case};

async fn world(case: &Case) {
    let (one, two) = (server("echo", "v1", true), server("echo", "v2", true));
    let (client, other) = (client("client", "team: red"), client("other", "team: blue"));
    let parts = [SERVICE, SUBSETS, &one, &two, &client, &other];
    echo::start(case, &parts, &["echo-v1", "echo-v2", "client", "other"]).await;
}

/// A VirtualService with these routes under `kind`, `tcp` or `tls`.
fn connections(kind: &str, routes: &[&str]) -> String {
    let list: String = routes.iter().map(|route| format!("  - {route}\n")).collect();
    format!(
        "
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{name: route}}
spec:
  hosts: [echo]
  {kind}:
{list}"
    )
}

fn to(version: &str, port: u16) -> String {
    format!("route: [{{destination: {{host: echo, subset: {version}, port: {{number: {port}}}}}}}]")
}

fn tcp() -> Ask {
    ask("tcp://echo:9000").works()
}

fn tls(name: &str) -> Ask {
    ask("tls://echo:9443").args(&["--sni", name]).works()
}

#[test]
fn connections_go_where_the_rules_say() {
    mesh_case("connection", async |case| {
        world(case).await;
        let t = Traffic::new(case, "client");
        plain(&t, case).await;
        named(&t, &case.namespace).await;
        t.done().await;
    });
}

async fn plain(t: &Traffic<'_>, case: &Case) {
    t.behaves(
        "tcp route",
        &connections("tcp", &[&format!("{{{}}}", to("v2", 9000))]),
        vec![tcp().times(5).version("v2")],
    )
    .await;
    let split = |a: u32, b: u32| {
        connections(
            "tcp",
            &[&format!(
                "{{route: [{{destination: {{host: echo, subset: v1, port: {{number: 9000}}}}, weight: {a}}}, \
             {{destination: {{host: echo, subset: v2, port: {{number: 9000}}}}, weight: {b}}}]}}"
            )],
        )
    };
    t.behaves(
        "tcp weights",
        &split(80, 20),
        vec![tcp().times(100).share("v1", 55..=97).share("v2", 3..=45)],
    )
    .await;
    t.behaves("tcp weight 0", &split(0, 100), vec![tcp().times(20).version("v2")]).await;
    let rule = connections(
        "tcp",
        &[
            &format!("{{match: [{{port: 9010}}], {}}}", to("v1", 9010)),
            &format!("{{match: [{{port: 9000}}], {}}}", to("v2", 9000)),
        ],
    );
    t.behaves(
        "tcp match port",
        &rule,
        vec![tcp().times(5).version("v2"), ask("tcp://echo:9010").times(5).works().version("v1")],
    )
    .await;
    let rule = connections(
        "tcp",
        &[
            &format!("{{match: [{{sourceLabels: {{team: blue}}}}], {}}}", to("v1", 9000)),
            &format!("{{{}}}", to("v2", 9000)),
        ],
    );
    t.behaves(
        "tcp match sourceLabels",
        &rule,
        vec![tcp().times(5).version("v2"), tcp().times(5).from("other").version("v1")],
    )
    .await;
    let rule = connections(
        "tcp",
        &[
            &format!("{{match: [{{sourceNamespace: elsewhere}}], {}}}", to("v1", 9000)),
            &format!("{{match: [{{sourceNamespace: {}}}], {}}}", case.namespace, to("v2", 9000)),
        ],
    );
    t.behaves("tcp match sourceNamespace", &rule, vec![tcp().times(5).version("v2")]).await;
    let service = case.wait("service/echo", "there", |_| true).await;
    let vip = service["spec"]["clusterIP"].as_str().expect("a cluster IP").to_owned();
    let rule = connections(
        "tcp",
        &[
            &format!("{{match: [{{destinationSubnets: [203.0.113.0/24]}}], {}}}", to("v1", 9000)),
            &format!("{{match: [{{destinationSubnets: ['{vip}/32']}}], {}}}", to("v2", 9000)),
        ],
    );
    t.behaves("tcp match destinationSubnets", &rule, vec![tcp().times(5).version("v2")]).await;
    let rule = connections(
        "tcp",
        &[
            &format!("{{match: [{{gateways: [some/gateway]}}], {}}}", to("v1", 9000)),
            &format!("{{match: [{{gateways: [mesh]}}], {}}}", to("v2", 9000)),
        ],
    );
    t.behaves("tcp match gateways", &rule, vec![tcp().times(5).version("v2")]).await;
}

async fn named(t: &Traffic<'_>, namespace: &str) {
    let full = format!("echo.{namespace}.svc.cluster.local");
    let name = |name: &str| format!("echo.{name}.{namespace}.svc.cluster.local");
    let rule = |first: &str, second: &str| {
        connections(
            "tls",
            &[
                &format!("{{match: [{{port: 9443, sniHosts: [{first}]}}], {}}}", to("v1", 9443)),
                &format!("{{match: [{{port: 9443, sniHosts: [{second}]}}], {}}}", to("v2", 9443)),
            ],
        )
        .replace("hosts: [echo]", &format!("hosts: ['*.{namespace}.svc.cluster.local']"))
    };
    t.behaves(
        "tls sniHosts",
        &rule(&name("one"), &name("two")),
        vec![
            tls(&name("one")).times(3).version("v1").reports("/tls/sni", &name("one")),
            tls(&name("two")).times(3).version("v2"),
        ],
    )
    .await;
    let wild = format!("'*.{namespace}.svc.cluster.local'");
    t.behaves(
        "tls sniHosts with a wildcard",
        &rule(&name("one"), &wild),
        vec![tls(&name("one")).times(3).version("v1"), tls(&name("three")).times(3).version("v2")],
    )
    .await;
    let split = connections(
        "tls",
        &[&format!(
            "{{match: [{{port: 9443, sniHosts: [{full}]}}], route: [\
         {{destination: {{host: echo, subset: v1, port: {{number: 9443}}}}, weight: 50}}, \
         {{destination: {{host: echo, subset: v2, port: {{number: 9443}}}}, weight: 50}}]}}"
        )],
    )
    .replace("hosts: [echo]", &format!("hosts: [{full}]"));
    t.behaves(
        "tls weights",
        &split,
        vec![tls(&full).times(40).share("v1", 5..=35).share("v2", 5..=35)],
    )
    .await;
    let by_client = connections(
        "tls",
        &[
            &format!(
                "{{match: [{{sniHosts: [{full}], sourceLabels: {{team: blue}}}}], {}}}",
                to("v1", 9443)
            ),
            &format!("{{match: [{{sniHosts: [{full}]}}], {}}}", to("v2", 9443)),
        ],
    )
    .replace("hosts: [echo]", &format!("hosts: [{full}]"));
    t.behaves(
        "tls match sourceLabels",
        &by_client,
        vec![tls(&full).times(3).version("v2"), tls(&full).times(3).from("other").version("v1")],
    )
    .await;
}
