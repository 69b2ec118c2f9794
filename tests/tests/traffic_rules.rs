//! Which of several rules counts: age, how narrow a host is, who may see a rule, whose it is;
//! delegates; and DestinationRules by namespace, host, selector, and put together.

#[path = "world/echo.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod echo;

use echo::{SERVICE, SUBSETS, TO_V1, TO_V2, client, routes, server};
use ironsail_testkit::{Ask, Case, Traffic, ask, eventually, mesh_case};
use kube::api::{Api, DeleteParams, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::json;

/// The two namespaces: the service's own and another.
struct Names {
    own: String,
    far: String,
    /// The service's full name.
    echo: String,
}

async fn world(case: &Case) -> Names {
    let (own, far) = (case.namespace.clone(), format!("{}-far", case.namespace));
    let labels = json!({"istio-injection": "enabled"});
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": far, "labels": labels}});
    case.try_apply(object).await.expect("another namespace");
    let (one, two) = (server("echo", "v1", false), server("echo", "v2", false));
    let near = client("client", "team: red");
    let other = client("other", "team: blue");
    let away = client("away", "team: red")
        .replace("{name: away,", &format!("{{name: away, namespace: {far},"));
    let parts = [SERVICE, SUBSETS, &one, &two, &near, &other, &away];
    echo::start(case, &parts, &["echo-v1", "echo-v2", "client", "other"]).await;
    let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(case.client.clone(), &far);
    eventually("the client in the other namespace is ready", async || {
        let pod = pods.get("away").await.map_err(|e| e.to_string())?;
        let conditions = pod.status.and_then(|s| s.conditions).unwrap_or_default();
        let ready = conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True");
        if ready { Ok(()) } else { Err(format!("{conditions:?}")) }
    })
    .await;
    let echo = format!("echo.{own}.svc.cluster.local");
    Names { own, far, echo }
}

/// A VirtualService of this name and namespace for these hosts; `more` are other fields of its spec.
fn service(name: &str, namespace: &str, hosts: &str, more: &str, http: &[&str]) -> String {
    routes(http)
        .replace("{name: route}", &format!("{{name: {name}, namespace: {namespace}}}"))
        .replace("hosts: [echo]", &format!("hosts: [{hosts}]{more}"))
        .replace(
            "host: echo,",
            &format!("host: echo.{}.svc.cluster.local,", namespace.trim_end_matches("-far")),
        )
}

fn to_v1() -> String {
    format!("{{{TO_V1}}}")
}

fn to_v2() -> String {
    format!("{{{TO_V2}}}")
}

#[test]
fn of_several_rules_the_right_one_counts() {
    mesh_case("rules", async |case| {
        let names = world(case).await;
        let t = Traffic::new(case, "client");
        // The client in the other namespace is asked through a case of that namespace.
        let far = case.beside(&names.far);
        let away = Traffic::new(&far, "away");
        by_age(&t, case, &names).await;
        by_host(&t, &names).await;
        by_visibility(&t, &away, &names).await;
        delegates(&t, &names).await;
        rule_by_namespace(&t, &away, &names).await;
        rule_by_host_and_selector(&t, &names).await;
        t.done().await;
    });
}

fn get(names: &Names) -> Ask {
    ask(&format!("http://{}/", names.echo)).status(200)
}

async fn by_age(t: &Traffic<'_>, case: &Case, names: &Names) {
    let old = service("z-old", &names.own, &names.echo, "", &[&to_v1()]);
    let new = service("a-new", &names.own, &names.echo, "", &[&to_v2()]);
    t.behaves("one rule for a host", &old, vec![get(names).version("v1")]).await;
    let kind = GroupVersionKind::gvk("networking.istio.io", "v1", "VirtualService");
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = Api::namespaced_with(case.client.clone(), &names.own, &resource);
    // Times of creation count in seconds.
    eventually("a rule that is younger by a second", async || {
        case.apply(&new).await;
        let made = async |name: &str| {
            api.get(name).await.map(|o| o.metadata.creation_timestamp).map_err(|e| e.to_string())
        };
        if made("a-new").await? > made("z-old").await? {
            return Ok(());
        }
        let _ = api.delete("a-new", &DeleteParams::default()).await;
        Err("made in the same second".to_owned())
    })
    .await;
    let both = format!("{old}---{new}");
    t.behaves("the older of two rules for a host", &both, vec![get(names).times(5).version("v1")])
        .await;
    t.behaves("the younger when the older is gone", &new, vec![get(names).times(5).version("v2")])
        .await;
}

async fn by_host(t: &Traffic<'_>, names: &Names) {
    let wild = |name: &str, host: &str, to: &str| service(name, &names.own, host, "", &[to]);
    let own = format!("'*.{}.svc.cluster.local'", names.own);
    t.behaves("a wildcard host", &wild("wild", &own, &to_v2()), vec![get(names).version("v2")])
        .await;
    let exact = wild("exact", &names.echo, &to_v1());
    let both = format!("{exact}---{}", wild("a-wild", &own, &to_v2()));
    t.behaves("an exact host before a wildcard", &both, vec![get(names).version("v1")]).await;
    let wider = wild("a-wider", "'*.svc.cluster.local'", &to_v1());
    let both = format!("{}---{wider}", wild("wild", &own, &to_v2()));
    t.behaves("a longer wildcard before a shorter", &both, vec![get(names).version("v2")]).await;
    let two =
        service("route", &names.own, &format!("other.example, {}", names.echo), "", &[&to_v2()]);
    t.behaves(
        "several hosts in a rule",
        &two,
        vec![
            get(names).version("v2"),
            ask("http://echo/").header("Host: other.example").status(200).version("v2"),
        ],
    )
    .await;
    let free = service("free", &names.own, "made.up.example", "", &[&to_v1()]);
    t.behaves(
        "a host that no service has",
        &free,
        vec![ask("http://echo/").header("Host: made.up.example").status(200).version("v1")],
    )
    .await;
    let beside = format!(
        "{}---{}",
        service("free", &names.own, "made.up.example", "", &[&to_v1()]),
        service("exact", &names.own, &names.echo, "", &[&to_v2()])
    );
    t.behaves(
        "rules for different hosts side by side",
        &beside,
        vec![
            ask("http://echo/").header("Host: made.up.example").version("v1"),
            get(names).version("v2"),
        ],
    )
    .await;
}

async fn by_visibility(t: &Traffic<'_>, away: &Traffic<'_>, names: &Names) {
    let other = |export: &str| service("far", &names.far, &names.echo, export, &[&to_v2()]);
    t.behaves("a rule of another namespace", &other(""), vec![get(names).version("v2")]).await;
    away.still("and in its own", vec![get(names).times(5).version("v2")]).await;
    let own = service("own", &names.own, &names.echo, "\n  exportTo: ['.']", &[&to_v1()]);
    t.behaves("exportTo the own namespace", &own, vec![get(names).times(5).version("v1")]).await;
    away.still("is not seen elsewhere", vec![get(names).times(30).share("v1", 2..=28)]).await;
    let hidden = format!(
        "{}---{}",
        service("own", &names.own, &names.echo, "", &[&to_v1()]),
        other("\n  exportTo: ['.']")
    );
    t.behaves(
        "a hidden rule takes nothing from others",
        &hidden,
        vec![get(names).times(5).version("v1")],
    )
    .await;
    let there = service(
        "own",
        &names.own,
        &names.echo,
        &format!("\n  exportTo: [{}]", names.far),
        &[&to_v2()],
    );
    t.behaves(
        "exportTo another namespace",
        &there,
        vec![get(names).unmarked().times(30).share("v1", 2..=28)],
    )
    .await;
    away.still("is seen there", vec![get(names).times(5).version("v2")]).await;
    let short = service("short", &names.far, "echo", "", &[&to_v1()]);
    let own = service("own", &names.own, &names.echo, "", &[&to_v2()]);
    t.behaves(
        "a short host means the rule's namespace",
        &format!("{own}---{short}"),
        vec![get(names).times(5).version("v2")],
    )
    .await;
}

async fn delegates(t: &Traffic<'_>, names: &Names) {
    let at = |path: &str| ask(&format!("http://{}{path}", names.echo));
    let root = |matching: &str, delegate: &str, more: &str| {
        service(
            "root",
            &names.own,
            &names.echo,
            "",
            &[&format!("{{match: [{matching}], delegate: {delegate}{more}}}"), &to_v1()],
        )
    };
    let leaf = |namespace: &str, export: &str, http: &[&str]| {
        service("leaf", namespace, "", export, http).replace("  hosts: []\n", "")
    };
    let own = |http: &[&str]| leaf(&names.own, "", http);
    let plain = root("{uri: {prefix: /api}}", "{name: leaf}", "");
    t.behaves(
        "a delegate's routes",
        &format!("{plain}---{}", own(&[&to_v2()])),
        vec![at("/api/x").version("v2"), at("/other").version("v1")],
    )
    .await;
    let narrower = own(&[
        &format!("{{match: [{{uri: {{prefix: /api/two}}}}], {TO_V2}}}"),
        &format!(
            "{{match: [{{uri: {{exact: /api/one}}}}], {TO_V1}, headers: {{response: {{set: {{x-leaf: one}}}}}}}}"
        ),
    ]);
    t.behaves(
        "routes of a delegate that are narrower",
        &format!("{plain}---{narrower}"),
        vec![
            at("/api/two/x").version("v2"),
            at("/api/one").version("v1").returns("x-leaf", "one"),
            at("/api/three").version("v1").withholds("x-leaf"),
        ],
    )
    .await;
    let wider = own(&[
        &format!("{{match: [{{uri: {{prefix: /other}}}}], {TO_V2}}}"),
        &format!("{{match: [{{uri: {{prefix: /api/two}}}}], {TO_V2}}}"),
    ]);
    t.behaves(
        "routes of a delegate that are wider count for nothing",
        &format!("{plain}---{wider}"),
        vec![at("/other").version("v1"), at("/api/two").version("v2")],
    )
    .await;
    let kept =
        root("{uri: {prefix: /api}}", "{name: leaf}", ", timeout: 0.3s, retries: {attempts: 0}");
    t.behaves(
        "what the delegate does not say the root does",
        &format!("{kept}---{}", own(&[&to_v2()])),
        vec![at("/api?delay=3000").status(504), at("/other?delay=600").status(200)],
    )
    .await;
    let labels = root("{uri: {prefix: /api}, sourceLabels: {team: red}}", "{name: leaf}", "");
    t.behaves(
        "a delegate for some clients",
        &format!("{labels}---{}", own(&[&to_v2()])),
        vec![at("/api").version("v2"), at("/api").from("other").version("v1")],
    )
    .await;
    let elsewhere =
        root("{uri: {prefix: /api}}", &format!("{{name: leaf, namespace: {}}}", names.far), "");
    t.behaves(
        "a delegate of another namespace",
        &format!("{elsewhere}---{}", leaf(&names.far, "", &[&to_v2()])),
        vec![at("/api").version("v2"), at("/other").version("v1")],
    )
    .await;
    let hidden = leaf(&names.far, "\n  exportTo: ['.']", &[&to_v2()]);
    t.behaves(
        "a delegate that may not be seen",
        &format!("{elsewhere}---{hidden}"),
        vec![at("/api").version("v1")],
    )
    .await;
}

/// A DestinationRule whose subset `it` means this version.
fn rule(name: &str, namespace: &str, host: &str, version: &str, more: &str) -> String {
    format!(
        "
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  host: {host}
  subsets: [{{name: it, labels: {{version: {version}}}}}]
{more}"
    )
}

async fn rule_by_namespace(t: &Traffic<'_>, away: &Traffic<'_>, names: &Names) {
    let all = service(
        "route",
        &names.own,
        &names.echo,
        "",
        &["{route: [{destination: {host: echo, subset: it}}]}"],
    );
    let own = |version: &str, more: &str| rule("own", &names.own, &names.echo, version, more);
    let far = rule("far", &names.far, &names.echo, "v2", "");
    let root = rule("root", "istio-system", &names.echo, "v2", "");
    // The rule that other tests use names the same host.
    let base = "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: echo}\nspec: {host: spare}\n";
    t.behaves(
        "the rule of the service's namespace",
        &format!("{all}---\n{base}---{}", own("v1", "")),
        vec![get(names).times(5).version("v1")],
    )
    .await;
    away.still("counts for clients elsewhere", vec![get(names).times(5).version("v1")]).await;
    t.behaves(
        "the rule of the client's namespace",
        &format!("{all}---\n{base}---{}---{far}", own("v1", "")),
        vec![get(names).times(5).version("v1")],
    )
    .await;
    away.still("comes before that of the service's", vec![get(names).times(5).version("v2")]).await;
    t.behaves(
        "the rule of the root namespace",
        &format!("{all}---\n{base}---{root}"),
        vec![get(names).times(5).version("v2")],
    )
    .await;
    away.still("counts where nobody else says anything", vec![get(names).times(5).version("v2")])
        .await;
    t.behaves(
        "the root namespace comes last",
        &format!("{all}---\n{base}---{root}---{}", own("v1", "  exportTo: ['.']\n")),
        vec![get(names).times(5).version("v1")],
    )
    .await;
    away.still("exportTo hides a rule from others", vec![get(names).times(5).version("v2")]).await;
}

async fn rule_by_host_and_selector(t: &Traffic<'_>, names: &Names) {
    let to = |subset: &str| {
        service(
            "route",
            &names.own,
            &names.echo,
            "",
            &[&format!("{{route: [{{destination: {{host: echo, subset: {subset}}}}}]}}")],
        )
    };
    let base = "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: echo}\nspec: {host: spare}\n";
    let wild = rule("wild", &names.own, &format!("'*.{}.svc.cluster.local'", names.own), "v2", "");
    t.behaves(
        "a rule for a wildcard",
        &format!("{}---\n{base}---{wild}", to("it")),
        vec![get(names).times(5).version("v2")],
    )
    .await;
    let exact = rule("zexact", &names.own, &names.echo, "v1", "");
    t.behaves(
        "a rule for the host before one for a wildcard",
        &format!("{}---\n{base}---{wild}---{exact}", to("it")),
        vec![get(names).times(5).version("v1")],
    )
    .await;
    let selected = rule(
        "selected",
        &names.own,
        &names.echo,
        "v2",
        "  workloadSelector: {matchLabels: {team: blue}}\n",
    );
    t.behaves(
        "workloadSelector",
        &format!("{}---\n{base}---{exact}---{selected}", to("it")),
        vec![get(names).times(5).version("v1"), get(names).times(5).from("other").version("v2")],
    )
    .await;
    let more = rule("more", &names.own, &names.echo, "v2", "").replace("name: it", "name: more");
    t.behaves(
        "subsets of two rules add up",
        &format!("{}---\n{base}---{exact}---{more}", to("more")),
        vec![get(names).times(5).version("v2")],
    )
    .await;
    t.behaves(
        "and the other is still there",
        &format!("{}---\n{base}---{exact}---{more}", to("it")),
        vec![get(names).times(5).version("v1")],
    )
    .await;
}
