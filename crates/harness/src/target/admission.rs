//! Reviews that reach the webhooks' port: any bytes, and reviews in which something is wrong.

use std::sync::LazyLock;

use arbitrary::{Result, Unstructured};
use ironsail_discovery::review as validate;
use ironsail_inject::{Config, Injector, Mesh, Settings, Values, review as inject};
use serde_json::{Value, json};

use crate::{json, sample};

static INJECTOR: LazyLock<Injector> = LazyLock::new(|| {
    let values = Values::builtin();
    let config = Config::from_values(&values).expect("our own values");
    Injector::new(config, values, Mesh::default(), Settings::default()).expect("our own templates")
});

fn made(u: &mut Unstructured<'_>) -> Result<Value> {
    let object = if u.arbitrary()? { sample::broken(u)? } else { super::object::any(u)? };
    let mut review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "7", "operation": "CREATE", "namespace": "a", "name": "b", "dryRun": false,
        "kind": {"group": "", "version": "v1", "kind": "Pod"}, "object": object, "oldObject": null}});
    for _ in 0..u.int_in_range(0..=3)? {
        let json::Json(with) = u.arbitrary()?;
        json::graft(u, &mut review, with)?;
    }
    Ok(review)
}

fn ask(body: &[u8]) {
    for answer in [validate(body, None), inject(&INJECTOR, "/inject/cluster/c/net/n", body)] {
        let answer: Value = serde_json::from_slice(&answer).expect("an answer is JSON");
        assert!(answer["response"]["allowed"].is_boolean(), "an answer says yes or no: {answer}");
    }
}

pub(crate) fn target(bytes: &[u8]) {
    ask(bytes);
    if let Ok(review) = made(&mut Unstructured::new(bytes)) {
        ask(review.to_string().as_bytes());
    }
}
