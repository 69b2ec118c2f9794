//! Custom resources through the whole API, asked in this process.

#![expect(clippy::needless_pass_by_value, reason = "cases read better as plain values")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use ironsail_sys::clock::Clock;
use serde_json::{Value, json};

use crate::admission::{Dial, Stream};
use crate::auth::{Peer, User};
use crate::{Body, Config, Server};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const THINGS: &str = "/apis/test.example/v1/namespaces/default/things";

struct NoWebhooks;

impl Dial for NoWebhooks {
    fn connect(&self, _: SocketAddr) -> BoxFuture<'_, std::io::Result<Box<dyn Stream>>> {
        Box::pin(async { Err(std::io::Error::other("there are no webhooks here")) })
    }
}

struct Api {
    server: Server,
    directory: tempfile::TempDir,
}

impl Api {
    async fn new() -> Self {
        Self::open(tempfile::tempdir().unwrap()).await
    }

    async fn open(directory: tempfile::TempDir) -> Self {
        let config = Config {
            directory: directory.path().to_owned(),
            service_ranges: vec!["10.96.0.0/16".parse().unwrap()],
            issuer: "https://issuer".to_owned(),
            endpoint: None,
        };
        let server = Server::open(&config, Arc::new(NoWebhooks), Clock::system()).await.unwrap();
        Self { server, directory }
    }

    async fn restart(self) -> Self {
        let Self { server, directory } = self;
        server.end_watches();
        // Closing waits for writes under way, which this thread has to carry on with.
        let closing = tokio::task::spawn_blocking(move || server.store().close());
        closing.await.unwrap();
        Self::open(directory).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        media: &str,
        body: Value,
    ) -> http::Response<Body> {
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("Content-Type", media)
            .header("User-Agent", "tester/1")
            .body(Full::new(bytes::Bytes::from(body)))
            .unwrap();
        let user = User::known("admin", &["system:masters"]);
        self.server.handle(request, Peer::InProcess(user)).await
    }

    async fn ask(&self, method: Method, path: &str, media: &str, body: Value) -> (u16, Value) {
        let response = self.send(method, path, media, body).await;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.ask(Method::GET, path, "application/json", Value::Null).await
    }

    #[track_caller]
    fn post(&self, path: &str, body: Value) -> impl Future<Output = (u16, Value)> {
        self.ask(Method::POST, path, "application/json", body)
    }

    async fn patch(&self, path: &str, body: Value) -> (u16, Value) {
        self.ask(Method::PATCH, path, "application/merge-patch+json", body).await
    }

    async fn delete(&self, path: &str) -> (u16, Value) {
        self.ask(Method::DELETE, path, "application/json", Value::Null).await
    }

    /// Asks again until the answer is as wanted; every test has a bound of its own time.
    async fn until(&self, path: &str, wanted: impl Fn(u16, &Value) -> bool) -> Value {
        let waiting = async {
            loop {
                let (code, value) = self.get(path).await;
                if wanted(code, &value) {
                    return value;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("it comes to that")
    }

    async fn define(&self, definition: Value) {
        let name = definition["metadata"]["name"].as_str().unwrap().to_owned();
        let (code, answer) = self.post(CRDS, definition).await;
        assert_eq!(code, 201, "{answer}");
        self.until(&format!("{CRDS}/{name}"), |_, crd| condition(crd, "Established") == "True")
            .await;
    }
}

fn condition(object: &Value, kind: &str) -> String {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let mut found = conditions.filter(|condition| condition["type"] == kind);
    found.next().map_or("", |condition| condition["status"].as_str().unwrap()).to_owned()
}

fn schema(spec: Value) -> Value {
    json!({"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "properties": spec},
        "status": {"type": "object", "properties": {"n": {"type": "integer"}, "ok": {"type": "boolean"}}},
    }}})
}

fn things(versions: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.test.example"},
        "spec": {
            "group": "test.example",
            "names": {"kind": "Thing", "plural": "things", "shortNames": ["th"], "categories": ["all"]},
            "scope": "Namespaced",
            "versions": versions,
        },
    })
}

fn v1() -> Value {
    json!({
        "name": "v1", "served": true, "storage": true,
        "schema": schema(json!({
            "x": {"type": "string", "default": "dx"},
            "n": {"type": "integer", "minimum": 0},
            "hosts": {"type": "array", "items": {"type": "string"}},
        })),
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"},
        },
        "additionalPrinterColumns": [{"name": "X", "type": "string", "jsonPath": ".spec.x"}],
        "selectableFields": [{"jsonPath": ".spec.x"}],
    })
}

fn thing(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "test.example/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn a_definition_is_served_as_soon_as_it_is_established() {
    let api = Api::new().await;
    assert_eq!(api.get("/apis/test.example/v1").await.0, 404);
    api.define(things(json!([v1()]))).await;
    let (_, crd) = api.get(&format!("{CRDS}/things.test.example")).await;
    assert_eq!(crd["status"]["acceptedNames"]["listKind"], "ThingList");
    assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
    let (_, list) = api.get("/apis/test.example/v1").await;
    let names: Vec<_> =
        list["resources"].as_array().unwrap().iter().map(|r| r["name"].clone()).collect();
    assert_eq!(names, ["things", "things/status", "things/scale"]);

    let mut sent = thing("a", json!({"n": 2.0, "unknown": 1, "hosts": ["h"]}));
    sent["status"] = json!({"n": 9});
    let (code, made) = api.post(THINGS, sent).await;
    assert_eq!(code, 201);
    assert_eq!(made["spec"], json!({"x": "dx", "n": 2, "hosts": ["h"]}));
    assert!(made.get("status").is_none());
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(made["metadata"]["managedFields"][0]["manager"], "tester");
}

#[tokio::test]
async fn wrong_objects_are_refused_in_kubernetes_words() {
    let api = Api::new().await;
    api.define(things(json!([v1()]))).await;
    let (code, answer) = api.post(THINGS, thing("a", json!({"n": -1}))).await;
    assert_eq!(code, 422);
    assert_eq!(
        answer["message"],
        "Thing.test.example \"a\" is invalid: spec.n: Invalid value: -1: spec.n in body should be \
         greater than or equal to 0"
    );
    let strict = format!("{THINGS}?fieldValidation=Strict");
    let mut unknown = thing("a", json!({"zz": 1}));
    unknown["metadata"]["foo"] = json!(1);
    let (code, answer) = api.post(&strict, unknown).await;
    assert_eq!(code, 400);
    assert_eq!(
        answer["message"],
        "Thing in version \"v1\" cannot be handled as a Thing: strict decoding error: unknown field \
         \"metadata.foo\", unknown field \"spec.zz\""
    );
    assert_eq!(api.post(THINGS, thing("A_", json!({}))).await.0, 422);
    let media = "application/strategic-merge-patch+json";
    api.post(THINGS, thing("a", json!({}))).await;
    assert_eq!(api.ask(Method::PATCH, &format!("{THINGS}/a"), media, json!({})).await.0, 415);
}

#[tokio::test]
async fn status_and_scale_have_their_own_endpoints() {
    let api = Api::new().await;
    api.define(things(json!([v1()]))).await;
    api.post(THINGS, thing("a", json!({"n": 2}))).await;
    let path = format!("{THINGS}/a");
    let sent = json!({"spec": {"x": "no"}, "status": {"n": 1}, "metadata": {"labels": {"l": "1"}}});
    let (code, after) = api.patch(&format!("{path}/status"), sent).await;
    assert_eq!(code, 200);
    assert_eq!(after["spec"]["x"], "dx");
    assert_eq!(after["status"]["n"], 1);
    assert!(after["metadata"].get("labels").is_none());
    assert_eq!(after["metadata"]["generation"], 1);
    let (_, scale) = api.get(&format!("{path}/scale")).await;
    assert_eq!((&scale["spec"]["replicas"], &scale["status"]["replicas"]), (&json!(2), &json!(1)));
    api.patch(&format!("{path}/scale"), json!({"spec": {"replicas": 5}})).await;
    let (_, after) = api.patch(&path, json!({"status": {"n": 7}})).await;
    assert_eq!((&after["spec"]["n"], &after["status"]["n"]), (&json!(5), &json!(1)));
    assert_eq!(after["metadata"]["generation"], 2);
}

#[tokio::test]
async fn fields_can_be_selected_and_columns_shown() {
    let api = Api::new().await;
    api.define(things(json!([v1()]))).await;
    api.post(THINGS, thing("a", json!({}))).await;
    api.post(THINGS, thing("b", json!({"x": "bx"}))).await;
    let (_, found) = api.get(&format!("{THINGS}?fieldSelector=spec.x%3Dbx")).await;
    assert_eq!(found["items"].as_array().unwrap().len(), 1);
    assert_eq!(found["items"][0]["metadata"]["name"], "b");
    assert_eq!(api.get(&format!("{THINGS}?fieldSelector=spec.n%3D1")).await.0, 400);
}

#[tokio::test]
async fn versions_share_their_objects_through_the_storage_version() {
    let api = Api::new().await;
    let mut v2 = v1();
    v2["name"] = json!("v2");
    v2["storage"] = json!(false);
    v2["schema"] =
        schema(json!({"x": {"type": "string"}, "extra": {"type": "string", "default": "e"}}));
    v2["subresources"] = json!({});
    api.define(things(json!([v1(), v2]))).await;
    api.post(THINGS, thing("a", json!({"n": 1}))).await;
    let other = THINGS.replace("/v1/", "/v2/");
    let (_, seen) = api.get(&format!("{other}/a")).await;
    assert_eq!(seen["apiVersion"], "test.example/v2");
    assert_eq!(seen["spec"], json!({"x": "dx"}));
    let (_, crd) = api.get(&format!("{CRDS}/things.test.example")).await;
    assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
    let (code, answer) = api
        .patch(
            &format!("{CRDS}/things.test.example"),
            json!({"spec": {"conversion": {"strategy": "Webhook"}}}),
        )
        .await;
    assert_eq!(code, 422);
    assert!(answer["message"].as_str().unwrap().contains("conversion webhooks are not supported"));
}

#[tokio::test]
async fn a_changed_schema_holds_from_then_on_and_defaults_what_was_stored() {
    let api = Api::new().await;
    api.define(things(json!([v1()]))).await;
    api.post(THINGS, thing("a", json!({}))).await;
    let mut changed = v1();
    changed["schema"] = schema(json!({
        "x": {"type": "string"},
        "later": {"type": "string", "default": "now", "enum": ["now", "then"]},
    }));
    changed["selectableFields"] = json!([]);
    changed["subresources"] = json!({"status": {}});
    api.patch(&format!("{CRDS}/things.test.example"), json!({"spec": {"versions": [changed]}}))
        .await;
    let path = format!("{THINGS}/a");
    let seen = api.until(&path, |_, thing| thing["spec"]["later"] == "now").await;
    assert_eq!(seen["spec"]["x"], "dx");
    let (code, _) = api.patch(&path, json!({"spec": {"later": "never"}})).await;
    assert_eq!(code, 422);
    assert_eq!(api.get(&format!("{path}/scale")).await.0, 404);
}

#[tokio::test]
async fn names_in_use_are_not_accepted_until_they_are_free() {
    let api = Api::new().await;
    api.define(things(json!([v1()]))).await;
    let mut other = things(json!([v1()]));
    other["metadata"]["name"] = json!("others.test.example");
    other["spec"]["names"] = json!({"kind": "Other", "plural": "others", "shortNames": ["th"]});
    let path = format!("{CRDS}/others.test.example");
    api.post(CRDS, other).await;
    let refused = api.until(&path, |_, crd| condition(crd, "NamesAccepted") == "False").await;
    assert_eq!(condition(&refused, "Established"), "False");
    assert_eq!(refused["status"]["conditions"][0]["message"], "\"th\" is already in use");
    assert_eq!(api.get("/apis/test.example/v1/namespaces/default/others").await.0, 404);
    api.delete(&format!("{CRDS}/things.test.example")).await;
    api.until(&path, |_, crd| condition(crd, "Established") == "True").await;
    assert_eq!(api.get("/apis/test.example/v1/namespaces/default/others").await.0, 200);
}

#[tokio::test]
async fn deleting_a_definition_deletes_its_objects_and_ends_their_watches() {
    let api = Api::new().await;
    api.define(things(json!([v1()]))).await;
    api.post(THINGS, thing("a", json!({}))).await;
    let mut held = thing("b", json!({}));
    held["metadata"]["finalizers"] = json!(["held"]);
    api.post(THINGS, held).await;
    let watch = format!("{THINGS}?watch=1&resourceVersion=0");
    let watching = api.send(Method::GET, &watch, "application/json", Value::Null).await;
    let watching = tokio::spawn(watching.into_body().collect());
    let crd = format!("{CRDS}/things.test.example");
    assert_eq!(api.delete(&crd).await.0, 200);
    let ending = api.until(&crd, |_, crd| condition(crd, "Terminating") == "True").await;
    assert_eq!(
        ending["metadata"]["finalizers"],
        json!(["customresourcecleanup.apiextensions.k8s.io"])
    );
    api.until(&format!("{THINGS}/a"), |code, _| code == 404).await;
    let (code, answer) = api.post(THINGS, thing("c", json!({}))).await;
    assert_eq!(code, 403);
    assert!(answer["message"].as_str().unwrap().ends_with(
        "is forbidden: create not allowed while custom resource definition is terminating"
    ));
    // What holds the last object holds the definition.
    let (code, held) =
        api.patch(&format!("{THINGS}/b"), json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(code, 200, "{held}");
    api.until(&crd, |code, _| code == 404).await;
    let told = tokio::time::timeout(Duration::from_secs(20), watching).await.unwrap().unwrap();
    let told = String::from_utf8(told.unwrap().to_bytes().to_vec()).unwrap();
    assert_eq!(told.matches("\"type\":\"DELETED\"").count(), 2, "{told}");
    api.until(THINGS, |code, _| code == 404).await;
    // Nothing of it is left for a definition of the same name.
    api.define(things(json!([v1()]))).await;
    let (_, list) = api.get(THINGS).await;
    assert_eq!(list["items"], json!([]));
}

#[tokio::test]
async fn custom_resources_are_served_again_after_a_restart() {
    let api = Api::new().await;
    api.define(things(json!([v1()]))).await;
    api.post(THINGS, thing("a", json!({"n": 3}))).await;
    let api = api.restart().await;
    let (code, seen) = api.get(&format!("{THINGS}/a")).await;
    assert_eq!((code, &seen["spec"]["n"]), (200, &json!(3)));
}

#[tokio::test]
async fn schemas_are_published_for_clients() {
    let api = Api::new().await;
    api.define(things(json!([v1()]))).await;
    let (_, document) = api.get("/openapi/v3/apis/test.example/v1").await;
    let schema = &document["components"]["schemas"]["example.test.v1.Thing"];
    assert_eq!(schema["properties"]["spec"]["properties"]["n"]["type"], "integer");
    assert_eq!(schema["x-kubernetes-group-version-kind"][0]["kind"], "Thing");
    let text = document.to_string();
    for part in text.split("\"#/components/schemas/").skip(1) {
        let name = part.split('"').next().unwrap();
        assert!(document["components"]["schemas"].get(name).is_some(), "{name} is referred to");
    }
}

#[tokio::test]
async fn wrong_definitions_are_refused_with_the_field() {
    let api = Api::new().await;
    let mut cases = Vec::new();
    let mut case = |change: &dyn Fn(&mut Value), expect: &'static str| {
        let mut definition = things(json!([v1()]));
        change(&mut definition);
        cases.push((definition, expect));
    };
    case(
        &|d| {
            d["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = json!({});
        },
        "spec.validation.openAPIV3Schema.properties[spec].type: Required value: must not be empty for \
         specified object fields",
    );
    case(
        &|d| d["spec"]["versions"][0]["selectableFields"] = json!([{"jsonPath": ".spec.y"}]),
        "spec.versions[0].selectableFields[0].jsonPath: Invalid value: \".spec.y\": is an invalid path: \
         does not refer to a valid field",
    );
    case(
        &|d| {
            d["metadata"]["name"] = json!("things.x.k8s.io");
            d["spec"]["group"] = json!("x.k8s.io");
        },
        "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have \
         approval annotation \"api-approved.kubernetes.io\", see \
         https://github.com/kubernetes/enhancements/pull/1111",
    );
    for (definition, expect) in cases {
        let (code, answer) = api.post(CRDS, definition).await;
        assert_eq!(code, 422);
        let message = answer["message"].as_str().unwrap().split(" is invalid: ").nth(1).unwrap();
        assert_eq!(message, expect);
    }
}
