//! Conditions on requests.

use ironsail_api::istio::networking::{HttpMatchRequest, StringMatch};
use ironsail_proto::envoy::config::route::v3::{
    HeaderMatcher, QueryParameterMatcher, RouteMatch, header_matcher::HeaderMatchSpecifier,
    query_parameter_matcher::QueryParameterMatchSpecifier, route_match::PathSpecifier,
};
use ironsail_proto::envoy::r#type::matcher::v3::{
    ListMatcher, MetadataMatcher, RegexMatcher, StringMatcher, ValueMatcher, list_matcher,
    metadata_matcher::{PathSegment, path_segment::Segment},
    string_matcher::MatchPattern,
    value_matcher,
};

use crate::filter::wire;
use crate::route::{check, part};

/// What a match cannot be made of: the field and why.
pub(super) type Bad = (String, String);

/// The match for `request`, none for all requests.
pub(super) fn route_match(request: Option<&HttpMatchRequest>) -> Result<RouteMatch, Bad> {
    let Some(request) = request else { return Ok(part::everything()) };
    let mut out = RouteMatch {
        path_specifier: Some(path(request)?),
        case_sensitive: wire::flag(!request.ignore_uri_case),
        ..Default::default()
    };
    for (name, rule) in &request.headers {
        match claim(name) {
            Some(path) => out.dynamic_metadata.push(metadata(&path, rule, false)?),
            None => out.headers.push(header(name, rule, "headers")?),
        }
    }
    for (name, rule) in &request.without_headers {
        match claim(name) {
            Some(path) => out.dynamic_metadata.push(metadata(&path, rule, true)?),
            None => {
                let matcher = header(name, rule, "withoutHeaders")?;
                // A header that is not there differs from every value but not from its absence.
                let missing = !matches!(
                    matcher.header_match_specifier,
                    Some(HeaderMatchSpecifier::PresentMatch(_))
                );
                out.headers.push(HeaderMatcher {
                    invert_match: true,
                    treat_missing_header_as_empty: missing,
                    ..matcher
                });
            }
        }
    }
    out.headers.sort_by(|a, b| a.name.cmp(&b.name));
    let pseudo = [
        (":method", &request.method, "method"),
        (":authority", &request.authority, "authority"),
        (":scheme", &request.scheme, "scheme"),
    ];
    for (name, rule, field) in pseudo {
        if let Some(rule) = rule {
            out.headers.push(header(name, rule, field)?);
        }
    }
    for (name, rule) in &request.query_params {
        let specifier = match text(rule, "queryParams")? {
            Some(matcher) => QueryParameterMatchSpecifier::StringMatch(matcher),
            None => QueryParameterMatchSpecifier::PresentMatch(true),
        };
        if name.is_empty() || name.len() > 1024 {
            return Err(("queryParams".into(), format!("{name:?} is no name of a parameter")));
        }
        out.query_parameters.push(QueryParameterMatcher {
            name: name.clone(),
            query_parameter_match_specifier: Some(specifier),
        });
    }
    Ok(out)
}

/// The same with prefixes that end where an element of the path does.
pub(super) fn by_elements(mut route_match: RouteMatch) -> RouteMatch {
    if let Some(PathSpecifier::Prefix(prefix)) = &route_match.path_specifier
        && let Some(elements) = Some(prefix.trim_end_matches('/')).filter(|rest| !rest.is_empty())
    {
        let elements = elements.to_owned();
        route_match.path_specifier = Some(PathSpecifier::PathSeparatedPrefix(elements));
    }
    route_match
}

fn path(request: &HttpMatchRequest) -> Result<PathSpecifier, Bad> {
    Ok(match &request.uri {
        None | Some(StringMatch::Unset) => PathSpecifier::Prefix("/".into()),
        Some(StringMatch::Exact(path)) => PathSpecifier::Path(path.clone()),
        Some(StringMatch::Prefix(prefix)) => PathSpecifier::Prefix(prefix.clone()),
        Some(StringMatch::Regex(regex)) => {
            check::regex(regex).map_err(|why| ("uri.regex".to_owned(), why))?;
            PathSpecifier::SafeRegex(RegexMatcher { regex: regex.clone(), ..Default::default() })
        }
    })
}

fn header(name: &str, rule: &StringMatch, field: &str) -> Result<HeaderMatcher, Bad> {
    check::header_name(name).map_err(|why| (field.to_owned(), why))?;
    let specifier = match text(rule, field)? {
        Some(matcher) => HeaderMatchSpecifier::StringMatch(matcher),
        None => HeaderMatchSpecifier::PresentMatch(true),
    };
    Ok(HeaderMatcher {
        name: name.to_owned(),
        header_match_specifier: Some(specifier),
        ..Default::default()
    })
}

/// The matcher for a text; none if it need only be there. `*` is no expression, but means that.
pub(super) fn text(rule: &StringMatch, field: &str) -> Result<Option<StringMatcher>, Bad> {
    let pattern = match rule {
        StringMatch::Unset => return Ok(None),
        StringMatch::Regex(regex) if regex == "*" => return Ok(None),
        StringMatch::Prefix(prefix) if prefix.is_empty() => return Ok(None),
        StringMatch::Exact(exact) => MatchPattern::Exact(exact.clone()),
        StringMatch::Prefix(prefix) => MatchPattern::Prefix(prefix.clone()),
        StringMatch::Regex(regex) => {
            check::regex(regex).map_err(|why| (format!("{field}.regex"), why))?;
            MatchPattern::SafeRegex(RegexMatcher { regex: regex.clone(), ..Default::default() })
        }
    };
    Ok(Some(StringMatcher { match_pattern: Some(pattern), ..Default::default() }))
}

/// `@request.auth.claims.group.id` and `@request.auth.claims[group][id]` mean claims of a token.
fn claim(name: &str) -> Option<Vec<String>> {
    const PREFIX: &str = "@request.auth.claims";
    let head = name.get(..PREFIX.len()).filter(|head| head.eq_ignore_ascii_case(PREFIX))?;
    let rest = &name[head.len()..];
    if let Some(dotted) = rest.strip_prefix('.') {
        return (!dotted.is_empty()).then(|| dotted.split('.').map(str::to_owned).collect());
    }
    let inner = rest.strip_prefix('[')?.strip_suffix(']')?;
    (!inner.is_empty()).then(|| inner.split("][").map(str::to_owned).collect())
}

/// A claim that is the text, or a list that has it.
fn metadata(claims: &[String], rule: &StringMatch, invert: bool) -> Result<MetadataMatcher, Bad> {
    use value_matcher::MatchPattern as Pattern;
    let matcher = text(rule, "headers")?.unwrap_or_else(|| StringMatcher {
        match_pattern: Some(MatchPattern::SafeRegex(RegexMatcher {
            regex: ".+".into(),
            ..Default::default()
        })),
        ..Default::default()
    });
    let one = ValueMatcher { match_pattern: Some(Pattern::StringMatch(matcher)) };
    let list = ListMatcher {
        match_pattern: Some(list_matcher::MatchPattern::OneOf(Box::new(one.clone()))),
    };
    let any = ironsail_proto::envoy::r#type::matcher::v3::OrMatcher {
        value_matchers: vec![
            one,
            ValueMatcher { match_pattern: Some(Pattern::ListMatch(Box::new(list))) },
        ],
    };
    let path = std::iter::once("payload").chain(claims.iter().map(String::as_str));
    Ok(MetadataMatcher {
        filter: "envoy.filters.http.jwt_authn".into(),
        path: path.map(|p| PathSegment { segment: Some(Segment::Key(p.to_owned())) }).collect(),
        value: Some(ValueMatcher { match_pattern: Some(Pattern::OrMatch(any)) }),
        invert,
    })
}

/// Whether every request fits.
pub(crate) fn is_catch_all(rule: &RouteMatch) -> bool {
    let path = match &rule.path_specifier {
        Some(PathSpecifier::Prefix(prefix)) => prefix == "/",
        Some(PathSpecifier::SafeRegex(regex)) => regex.regex == ".*",
        _ => false,
    };
    path && rule.headers.is_empty()
        && rule.query_parameters.is_empty()
        && rule.dynamic_metadata.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_read_in_both_spellings() {
        let path = |name: &str| claim(name).map(|c| c.join("/"));
        assert_eq!(path("@request.auth.claims.group.id").as_deref(), Some("group/id"));
        assert_eq!(path("@request.auth.claims[group][id]").as_deref(), Some("group/id"));
        assert_eq!(path("@Request.Auth.Claims[a.b]").as_deref(), Some("a.b"));
        for other in
            ["x-request", "@request.auth.claims", "@request.auth.claims[", "@request.auth.claims."]
        {
            assert_eq!(path(other), None, "{other}");
        }
    }

    #[test]
    fn a_star_asks_only_for_the_header() {
        let present = header("x", &StringMatch::Regex("*".into()), "headers").unwrap();
        assert_eq!(present.header_match_specifier, Some(HeaderMatchSpecifier::PresentMatch(true)));
    }
}
