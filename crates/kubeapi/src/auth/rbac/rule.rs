//! One rule of a role: what it allows, and whether it covers another rule.
//!
//! Pure: rules in, yes or no out.

use std::fmt;

use serde_json::{Value, json};

use super::{Access, Target};

/// `rbac.authorization.k8s.io/v1` PolicyRule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Rule {
    pub(crate) verbs: Vec<String>,
    pub(crate) groups: Vec<String>,
    pub(crate) resources: Vec<String>,
    pub(crate) names: Vec<String>,
    pub(crate) paths: Vec<String>,
}

const ALL: &str = "*";

impl Rule {
    /// Reads a rule; what is missing or not a string is left out, and so allows nothing.
    pub(crate) fn parse(value: &Value) -> Self {
        Self {
            verbs: strings(&value["verbs"]),
            groups: strings(&value["apiGroups"]),
            resources: strings(&value["resources"]),
            names: strings(&value["resourceNames"]),
            paths: strings(&value["nonResourceURLs"]),
        }
    }

    pub(crate) fn parse_all(rules: &Value) -> Vec<Self> {
        rules.as_array().into_iter().flatten().map(Self::parse).collect()
    }

    /// In the shape of `status.resourceRules` and of a role.
    pub(crate) fn to_json(&self) -> Value {
        let mut out = json!({ "verbs": self.verbs });
        for (key, list) in [
            ("apiGroups", &self.groups),
            ("resources", &self.resources),
            ("resourceNames", &self.names),
            ("nonResourceURLs", &self.paths),
        ] {
            if !list.is_empty() {
                out[key] = json!(list);
            }
        }
        out
    }

    pub(crate) fn allows(&self, access: &Access<'_>) -> bool {
        if !has(&self.verbs, access.verb) {
            return false;
        }
        match access.target {
            Target::Path(path) => self.allows_path(path),
            Target::Resource { group, resource, subresource, name, .. } => {
                has(&self.groups, group)
                    && self.resources.iter().any(|r| names_resource(r, resource, subresource))
                    && (self.names.is_empty() || self.names.iter().any(|n| n == name))
            }
        }
    }

    fn allows_path(&self, path: &str) -> bool {
        self.paths.iter().any(|rule| match rule.strip_suffix('*') {
            Some(prefix) => path.starts_with(prefix),
            None => rule == path,
        })
    }

    /// Whether everything that `other`, a rule out of [`Rule::split`], allows is allowed by this.
    fn covers(&self, other: &Self) -> bool {
        let resource_covered = |wanted: &String| {
            let (resource, subresource) = wanted.split_once('/').unwrap_or((wanted, ""));
            self.resources
                .iter()
                .any(|mine| mine == wanted || names_resource(mine, resource, subresource))
        };
        let names_covered = self.names.is_empty()
            || (!other.names.is_empty() && other.names.iter().all(|n| self.names.contains(n)));
        other.verbs.iter().all(|v| has(&self.verbs, v))
            && other.groups.iter().all(|g| has(&self.groups, g))
            && other.resources.iter().all(resource_covered)
            && names_covered
            && other.paths.iter().all(|p| self.paths.contains(p) || self.allows_path(p))
    }

    /// The rule as rules of one verb and one group, resource and name, or one path each.
    fn split(&self) -> Vec<Self> {
        let mut out = Vec::new();
        for verb in &self.verbs {
            let one = Self { verbs: vec![verb.clone()], ..Self::default() };
            for path in &self.paths {
                out.push(Self { paths: vec![path.clone()], ..one.clone() });
            }
            for group in &self.groups {
                for resource in &self.resources {
                    let one = Self {
                        groups: vec![group.clone()],
                        resources: vec![resource.clone()],
                        ..one.clone()
                    };
                    if self.names.is_empty() {
                        out.push(one.clone());
                    }
                    for name in &self.names {
                        out.push(Self { names: vec![name.clone()], ..one.clone() });
                    }
                }
            }
        }
        out
    }
}

/// What of `wanted` is not covered by `held`, in the compact form that Kubernetes prints.
pub(crate) fn not_covered(held: &[Rule], wanted: &[Rule]) -> Vec<Rule> {
    let mut missing: Vec<Rule> = Vec::new();
    for rule in wanted.iter().flat_map(Rule::split) {
        if held.iter().any(|h| h.covers(&rule)) {
            continue;
        }
        // Verbs on the same resource are shown together; paths are not.
        let same = |m: &Rule| {
            rule.paths.is_empty()
                && m.groups == rule.groups
                && m.resources == rule.resources
                && m.names == rule.names
                && m.paths.is_empty()
        };
        if let Some(at) = missing.iter().position(same) {
            for verb in rule.verbs {
                if !missing[at].verbs.contains(&verb) {
                    missing[at].verbs.push(verb);
                }
            }
        } else if !missing.contains(&rule) {
            missing.push(rule);
        }
    }
    missing.sort_by_cached_key(ToString::to_string);
    missing
}

impl fmt::Display for Rule {
    /// Go's `%q` of string slices, as in messages about escalation.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        for (key, list) in [
            ("APIGroups", &self.groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.paths),
            ("ResourceNames", &self.names),
            ("Verbs", &self.verbs),
        ] {
            if !list.is_empty() {
                parts.push(format!("{key}:{}", quoted(list)));
            }
        }
        write!(f, "{{{}}}", parts.join(", "))
    }
}

/// `["a" "b"]`.
pub(crate) fn quoted(list: &[String]) -> String {
    let items: Vec<_> = list.iter().map(|s| format!("{s:?}")).collect();
    format!("[{}]", items.join(" "))
}

pub(crate) fn strings(value: &Value) -> Vec<String> {
    let items = value.as_array().into_iter().flatten();
    items.filter_map(|v| v.as_str().map(str::to_owned)).collect()
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == ALL || item == wanted)
}

/// `*`, `pods`, `pods/log` or `*/scale`.
fn names_resource(rule: &str, resource: &str, subresource: &str) -> bool {
    if rule == ALL {
        return true;
    }
    match rule.split_once('/') {
        None => subresource.is_empty() && rule == resource,
        Some((r, s)) => !subresource.is_empty() && s == subresource && (r == ALL || r == resource),
    }
}
