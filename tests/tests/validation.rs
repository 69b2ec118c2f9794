//! Broken configuration: the webhook refuses it; what was there before is named in status, log and
//! debug page, and everything else keeps working.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../crates/discovery/tests/world/envoy.rs"]
mod envoy;

use envoy::{Envoy, node};
use ironsail_testkit::{
    Podlet, SYSTEM, case_on, eventually, install_control_plane, install_definitions,
};
use serde_json::Value;

const GOOD: &str = "
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: good}
spec:
  hosts: [httpbin]
  http: [{name: kept, route: [{destination: {host: httpbin}}], timeout: 7s}]
";

/// Nothing to route to.
const BROKEN: &str = "
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: broken}
spec:
  hosts: [broken.example.com]
  http: [{match: [{uri: {prefix: /}}]}]
";

const REGEX: &str = "
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: regex}
spec:
  hosts: [regex.example.com]
  http: [{match: [{uri: {regex: '(unclosed'}}], route: [{destination: {host: httpbin}}]}]
";

/// The same host as `good` has, which is older, or comes first if both came in one second.
const CLASH: &str = "
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: late}
spec:
  hosts: [httpbin]
  http: [{name: lost, route: [{destination: {host: httpbin}}]}]
";

#[test]
fn broken_objects_are_refused_or_named_and_harm_nobody() {
    let podlet = Podlet::start("validation", &[]);
    install_definitions(&podlet);
    case_on(&podlet, "broken", async |case| {
        // No webhook yet: everything gets in.
        case.sample("httpbin/httpbin.yaml").await;
        for object in [GOOD, BROKEN, REGEX, CLASH] {
            case.apply(object).await;
        }
        install_control_plane(&podlet);
        let pod = case.istiod().await;
        let folder = tempfile::tempdir().unwrap();
        case.relay(&folder.path().join("xds"), &pod, 15010);
        let envoy = Envoy::start(folder.path(), node("client", &case.namespace)).await;

        // Everything else works: the good route is there, and Envoy refuses nothing.
        envoy.shows("/config_dump", "kept").await;
        let rows = case.page(8080, "/debug/syncz").await.json();
        for kind in ["cluster", "listener", "route", "endpoint"] {
            assert_ne!(rows[0][format!("{kind}_status")], "ERROR", "{rows}");
        }
        let dump = envoy.get("/config_dump").await.unwrap();
        assert!(!dump.contains("lost") && !dump.contains("(unclosed"), "{dump}");

        for name in ["broken", "regex", "late"] {
            eventually("the debug page names it", async || {
                let page = case.page(8080, "/debug/push_status").await.body;
                let found = page.contains(&format!("\"{name}\""));
                if found { Ok(()) } else { Err(format!("{name}: {page}")) }
            })
            .await;
            let named = format!("{}/{name}", case.namespace);
            let told = |log: &str| log.contains(&named);
            case.beside(SYSTEM).log_until(&pod, "discovery", told).await;
            let what = format!("virtualservice/{name}");
            eventually("its status tells", async || {
                let said = case.kubectl_says(&["get", &what, "-o", "json"]);
                let object: Value = serde_json::from_str(&said).unwrap();
                let messages = object["status"]["validationMessages"].as_array().map(Vec::len);
                let seen = &object["status"]["observedGeneration"];
                let current = *seen == object["metadata"]["generation"];
                if messages > Some(0) && current { Ok(()) } else { Err(said) }
            })
            .await;
        }
        // Still wrong in another form: the status speaks of the form that is there.
        case.apply(&CLASH.replace("name: lost", "name: lost-again")).await;
        eventually("the status follows", async || {
            let said = case.kubectl_says(&["get", "virtualservice/late", "-o", "json"]);
            let object: Value = serde_json::from_str(&said).unwrap();
            let (status, meta) = (&object["status"], &object["metadata"]);
            let current = status["observedGeneration"] == meta["generation"];
            if current && meta["generation"] == 2 { Ok(()) } else { Err(said) }
        })
        .await;
        let said = case.kubectl_says(&["get", "virtualservice/good", "-o", "json"]);
        let good: Value = serde_json::from_str(&said).unwrap();
        let errors = good["status"]["validationMessages"].to_string();
        assert!(!errors.contains("\"ERROR\""), "{said}");

        // From now on the webhook refuses them, in words for people.
        for (object, words) in [(BROKEN, "route"), (REGEX, "regex")] {
            let object = object.replace("name: broken}", "name: more-broken}");
            let object = object.replace("name: regex}", "name: more-regex}");
            let output = case.kubectl_output(&["apply", "-f", "-"], &object);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success(), "{said}");
            assert!(said.contains("validation.istio.io") && said.contains(words), "{said}");
        }
        // A clash may be wanted for a moment, so it is only warned of.
        let output = case
            .kubectl_output(&["apply", "-f", "-"], &CLASH.replace("name: late}", "name: later}"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        assert!(said.contains("Warning") && said.contains("/good"), "{said}");
    });
}
