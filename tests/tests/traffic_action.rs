//! VirtualService: what is done with a request: redirects, answers, rewrites, headers, CORS, weights
//! and copies.

#[path = "world/echo.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod echo;

use echo::{SERVICE, SUBSETS, TO_V1, client, routes, server};
use ironsail_testkit::{Ask, Case, Traffic, ask, mesh_case};

fn get(path: &str) -> Ask {
    ask(&format!("http://echo{path}"))
}

/// One route for all requests.
fn all(action: &str) -> String {
    routes(&[&format!("{{{action}}}")])
}

/// The same that sends them to v1.
fn v1(more: &str) -> String {
    routes(&[&format!("{{{more}, {TO_V1}}}")])
}

/// The service that gets copies.
const SHADOW: &str = "
apiVersion: v1
kind: Service
metadata: {name: shadow}
spec:
  selector: {app: shadow}
  ports: [{name: http, port: 80, targetPort: 8080}]
";

async fn world(case: &Case) {
    let (one, two) = (server("echo", "v1", true), server("echo", "v2", false));
    let shadow = server("shadow", "v9", false);
    // Its proxy counts by route too.
    let client = client("client", "team: red").replace(
        "metadata: {name: client,",
        "metadata: {name: client, annotations: {proxy.istio.io/config: \
         '{proxyStatsMatcher: {inclusionPrefixes: [vhost]}}'},",
    );
    let parts = [SERVICE, SHADOW, SUBSETS, &one, &two, &shadow, &client];
    echo::start(case, &parts, &["echo-v1", "echo-v2", "shadow-v9", "client"]).await;
}

#[test]
fn requests_are_changed_answered_split_and_copied() {
    mesh_case("action", async |case| {
        world(case).await;
        let t = Traffic::new(case, "client");
        redirects(&t).await;
        answers(&t).await;
        rewrites(&t).await;
        headers(&t).await;
        origins(&t).await;
        weights(&t).await;
        copies(&t).await;
        counts(&t, case).await;
        t.done().await;
    });
}

async fn redirects(t: &Traffic<'_>) {
    let to =
        |path: &str, status: u16, place: &str| get(path).status(status).returns("location", place);
    t.behaves(
        "redirect uri and authority",
        &all("redirect: {uri: /new, authority: other.example}"),
        vec![to("/old?x=1", 301, "http://other.example/new?x=1")],
    )
    .await;
    let rule = all("redirect: {authority: other.example, redirectCode: 302}");
    t.behaves(
        "redirect authority alone keeps the path",
        &rule,
        vec![to("/old?x=1", 302, "http://other.example/old?x=1")],
    )
    .await;
    for code in [303, 307, 308] {
        let rule = all(&format!("redirect: {{uri: /new, redirectCode: {code}}}"));
        t.behaves(&format!("redirectCode {code}"), &rule, vec![to("/", code, "http://echo/new")])
            .await;
    }
    t.behaves(
        "redirect scheme",
        &all("redirect: {scheme: https}"),
        vec![to("/a", 301, "https://echo/a")],
    )
    .await;
    t.behaves(
        "redirect port",
        &all("redirect: {port: 8443, scheme: https}"),
        vec![to("/a", 301, "https://echo:8443/a")],
    )
    .await;
    let ask_8000 = ask("http://echo:8000/a").status(301);
    let rule = all("redirect: {authority: x.example, derivePort: FROM_REQUEST_PORT}");
    t.behaves(
        "redirect derivePort FROM_REQUEST_PORT",
        &rule,
        vec![
            ask_8000.returns("location", "http://x.example:8000/a"),
            to("/a", 301, "http://x.example/a"),
        ],
    )
    .await;
    let rule = all("redirect: {authority: x.example, derivePort: FROM_PROTOCOL_DEFAULT}");
    t.behaves(
        "redirect derivePort FROM_PROTOCOL_DEFAULT",
        &rule,
        vec![ask("http://echo:8000/a").status(301).returns("location", "http://x.example/a")],
    )
    .await;
}

async fn answers(t: &Traffic<'_>) {
    t.behaves(
        "directResponse with text",
        &all("directResponse: {status: 418, body: {string: tea}}"),
        vec![get("/").status(418).all("the text", |all| all[0].body == "tea")],
    )
    .await;
    t.behaves(
        "directResponse with bytes",
        &all("directResponse: {status: 200, body: {bytes: aGFsbG8=}}"),
        vec![get("/").status(200).all("the bytes", |all| all[0].body == "hallo")],
    )
    .await;
    let rule = all("directResponse: {status: 503}, headers: {response: {set: {x-by: rule}}}");
    t.behaves(
        "directResponse with headers and no body",
        &rule,
        vec![get("/").status(503).returns("x-by", "rule").all("no body", |all| all[0].body == "")],
    )
    .await;
}

async fn rewrites(t: &Traffic<'_>) {
    let rule = routes(&[
        &format!("{{match: [{{uri: {{prefix: /old/}}}}], rewrite: {{uri: /new/}}, {TO_V1}}}"),
        &format!("{{match: [{{uri: {{exact: /one}}}}], rewrite: {{uri: /two}}, {TO_V1}}}"),
        &format!("{{match: [{{uri: {{regex: '/r[0-9]+'}}}}], rewrite: {{uri: /three}}, {TO_V1}}}"),
        &format!("{{{TO_V1}}}"),
    ]);
    t.behaves(
        "rewrite uri by prefix, whole path and expression",
        &rule,
        vec![
            get("/old/a/b?x=1").reports("/path", "/new/a/b?x=1"),
            get("/one?x=1").reports("/path", "/two?x=1"),
            get("/r12").reports("/path", "/three"),
            get("/else").reports("/path", "/else"),
        ],
    )
    .await;
    t.behaves(
        "rewrite authority",
        &v1("rewrite: {authority: inner.example}"),
        vec![get("/").reports("/authority", "inner.example").sees("x-envoy-original-host", "echo")],
    )
    .await;
    let regex = r"rewrite: {uriRegexRewrite: {match: '^/service/([^/]+)(/.*)$', rewrite: '\2/instance/\1'}}";
    t.behaves(
        "rewrite uriRegexRewrite",
        &v1(regex),
        vec![
            get("/service/foo/v1/api").reports("/path", "/v1/api/instance/foo"),
            get("/other").reports("/path", "/other"),
        ],
    )
    .await;
}

async fn headers(t: &Traffic<'_>) {
    let rule = v1("headers: {request: {set: {x-set: s}, add: {x-add: a}, remove: [x-gone]}}");
    t.behaves(
        "request headers of the route",
        &rule,
        vec![
            get("/")
                .header("x-set: mine")
                .header("x-add: mine")
                .header("x-gone: here")
                .sees("x-set", "s")
                .sees("x-add", "mine")
                .sees("x-add", "a")
                .misses("x-gone")
                .all("set replaces", |all| {
                    all[0].body["headers"]["x-set"].as_array().is_some_and(|v| v.len() == 1)
                }),
        ],
    )
    .await;
    let rule = v1("headers: {response: {set: {x-set: s}, add: {x-add: a}, remove: [x-gone]}}");
    t.behaves(
        "response headers of the route",
        &rule,
        vec![
            get("/?header=x-gone:1")
                .status(200)
                .returns("x-set", "s")
                .returns("x-add", "a")
                .withholds("x-gone"),
            get("/?header=x-add:own").returns("x-add", "own").returns("x-add", "a"),
            get("/?header=x-set:own")
                .returns("x-set", "s")
                .all("replaced", |all| all[0].headers["x-set"].len() == 1),
        ],
    )
    .await;
    let to = "route: [{destination: {host: echo, subset: v1}, headers: {request: {set: {x-to: one}}, response: {set: {x-from: one}}}}]";
    t.behaves(
        "headers of the only destination",
        &all(to),
        vec![get("/").sees("x-to", "one").returns("x-from", "one")],
    )
    .await;
    let split = "headers: {request: {set: {x-all: r}}}, route: [\
        {destination: {host: echo, subset: v1}, weight: 50, headers: {request: {set: {x-to: v1}}, response: {add: {x-from: v1}}}}, \
        {destination: {host: echo, subset: v2}, weight: 50, headers: {request: {set: {x-to: v2}}, response: {add: {x-from: v2}}}}]";
    t.behaves(
        "headers of weighted destinations",
        &all(split),
        vec![
            get("/")
                .times(40)
                .sees("x-all", "r")
                .all("each its own", |all| {
                    all.iter().all(|a| {
                        let version = a.body["version"].as_str().unwrap_or_default().to_owned();
                        a.body["headers"]["x-to"][0] == *version && a.headers["x-from"] == [version]
                    })
                })
                .share("v1", 5..=35),
        ],
    )
    .await;
    t.behaves(
        "Host by headers",
        &v1("headers: {request: {set: {Host: set.example}}}"),
        vec![get("/").reports("/authority", "set.example")],
    )
    .await;
    let variable = v1("headers: {request: {set: {x-port: '%DOWNSTREAM_LOCAL_PORT%'}}}");
    t.behaves("values with the proxy's variables", &variable, vec![get("/").sees("x-port", "80")])
        .await;
}

async fn origins(t: &Traffic<'_>) {
    let rule = v1(
        "corsPolicy: {allowOrigins: [{exact: 'https://a.example'}, {regex: 'https://.*[.]b[.]example'}], \
        allowMethods: [GET, PUT], allowHeaders: [x-one, x-two], exposeHeaders: [x-three], maxAge: 24h, allowCredentials: true}",
    );
    let preflight = |origin: &str| {
        get("/")
            .method("OPTIONS")
            .header(&format!("Origin: {origin}"))
            .header("Access-Control-Request-Method: PUT")
    };
    t.behaves(
        "corsPolicy answers preflights of its origins",
        &rule,
        vec![
            preflight("https://a.example")
                .status(200)
                .returns("access-control-allow-origin", "https://a.example")
                .returns("access-control-allow-methods", "GET,PUT")
                .returns("access-control-allow-headers", "x-one,x-two")
                .returns("access-control-max-age", "86400")
                .returns("access-control-allow-credentials", "true"),
            preflight("https://x.b.example")
                .returns("access-control-allow-origin", "https://x.b.example"),
        ],
    )
    .await;
    t.behaves(
        "corsPolicy marks answers to its origins",
        &rule,
        vec![
            get("/")
                .header("Origin: https://a.example")
                .status(200)
                .version("v1")
                .returns("access-control-allow-origin", "https://a.example")
                .returns("access-control-expose-headers", "x-three"),
            get("/")
                .header("Origin: https://c.example")
                .status(200)
                .withholds("access-control-allow-origin"),
        ],
    )
    .await;
    t.behaves(
        "corsPolicy sends other preflights on",
        &rule,
        vec![preflight("https://c.example").version("v1").withholds("access-control-allow-origin")],
    )
    .await;
    let closed = v1(
        "corsPolicy: {allowOrigins: [{exact: 'https://a.example'}], unmatchedPreflights: IGNORE}",
    );
    t.behaves(
        "corsPolicy unmatchedPreflights IGNORE",
        &closed,
        vec![
            preflight("https://c.example")
                .status(200)
                .withholds("access-control-allow-origin")
                .all("the server is not asked", |all| all[0].body.get("version").is_none()),
        ],
    )
    .await;
}

async fn weights(t: &Traffic<'_>) {
    let split = |a: u32, b: u32| {
        all(&format!(
            "route: [{{destination: {{host: echo, subset: v1}}, weight: {a}}}, {{destination: {{host: echo, subset: v2}}, weight: {b}}}]"
        ))
    };
    // Bounds that chance misses less than once in a million times.
    t.behaves(
        "weights 50 and 50",
        &split(50, 50),
        vec![
            get("/")
                .times(200)
                .args(&["--keep"])
                .status(200)
                .share("v1", 60..=140)
                .share("v2", 60..=140),
        ],
    )
    .await;
    t.behaves(
        "weights 90 and 10",
        &split(90, 10),
        vec![get("/").times(200).args(&["--keep"]).share("v2", 2..=50).share("v1", 150..=198)],
    )
    .await;
    t.behaves(
        "weights need not be percentages",
        &split(3, 1),
        vec![get("/").times(200).args(&["--keep"]).share("v2", 20..=90)],
    )
    .await;
    t.behaves(
        "weight 0 gets nothing",
        &split(100, 0),
        vec![get("/").times(50).args(&["--keep"]).share("v1", 50..=50)],
    )
    .await;
    let hosts = all(
        "route: [{destination: {host: echo, subset: v1}, weight: 50}, {destination: {host: shadow}, weight: 50}]",
    );
    t.behaves(
        "weights among hosts",
        &hosts,
        vec![get("/").times(100).args(&["--keep"]).share("v1", 20..=80).share("v9", 20..=80)],
    )
    .await;
    let port = all("route: [{destination: {host: echo, subset: v2, port: {number: 8000}}}]");
    t.behaves("a destination with another port", &port, vec![get("/").version("v2")]).await;
    let nowhere = all("route: [{destination: {host: echo, subset: v3}}]");
    t.behaves("a subset without pods", &nowhere, vec![get("/").status(503)]).await;
    let unknown = all("route: [{destination: {host: nobody}}]");
    t.behaves("a destination that nobody knows", &unknown, vec![get("/").status(503)]).await;
}

async fn copies(t: &Traffic<'_>) {
    let counted = |key: &str, least: u64, most: u64| {
        ask(&format!("http://shadow/?counted={key}")).unmarked().all("so many copies", move |all| {
            all[0].body["count"].as_u64().is_some_and(|n| (least..=most).contains(&n))
        })
    };
    let send = |key: &str, n: u32| {
        get("/")
            .header(&format!("x-count: {key}"))
            .times(n)
            .args(&["--keep"])
            .status(200)
            .version("v1")
    };
    t.behaves("mirror", &v1("mirror: {host: shadow}"), vec![send("all", 10)]).await;
    t.still(
        "mirror copies every request",
        vec![counted("all", 10, u64::MAX).all("under its own name", |all| {
            all[0].body["authority"].as_str().is_some_and(|name| name.contains("-shadow"))
        })],
    )
    .await;
    let none = v1("mirror: {host: shadow}, mirrorPercentage: {value: 0}");
    t.behaves("mirrorPercentage 0", &none, vec![send("none", 10), counted("none", 0, 0)]).await;
    let half = v1("mirror: {host: shadow}, mirrorPercentage: {value: 50}");
    // All at once and only once: copies add up, and come later than answers.
    t.behaves("mirrorPercentage 50", &half, vec![get("/").status(200).version("v1")]).await;
    t.answers(&send("half", 100)).await;
    t.still("half are copied", vec![counted("half", 20, 80)]).await;
    let two = v1("mirrors: [{destination: {host: shadow}, percentage: {value: 100}}, \
        {destination: {host: echo, subset: v2}, percentage: {value: 100}}]");
    t.behaves("mirrors", &two, vec![send("two", 5)]).await;
    t.still("mirrors copy to each", vec![counted("two", 5, u64::MAX)]).await;
    // Version 2 is asked past the rules, by its own address.
    let v2 = all("route: [{destination: {host: echo, subset: v2}}]");
    t.behaves(
        "the second mirror had its copies",
        &v2,
        vec![
            get("/?counted=two")
                .all("so many copies", |all| all[0].body["count"].as_u64() >= Some(5)),
        ],
    )
    .await;
    t.behaves(
        "a mirror that is not there harms nothing",
        &v1("mirror: {host: nobody}"),
        vec![get("/").times(5).status(200).version("v1")],
    )
    .await;
}

async fn counts(t: &Traffic<'_>, case: &Case) {
    let rule = routes(&[
        &format!("{{match: [{{uri: {{prefix: /counted}}, statPrefix: my-route}}], {TO_V1}}}"),
        &format!("{{{TO_V1}}}"),
    ]);
    t.behaves("statPrefix", &rule, vec![get("/counted").times(3).status(200)]).await;
    let command = ["pilot-agent", "request", "GET", "stats?filter=my-route.*upstream_rq_total"];
    ironsail_testkit::eventually("the proxy counts by route", async || {
        let stats = case.exec_in("client", "istio-proxy", &command).await.stdout;
        let counted = |line: &str| line.rsplit(' ').next().and_then(|n| n.parse::<u64>().ok());
        if stats.lines().any(|line| counted(line) >= Some(3)) { Ok(()) } else { Err(stats) }
    })
    .await;
}
