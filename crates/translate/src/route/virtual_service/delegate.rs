//! Delegation: routes of one VirtualService are put into another.
//!
//! A route of the delegate must be narrower than the route that delegates to it; if not, it is left
//! out. Regular expressions cannot be compared, so they conflict.

use ironsail_api::istio::networking::{HttpMatchRequest, HttpRoute, StringMatch};

/// The delegate's routes, narrowed and completed by the route that delegates. Second: how many of them
/// do not fit.
pub(super) fn merge(root: &HttpRoute, delegate: &[HttpRoute]) -> (Vec<HttpRoute>, usize) {
    let merged: Vec<_> = delegate.iter().filter_map(|leaf| one(root, leaf)).collect();
    let lost = delegate.len() - merged.len();
    (merged, lost)
}

fn one(root: &HttpRoute, leaf: &HttpRoute) -> Option<HttpRoute> {
    let mut out = leaf.clone();
    out.r#match = matches(&root.r#match, &leaf.r#match)?;
    out.name = join(&root.name, &leaf.name);
    out.rewrite = out.rewrite.or_else(|| root.rewrite.clone());
    out.timeout = out.timeout.or(root.timeout);
    out.retries = out.retries.or_else(|| root.retries.clone());
    out.fault = out.fault.or_else(|| root.fault.clone());
    out.mirror = out.mirror.or_else(|| root.mirror.clone());
    out.mirror_percent = out.mirror_percent.or(root.mirror_percent);
    out.mirror_percentage = out.mirror_percentage.or_else(|| root.mirror_percentage.clone());
    out.cors_policy = out.cors_policy.or_else(|| root.cors_policy.clone());
    out.headers = out.headers.or_else(|| root.headers.clone());
    if out.mirrors.is_empty() {
        out.mirrors.clone_from(&root.mirrors);
    }
    Some(out)
}

fn join(root: &str, leaf: &str) -> String {
    match (root, leaf) {
        (root, "") => root.to_owned(),
        ("", leaf) => leaf.to_owned(),
        (root, leaf) => format!("{root}-{leaf}"),
    }
}

/// Every pair that fits together; None if some condition of the leaf fits none of the root.
fn matches(root: &[HttpMatchRequest], leaf: &[HttpMatchRequest]) -> Option<Vec<HttpMatchRequest>> {
    if root.is_empty() {
        return Some(leaf.to_vec());
    }
    if leaf.is_empty() {
        return Some(root.to_vec());
    }
    let mut out = Vec::new();
    for leaf in leaf {
        let before = out.len();
        out.extend(root.iter().filter(|root| !conflict(root, leaf)).map(|root| both(root, leaf)));
        if out.len() == before {
            return None;
        }
    }
    Some(out)
}

fn both(root: &HttpMatchRequest, leaf: &HttpMatchRequest) -> HttpMatchRequest {
    let mut out = leaf.clone();
    out.name = join(&root.name, &leaf.name);
    out.uri = out.uri.or_else(|| root.uri.clone());
    out.scheme = out.scheme.or_else(|| root.scheme.clone());
    out.method = out.method.or_else(|| root.method.clone());
    out.authority = out.authority.or_else(|| root.authority.clone());
    for (name, rule) in &root.headers {
        out.headers.entry(name.clone()).or_insert_with(|| rule.clone());
    }
    for (name, rule) in &root.without_headers {
        out.without_headers.entry(name.clone()).or_insert_with(|| rule.clone());
    }
    for (name, rule) in &root.query_params {
        out.query_params.entry(name.clone()).or_insert_with(|| rule.clone());
    }
    if out.port == 0 {
        out.port = root.port;
    }
    for (name, value) in &root.source_labels {
        out.source_labels.entry(name.clone()).or_insert_with(|| value.clone());
    }
    if out.source_namespace.is_empty() {
        out.source_namespace.clone_from(&root.source_namespace);
    }
    if out.gateways.is_empty() {
        out.gateways.clone_from(&root.gateways);
    }
    if out.stat_prefix.is_empty() {
        out.stat_prefix.clone_from(&root.stat_prefix);
    }
    out
}

fn conflict(root: &HttpMatchRequest, leaf: &HttpMatchRequest) -> bool {
    let plain = [
        (&root.uri, &leaf.uri),
        (&root.scheme, &leaf.scheme),
        (&root.method, &leaf.method),
        (&root.authority, &leaf.authority),
    ];
    let clash = |root: Option<&StringMatch>, leaf: Option<&StringMatch>| match (root, leaf) {
        (Some(root), Some(leaf)) => wider(root, leaf),
        _ => false,
    };
    plain.iter().any(|(root, leaf)| clash(root.as_ref(), leaf.as_ref()))
        || leaf.headers.iter().any(|(name, leaf)| clash(root.headers.get(name), Some(leaf)))
        || leaf
            .without_headers
            .iter()
            .any(|(name, leaf)| clash(root.without_headers.get(name), Some(leaf)))
        || leaf
            .query_params
            .iter()
            .any(|(name, leaf)| clash(root.query_params.get(name), Some(leaf)))
        || root.ignore_uri_case != leaf.ignore_uri_case
        || (root.port > 0 && leaf.port > 0 && root.port != leaf.port)
        || other_client(root, leaf)
}

/// Whether the leaf is for clients or gateways that the root is not for.
fn other_client(root: &HttpMatchRequest, leaf: &HttpMatchRequest) -> bool {
    let namespace = &root.source_namespace;
    let mut labels = leaf.source_labels.iter();
    let gateways = !root.gateways.is_empty() && !leaf.gateways.is_empty();
    (!namespace.is_empty() && leaf.source_namespace != *namespace)
        || labels.any(|(name, own)| root.source_labels.get(name).is_some_and(|v| v != own))
        || (gateways && !leaf.gateways.iter().all(|gateway| root.gateways.contains(gateway)))
}

/// Whether the leaf takes texts that the root does not.
fn wider(root: &StringMatch, leaf: &StringMatch) -> bool {
    match (root, leaf) {
        (StringMatch::Exact(root), StringMatch::Exact(leaf)) => root != leaf,
        (StringMatch::Prefix(root), StringMatch::Prefix(leaf) | StringMatch::Exact(leaf)) => {
            !leaf.starts_with(root.as_str())
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(name: &str, prefix: Option<&str>) -> HttpRoute {
        let matches = prefix.map(|p| HttpMatchRequest {
            uri: Some(StringMatch::Prefix(p.into())),
            ..Default::default()
        });
        HttpRoute {
            name: name.into(),
            r#match: matches.into_iter().collect(),
            ..Default::default()
        }
    }

    #[test]
    fn narrower_routes_are_taken_and_wider_ones_left_out() {
        let delegate = [route("in", Some("/a/b")), route("out", Some("/c")), route("", None)];
        let (merged, lost) = merge(&route("root", Some("/a")), &delegate);
        assert_eq!(lost, 1);
        assert_eq!(merged[0].name, "root-in");
        assert_eq!(merged[0].r#match[0].uri, Some(StringMatch::Prefix("/a/b".into())));
        assert_eq!(merged[1].name, "root");
        assert_eq!(merged[1].r#match[0].uri, Some(StringMatch::Prefix("/a".into())));
    }

    #[test]
    fn the_delegate_may_narrow_who_asks_but_not_widen_it() {
        let from = |namespace: &str, labels: &[(&str, &str)]| {
            let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
            let one = HttpMatchRequest {
                source_namespace: namespace.into(),
                source_labels: labels.collect(),
                ..Default::default()
            };
            HttpRoute { r#match: vec![one], ..Default::default() }
        };
        let table = [
            (from("", &[]), from("", &[("app", "a")]), true),
            (from("", &[("app", "a")]), from("", &[("version", "1")]), true),
            (from("", &[("app", "a")]), from("", &[("app", "b")]), false),
            (from("x", &[]), from("x", &[]), true),
            (from("x", &[]), from("y", &[]), false),
            // As in Istio, the namespace of the root must be said again.
            (from("x", &[]), from("", &[]), false),
        ];
        for (root, leaf, fits) in table {
            let (merged, lost) = merge(&root, std::slice::from_ref(&leaf));
            assert_eq!((merged.len(), lost), if fits { (1, 0) } else { (0, 1) }, "{leaf:?}");
        }
        let (merged, _) =
            merge(&from("", &[("app", "a")]), std::slice::from_ref(&from("", &[("v", "1")])));
        assert_eq!(merged[0].r#match[0].source_labels.len(), 2);
    }

    #[test]
    fn what_the_delegate_does_not_say_the_root_does() {
        let root =
            HttpRoute { timeout: Some(std::time::Duration::from_secs(3)), ..route("", None) };
        let (merged, _) = merge(&root, std::slice::from_ref(&route("x", Some("/"))));
        assert_eq!(merged[0].timeout, root.timeout);
    }
}
