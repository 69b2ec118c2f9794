//! VirtualService: which requests a route is for, by every condition that there is.

#[path = "world/echo.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod echo;

use echo::{SERVICE, SUBSETS, TO_V1, TO_V2, client, routes, server, v2_if};
use ironsail_testkit::{Ask, Case, Traffic, ask, mesh_case};

fn get(path: &str) -> Ask {
    ask(&format!("http://echo{path}"))
}

async fn world(case: &Case) {
    let (v1, v2) = (server("echo", "v1", true), server("echo", "v2", true));
    let (client, other) = (client("client", "team: red"), client("other", "team: blue"));
    let parts = [SERVICE, SUBSETS, &v1, &v2, &client, &other];
    echo::start(case, &parts, &["echo-v1", "echo-v2", "client", "other"]).await;
}

#[test]
fn requests_are_told_apart_by_every_condition() {
    mesh_case("match", async |case| {
        world(case).await;
        let t = Traffic::new(case, "client");
        by_uri(&t).await;
        by_pseudo_headers(&t, &case.namespace).await;
        by_headers(&t).await;
        by_query(&t).await;
        by_place(&t, &case.namespace).await;
        by_order(&t).await;
        by_name(&t, &case.namespace).await;
        t.done().await;
    });
}

async fn by_uri(t: &Traffic<'_>) {
    let two = |path: &str| get(path).status(200).version("v2");
    let one = |path: &str| get(path).status(200).version("v1");
    t.behaves(
        "uri exact",
        &v2_if("{uri: {exact: /two}}"),
        vec![two("/two"), two("/two?a=b"), one("/two/more"), one("/Two")],
    )
    .await;
    t.behaves(
        "uri prefix",
        &v2_if("{uri: {prefix: /two}}"),
        vec![two("/two"), two("/two/more"), two("/twofold"), one("/one/two")],
    )
    .await;
    t.behaves(
        "uri regex matches the whole path",
        &v2_if("{uri: {regex: '/v[0-9]+/.*'}}"),
        vec![two("/v12/x"), two("/v1/x?q=1"), one("/v/x"), one("/a/v1/x")],
    )
    .await;
    let rule = v2_if("{uri: {prefix: /TWO}, ignoreUriCase: true}");
    t.behaves("ignoreUriCase", &rule, vec![two("/two"), two("/TwO/x"), one("/tw")]).await;
}

async fn by_pseudo_headers(t: &Traffic<'_>, namespace: &str) {
    t.behaves(
        "method",
        &v2_if("{method: {exact: POST}}"),
        vec![get("/").method("POST").status(200).version("v2"), get("/").status(200).version("v1")],
    )
    .await;
    t.behaves(
        "authority",
        &v2_if("{authority: {prefix: echo.}}"),
        vec![
            get("/").status(200).version("v1"),
            ask(&format!("http://echo.{namespace}/")).status(200).version("v2"),
        ],
    )
    .await;
    t.behaves("scheme", &v2_if("{scheme: {exact: https}}"), vec![get("/").version("v1")]).await;
    t.behaves(
        "scheme of plain requests",
        &v2_if("{scheme: {exact: http}}"),
        vec![get("/").version("v2")],
    )
    .await;
}

async fn by_headers(t: &Traffic<'_>) {
    let with = |line: &str, version: &str| get("/").header(line).status(200).version(version);
    t.behaves(
        "header exact",
        &v2_if("{headers: {end-user: {exact: jason}}}"),
        vec![
            with("end-user: jason", "v2"),
            with("end-user: jasons", "v1"),
            with("other: jason", "v1"),
        ],
    )
    .await;
    t.behaves(
        "header prefix",
        &v2_if("{headers: {end-user: {prefix: ja}}}"),
        vec![with("end-user: jason", "v2"), with("end-user: bob", "v1")],
    )
    .await;
    t.behaves(
        "header regex",
        &v2_if("{headers: {cookie: {regex: '.*user=j.*'}}}"),
        vec![with("cookie: a=b; user=jason", "v2"), with("cookie: a=b", "v1")],
    )
    .await;
    t.behaves(
        "header present",
        &v2_if("{headers: {x-canary: {}}}"),
        vec![with("x-canary: whatever", "v2"), get("/").version("v1")],
    )
    .await;
    t.behaves(
        "withoutHeaders exact",
        &v2_if("{withoutHeaders: {x-old: {exact: 'yes'}}}"),
        vec![get("/").version("v2"), with("x-old: no", "v2"), with("x-old: yes", "v1")],
    )
    .await;
    t.behaves(
        "withoutHeaders present",
        &v2_if("{withoutHeaders: {x-old: {}}}"),
        vec![get("/").version("v2"), with("x-old: no", "v1")],
    )
    .await;
    let both = "{headers: {a: {exact: '1'}}, withoutHeaders: {b: {prefix: x}}}";
    t.behaves(
        "headers and withoutHeaders together",
        &v2_if(both),
        vec![
            with("a: 1", "v2"),
            get("/").header("a: 1").header("b: xy").version("v1"),
            get("/").header("a: 1").header("b: y").version("v2"),
        ],
    )
    .await;
}

async fn by_query(t: &Traffic<'_>) {
    let at = |path: &str, version: &str| get(path).status(200).version(version);
    t.behaves(
        "queryParams exact",
        &v2_if("{queryParams: {lang: {exact: de}}}"),
        vec![
            at("/?lang=de", "v2"),
            at("/?x=1&lang=de", "v2"),
            at("/?lang=en", "v1"),
            at("/", "v1"),
        ],
    )
    .await;
    t.behaves(
        "queryParams prefix",
        &v2_if("{queryParams: {lang: {prefix: de}}}"),
        vec![at("/?lang=de-AT", "v2"), at("/?lang=ende", "v1")],
    )
    .await;
    t.behaves(
        "queryParams regex",
        &v2_if("{queryParams: {id: {regex: '[0-9]+'}}}"),
        vec![at("/?id=123", "v2"), at("/?id=12x", "v1")],
    )
    .await;
}

async fn by_place(t: &Traffic<'_>, namespace: &str) {
    t.behaves(
        "port",
        &v2_if("{port: 8000}"),
        vec![
            ask("http://echo:8000/").status(200).version("v2"),
            get("/").status(200).version("v1"),
        ],
    )
    .await;
    t.behaves(
        "sourceLabels",
        &v2_if("{sourceLabels: {team: blue}}"),
        vec![get("/").version("v1"), get("/").from("other").version("v2")],
    )
    .await;
    let here = v2_if(&format!("{{sourceNamespace: {namespace}}}"));
    t.behaves("sourceNamespace", &here, vec![get("/").version("v2")]).await;
    let there = v2_if("{sourceNamespace: elsewhere}");
    t.behaves("another sourceNamespace", &there, vec![get("/").version("v1")]).await;
    t.behaves("gateways: mesh", &v2_if("{gateways: [mesh]}"), vec![get("/").version("v2")]).await;
    let gateway = v2_if("{gateways: [some/gateway]}");
    t.behaves("gateways: another", &gateway, vec![get("/").version("v1")]).await;
}

async fn by_order(t: &Traffic<'_>) {
    let all = v2_if("{uri: {prefix: /a}, method: {exact: PUT}}, {headers: {x: {exact: z}}}");
    t.behaves(
        "all conditions of one match, any of several",
        &all,
        vec![
            get("/a").method("PUT").version("v2"),
            get("/a").version("v1"),
            get("/b").method("PUT").version("v1"),
            get("/b").header("x: z").version("v2"),
        ],
    )
    .await;
    let first = routes(&[
        &format!("{{match: [{{uri: {{prefix: /a}}}}], {TO_V1}}}"),
        &format!("{{match: [{{uri: {{exact: /a/b}}}}], {TO_V2}}}"),
        &format!("{{{TO_V2}}}"),
    ]);
    t.behaves(
        "the first route that fits, not the narrowest",
        &first,
        vec![get("/a/b").version("v1"), get("/c").version("v2")],
    )
    .await;
    let only = routes(&[&format!("{{match: [{{uri: {{prefix: /a}}}}], {TO_V1}}}")]);
    t.behaves("nothing fits", &only, vec![get("/a").version("v1"), get("/b").status(404)]).await;
}

async fn by_name(t: &Traffic<'_>, namespace: &str) {
    let rule = routes(&[&format!("{{{TO_V2}}}")]);
    let names = [
        "",
        &format!(".{namespace}"),
        &format!(".{namespace}.svc"),
        &format!(".{namespace}.svc.cluster.local"),
    ]
    .map(|suffix| ask(&format!("http://echo{suffix}/")).status(200).version("v2"));
    t.behaves("every name of the host", &rule, names.into()).await;
    let port = ask("http://echo:8000/").header("Host: echo:8000").version("v2");
    t.behaves("a host with its port", &rule, vec![port]).await;
    t.behaves("HTTP/2", &rule, vec![ask("h2c://echo:85/").version("v2")]).await;
    t.behaves("gRPC", &rule, vec![ask("grpc://echo:7070/").status(0).version("v2")]).await;
}
