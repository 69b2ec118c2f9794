//! Webhooks: asked over TLS before an object is stored.

use std::sync::Arc;

use http::Response;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls_pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::server::{Server, server};

type Answer = Arc<dyn Fn(&Value) -> Value + Send + Sync>;

/// A webhook on loopback that answers with `answer`; its address and the CA to trust.
async fn webhook(answer: Answer) -> (String, String) {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/hook", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (acceptor, answer) = (acceptor.clone(), answer.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let service = service_fn(move |request: hyper::Request<Incoming>| {
                    let answer = answer.clone();
                    async move {
                        let body = request.into_body().collect().await.unwrap().to_bytes();
                        let review: Value = serde_json::from_slice(&body).unwrap();
                        let mut response = answer(&review["request"]);
                        response["uid"] = review["request"]["uid"].clone();
                        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
                        let body = Full::new(Bytes::from(review.to_string()));
                        Ok::<_, std::convert::Infallible>(
                            Response::builder()
                                .header("content-type", "application/json")
                                .body(body)
                                .unwrap(),
                        )
                    }
                });
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    (url, made.cert.pem())
}

fn base64(text: &str) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in text.as_bytes().chunks(3) {
        let n = chunk.iter().fold(0u32, |n, b| (n << 8) | u32::from(*b)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            let c = ALPHABET[(n >> (18 - 6 * i)) as usize & 63];
            out.push(if i <= chunk.len() { c as char } else { '=' });
        }
    }
    out
}

/// A webhook configuration for config maps of this test's namespace.
async fn configure(s: &Server, kind: &str, url: &str, ca: &str, more: &Value) -> String {
    let name = format!("{}-{}", s.namespace, kind.to_lowercase());
    let mut hook = json!({"name": "hook.example.com", "clientConfig": {"url": url, "caBundle": base64(ca)},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": s.namespace}},
        "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 20});
    for (key, value) in more.as_object().unwrap() {
        hook[key] = value.clone();
    }
    let path = format!(
        "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations",
        kind.to_lowercase()
    );
    s.post(&path, &json!({"metadata": {"name": name}, "webhooks": [hook]})).await.ok();
    format!("{path}/{name}")
}

/// Creates maps until the webhook is seen to act: a server may learn of it a moment later.
async fn until<T>(mut attempt: impl AsyncFnMut(usize) -> Option<T>) -> T {
    for i in 0..1_200 {
        if let Some(done) = attempt(i).await {
            return done;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("the webhook was never asked");
}

#[test]
fn a_mutating_webhook_changes_what_is_stored() {
    server("mutate", async |s| {
        // JSONPatch adding a label and data, in base64 as the API wants it.
        let patch = base64(r#"[{"op":"add","path":"/data/added","value":"by-hook"}]"#);
        let answer = json!({"allowed": true, "patchType": "JSONPatch", "patch": patch, "warnings": ["mind the hook"]});
        let (url, ca) = webhook(Arc::new(move |_| answer.clone())).await;
        let configuration = configure(s, "Mutating", &url, &ca, &json!({})).await;
        let reply = until(async |i| {
            let object = json!({"metadata": {"name": format!("m{i}")}, "data": {"key": "1"}});
            let reply = s.post(&s.core("configmaps"), &object).await;
            (reply.body["data"]["added"] == "by-hook").then_some(reply)
        })
        .await;
        assert!(reply.headers["warning"].to_str().unwrap().contains("mind the hook"));
        s.delete(&configuration).await.ok();
    });
}

#[test]
fn a_validating_webhook_refuses_in_its_own_words() {
    server("deny", async |s| {
        let (url, ca) = webhook(Arc::new(|request| {
            let bad = request["object"]["data"]["key"] == "bad";
            json!({"allowed": !bad, "status": {"message": "no bad keys"}})
        }))
        .await;
        let configuration = configure(s, "Validating", &url, &ca, &json!({})).await;
        let reply = until(async |i| {
            let object = json!({"metadata": {"name": format!("m{i}")}, "data": {"key": "bad"}});
            let reply = s.post(&s.core("configmaps"), &object).await;
            (reply.code != 201).then_some(reply)
        })
        .await;
        reply.refused(
            400,
            "",
            "admission webhook \"hook.example.com\" denied the request: no bad keys",
        );
        s.config_map("good", "good").await;
        s.delete(&configuration).await.ok();
    });
}

#[test]
fn an_unreachable_webhook_fails_or_is_ignored() {
    server("failure", async |s| {
        let (_, ca) = webhook(Arc::new(|_| json!({"allowed": true}))).await;
        let nowhere = "https://127.0.0.1:1/hook";
        let configuration =
            configure(s, "Validating", nowhere, &ca, &json!({"failurePolicy": "Fail"})).await;
        let reply = until(async |i| {
            let object = json!({"metadata": {"name": format!("m{i}")}});
            let reply = s.post(&s.core("configmaps"), &object).await;
            (reply.code != 201).then_some(reply)
        })
        .await;
        reply.refused(500, "InternalError", "failed calling webhook \"hook.example.com\": failed to call webhook: Post \"https://127.0.0.1:1/hook?timeout=20s\"");
        s.patch(
            "json",
            &configuration,
            &json!([{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]),
        )
        .await
        .ok();
        until(async |i| {
            let object = json!({"metadata": {"name": format!("n{i}")}});
            (s.post(&s.core("configmaps"), &object).await.code == 201).then_some(())
        })
        .await;
        s.delete(&configuration).await.ok();
    });
}

#[test]
fn match_conditions_decide_in_cel() {
    server("cel", async |s| {
        let (url, ca) = webhook(Arc::new(|_| json!({"allowed": false}))).await;
        let more = json!({"matchConditions": [{"name": "only-b", "expression": "object.metadata.name.startsWith('b')"}]});
        let configuration = configure(s, "Validating", &url, &ca, &more).await;
        let reply = until(async |i| {
            let object = json!({"metadata": {"name": format!("b{i}")}});
            let reply = s.post(&s.core("configmaps"), &object).await;
            (reply.code != 201).then_some(reply)
        })
        .await;
        reply.refused(400, "", "denied the request without explanation");
        s.config_map("a", "1").await;
        s.delete(&configuration).await.ok();
    });
}
