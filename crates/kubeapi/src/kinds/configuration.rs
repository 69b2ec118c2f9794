//! ConfigMaps, Secrets and ServiceAccounts.

use std::time::SystemTime;

use base64::Engine as _;
use ironsail_schema::{FieldError, Reason};
use serde_json::{Value, json};

use super::at::{At, Errors, as_map, object, set_if_zero};
use super::meta::immutable;
use super::table::{AGE, Column, NAME, column, created, name};
use super::{BEHAVIOUR, Behaviour, Kind, STORED};

pub(super) const KINDS: &[Kind] = &[
    Kind {
        kind: "ConfigMap",
        plural: "configmaps",
        singular: "configmap",
        short_names: &["cm"],
        behaviour: Behaviour {
            validate: validate_config_map,
            validate_update: validate_sealed,
            columns: CONFIG_MAP,
            row: |obj, now| vec![name(obj), json!(entries(obj)), created(obj, now)],
            ..BEHAVIOUR
        },
        ..STORED
    },
    Kind {
        kind: "Secret",
        plural: "secrets",
        singular: "secret",
        behaviour: Behaviour {
            default: default_secret,
            validate: validate_secret,
            validate_update: |new, old, errors| {
                immutable(&At::root(new).get("type"), &At::root(old).get("type"), errors);
                validate_sealed(new, old, errors);
            },
            columns: SECRET,
            row: secret_row,
            selectable: &["type"],
            ..BEHAVIOUR
        },
        ..STORED
    },
    Kind {
        kind: "ServiceAccount",
        plural: "serviceaccounts",
        singular: "serviceaccount",
        short_names: &["sa"],
        subresources: &["token"],
        ..STORED
    },
];

const CONFIG_MAP: &[Column] = &[NAME, column("Data"), AGE];
const SECRET: &[Column] = &[NAME, column("Type"), column("Data"), AGE];
const LIMIT: usize = 1 << 20;
const SEALED: &str = "field is immutable when `immutable` is set";

fn entries(obj: &Value) -> usize {
    ["data", "binaryData"].iter().filter_map(|k| obj[k].as_object()).map(serde_json::Map::len).sum()
}

fn secret_row(obj: &Value, now: SystemTime) -> Vec<Value> {
    vec![name(obj), obj["type"].clone(), json!(entries(obj)), created(obj, now)]
}

/// `stringData` is a way to write, never a way to store.
fn default_secret(secret: &mut Value) {
    set_if_zero(secret, "type", "Opaque");
    if let Some(Value::Object(plain)) = as_map(secret).remove("stringData") {
        let data = as_map(object(secret, "data"));
        for (key, text) in plain {
            let text = text.as_str().unwrap_or_default();
            let encoded = base64::engine::general_purpose::STANDARD.encode(text);
            data.insert(key, Value::String(encoded));
        }
    }
}

fn keys(at: &At<'_>, errors: &mut Errors) -> usize {
    let mut size = 0;
    for (key, value) in at.entries() {
        let path = format!("{}[{key}]", at.path);
        for wrong in super::name::config_key(key) {
            errors.push(FieldError::invalid(path.clone(), key, wrong));
        }
        size += value.str().len();
    }
    size
}

fn validate_config_map(map: &Value, errors: &mut Errors) {
    let at = At::root(map);
    let (text, binary) = (at.get("data"), at.get("binaryData"));
    let size = keys(&text, errors) + keys(&binary, errors) / 4 * 3;
    for (key, _) in binary.entries() {
        if text.get(key).is_set() {
            errors.push(FieldError::invalid(
                format!("data[{key}]"),
                key,
                "duplicate of key present in binaryData",
            ));
        }
    }
    if size > LIMIT {
        errors.push(too_long("", LIMIT));
    }
}

fn too_long(path: &str, limit: usize) -> FieldError {
    FieldError::new(
        path,
        Reason::TooLong,
        Value::Null,
        format!("may not be more than {limit} bytes"),
    )
}

fn validate_secret(secret: &Value, errors: &mut Errors) {
    let at = At::root(secret);
    let data = at.get("data");
    if keys(&data, errors) / 4 * 3 > LIMIT {
        errors.push(too_long("data", LIMIT));
    }
    let mut need = |key: &str| {
        if !data.get(key).is_set() {
            errors.push(FieldError::required(format!("data[{key}]"), ""));
        }
    };
    match at.get("type").str() {
        "kubernetes.io/tls" => {
            need("tls.crt");
            need("tls.key");
        }
        "kubernetes.io/dockerconfigjson" => need(".dockerconfigjson"),
        "kubernetes.io/dockercfg" => need(".dockercfg"),
        "kubernetes.io/ssh-auth" => need("ssh-privatekey"),
        "kubernetes.io/basic-auth"
            if !data.get("username").is_set() && !data.get("password").is_set() =>
        {
            need("username");
            need("password");
        }
        "kubernetes.io/service-account-token" => {
            const ACCOUNT: &str = "kubernetes.io/service-account.name";
            if at.dig("metadata.annotations").get(ACCOUNT).is_empty() {
                errors.push(FieldError::required(format!("metadata.annotations[{ACCOUNT}]"), ""));
            }
        }
        _ => {}
    }
}

/// Once `immutable` is set, neither it nor the data changes again.
fn validate_sealed(new: &Value, old: &Value, errors: &mut Errors) {
    let (new, old) = (At::root(new), At::root(old));
    if !old.get("immutable").bool() {
        return;
    }
    if !new.get("immutable").bool() {
        errors.push(new.get("immutable").forbidden(SEALED));
    }
    for key in ["data", "binaryData"] {
        let (after, before) = (new.get(key), old.get(key));
        if after.value != before.value && !(after.is_empty() && before.is_empty()) {
            errors.push(after.forbidden(SEALED));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::kinds::by_kind;
    use ironsail_schema::field::aggregate;
    use serde_json::json;

    #[test]
    fn plain_text_of_a_secret_is_stored_as_data() {
        let mut secret = json!({"stringData": {"a": "hi"}, "data": {"a": "eA==", "b": "eQ=="}});
        by_kind("", "v1", "Secret").unwrap().default(&mut secret);
        assert_eq!(secret, json!({"type": "Opaque", "data": {"a": "aGk=", "b": "eQ=="}}));
    }

    #[test]
    fn a_sealed_config_map_stays_as_it_is() {
        let old = json!({"metadata": {"name": "a"}, "immutable": true, "data": {"a": "1"}});
        let new = json!({"metadata": {"name": "a"}, "data": {"a": "2"}});
        let errors = by_kind("", "v1", "ConfigMap").unwrap().validate_update(&new, &old);
        assert_eq!(
            aggregate(&errors),
            "[immutable: Forbidden: field is immutable when `immutable` is set, \
             data: Forbidden: field is immutable when `immutable` is set]"
        );
    }
}
