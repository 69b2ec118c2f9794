//! Rules that change a hundred times while requests come at five hundred a second: none may fail.

#[path = "world/echo.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod echo;

use echo::{SERVICE, SUBSETS, client, routes, server};
use ironsail_testkit::{Case, Traffic, ask, mesh_case};
use serde_json::{Value, json};

const CHANGES: u32 = 100;

async fn world(case: &Case) {
    let (v1, v2) = (server("echo", "v1", true), server("echo", "v2", true));
    let (load, client) = (client("load", "team: red"), client("client", "team: red"));
    let parts = [SERVICE, SUBSETS, &v1, &v2, &load, &client];
    echo::start(case, &parts, &["echo-v1", "echo-v2", "load", "client"]).await;
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

#[test]
fn no_request_fails_while_routes_subsets_and_weights_change() {
    mesh_case("change", async |case| {
        world(case).await;
        let load = Traffic::new(case, "load");
        let client = Traffic::new(case, "client");
        client.still("it works", vec![ask("http://echo/").status(200)]).await;
        let args = [
            "http://echo/",
            "--rate",
            "500",
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
            for number in 0..CHANGES {
                change(case, number).await;
            }
            let last = CHANGES - 1;
            let line = format!("x-number: {last}");
            let wanted = ask("http://echo/")
                .header(&line)
                .status(200)
                .returns("x-number", &last.to_string());
            client.still("the last change is there", vec![wanted]).await;
            case.exec_in("load", "main", &["rm", "/tmp/load"]).await;
        };
        let (seen, ()) = futures::join!(load.load(&args), changes);
        println!("{seen}");
        assert_eq!(seen["errors"], json!({}), "{seen}");
        let statuses = seen["statuses"].as_object().expect("by status");
        assert!(statuses.keys().eq(["200"]), "{seen}");
        let sent = seen["sent"].as_u64().expect("a number");
        assert!(sent > 500, "{seen}");
        client.done().await;
    });
}
