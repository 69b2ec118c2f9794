//! Requests that make no sense get an answer that says so, and never harm the server.

use http::Method;
use proptest::prelude::*;
use serde_json::json;

use super::{Bench, MAPS, map};

#[tokio::test]
async fn nonsense_is_refused_with_the_right_code() {
    let bench = Bench::new().await;
    bench.post(MAPS, &map("a")).await;
    let one = format!("{MAPS}/a");
    let deep = "[".repeat(100_000);
    let merge = "application/merge-patch+json";
    let operations = "application/json-patch+json";
    for (method, path, kind, body, code) in [
        (Method::POST, MAPS, "", "{bad", 400),
        (Method::POST, MAPS, "", "", 400),
        (Method::POST, MAPS, "", "[]", 400),
        (Method::POST, MAPS, "", "null", 400),
        (Method::POST, MAPS, "", "{\"metadata\":[]}", 400),
        (Method::POST, MAPS, "", deep.as_str(), 400),
        (Method::POST, MAPS, "", "{\"metadata\":{\"name\":\"b\"},\"data\":{\"k\":1}}", 400),
        (Method::POST, MAPS, "", "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"b\"}}", 400),
        (Method::POST, MAPS, "", "{\"metadata\":{\"name\":\"B_\"}}", 422),
        (Method::POST, MAPS, "text/plain", "{}", 415),
        (Method::POST, MAPS, "application/yaml", "a: [", 400),
        (Method::POST, MAPS, "application/vnd.kubernetes.protobuf", "k8s\0zz", 400),
        (Method::POST, one.as_str(), "", "{}", 405),
        (Method::PUT, MAPS, "", "{}", 405),
        (Method::PUT, one.as_str(), "", "{}", 400),
        (Method::PATCH, one.as_str(), "text/plain", "{}", 415),
        (Method::PATCH, one.as_str(), merge, "{", 400),
        (Method::PATCH, one.as_str(), merge, "[]", 400),
        (Method::PATCH, one.as_str(), operations, "[{\"op\":\"remove\",\"path\":\"/x\"}]", 422),
        (Method::PATCH, one.as_str(), "application/apply-patch+yaml", "{}", 422),
        (Method::DELETE, one.as_str(), "", "{\"propagationPolicy\":\"x\"}", 422),
        (Method::GET, "/api/v1/nothing", "", "", 404),
        (Method::GET, "/apis/no.group/v1/nothing", "", "", 404),
        (Method::GET, "/api/v1/configmaps/a", "", "", 404),
        (Method::GET, "/api/v1/namespaces/default/nodes", "", "", 404),
        (Method::GET, &format!("{MAPS}?labelSelector=a%20b"), "", "", 400),
        (Method::GET, &format!("{MAPS}?fieldSelector=spec.x%3D1"), "", "", 400),
        (Method::GET, &format!("{MAPS}?limit=x"), "", "", 400),
        (Method::GET, &format!("{MAPS}?continue=x"), "", "", 400),
        (Method::GET, &format!("{MAPS}?resourceVersion=x"), "", "", 400),
        (Method::GET, &format!("{MAPS}?labelSelector=%zz"), "", "", 400),
        (Method::GET, &format!("{MAPS}?watch=1&sendInitialEvents=true"), "", "", 422),
    ] {
        let headers: &[_] = if kind.is_empty() { &[] } else { &[("content-type", kind)] };
        let (answered, _, answer) = bench.ask(method.clone(), path, headers, body.to_owned()).await;
        let shown: String = body.chars().take(60).collect();
        assert_eq!(answered, code, "{method} {path} {kind} {shown}: {answer}");
        if answer.is_object() {
            assert_eq!((&answer["kind"], &answer["code"]), (&json!("Status"), &json!(code)));
        }
    }
}

#[tokio::test]
async fn a_body_over_three_mebibytes_is_too_large() {
    let bench = Bench::new().await;
    let body = format!(
        "{{\"metadata\":{{\"name\":\"a\"}},\"data\":{{\"k\":\"{}\"}}}}",
        "a".repeat(3 << 20)
    );
    let (code, _, answer) = bench.ask(Method::POST, MAPS, &[], body).await;
    assert_eq!(code, 413);
    assert_eq!(answer["reason"], "RequestEntityTooLarge");
    assert_eq!(answer["message"], "Request entity too large: limit is 3145728");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_send_its_body_is_given_up() {
    let bench = Bench::new().await;
    let body = http_body_util::StreamBody::new(futures::stream::pending::<
        Result<http_body::Frame<bytes::Bytes>, std::io::Error>,
    >());
    let request = http::Request::post(MAPS).body(body).unwrap();
    let peer = crate::auth::Peer::InProcess(crate::auth::User::admin());
    assert_eq!(bench.server.handle(request, peer).await.status().as_u16(), 408);
}

/// What a fuzzer of the request path would send.
fn requests() -> impl Strategy<Value = (String, String, String, Vec<u8>)> {
    let method = prop_oneof![Just("GET"), Just("POST"), Just("PUT"), Just("PATCH"), Just("DELETE")];
    let path = prop_oneof![
        Just(format!("{MAPS}/a")),
        Just(MAPS.to_owned()),
        Just("/apis/apps/v1/namespaces/default/deployments".to_owned()),
        Just("/apis/apps/v1/namespaces/default/deployments/d/scale".to_owned()),
        "(/[a-z%0-9.]{0,8}){0,7}",
    ];
    let query = prop_oneof![
        Just(String::new()),
        "\\?(limit|continue|labelSelector|fieldSelector|resourceVersion|dryRun|force|fieldManager)=[a-zA-Z0-9=!(),%]{0,12}",
    ];
    let kind = prop_oneof![
        Just("application/json"),
        Just("application/yaml"),
        Just("application/vnd.kubernetes.protobuf"),
        Just("application/merge-patch+json"),
        Just("application/json-patch+json"),
        Just("application/strategic-merge-patch+json"),
        Just("application/apply-patch+yaml"),
    ];
    let body = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..64),
        "[\\[\\]{}:,\"a-z0-9$/ \n-]{0,64}".prop_map(String::into_bytes),
        Just(br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"a":null}},"data":{"$patch":"delete"}}"#.to_vec()),
    ];
    (method, path, query, kind, body).prop_map(|(method, path, query, kind, body)| {
        (method.to_owned(), format!("{path}{query}"), kind.to_owned(), body)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn no_request_makes_the_server_fail(requests in proptest::collection::vec(requests(), 40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let bench = Bench::new().await;
            bench.post(MAPS, &map("a")).await;
            for (method, path, kind, body) in requests {
                if http::Uri::try_from(path.as_str()).is_err() {
                    continue;
                }
                let method: Method = method.parse().unwrap();
                let headers = [("content-type", kind.as_str())];
                let (code, _, answer) = bench.ask(method.clone(), &path, &headers, body.clone()).await;
                let body = String::from_utf8_lossy(&body);
                assert!(code < 500 || answer["reason"] == "Timeout", "{method} {path} {kind} {body}: {answer}");
            }
        });
    }
}
