//! Manifests of ours against what they must become.
//!
//! When a template changes on purpose, a failing test leaves the new text beside the build and says
//! where; it is read and put in place of the old.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use ironsail_inject::{Config, Injector, Mesh, Settings, Values, manifest};
use serde_json::{Value, json};

fn injector(values: &Value, mesh: &Value) -> Injector {
    let mut all = Values::builtin();
    all.overlay(values);
    let config = Config::from_values(&all).unwrap();
    let mesh = Mesh::from_yaml(&mesh.to_string()).unwrap();
    let settings = Settings { revision: "blue".to_owned(), ..Settings::default() };
    Injector::new(config, all, mesh, settings).unwrap()
}

fn check(name: &str, given: &str, want: &str, values: &Value, mesh: &Value) {
    let injector = injector(values, mesh);
    let got = manifest(&injector, given).unwrap();
    if got.yaml != want {
        let place = format!("{}/{name}.injected.yaml", env!("CARGO_TARGET_TMPDIR"));
        std::fs::write(&place, &got.yaml).unwrap();
        panic!("{name} became something else: compare with {place}");
    }
    // An injected manifest is injected again without a trace.
    assert_eq!(manifest(&injector, &got.yaml).unwrap().yaml, got.yaml, "{name} again");
}

macro_rules! golden {
    ($test:ident, $file:literal, $values:expr, $mesh:expr) => {
        #[test]
        fn $test() {
            let given = include_str!(concat!("../testdata/", $file, ".yaml"));
            let want = include_str!(concat!("../testdata/", $file, ".injected.yaml"));
            check($file, given, want, &$values, &$mesh);
        }
    };
}

golden!(a_classic_sidecar_holds_the_application, "classic", json!({}), json!({}));

golden!(
    transparent_mode_with_the_cni_plugin,
    "tproxy-cni",
    json!({ "pilot": { "cni": { "enabled": true } }, "global": {
        "network": "first", "multiCluster": { "clusterName": "east" }, "logAsJson": true,
        "imagePullPolicy": "IfNotPresent", "imagePullSecrets": ["pull"], "meshID": "m",
        "podDNSSearchNamespaces": ["{{ .ObjectMeta.Namespace }}.global", "global"],
    } }),
    json!({ "trustDomain": "td.example", "inboundTrafficPolicy": { "mode": "LOCALHOST" } })
);

golden!(a_gateway_in_a_list, "gateway", json!({ "revision": "blue" }), json!({}));

golden!(
    templates_of_users_go_over_ours,
    "custom",
    json!({ "sidecarInjectorWebhook": { "templates": { "extra":
        "metadata:\n  labels:\n    extra: {{ .DeploymentMeta.Name | quote }}\nspec:\n  \
         initContainers:\n  - name: istio-proxy\n    env:\n    - name: KIND\n      \
         value: {{ .TypeMeta.Kind }}\n    - name: SEES\n      \
         value: {{ range .Spec.Containers }}{{ .Name }}{{ end }}\n" },
        "injectedAnnotations": { "always": "there" } } }),
    json!({})
);

#[test]
fn what_is_left_alone_is_told_in_known_words() {
    let injector = injector(&json!({}), &json!({}));
    let given = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a, namespace: b}\nspec:\n  \
                 template: {spec: {hostNetwork: true, containers: []}}\n";
    assert_eq!(
        manifest(&injector, given).unwrap().warnings,
        ["===> Skipping injection because Deployment \"b/a\" has host networking enabled"]
    );
    let broken = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {}\n";
    let error = manifest(&injector, broken).unwrap_err().to_string();
    assert_eq!(error, "Deployment \"a\" has no spec.template.spec");
}
