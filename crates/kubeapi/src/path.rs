//! The path of a request: which resource, or which document outside the resources.

/// What a path under `/api/v1` or `/apis/GROUP/VERSION` names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    /// Empty for the core group.
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: Option<String>,
    pub(crate) resource: String,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Resource(Target),
    /// Everything else: discovery, health, OpenAPI; the path as it came.
    Document(String),
}

/// Names under `/namespaces/NAME/` that are subresources of the namespace, not resources in it.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

/// Takes a path apart. `None` for one that cannot be decoded or has too many parts.
pub(crate) fn parse(path: &str) -> Option<Route> {
    let document = || Some(Route::Document(path.to_owned()));
    let mut parts = Vec::new();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        parts.push(decode(part)?);
    }
    let mut target = Target::default();
    let rest = match parts.as_slice() {
        [api, version, rest @ ..] if api == "api" && !rest.is_empty() => {
            target.version.clone_from(version);
            rest
        }
        [apis, group, version, rest @ ..] if apis == "apis" && !rest.is_empty() => {
            target.group.clone_from(group);
            target.version.clone_from(version);
            rest
        }
        _ => return document(),
    };
    let rest = match rest {
        [namespaces, namespace, inner, ..]
            if namespaces == "namespaces" && !NAMESPACE_SUBRESOURCES.contains(&inner.as_str()) =>
        {
            target.namespace = Some(namespace.clone());
            &rest[2..]
        }
        rest => rest,
    };
    match rest {
        [resource] => target.resource.clone_from(resource),
        [resource, name] => {
            target.resource.clone_from(resource);
            target.name = Some(name.clone());
        }
        [resource, name, subresource] => {
            target.resource.clone_from(resource);
            target.name = Some(name.clone());
            target.subresource = Some(subresource.clone());
        }
        _ => return None,
    }
    Some(Route::Resource(target))
}

/// Undoes percent encoding; `None` where that gives no UTF-8.
pub(crate) fn decode(text: &str) -> Option<String> {
    decode_with(text, false)
}

/// The same for a query, where a plus sign is a space.
pub(crate) fn decode_query(text: &str) -> Option<String> {
    decode_with(text, true)
}

fn decode_with(text: &str, plus_is_space: bool) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let digits = [bytes.next()?, bytes.next()?];
                let digits = std::str::from_utf8(&digits).ok()?;
                out.push(u8::from_str_radix(digits, 16).ok()?);
            }
            b'+' if plus_is_space => out.push(b' '),
            other => out.push(other),
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(path: &str) -> String {
        match parse(path) {
            None => "bad".to_owned(),
            Some(Route::Document(_)) => "document".to_owned(),
            Some(Route::Resource(t)) => format!(
                "{}|{}|{}|{}|{}|{}",
                t.group,
                t.version,
                t.namespace.unwrap_or_default(),
                t.resource,
                t.name.unwrap_or_default(),
                t.subresource.unwrap_or_default()
            ),
        }
    }

    #[test]
    fn paths_name_what_kubernetes_says() {
        for (path, expected) in [
            ("/api/v1/pods", "|v1||pods||"),
            ("/api/v1/namespaces", "|v1||namespaces||"),
            ("/api/v1/namespaces/a", "|v1||namespaces|a|"),
            ("/api/v1/namespaces/a/status", "|v1||namespaces|a|status"),
            ("/api/v1/namespaces/a/finalize", "|v1||namespaces|a|finalize"),
            ("/api/v1/namespaces/a/pods", "|v1|a|pods||"),
            ("/api/v1/namespaces/a/pods/b", "|v1|a|pods|b|"),
            ("/api/v1/namespaces/a/pods/b/log", "|v1|a|pods|b|log"),
            ("/apis/apps/v1/namespaces/a/deployments/b/scale", "apps|v1|a|deployments|b|scale"),
            (
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
                "rbac.authorization.k8s.io|v1||clusterroles|system:node|",
            ),
            ("/api/v1", "document"),
            ("/apis/apps/v1", "document"),
            ("/healthz", "document"),
            ("/", "document"),
            ("/api/v1/pods/%zz", "bad"),
            ("/api/v1/namespaces/a/pods/b/c/d", "bad"),
        ] {
            assert_eq!(shown(path), expected, "{path}");
        }
    }
}
