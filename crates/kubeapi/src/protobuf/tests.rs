//! What a real `kubectl` sends, against the JSON of the same objects.

use proptest::prelude::*;

use super::*;

/// Without what is null or empty, which the encoding does not carry.
fn without_nothing(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().map(|(k, v)| (k, without_nothing(v)));
            let kept = kept.filter(|(_, v)| !v.is_null() && *v != json!({}));
            Value::Object(kept.collect())
        }
        Value::Array(list) => list.into_iter().map(without_nothing).collect(),
        other => other,
    }
}

fn cases() -> Vec<(Vec<u8>, Value)> {
    let text = include_str!("../../testdata/protobuf.txt");
    let lines: Vec<_> = text.lines().filter(|l| !l.starts_with('#')).collect();
    let case =
        |pair: &[&str]| (BASE64.decode(pair[0]).unwrap(), serde_json::from_str(pair[1]).unwrap());
    lines.chunks(2).map(case).collect()
}

#[test]
fn objects_of_kubectl_are_read_as_it_meant_them() {
    let cases = cases();
    assert!(cases.len() >= 20);
    for (body, expected) in cases {
        let got = decode(&body).unwrap_or_else(|e| panic!("{expected}: {e}"));
        let mut expected = without_nothing(expected);
        if let Some(map) = expected.as_object_mut() {
            // Whoever creates an object has no say in its status.
            map.remove("status");
        }
        assert_eq!(without_nothing(got), expected);
    }
}

#[test]
fn what_is_not_known_is_named() {
    assert!(matches!(decode(b"{}"), Err(Error::Malformed(_))));
    let body = |kind: &str, raw: &[u8]| {
        let mut meta = vec![0x0a, 2, b'v', b'1', 0x12, u8::try_from(kind.len()).unwrap()];
        meta.extend_from_slice(kind.as_bytes());
        let mut out = b"k8s\0\x0a".to_vec();
        out.push(u8::try_from(meta.len()).unwrap());
        out.extend(meta);
        out.extend([0x12, u8::try_from(raw.len()).unwrap()]);
        out.extend_from_slice(raw);
        out
    };
    assert_eq!(
        decode(&body("Node", b"")).unwrap_err().to_string(),
        "Node in v1 is not known in the protobuf encoding; send it as JSON"
    );
    assert_eq!(
        decode(&body("ConfigMap", &[0x7a, 1, b'x'])).unwrap_err().to_string(),
        "field 15 of ConfigMap is not known in the protobuf encoding; send it as JSON"
    );
    assert!(decode(&body("ConfigMap", &[0x7a, 0])).is_ok(), "empty fields say nothing");
}

#[test]
fn every_message_that_the_table_names_is_in_it() {
    let plain = ["string", "int", "bool", "double", "bytes", "Quantity", "IntOrString", "Time"];
    let special = ["MicroTime", "RawExtension", "FieldsV1"];
    for (name, shapes) in MESSAGES.iter() {
        for shape in shapes.values() {
            let known = plain.contains(&shape.kind)
                || special.contains(&shape.kind)
                || MESSAGES.contains_key(shape.kind);
            assert!(known, "{name} speaks of {}", shape.kind);
        }
    }
    assert!(ROOTS.iter().all(|root| MESSAGES.contains_key(root)));
}

proptest! {
    #[test]
    fn no_body_makes_us_panic(which in 0..20_usize, flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8), cut in any::<prop::sample::Index>()) {
        let mut body = cases()[which].0.clone();
        for (at, byte) in flips {
            let at = at.index(body.len());
            body[at] = byte;
        }
        let _ = decode(&body);
        let _ = decode(&body[..cut.index(body.len())]);
    }
}
