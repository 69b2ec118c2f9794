//! The page of the mesh in a real browser: with five hundred services that are made up, and with a mesh.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "page/made_up.rs"]
mod made_up;

use std::time::Duration;

use ironsail_sys::env::Env;
use ironsail_testkit::{Browser, Case, SYSTEM, eventually, mesh_case};
use serde_json::{Value, json};

/// Where pictures are put for people to look at, if anybody says so.
async fn keep(browser: &mut Browser, name: &str) {
    let picture = browser.picture().await;
    assert!(picture.len() > 5_000, "{name} is empty: {} bytes", picture.len());
    if let Some(folder) = Env::of_process().var("IRONSAIL_PICTURES") {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(format!("{folder}/{name}.png"), picture).unwrap();
    }
}

const NODES: &str = "document.querySelectorAll('svg .node').length";
const ROWS: &str = "document.querySelectorAll('tbody tr').length";

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_services_are_readable_and_used_by_keyboard() {
    let url = made_up::serve(500).await;
    let mut browser = Browser::start(1400, 900).await;
    browser.prefer("light").await;
    browser.open(&url).await;
    // So many services are grouped by namespace at first.
    browser.until(&format!("{NODES} > 5 && {NODES} < 60")).await;
    keep(&mut browser, "namespaces-light").await;
    let choose = "(() => { const view = document.getElementById('view'); view.value = 'services'; \
        view.dispatchEvent(new Event('change')); return true; })()";
    let took = browser
        .value(&format!(
            "(async () => {{ const begin = performance.now(); {choose}; while ({NODES} < 300) \
             await new Promise(requestAnimationFrame); return performance.now() - begin; }})()"
        ))
        .await;
    assert!(took.as_f64().unwrap() < 10_000.0, "the map of all services took {took} ms");
    keep(&mut browser, "services-light").await;
    // Search leaves what is wanted.
    browser.press("/").await;
    browser.until("document.activeElement.id === 'search'").await;
    for letter in ["c", "a", "r", "t"] {
        browser.press(letter).await;
    }
    browser.until("document.querySelectorAll('svg .node.hit').length > 0").await;
    browser.until("document.querySelectorAll('svg .node.faded').length > 100").await;
    keep(&mut browser, "search-light").await;
    browser.press("Escape").await;
    browser.until("document.querySelectorAll('svg .node.faded').length === 0").await;
    one_namespace(&mut browser).await;
    lists(&mut browser, &url).await;
    assert!(browser.faults().is_empty(), "{:?}", browser.faults());
}

/// A map of one namespace, gone through by keys, in the dark.
async fn one_namespace(browser: &mut Browser) {
    browser.prefer("dark").await;
    browser
        .value(
            "(() => { const all = document.getElementById('namespace'); all.value = 'shop'; \
             all.dispatchEvent(new Event('change')); return true; })()",
        )
        .await;
    browser.until(&format!("{NODES} > 5 && {NODES} < 60")).await;
    // Somebody who calls has somebody to the right.
    let caller = "document.querySelector(`svg .node[data-id=\"${CSS.escape(\
        document.querySelector('svg .edge:not([data-to=\"outside\"])').dataset.from)}\"]`).focus()";
    browser.value(caller).await;
    let first = browser.value("document.activeElement.dataset.id").await;
    browser.press("ArrowRight").await;
    let next = browser.value("document.activeElement.dataset.id").await;
    assert!(next.is_string() && next != first, "{first} then {next}");
    browser.press("Enter").await;
    browser.until("!document.getElementById('detail').hidden").await;
    browser.until("document.getElementById('detail').innerText.includes('Called by')").await;
    keep(browser, "namespace-dark").await;
    browser.press("Escape").await;
    browser.until("document.getElementById('detail').hidden").await;
}

/// Every list shows its rows, and a row opens its detail.
async fn lists(browser: &mut Browser, url: &str) {
    browser
        .value("(() => { document.getElementById('namespace').value = ''; return true; })()")
        .await;
    for (view, rows) in [("workloads", 500), ("services", 500), ("resources", 3), ("pushes", 5)] {
        browser.value(&format!("(() => {{ location.hash = '#/{view}'; return true; }})()")).await;
        browser.until(&format!("{ROWS} >= {rows}")).await;
        let current = "document.querySelector('nav a[aria-current]').dataset.view";
        browser.until(&format!("{current} === '{view}'")).await;
        keep(browser, &format!("{view}-dark")).await;
    }
    browser.value("(() => { location.hash = '#/resources'; return true; })()").await;
    browser.until(&format!("{ROWS} === 3")).await;
    // A name is a text, whatever is in it.
    browser.until("document.body.innerText.includes('<b>prices</b>')").await;
    browser.value("document.querySelector('tbody tr').focus()").await;
    browser.press("Enter").await;
    browser.until("document.getElementById('detail').innerText.includes('carts.shop.svc')").await;
    browser.value("(() => { location.hash = '#/logs'; return true; })()").await;
    browser.until("document.querySelector('tbody select')?.value === 'info'").await;
    assert!(browser.value("location.href").await.as_str().unwrap().starts_with(url));
}

async fn api(case: &Case, path: &str) -> Value {
    case.page(9876, &format!("/mesh/api/v1/{path}")).await.json()
}

async fn get(case: &Case, url: &str) {
    let command = ["curl", "-s", "-m", "10", "-o", "/dev/null", url];
    case.exec("deployment/curl", &command).await;
}

#[test]
fn the_page_shows_a_mesh_as_it_is() {
    mesh_case("page", async |case| {
        let labels = json!({"istio-injection": "enabled"});
        let object = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": case.namespace, "labels": labels}});
        case.try_apply(object).await.unwrap();
        for sample in ["httpbin/httpbin.yaml", "curl/curl.yaml"] {
            case.sample(sample).await;
        }
        case.apply(ROUTES).await;
        for name in ["httpbin", "curl"] {
            case.ready(&format!("deployment/{name}")).await;
        }
        traffic(case).await;
        workloads(case).await;
        resources(case).await;
        in_a_browser(case).await;
    });
}

const ROUTES: &str = "
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: httpbin}
spec:
  hosts: [httpbin]
  http:
  - match: [{headers: {end-user: {exact: jason}}}]
    timeout: 3s
    route: [{destination: {host: httpbin}}]
  - route: [{destination: {host: httpbin}}]
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default}
spec: {mtls: {mode: STRICT}}
---
apiVersion: telemetry.istio.io/v1
kind: Telemetry
metadata: {name: nobody}
spec: {tracing: [{providers: [{name: nobody-is-called-so}]}]}
";

/// The edge between two workloads, with rate, success, latency and security.
async fn traffic(case: &Case) {
    let edge = eventually("an edge from curl to httpbin", async || {
        get(case, "http://httpbin:8000/get").await;
        get(case, "http://httpbin:8000/status/500").await;
        let map = api(case, "map?window=60").await;
        let wanted = |end: &str| format!("workload:{}/{end}", case.namespace);
        let found = map["edges"].as_array().unwrap().iter().find(|edge| {
            edge["from"] == wanted("curl")
                && edge["to"] == wanted("httpbin")
                && edge["security"] == "mutual_tls"
                && !edge["latency"].is_null()
                && edge["errors"].as_f64().unwrap() > 0.0
        });
        found.cloned().ok_or_else(|| format!("{map:#}"))
    })
    .await;
    assert!(edge["rate"].as_f64().unwrap() > 0.0, "{edge:#}");
    assert!(edge["errors"].as_f64().unwrap() < 1.0, "{edge:#}");
    assert!(edge["latency"]["p99"].as_f64().unwrap() > 0.0, "{edge:#}");
    assert_eq!(edge["host"], format!("httpbin.{}.svc.cluster.local", case.namespace));
}

/// Proxies, certificates, and the configuration in words.
async fn workloads(case: &Case) {
    let pod = eventually("a proxy in sync whose certificate is known", async || {
        let rows = api(case, "workloads").await;
        let found = rows.as_array().unwrap().iter().find(|row| {
            row["namespace"] == case.namespace.as_str()
                && row["workload"] == "httpbin"
                && row["proxy"]["state"]["lds"] == "SYNCED"
                && !row["certificate"].is_null()
        });
        found.cloned().ok_or_else(|| format!("{rows:#}"))
    })
    .await;
    assert_eq!(pod["mutualTls"], "STRICT", "{pod:#}");
    let left = pod["certificate"]["expiresIn"].as_f64().unwrap();
    assert!((3600.0..=25.0 * 3600.0).contains(&left), "{pod:#}");
    let name = pod["name"].as_str().unwrap();
    let detail = api(case, &format!("workloads/{}/{name}", case.namespace)).await;
    let words = detail["words"].to_string();
    for wanted in [
        "by mutual TLS only",
        "Everybody: there is no AuthorizationPolicy",
        "header end-user = jason",
        &format!("by VirtualService {}/httpbin", case.namespace),
    ] {
        assert!(words.contains(wanted), "{wanted}: {detail:#}");
    }
    let missing = case.page(9876, "/mesh/api/v1/workloads/no/body").await;
    assert_eq!(missing.status, 404, "{missing:?}");
}

async fn resources(case: &Case) {
    let broken = eventually("a finding about the broken one", async || {
        let rows = api(case, "resources").await;
        let found = rows.as_array().unwrap().iter().find(|row| {
            row["kind"] == "Telemetry"
                && row["namespace"] == case.namespace.as_str()
                && !row["findings"].as_array().unwrap().is_empty()
        });
        found.cloned().ok_or_else(|| format!("{rows:#}"))
    })
    .await;
    assert_eq!(broken["name"], "nobody");
    let path = format!("resources/VirtualService/{}/httpbin", case.namespace);
    assert_eq!(api(case, &path).await["spec"]["hosts"], json!(["httpbin"]));
    let services = api(case, "services").await;
    let service = services
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["namespace"] == case.namespace.as_str() && row["name"] == "httpbin");
    let service = service.unwrap();
    assert_eq!((&service["endpoints"], &service["healthy"]), (&json!(1), &json!(1)));
    assert_eq!(service["objects"], json!([format!("VirtualService/{}/httpbin", case.namespace)]));
    let report = api(case, "pushes").await;
    assert_eq!(report["refusals"], json!([]), "{report:#}");
    assert!(report["types"][0]["pushes"].as_u64().unwrap() > 0, "{report:#}");
    let overview = api(case, "overview").await;
    assert!(overview["proxies"].as_u64().unwrap() >= 2, "{overview:#}");
}

/// The same by eye: over a forwarded port, as `istioctl dashboard` opens it.
async fn in_a_browser(case: &Case) {
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mesh/", socket.local_addr().unwrap());
    let pod = case.istiod().await;
    let pods: kube::Api<k8s_openapi::api::core::v1::Pod> =
        kube::Api::namespaced(case.client.clone(), SYSTEM);
    let forward = tokio::spawn(async move {
        while let Ok((mut near, _)) = socket.accept().await {
            let Ok(mut forward) = pods.portforward(&pod, &[9876]).await else { continue };
            let mut far = forward.take_stream(9876).unwrap();
            tokio::spawn(async move {
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    let mut browser = Browser::start(1300, 800).await;
    browser.open(&url).await;
    let node = format!("svg .node[data-id=\"app:{}/httpbin\"]", case.namespace);
    let begin = tokio::time::Instant::now();
    while browser.value(&format!("!!document.querySelector('{node}')")).await != json!(true) {
        assert!(begin.elapsed() < Duration::from_secs(90), "httpbin is not on the map");
        get(case, "http://httpbin:8000/get").await;
    }
    keep(&mut browser, "mesh-light").await;
    browser.value("(() => { location.hash = '#/workloads'; return true; })()").await;
    browser.until("document.querySelector('tbody')?.innerText.includes('httpbin-')").await;
    keep(&mut browser, "mesh-workloads-light").await;
    assert!(browser.faults().is_empty(), "{:?}", browser.faults());
    forward.abort();
}
