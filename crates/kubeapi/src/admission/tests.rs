//! The built-in rules: namespaces and service accounts.

use super::*;
use crate::auth::objects::memory::Memory;
use serde_json::json;

struct Nowhere;

impl Dial for Nowhere {
    fn connect(&self, _: SocketAddr) -> BoxFuture<'_, std::io::Result<Box<dyn Stream>>> {
        Box::pin(async { Err(std::io::ErrorKind::ConnectionRefused.into()) })
    }
}

fn namespace(name: &str, phase: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name },
        "status": { "phase": phase } })
}

fn account(name: &str, more: &Value) -> Value {
    let mut out = json!({ "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": { "name": name, "namespace": "a" } });
    for (key, value) in more.as_object().into_iter().flatten() {
        out[key] = value.clone();
    }
    out
}

fn write(operation: Operation, resource: &str, object: Value) -> Request {
    Request {
        operation,
        group: String::new(),
        version: "v1".to_owned(),
        kind: object["kind"].as_str().unwrap_or_default().to_owned(),
        resource: resource.to_owned(),
        subresource: String::new(),
        other_versions: vec![],
        namespace: object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned(),
        name: object["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
        user: User::admin(),
        object: Some(object),
        old: None,
        options: Value::Null,
        dry_run: false,
    }
}

fn object(kind: &str, namespace: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": "p1", "namespace": namespace } })
}

async fn admit(objects: Vec<Value>, mut request: Request) -> Result<Value, Refusal> {
    let admission = Admission::new(Memory::with(objects), Arc::new(Nowhere));
    admission.mutate(&mut request, &|_| Ok(())).await?;
    Ok(request.object.unwrap_or_default())
}

fn places() -> Vec<Value> {
    vec![namespace("a", "Active"), namespace("ending", "Terminating")]
}

#[tokio::test]
async fn nothing_new_comes_into_missing_or_ending_namespaces() {
    let create = |place: &str| write(Operation::Create, "configmaps", object("ConfigMap", place));
    assert!(admit(places(), create("a")).await.is_ok());
    let missing = admit(places(), create("nons")).await.unwrap_err();
    assert_eq!((missing.code, missing.message.as_str()), (404, "namespaces \"nons\" not found"));
    let ending = admit(places(), create("ending")).await.unwrap_err();
    assert_eq!(
        ending.status(),
        json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "configmaps \"p1\" is forbidden: unable to create new content in namespace \
                        ending because it is being terminated",
            "reason": "Forbidden", "code": 403,
            "details": { "name": "p1", "kind": "configmaps", "causes": [{
                "reason": "NamespaceTerminating",
                "message": "namespace ending is being terminated",
                "field": "metadata.namespace" }] } })
    );
    let update = write(Operation::Update, "configmaps", object("ConfigMap", "ending"));
    assert!(admit(places(), update).await.is_ok());
    for name in ["default", "kube-system"] {
        let mut delete = write(Operation::Delete, "namespaces", namespace(name, "Active"));
        delete.object = None;
        assert_eq!(
            admit(places(), delete).await.unwrap_err().message,
            format!("namespaces {name:?} is forbidden: this namespace may not be deleted")
        );
    }
}

fn pod(spec: Value) -> Request {
    let mut pod = object("Pod", "a");
    pod["spec"] = spec;
    write(Operation::Create, "pods", pod)
}

async fn admitted(accounts: Vec<Value>, spec: Value) -> Result<Value, Refusal> {
    admit(places().into_iter().chain(accounts).collect(), pod(spec))
        .await
        .map(|mut p| p["spec"].take())
}

#[tokio::test]
async fn pods_get_their_account_and_its_token() {
    let own =
        json!([{ "name": "mine", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount" }]);
    let spec = json!({ "containers": [{ "name": "c" }, { "name": "d", "volumeMounts": own }],
        "initContainers": [{ "name": "i" }], "volumes": [{ "name": "mine", "emptyDir": {} }] });
    let secrets = json!({ "imagePullSecrets": [{ "name": "pull" }] });
    let spec = admitted(vec![account("default", &secrets)], spec).await.unwrap();
    assert_eq!(spec["serviceAccountName"], "default");
    assert_eq!(spec["imagePullSecrets"], json!([{ "name": "pull" }]));
    let volume = &spec["volumes"][1];
    let name = volume["name"].as_str().unwrap();
    assert!(name.starts_with("kube-api-access-") && name.len() == 21, "{name}");
    assert_eq!(volume["projected"]["sources"][0]["serviceAccountToken"]["path"], "token");
    assert_eq!(volume["projected"]["sources"][1]["configMap"]["name"], "kube-root-ca.crt");
    let mount = json!([{ "name": name, "readOnly": true,
        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount" }]);
    assert_eq!(spec["containers"][0]["volumeMounts"], mount);
    assert_eq!(spec["initContainers"][0]["volumeMounts"], mount);
    assert_eq!(spec["containers"][1]["volumeMounts"], own, "it has one already");

    let mut more = spec.clone();
    more["containers"].as_array_mut().unwrap().push(json!({ "name": "sidecar" }));
    let again = admitted(vec![account("default", &json!({}))], more).await.unwrap();
    assert_eq!(again["containers"][2]["volumeMounts"], mount, "added containers share the volume");
    assert_eq!(again["volumes"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn pods_and_accounts_may_do_without_a_token() {
    let spec = |automount: Value| json!({ "containers": [{ "name": "c" }], "automountServiceAccountToken": automount });
    let no = json!({ "automountServiceAccountToken": false });
    for (account_says, pod_says, expected) in [
        (json!({}), json!(null), true),
        (json!({}), json!(false), false),
        (no.clone(), json!(null), false),
        (no, json!(true), true),
    ] {
        let spec = admitted(vec![account("default", &account_says)], spec(pod_says)).await.unwrap();
        assert_eq!(!spec["volumes"].is_null(), expected);
    }
}

#[tokio::test]
async fn pods_wait_a_moment_for_their_account_and_are_refused_without_it() {
    let spec = json!({ "serviceAccountName": "missing", "containers": [] });
    assert_eq!(
        admitted(vec![], spec).await.unwrap_err().message,
        "pods \"p1\" is forbidden: error looking up service account a/missing: serviceaccount \
         \"missing\" not found"
    );
    let memory = Memory::with(places());
    let admission = Admission::new(Arc::clone(&memory) as Arc<_>, Arc::new(Nowhere));
    let mut request = pod(json!({ "containers": [] }));
    let settle = |_: &mut Value| Ok(());
    let (answer, ()) = tokio::join!(admission.mutate(&mut request, &settle), async {
        tokio::task::yield_now().await;
        memory.put(account("default", &json!({})));
    });
    assert_eq!(answer, Ok(vec![]));
}
