//! Who may do what: tokens, RBAC, reviews.

use http::{Method, Request};
use serde_json::{Value, json};

use crate::server::{Reply, Server, server};

/// A service account with a token for `audiences`.
async fn token(s: &Server, name: &str, audiences: &[&str]) -> String {
    s.post(&s.core("serviceaccounts"), &json!({"metadata": {"name": name}})).await;
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"audiences": audiences, "expirationSeconds": 3600}});
    let made = s.post(&s.core(&format!("serviceaccounts/{name}/token")), &body).await.ok();
    made["status"]["token"].as_str().unwrap().to_owned()
}

/// A request as the holder of `token` alone: impersonation keeps the admin's certificate out of it.
async fn as_account(
    s: &Server,
    name: &str,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Reply {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .header("impersonate-user", format!("system:serviceaccount:{}:{name}", s.namespace))
        .header("impersonate-group", "system:serviceaccounts")
        .header("impersonate-group", "system:authenticated");
    s.send(request.body(body.map(|b| b.to_string().into_bytes()).unwrap_or_default()).unwrap())
        .await
}

async fn role(s: &Server, name: &str, rules: Value) {
    let rbac = "rbac.authorization.k8s.io/v1";
    s.post(&s.group(rbac, "roles"), &json!({"metadata": {"name": name}, "rules": rules}))
        .await
        .ok();
    let binding = json!({"metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "sa", "namespace": s.namespace}]});
    s.post(&s.group(rbac, "rolebindings"), &binding).await.ok();
}

#[test]
fn a_service_account_may_do_what_its_roles_say() {
    server("rbac", async |s| {
        s.post(&s.core("serviceaccounts"), &json!({"metadata": {"name": "sa"}})).await;
        let path = s.core("configmaps");
        let text = format!(
            "configmaps is forbidden: User \"system:serviceaccount:{0}:sa\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"{0}\"",
            s.namespace
        );
        as_account(s, "sa", Method::GET, &path, None).await.refused(403, "Forbidden", &text);
        role(
            s,
            "reader",
            json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]),
        )
        .await;
        // An authorizer may learn of a new role a moment later.
        let mut listed = as_account(s, "sa", Method::GET, &path, None).await;
        for _ in 0..1_200 {
            if listed.code == 200 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            listed = as_account(s, "sa", Method::GET, &path, None).await;
        }
        listed.ok();
        let object = json!({"metadata": {"name": "x"}});
        as_account(s, "sa", Method::POST, &path, Some(&object)).await.refused(
            403,
            "Forbidden",
            "cannot create resource \"configmaps\"",
        );
        as_account(s, "sa", Method::GET, "/api/v1/nodes", None).await.refused(
            403,
            "Forbidden",
            "cannot list resource \"nodes\" in API group \"\" at the cluster scope",
        );
    });
}

#[test]
fn nobody_grants_more_than_they_have() {
    server("escalate", async |s| {
        s.post(&s.core("serviceaccounts"), &json!({"metadata": {"name": "sa"}})).await;
        role(s, "roler", json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create"]}])).await;
        let greedy = json!({"metadata": {"name": "greedy"}, "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]});
        let path = s.group("rbac.authorization.k8s.io/v1", "roles");
        let mut reply = as_account(s, "sa", Method::POST, &path, Some(&greedy)).await;
        for _ in 0..1_200 {
            // Until the authorizer has learned of the role that allows to make some.
            if !reply.body.to_string().contains("cannot create resource") {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            reply = as_account(s, "sa", Method::POST, &path, Some(&greedy)).await;
        }
        reply.refused(
            403,
            "Forbidden",
            "is attempting to grant RBAC permissions not currently held",
        );
    });
}

#[test]
fn a_token_is_reviewed_by_audience() {
    server("review", async |s| {
        let token = token(s, "sa", &["istio-ca"]).await;
        assert_eq!(token.split('.').count(), 3);
        let review = async |audiences: Value| {
            let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token, "audiences": audiences}});
            s.post("/apis/authentication.k8s.io/v1/tokenreviews", &body).await.ok()["status"]
                .clone()
        };
        let good = review(json!(["istio-ca", "other"])).await;
        assert_eq!(
            (&good["authenticated"], &good["audiences"]),
            (&json!(true), &json!(["istio-ca"]))
        );
        assert_eq!(good["user"]["username"], format!("system:serviceaccount:{}:sa", s.namespace));
        let groups = good["user"]["groups"].as_array().unwrap();
        assert!(
            groups.contains(&json!(format!("system:serviceaccounts:{}", s.namespace))),
            "{good}"
        );
        let other = review(json!(["other"])).await;
        assert!(!other["authenticated"].as_bool().unwrap_or(false), "{other}");
    });
}

#[test]
fn a_token_request_has_limits() {
    server("limits", async |s| {
        s.post(&s.core("serviceaccounts"), &json!({"metadata": {"name": "sa"}})).await;
        let path = s.core("serviceaccounts/sa/token");
        let body = json!({"spec": {"expirationSeconds": 60}});
        s.post(&path, &body).await.refused(422, "Invalid", "spec.expirationSeconds: Invalid value: 60: may not specify a duration less than 10 minutes");
        let bound =
            json!({"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "no"}}});
        s.post(&path, &bound).await.refused(404, "NotFound", "pods \"no\" not found");
    });
}

#[test]
fn access_reviews_answer_without_trying() {
    server("sar", async |s| {
        let body = json!({"spec": {"resourceAttributes": {"namespace": s.namespace, "verb": "delete", "resource": "pods"}}});
        let own =
            s.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &body).await.ok();
        assert_eq!(own["status"]["allowed"], true);
        let mut other = body.clone();
        other["spec"]["user"] = json!("system:serviceaccount:x:y");
        let other = s.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", &other).await.ok();
        assert_eq!(other["status"]["allowed"], false);
        let rules = json!({"spec": {"namespace": s.namespace}});
        let rules =
            s.post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", &rules).await.ok();
        assert!(rules["status"]["resourceRules"].is_array());
        let me = s
            .post(
                "/apis/authentication.k8s.io/v1/selfsubjectreviews",
                &json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}),
            )
            .await
            .ok();
        assert!(
            me["status"]["userInfo"]["groups"]
                .as_array()
                .unwrap()
                .contains(&json!("system:masters")),
            "{me}"
        );
    });
}

#[test]
fn the_issuer_publishes_its_keys() {
    server("oidc", async |s| {
        let document = s.get("/.well-known/openid-configuration").await.ok();
        assert!(document["issuer"].is_string() && document["jwks_uri"].is_string(), "{document}");
        let request = Request::get("/openid/v1/jwks").body(Vec::new()).unwrap();
        let keys = s.send(request).await.ok();
        assert_eq!(keys["keys"][0]["use"], "sig");
    });
}
