//! JSON values from a fuzzer's bytes: mostly keys and values that the code under test knows, some
//! that it does not.

use arbitrary::{Arbitrary, Result, Unstructured};
use serde_json::{Map, Number, Value};

const DEEPEST: usize = 6;
const LONGEST: usize = 6;

#[rustfmt::skip]
const KEYS: &[&str] = &[
    "apiVersion", "kind", "metadata", "name", "namespace", "labels", "annotations", "finalizers",
    "ownerReferences", "generateName", "resourceVersion", "uid", "managedFields",
    "deletionTimestamp", "deletionGracePeriodSeconds", "creationTimestamp", "generation", "spec",
    "status", "data", "binaryData", "stringData", "immutable", "replicas", "selector",
    "matchLabels", "matchExpressions", "key", "operator", "values", "template", "containers",
    "initContainers", "image", "env", "value", "valueFrom", "ports", "containerPort", "port",
    "targetPort", "nodePort", "protocol", "clusterIP", "clusterIPs", "ipFamilies", "type",
    "volumes", "emptyDir", "configMap", "secret", "items", "path", "volumeMounts", "mountPath",
    "resources", "limits", "requests", "memory", "cpu", "strategy", "rollingUpdate", "maxSurge",
    "maxUnavailable", "conditions", "rules", "verbs", "apiGroups", "roleRef", "subjects", "group",
    "names", "plural", "scope", "versions", "schema", "openAPIV3Schema", "properties",
    "additionalProperties", "required", "enum", "pattern", "format", "minimum", "maximum",
    "minLength", "default", "nullable", "x-kubernetes-validations", "rule", "message",
    "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-int-or-string", "x-kubernetes-embedded-resource", "allOf", "anyOf", "oneOf",
    "not", "subresources", "additionalPrinterColumns", "jsonPath", "storage", "served", "op",
    "from", "$patch", "$retainKeys", "$deleteFromPrimitiveList/finalizers",
    "$setElementOrder/containers", "$setElementOrder/ports", "manager", "operation", "fieldsType",
    "fieldsV1", "f:metadata", "f:spec", "f:data", "k:{\"name\":\"a\"}", "v:1", "i:0", ".", "time",
    "subresource", "a", "b", "",
];

#[rustfmt::skip]
const TEXTS: &[&str] = &[
    "a", "b", "default", "v1", "apps/v1", "Pod", "ConfigMap", "Service", "Deployment", "TCP", "UDP",
    "ClusterIP", "NodePort", "LoadBalancer", "ExternalName", "None", "10.96.0.7", "::1",
    "127.0.0.1", "replace", "delete", "merge", "add", "remove", "test", "move", "copy",
    "/metadata/name", "/spec/containers/-", "/data/a", "/", "", "string", "object", "array",
    "integer", "number", "boolean", "map", "set", "atomic", "granular", "self.a > 1",
    "self.all(x, x != '')", "self == oldSelf", "size(self) < 5", "^a+$", "(", "date-time", "int64",
    "byte", "100m", "1Gi", "-5", "1e400", "25%", "0%", "Always", "Never", "2026-01-02T03:04:05Z",
    "foregroundDeletion", "orphan", "In", "Exists", "Cluster", "Namespaced", "fuzz.example",
    "things", "Thing", "FieldsV1", "Apply", "Update", "\u{0}", "é", "..", "a/b", "0755", "yes",
];

/// A value to be made from a fuzzer's bytes.
#[derive(Clone, Debug)]
pub(crate) struct Json(pub Value);

impl<'a> Arbitrary<'a> for Json {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        value(u, 0).map(Json)
    }
}

/// An object rather than any value.
pub(crate) fn object(u: &mut Unstructured<'_>) -> Result<Value> {
    map(u, 0)
}

fn value(u: &mut Unstructured<'_>, depth: usize) -> Result<Value> {
    let choice = if depth >= DEEPEST { u.int_in_range(0..=5)? } else { u.int_in_range(0..=9)? };
    Ok(match choice {
        0 => Value::Null,
        1 => Value::Bool(u.arbitrary()?),
        2 => Value::from(i64::from(u.arbitrary::<i8>()?)),
        3 => number(u)?,
        4 | 5 => Value::String(text(u)?),
        6 | 7 => map(u, depth)?,
        _ => {
            let length = u.int_in_range(0..=LONGEST)?;
            (0..length).map(|_| value(u, depth + 1)).collect::<Result<Vec<_>>>()?.into()
        }
    })
}

fn map(u: &mut Unstructured<'_>, depth: usize) -> Result<Value> {
    let length = u.int_in_range(0..=LONGEST)?;
    let mut map = Map::new();
    for _ in 0..length {
        let key = if u.ratio(15, 16)? { (*u.choose(KEYS)?).to_owned() } else { u.arbitrary()? };
        map.insert(key, value(u, depth + 1)?);
    }
    Ok(Value::Object(map))
}

fn number(u: &mut Unstructured<'_>) -> Result<Value> {
    Ok(match u.int_in_range(0..=2)? {
        0 => Value::from(u.arbitrary::<i64>()?),
        1 => Value::from(u.arbitrary::<u64>()?),
        _ => Number::from_f64(u.arbitrary()?).map_or(Value::Null, Value::Number),
    })
}

pub(crate) fn text(u: &mut Unstructured<'_>) -> Result<String> {
    if u.ratio(7, 8)? { Ok((*u.choose(TEXTS)?).to_owned()) } else { u.arbitrary() }
}

/// Puts `with` somewhere into `target`: a known object with one thing wrong reaches further than
/// any made-up one.
pub(crate) fn graft(u: &mut Unstructured<'_>, target: &mut Value, with: Value) -> Result<()> {
    let steps = u.int_in_range(0..=8)?;
    graft_below(u, target, with, steps)
}

fn graft_below(
    u: &mut Unstructured<'_>,
    place: &mut Value,
    with: Value,
    steps: usize,
) -> Result<()> {
    match place {
        Value::Object(map) if steps > 0 && !map.is_empty() => {
            let index = u.choose_index(map.len())?;
            let inner = map.values_mut().nth(index).expect("within the map");
            graft_below(u, inner, with, steps - 1)?;
        }
        Value::Array(items) if steps > 0 && !items.is_empty() => {
            let index = u.choose_index(items.len())?;
            graft_below(u, &mut items[index], with, steps - 1)?;
        }
        Value::Object(map) if u.arbitrary()? => {
            map.insert((*u.choose(KEYS)?).to_owned(), with);
        }
        Value::Array(items) if u.arbitrary()? => items.push(with),
        place => *place = with,
    }
    Ok(())
}
