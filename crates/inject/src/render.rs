//! One template and one pod to the part of a pod that is to be merged.
//!
//! The data has the shape that authors of Istio's templates know. Objects keep their JSON names;
//! names of Go's structs (`.ObjectMeta.Name`, `$container.Ports`) and getters are led to them.

use std::collections::BTreeMap;

use ironsail_gotemplate::{Functions, Map, Numbers, Outcome, Param, Templates, Value as Data};
use serde_json::Value;

use crate::container::{CONTAINERS, INIT_CONTAINERS};
use crate::error::Error;
use crate::object::{annotations, labels, list_mut};
use crate::owner::Owner;
use crate::{proxyconfig, quantity};

/// The user and group of the proxy, whose own traffic is not redirected.
const PROXY_ID: i64 = 1337;

/// Parts of a proxy configuration; a template can make it large, a user can not.
const MOST_PARTS: usize = 100_000;

/// What a template is rendered with.
pub(crate) struct Input<'a> {
    /// The pod as it was before any injection.
    pub(crate) pod: &'a Value,
    pub(crate) owner: &'a Owner,
    pub(crate) proxy_config: &'a Value,
    pub(crate) mesh: &'a Value,
    pub(crate) values: &'a Value,
    pub(crate) revision: &'a str,
    pub(crate) native: bool,
    pub(crate) image: &'a str,
    pub(crate) inbound_mode: &'a str,
    pub(crate) compliance_policy: &'a str,
}

/// Reads every template once. Each is alone: what one defines, another does not see.
pub(crate) fn parse(
    texts: &BTreeMap<String, String>,
    env: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, Templates>, Error> {
    let base = Templates::new(functions(env.clone()));
    let mut parsed = BTreeMap::new();
    for (name, text) in texts {
        let mut templates = base.clone();
        templates
            .parse(name, text)
            .map_err(|cause| Error::Template { name: name.clone(), cause: Box::new(cause) })?;
        parsed.insert(name.clone(), templates);
    }
    Ok(parsed)
}

/// What the template gives, with quantities as the API server writes them.
pub(crate) fn render(templates: &Templates, name: &str, input: &Input<'_>) -> Result<Value, Error> {
    let failed = |cause| Error::Render { name: name.to_owned(), cause: Box::new(cause) };
    let data = data(input).map_err(failed)?;
    let text = templates.render_value(name, data).map_err(failed)?;
    let wrong = |reason: String| Error::Rendered { name: name.to_owned(), reason };
    let documents = ironsail_yaml::documents(&text).map_err(|error| wrong(error.to_string()))?;
    let mut documents = documents.into_iter();
    let mut part = match documents.next() {
        None => Value::Object(serde_json::Map::new()),
        Some(part @ Value::Object(_)) => part,
        Some(_) => return Err(wrong("it is not an object".to_owned())),
    };
    if documents.next().is_some() {
        return Err(wrong("it is more than one document".to_owned()));
    }
    drop_empty_sections(&mut part);
    canonical_quantities(&mut part);
    Ok(part)
}

/// A section in which every line was left out is nothing, not the wish to remove the user's.
fn drop_empty_sections(part: &mut Value) {
    const SECTIONS: [(&str, &[&str]); 2] = [
        ("metadata", &["labels", "annotations"]),
        ("spec", &[CONTAINERS, INIT_CONTAINERS, "volumes", "imagePullSecrets"]),
    ];
    for (outer, inner) in SECTIONS {
        match part.get_mut(outer) {
            Some(Value::Object(section)) => {
                section.retain(|key, value| !(value.is_null() && inner.contains(&key.as_str())));
            }
            Some(Value::Null) => {
                part.as_object_mut().expect("it has members").remove(outer);
            }
            _ => {}
        }
    }
}

fn canonical_quantities(part: &mut Value) {
    for list in [CONTAINERS, INIT_CONTAINERS] {
        for container in list_mut(part, &["spec", list]).into_iter().flatten() {
            for kind in ["requests", "limits"] {
                let Some(amounts) = container.get_mut("resources").and_then(|r| r.get_mut(kind))
                else {
                    continue;
                };
                for amount in amounts.as_object_mut().into_iter().flatten().map(|(_, v)| v) {
                    let written = match &*amount {
                        Value::String(text) => quantity::canonical(text),
                        Value::Number(number) => quantity::canonical(&number.to_string()),
                        _ => None,
                    };
                    if let Some(written) = written {
                        *amount = Value::String(written);
                    }
                }
            }
        }
    }
}

fn data(input: &Input<'_>) -> Result<Data, ironsail_gotemplate::Error> {
    let typed = |tree: &Value| Data::from_json(tree, Numbers::Int);
    let meta = typed(&input.pod["metadata"])?;
    let meta = meta.as_map().cloned().unwrap_or_default();
    meta.insert("labels", Data::string_map(owned(labels(input.pod))));
    meta.insert("annotations", Data::string_map(owned(annotations(input.pod))));

    let owner = input.owner;
    let deployment = Map::new();
    deployment.insert("name", owner.name.as_str().into());
    deployment.insert("namespace", owner.namespace.as_str().into());
    let kind = Map::new();
    kind.insert("apiVersion", owner.api_version.as_str().into());
    kind.insert("kind", owner.kind.as_str().into());

    let proxy_config = typed(input.proxy_config)?;
    if let Some(config) = proxy_config.as_map() {
        let metadata = crate::object::strings(&input.proxy_config["proxyMetadata"]);
        config.insert("proxyMetadata", Data::string_map(owned(metadata)));
    }

    let all = Map::new();
    all.insert("TypeMeta", kind.into());
    all.insert("DeploymentMeta", deployment.into());
    all.insert("ObjectMeta", meta.into());
    all.insert("Spec", typed(&input.pod["spec"])?);
    all.insert("ProxyConfig", proxy_config);
    all.insert("MeshConfig", typed(input.mesh)?);
    all.insert("Values", Data::from_json(input.values, Numbers::Float)?);
    all.insert("Revision", input.revision.into());
    all.insert("NativeSidecars", input.native.into());
    all.insert("ProxyImage", input.image.into());
    all.insert("ProxyUID", Data::Int64(PROXY_ID));
    all.insert("ProxyGID", Data::Int64(PROXY_ID));
    all.insert("InboundTrafficPolicyMode", input.inbound_mode.into());
    all.insert("CompliancePolicy", input.compliance_policy.into());
    Ok(all.into())
}

fn owned(entries: BTreeMap<String, String>) -> impl Iterator<Item = (String, std::rc::Rc<str>)> {
    entries.into_iter().map(|(key, value)| (key, value.into()))
}

fn functions(env: BTreeMap<String, String>) -> Functions {
    let mut functions = Functions::injection();
    functions.add("env", &[Param::Str, Param::Str], None, move |args| {
        let text = |index: usize| args.get(index).and_then(Data::as_str).unwrap_or_default();
        let found = env.get(text(0)).map(String::as_str).filter(|value| !value.is_empty());
        Ok(found.unwrap_or(text(1)).into())
    });
    // The only message that our data has is the configuration of the proxy.
    functions.add("protoToJSON", &[Param::Any], None, |args| {
        let config = args.first().and_then(|config| config.to_json(MOST_PARTS));
        let config = config.ok_or("the configuration of the proxy is too large")?;
        Ok(proxyconfig::stripped(&config).to_string().into())
    });
    functions.methods(go_name);
    functions
}

/// What `.Name` means on a value that has no member `Name`: the member of that name in JSON, or what
/// Go has where there is none.
fn go_name(receiver: &Data, name: &str, args: &[Data]) -> Option<Outcome> {
    if !name.starts_with(|c: char| c.is_ascii_uppercase()) || !args.is_empty() {
        return None;
    }
    let Some(map) = receiver.as_map() else {
        // Wrappers and enumerations are plain values in JSON.
        return matches!(name, "GetValue" | "Value" | "String").then(|| Ok(receiver.clone()));
    };
    let found = map.get(&json_name(name));
    let getter = || map.get(&json_name(name.strip_prefix("Get")?));
    let found = found.or_else(getter).filter(|value| !value.is_nil());
    found.or_else(|| zero(name)).map(Ok)
}

/// `APIVersion` is `apiVersion`, `HTTPGet` is `httpGet`, `UID` is `uid`.
fn json_name(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let capitals = letters.iter().take_while(|c| c.is_ascii_uppercase()).count();
    let lowered = match capitals {
        all if all == letters.len() => all,
        0 | 1 => capitals,
        several => several - 1,
    };
    let lower = |(i, c): (usize, char)| if i < lowered { c.to_ascii_lowercase() } else { c };
    letters.into_iter().enumerate().map(lower).collect()
}

/// What Go's structs have in a field that the JSON leaves out.
fn zero(name: &str) -> Option<Data> {
    match name {
        "Name" | "GenerateName" | "Namespace" | "UID" | "ServiceAccountName" | "NodeName"
        | "Image" | "ImagePullPolicy" | "DNSPolicy" | "RestartPolicy" | "APIVersion" | "Kind"
        | "Protocol" | "Hostname" | "TrustDomain" => Some("".into()),
        "Containers" | "InitContainers" | "Volumes" | "Ports" | "Env" | "VolumeMounts"
        | "ImagePullSecrets" | "OwnerReferences" | "Args" | "Command" => Some(Vec::new().into()),
        "HostNetwork" | "HostPID" | "HostIPC" => Some(false.into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::json_name;

    #[test]
    fn names_of_go_are_led_to_those_of_json() {
        for (go, json) in [
            ("Name", "name"),
            ("APIVersion", "apiVersion"),
            ("HTTPGet", "httpGet"),
            ("UID", "uid"),
            ("DNSPolicy", "dnsPolicy"),
            ("SELinuxOptions", "seLinuxOptions"),
            ("PodIP", "podIP"),
            ("InitContainers", "initContainers"),
        ] {
            assert_eq!(json_name(go), json);
        }
    }
}
