//! The patcher against podlet's API; the webhook's refusal is played by a fault.

use ironsail_testkit::{Api as TestApi, Fault, eventually};
use k8s_openapi::ByteString;

use super::*;

const INJECTOR: &str = "
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: istio-sidecar-injector, labels: {istio.io/rev: default}}
webhooks:
- name: rev.namespace.sidecar-injector.istio.io
  clientConfig: {service: {name: istiod, namespace: istio-system, path: /inject}}
  sideEffects: None
  admissionReviewVersions: [v1]
  rules: [{operations: [CREATE], apiGroups: [''], apiVersions: [v1], resources: [pods]}]
  namespaceSelector: {matchLabels: {nothing: matches}}
- name: namespace.sidecar-injector.istio.io
  clientConfig: {service: {name: istiod, namespace: istio-system, path: /inject}}
  sideEffects: None
  admissionReviewVersions: [v1]
  rules: [{operations: [CREATE], apiGroups: [''], apiVersions: [v1], resources: [pods]}]
  namespaceSelector: {matchLabels: {nothing: matches}}
";

const VALIDATOR: &str = "
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: istio-validator-istio-system, labels: {istio.io/rev: default}}
webhooks:
- name: rev.validation.istio.io
  clientConfig: {service: {name: istiod, namespace: istio-system, path: /validate}}
  failurePolicy: Ignore
  sideEffects: None
  admissionReviewVersions: [v1]
  rules: [{operations: [CREATE], apiGroups: [networking.istio.io], apiVersions: ['*'], resources: ['*']}]
";

fn config(api: &TestApi, bundle: &watch::Sender<Arc<str>>) -> Config {
    Config {
        client: api.client(),
        revision: String::new(),
        namespace: "default".to_owned(),
        bundle: bundle.subscribe(),
    }
}

async fn bundles(api: &TestApi) -> Vec<String> {
    let configs = Api::<MutatingWebhookConfiguration>::all(api.admin());
    let config = configs.get("istio-sidecar-injector").await.unwrap();
    let text = |ByteString(bytes)| String::from_utf8(bytes).unwrap();
    let hooks = config.webhooks.unwrap().into_iter();
    hooks.map(|hook| hook.client_config.ca_bundle.map(text).unwrap_or_default()).collect()
}

async fn bundles_become(api: &TestApi, text: &str) {
    eventually("the bundles are patched", async || {
        let found = bundles(api).await;
        if found == [text, text] { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
}

#[tokio::test]
async fn the_bundle_of_injection_is_set_renewed_and_repaired() {
    let api = TestApi::open().await;
    let (bundle, stop) = (watch::Sender::new("one".into()), CancellationToken::new());
    api.apply(INJECTOR).await;
    let task = tokio::spawn(patch_injection(config(&api, &bundle), stop.clone()));
    bundles_become(&api, "one").await;
    bundle.send_replace("two".into());
    bundles_become(&api, "two").await;
    // Whoever installs again wipes the bundle.
    api.delete(INJECTOR).await;
    api.apply(INJECTOR).await;
    bundles_become(&api, "two").await;
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn validation_fails_closed_once_a_bad_object_was_refused() {
    let api = TestApi::open().await;
    let (bundle, stop) = (watch::Sender::new("ca".into()), CancellationToken::new());
    api.apply(VALIDATOR).await;
    let refuse = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let refusing = refuse.clone();
    api.fault(move |method, path| {
        let trial = method == http::Method::POST && path.contains("/gateways?");
        let refusing = refusing.load(std::sync::atomic::Ordering::SeqCst);
        trial.then_some(match refusing {
            false => Fault::Status(500, "InternalError"),
            true => Fault::Status(
                400,
                r#"admission webhook "rev.validation.istio.io" denied the request: no servers"#,
            ),
        })
    });
    let task = tokio::spawn(patch_validation(config(&api, &bundle), stop.clone()));
    let configs = Api::<ValidatingWebhookConfiguration>::all(api.admin());
    let policy = async || {
        let config = configs.get("istio-validator-istio-system").await.unwrap();
        let hook = config.webhooks.unwrap().remove(0);
        (hook.failure_policy.unwrap_or_default(), hook.client_config.ca_bundle.is_some())
    };
    eventually("the bundle is set while validation is open", async || {
        let found = policy().await;
        if found == ("Ignore".to_owned(), true) { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
    refuse.store(true, std::sync::atomic::Ordering::SeqCst);
    eventually("validation fails closed", async || {
        let found = policy().await;
        if found.0 == "Fail" { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
    stop.cancel();
    task.await.unwrap();
}
