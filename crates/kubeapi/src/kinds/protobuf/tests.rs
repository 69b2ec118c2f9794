//! Messages written by hand, field by field, and anything at all.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn varint(mut n: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while n >= 0x80 {
        out.push((n as u8 & 0x7f) | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
    out
}

fn field(number: u64, bytes: &[u8]) -> Vec<u8> {
    let mut out = varint(number << 3 | 2);
    out.extend(varint(bytes.len() as u64));
    out.extend_from_slice(bytes);
    out
}

fn number(number: u64, value: u64) -> Vec<u8> {
    [varint(number << 3), varint(value)].concat()
}

fn object(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [MAGIC.to_vec(), field(1, &meta), field(2, raw), field(3, b""), field(4, b"")].concat()
}

#[test]
fn a_config_map_is_read() {
    let meta =
        [field(1, b"a"), field(8, b""), field(11, &[field(1, b"k"), field(2, b"v")].concat())]
            .concat();
    let entry = [field(1, b"key"), field(2, b"value")].concat();
    let binary = [field(1, b"b"), field(2, &[1, 2])].concat();
    let raw = [field(1, &meta), field(2, &entry), field(3, &binary)].concat();
    assert_eq!(
        read(&object("v1", "ConfigMap", &raw)).unwrap(),
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "labels": {"k": "v"}},
            "data": {"key": "value"}, "binaryData": {"b": "AQI="}})
    );
}

#[test]
fn embedded_messages_are_shown_in_place() {
    let reference = field(1, b"c");
    let source = field(19, &field(1, &reference));
    let volume = [field(1, b"v"), field(2, &source)].concat();
    let port = [number(1, 1), number(2, 0), field(3, b"http")].concat();
    let get = [field(1, b"/"), field(2, &port)].concat();
    let probe = [field(1, &field(2, &get)), number(4, 5)].concat();
    let container = [field(1, b"m"), field(11, &probe)].concat();
    let raw = field(2, &[field(1, &volume), field(2, &container), number(4, 30)].concat());
    let pod = read(&object("v1", "Pod", &raw)).unwrap();
    assert_eq!(pod["spec"]["volumes"], json!([{"name": "v", "configMap": {"name": "c"}}]));
    assert_eq!(
        pod["spec"]["containers"][0]["readinessProbe"],
        json!({"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 5})
    );
    assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 30);
}

#[test]
fn times_quantities_and_lists_in_maps_are_read() {
    let time = [number(1, 1_700_000_000), number(2, 0)].concat();
    let meta = [field(1, b"a"), field(8, &time)].concat();
    let raw = field(1, &meta);
    let made = read(&object("v1", "Secret", &raw)).unwrap();
    assert_eq!(made["metadata"]["creationTimestamp"], "2023-11-14T22:13:20Z");
    let extra = [field(1, b"k"), field(2, &[field(1, b"x"), field(1, b"y")].concat())].concat();
    let raw = field(2, &field(5, &extra));
    let review = read(&object("authorization.k8s.io/v1", "SubjectAccessReview", &raw)).unwrap();
    assert_eq!(review["spec"]["extra"], json!({"k": ["x", "y"]}));
}

#[test]
fn options_are_known_under_any_version() {
    let raw = [number(1, 0), field(4, b"Background")].concat();
    let options = read(&object("v1", "DeleteOptions", &raw)).unwrap();
    assert_eq!(
        (&options["gracePeriodSeconds"], &options["propagationPolicy"]),
        (&json!(0), &json!("Background"))
    );
}

#[test]
fn what_is_wrong_is_said() {
    assert_eq!(read(b"{}"), Err(Error::NoPrefix));
    assert!(matches!(read(&object("v1", "Gizmo", b"")), Err(Error::UnknownKind { .. })));
    let cut = object("v1", "ConfigMap", &field(1, &field(1, b"abc")));
    assert_eq!(read(&cut[..cut.len() - 5]), Err(Error::Truncated));
    assert!(matches!(read(&object("v1", "ConfigMap", &number(1, 5))), Err(Error::Mismatch { .. })));
    // items (24) holds a schema (1), and so on downwards.
    let mut nested = Vec::new();
    for _ in 0..300 {
        nested = field(24, &field(1, &nested));
    }
    let version = field(4, &field(1, &nested));
    let raw = field(2, &field(7, &version));
    let deep = read(&object("apiextensions.k8s.io/v1", "CustomResourceDefinition", &raw));
    assert_eq!(deep, Err(Error::TooDeep));
}

#[test]
fn every_number_names_a_field() {
    let lines = include_str!("../wire/tags.txt").lines().filter(|l| !l.starts_with('#'));
    for line in lines {
        let mut words = line.split(' ');
        let (package, name) = (words.next().unwrap(), words.next().unwrap());
        let id = types().find(package, name).unwrap_or_else(|| panic!("{package} {name}"));
        assert_eq!(words.count(), NUMBERS[&id].len(), "{line}");
    }
}

/// Without what is null or empty, which says nothing in JSON.
fn without_nothing(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().map(|(k, v)| (k, without_nothing(v)));
            kept.filter(|(_, v)| !v.is_null() && *v != json!({})).collect()
        }
        Value::Array(list) => list.into_iter().map(without_nothing).collect(),
        other => other,
    }
}

/// Bodies that a real kubectl sent, with the objects it meant.
fn sent() -> Vec<(Vec<u8>, Value)> {
    let text = include_str!("../../../testdata/protobuf.txt");
    let lines: Vec<_> = text.lines().filter(|l| !l.starts_with('#')).collect();
    let decode = |text| base64::engine::general_purpose::STANDARD.decode(text).unwrap();
    lines.chunks(2).map(|pair| (decode(pair[0]), serde_json::from_str(pair[1]).unwrap())).collect()
}

#[test]
fn objects_of_kubectl_are_read_as_it_meant_them() {
    assert!(sent().len() >= 20);
    for (body, expected) in sent() {
        let read = read(&body).unwrap_or_else(|e| panic!("{expected}: {e}"));
        let version = expected["apiVersion"].as_str().unwrap().to_owned();
        let (group, version) = version.split_once('/').unwrap_or(("", &version));
        let kind = crate::kinds::all()
            .iter()
            .find(|k| (k.group, k.version) == (group, version) && expected["kind"] == k.kind);
        // Zeros that JSON leaves out are left out by the kind.
        let shaped = |value: Value| {
            let value = kind.map_or(value.clone(), |kind| kind.decode(value).unwrap().value);
            let mut value = without_nothing(value);
            value.as_object_mut().unwrap().remove("status");
            value
        };
        assert_eq!(shaped(read), shaped(expected));
    }
}

proptest! {
    #[test]
    fn damaged_bodies_are_read_or_refused(which in 0..20_usize, flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8), cut in any::<prop::sample::Index>()) {
        let mut body = sent()[which].0.clone();
        for (at, byte) in flips {
            let at = at.index(body.len());
            body[at] = byte;
        }
        let _ = read(&body);
        let _ = read(&body[..cut.index(body.len())]);
    }

    #[test]
    fn any_bytes_are_read_or_refused(raw in proptest::collection::vec(any::<u8>(), 0..400)) {
        for (version, kind) in [("v1", "Pod"), ("apiextensions.k8s.io/v1", "CustomResourceDefinition")] {
            let _ = read(&object(version, kind, &raw));
        }
        let _ = read(&raw);
    }
}
