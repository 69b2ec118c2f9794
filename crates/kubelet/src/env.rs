//! The environment of a container, and its command line.
//!
//! In come the container's spec, the downward facts, the config maps and secrets it names and the
//! Services' variables; out go name-value pairs in a stable order. Fetches nothing: what is
//! missing is an error that names it.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Container, EnvVarSource, Secret};

use crate::field::{self, Facts};

pub mod expand;
pub mod service;

use expand::expand;

/// Config maps and secrets of the pod's namespace, by name. `None` means the object is not there.
pub trait Objects: Send + Sync {
    fn config_map(&self, name: &str) -> Option<Arc<ConfigMap>>;
    fn secret(&self, name: &str) -> Option<Arc<Secret>>;
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error("configmap \"{0}\" not found")]
    NoConfigMap(String),
    #[error("secret \"{0}\" not found")]
    NoSecret(String),
    #[error("couldn't find key {key} in {kind} {namespace}/{name}")]
    NoKey { key: String, kind: &'static str, namespace: String, name: String },
    #[error("key {key} of Secret {namespace}/{name} is not UTF-8")]
    NotText { key: String, namespace: String, name: String },
    #[error("environment variable {0}: valueFrom names no supported source")]
    Source(String),
    #[error(transparent)]
    Field(#[from] field::Error),
}

/// Variables in the order they were first set, later values winning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables {
    order: Vec<String>,
    values: BTreeMap<String, String>,
}

impl Variables {
    pub fn set(&mut self, name: &str, value: String) {
        if self.values.insert(name.to_owned(), value).is_none() {
            self.order.push(name.to_owned());
        }
    }

    pub fn set_default(&mut self, name: &str, value: impl Into<String>) {
        if !self.values.contains_key(name) {
            self.set(name, value.into());
        }
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.order.iter().map(|name| (name.as_str(), self.values[name].as_str()))
    }
}

/// The variables that the pod's manifest asks for, then those of the Services it did not set.
pub fn build(
    container: &Container,
    facts: &Facts<'_>,
    objects: &dyn Objects,
    services: &BTreeMap<String, String>,
) -> Result<Variables, Error> {
    let namespace = facts.pod.metadata.namespace.as_deref().unwrap_or("default");
    let mut vars = Variables::default();
    for from in container.env_from.iter().flatten() {
        let prefix = from.prefix.as_deref().unwrap_or_default();
        if let Some(source) = &from.config_map_ref {
            match objects.config_map(&source.name) {
                Some(map) => {
                    for (key, value) in map.data.iter().flatten() {
                        set_named(&mut vars, prefix, key, value.clone());
                    }
                }
                None if source.optional == Some(true) => {}
                None => return Err(Error::NoConfigMap(source.name.clone())),
            }
        }
        if let Some(source) = &from.secret_ref {
            match objects.secret(&source.name) {
                Some(secret) => {
                    for (key, value) in secret.data.iter().flatten() {
                        // Bytes that are no text cannot be a variable; Kubernetes passes them on
                        // broken, we leave them out.
                        if let Ok(value) = String::from_utf8(value.0.clone()) {
                            set_named(&mut vars, prefix, key, value);
                        }
                    }
                }
                None if source.optional == Some(true) => {}
                None => return Err(Error::NoSecret(source.name.clone())),
            }
        }
    }
    for var in container.env.iter().flatten() {
        let value = match (&var.value, &var.value_from) {
            (Some(value), _) if !value.is_empty() => Some(expand(value, |name| {
                vars.get(name).map(str::to_owned).or_else(|| services.get(name).cloned())
            })),
            (_, Some(from)) => {
                let missing = || Error::Source(var.name.clone());
                value_from(from, container, facts, objects, namespace)
                    .unwrap_or_else(|| Err(missing()))?
            }
            _ => Some(String::new()),
        };
        // An optional reference to something that is not there sets nothing.
        if let Some(value) = value {
            vars.set(&var.name, value);
        }
    }
    for (name, value) in services {
        vars.set_default(name, value.clone());
    }
    Ok(vars)
}

fn set_named(vars: &mut Variables, prefix: &str, key: &str, value: String) {
    let name = format!("{prefix}{key}");
    if !name.is_empty() && !name.contains(['=', '\0']) {
        vars.set(&name, value);
    }
}

/// `None` when no supported source is named; `Ok(None)` for an optional one that is missing.
fn value_from(
    from: &EnvVarSource,
    container: &Container,
    facts: &Facts<'_>,
    objects: &dyn Objects,
    namespace: &str,
) -> Option<Result<Option<String>, Error>> {
    if let Some(field) = &from.field_ref {
        return Some(facts.field(&field.field_path).map(Some).map_err(Error::from));
    }
    if let Some(resource) = &from.resource_field_ref {
        return Some(facts.resource(resource, Some(container)).map(Some).map_err(Error::from));
    }
    if let Some(reference) = &from.config_map_key_ref {
        let optional = reference.optional == Some(true);
        let Some(map) = objects.config_map(&reference.name) else {
            return Some(if optional {
                Ok(None)
            } else {
                Err(Error::NoConfigMap(reference.name.clone()))
            });
        };
        return Some(match map.data.as_ref().and_then(|d| d.get(&reference.key)) {
            Some(value) => Ok(Some(value.clone())),
            None if optional => Ok(None),
            None => Err(no_key(&reference.key, "ConfigMap", namespace, &reference.name)),
        });
    }
    let reference = from.secret_key_ref.as_ref()?;
    let optional = reference.optional == Some(true);
    let Some(secret) = objects.secret(&reference.name) else {
        return Some(if optional {
            Ok(None)
        } else {
            Err(Error::NoSecret(reference.name.clone()))
        });
    };
    Some(match secret.data.as_ref().and_then(|d| d.get(&reference.key)) {
        Some(value) => String::from_utf8(value.0.clone()).map(Some).map_err(|_| Error::NotText {
            key: reference.key.clone(),
            namespace: namespace.to_owned(),
            name: reference.name.clone(),
        }),
        None if optional => Ok(None),
        None => Err(no_key(&reference.key, "Secret", namespace, &reference.name)),
    })
}

fn no_key(key: &str, kind: &'static str, namespace: &str, name: &str) -> Error {
    Error::NoKey {
        key: key.to_owned(),
        kind,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

/// The argument vector: command and args of the pod over entrypoint and cmd of the image, with
/// Kubernetes' rule that a command of the pod silences the image's cmd.
pub fn command_line(
    container: &Container,
    entrypoint: &[String],
    cmd: &[String],
    vars: &Variables,
) -> Vec<String> {
    let expanded = |list: &[String]| -> Vec<String> {
        list.iter().map(|t| expand(t, |n| vars.get(n).map(str::to_owned))).collect()
    };
    let command = container.command.as_deref().filter(|c| !c.is_empty());
    let args = container.args.as_deref().filter(|a| !a.is_empty());
    let mut argv = command.map_or_else(|| entrypoint.to_vec(), expanded);
    argv.extend(match (args, command) {
        (Some(args), _) => expanded(args),
        (None, Some(_)) => Vec::new(),
        (None, None) => cmd.to_vec(),
    });
    argv
}

#[cfg(test)]
mod tests;
