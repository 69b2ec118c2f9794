//! Which route of a virtual host a request takes: the first that fits.

use ironsail_proto::envoy::config::route::v3::{
    Route, RouteMatch, VirtualHost, route_match::PathSpecifier,
};

use super::request::Request;
use super::{Truth, all, not, text};

/// The first route that fits; second, routes before it of which that is not known.
pub(crate) fn choose<'a>(host: &'a VirtualHost, request: &Request) -> (Option<&'a Route>, usize) {
    let mut doubtful = 0;
    for route in &host.routes {
        let rule = route.r#match.clone().unwrap_or_default();
        match fits(&rule, request) {
            Some(true) => return (Some(route), doubtful),
            Some(false) => {}
            None => doubtful += 1,
        }
    }
    (None, doubtful)
}

pub(crate) fn fits(rule: &RouteMatch, request: &Request) -> Truth {
    let headers = rule.headers.iter().map(|one| request.has(one));
    let parameters = rule.query_parameters.iter().map(|one| request.has_parameter(one));
    let claims = rule.dynamic_metadata.iter().map(|one| {
        let known = super::policy::metadata(&one.filter, &one.path, one.value.as_ref(), request);
        if one.invert { not(known) } else { known }
    });
    let grpc = rule.grpc.as_ref().map(|_| {
        let kind = request.header("content-type").unwrap_or_default();
        Some(kind == "application/grpc" || kind.starts_with("application/grpc+"))
    });
    let share = rule.runtime_fraction.as_ref().and_then(|one| one.default_value.as_ref());
    let share = share.map(|share| match share.numerator {
        0 => Some(false),
        _ => None,
    });
    all([path(rule, request)]
        .into_iter()
        .chain(headers)
        .chain(parameters)
        .chain(claims)
        .chain(grpc)
        .chain(share))
}

fn path(rule: &RouteMatch, request: &Request) -> Truth {
    let insensitive = rule.case_sensitive.is_some_and(|one| !one.value);
    let fold = |text: &str| if insensitive { text.to_ascii_lowercase() } else { text.to_owned() };
    let path = fold(request.path_only());
    match &rule.path_specifier {
        // A prefix may reach into the query.
        Some(PathSpecifier::Prefix(prefix)) => {
            Some(fold(&request.path).starts_with(&fold(prefix)) || path.starts_with(&fold(prefix)))
        }
        Some(PathSpecifier::Path(exact)) => Some(path == fold(exact)),
        Some(PathSpecifier::SafeRegex(regex)) => text::regex(&regex.regex, request.path_only()),
        Some(PathSpecifier::PathSeparatedPrefix(prefix)) => {
            let prefix = fold(prefix);
            let rest = path.strip_prefix(prefix.as_str());
            Some(rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
        }
        Some(PathSpecifier::ConnectMatcher(_)) => Some(request.method == "CONNECT"),
        Some(PathSpecifier::PathMatchPolicy(_)) => None,
        None => Some(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matching::request::sample;
    use ironsail_proto::from_json;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn holds(rule: &Value, path: &str, headers: &[(&str, &str)]) -> Truth {
        fits(&from_json(rule).unwrap(), &sample(path, headers))
    }

    #[test]
    fn paths_match_as_envoy_matches_them() {
        for (rule, path, wanted) in [
            (json!({"prefix": "/"}), "/x", true),
            (json!({"prefix": "/api"}), "/apix", true),
            (json!({"path": "/api"}), "/api?x=1", true),
            (json!({"path": "/api"}), "/api/", false),
            (json!({"path": "/API", "case_sensitive": false}), "/api", true),
            (json!({"path_separated_prefix": "/api"}), "/api/v1", true),
            (json!({"path_separated_prefix": "/api"}), "/apix", false),
            (json!({"path_separated_prefix": "/api"}), "/api", true),
            (json!({"safe_regex": {"regex": "/a.*"}}), "/abc?q", true),
            (json!({"safe_regex": {"regex": "/a"}}), "/abc", false),
            (
                json!({"prefix": "/", "query_parameters": [{"name": "q", "string_match": {"exact": "1"}}]}),
                "/?q=1",
                true,
            ),
            (
                json!({"prefix": "/", "query_parameters": [{"name": "q", "string_match": {"exact": "1"}}]}),
                "/?q=2",
                false,
            ),
        ] {
            assert_eq!(holds(&rule, path, &[]), Some(wanted), "{rule} {path}");
        }
    }

    #[test]
    fn the_first_route_that_fits_is_taken_not_the_best() {
        let host: VirtualHost = from_json(&json!({"name": "h", "domains": ["*"], "routes": [
            {"name": "header", "match": {"prefix": "/", "headers": [{"name": "u", "string_match": {"exact": "j"}}]}},
            {"name": "all", "match": {"prefix": "/"}},
            {"name": "never", "match": {"path": "/exact"}},
        ]}))
        .unwrap();
        let name = |path, headers: &[(&str, &str)]| {
            choose(&host, &sample(path, headers)).0.map(|route| route.name.as_str())
        };
        assert_eq!(name("/exact", &[]), Some("all"));
        assert_eq!(name("/exact", &[("u", "j")]), Some("header"));
    }

    proptest! {
        #[test]
        fn a_separated_prefix_is_narrower_than_a_prefix(prefix in "/[a-c]{1,3}", path in "/[a-c/]{0,6}") {
            let narrow = holds(&json!({"path_separated_prefix": prefix}), &path, &[]);
            let wide = holds(&json!({"prefix": prefix}), &path, &[]);
            prop_assert!(narrow != Some(true) || wide == Some(true));
        }
    }
}
