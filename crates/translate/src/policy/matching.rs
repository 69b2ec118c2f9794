//! Values of policies as Envoy's matchers.
//!
//! `*` alone means "is there", `x*` a prefix, `*x` a suffix, all else exactly itself. Text of a user
//! that ends up inside a regular expression is escaped: a dot in a name is a dot.

use ironsail_proto::envoy::config::rbac::v3::{MetadataSource, SourcedMetadata};
use ironsail_proto::envoy::config::route::v3::{
    HeaderMatcher, header_matcher::HeaderMatchSpecifier,
};
use ironsail_proto::envoy::r#type::matcher::v3::{
    ListMatcher, MetadataMatcher, OrMatcher, RegexMatcher, StringMatcher, ValueMatcher,
    list_matcher, metadata_matcher::PathSegment, metadata_matcher::path_segment::Segment,
    string_matcher::MatchPattern, value_matcher,
};

/// Where the stock filter leaves what a token says.
pub(crate) const JWT: &str = "envoy.filters.http.jwt_authn";
/// The key below which it does.
pub(crate) const PAYLOAD: &str = "payload";

const SPIFFE: &str = "spiffe://";

/// Something must be there.
pub(super) fn any() -> StringMatcher {
    regex(".+".to_owned())
}

pub(super) fn exact(text: &str) -> StringMatcher {
    matcher(MatchPattern::Exact(text.to_owned()))
}

pub(super) fn prefix(text: &str) -> StringMatcher {
    matcher(MatchPattern::Prefix(text.to_owned()))
}

pub(super) fn suffix(text: &str) -> StringMatcher {
    matcher(MatchPattern::Suffix(text.to_owned()))
}

fn regex(regex: String) -> StringMatcher {
    matcher(MatchPattern::SafeRegex(RegexMatcher { regex, engine_type: None }))
}

fn matcher(pattern: MatchPattern) -> StringMatcher {
    StringMatcher { match_pattern: Some(pattern), ..Default::default() }
}

/// A value with its wildcard.
pub(super) fn text(value: &str) -> StringMatcher {
    match (value, value.strip_prefix('*'), value.strip_suffix('*')) {
        ("*", ..) => any(),
        (_, Some(rest), _) => suffix(rest),
        (_, _, Some(rest)) => prefix(rest),
        _ => exact(value),
    }
}

/// The same for an identity, which policies write without its scheme.
pub(super) fn identity(value: &str) -> StringMatcher {
    match (value, value.strip_prefix('*'), value.strip_suffix('*')) {
        ("*", ..) => any(),
        (_, Some(rest), _) => regex(format!("{SPIFFE}.*{}", escaped(rest))),
        (_, _, Some(rest)) => prefix(&format!("{SPIFFE}{rest}")),
        _ => exact(&format!("{SPIFFE}{value}")),
    }
}

/// Identities of a namespace.
pub(super) fn namespace(value: &str) -> StringMatcher {
    regex(format!(".*/ns/{}/.*", with_wildcards(value, ".*")))
}

/// Identities of a service account: `namespace/name`, or a name of the policy's own namespace.
pub(super) fn service_account(own: &str, value: &str) -> StringMatcher {
    let (namespace, name) = value.split_once('/').unwrap_or((own, value));
    regex(format!("{SPIFFE}.+/ns/{}/(.+/|)sa/{}(/.+)?", escaped(namespace), escaped(name)))
}

/// Identities of a trust domain.
pub(super) fn trust_domain(value: &str) -> StringMatcher {
    regex(format!("{SPIFFE}{}/.*", with_wildcards(value, "[^/]*")))
}

fn with_wildcards(value: &str, any: &str) -> String {
    value.split('*').map(escaped).collect::<Vec<_>>().join(any)
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if r"\.+*?()|[]{}^$".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

pub(super) fn header(name: &str, value: &str) -> HeaderMatcher {
    let how = match value {
        "*" => HeaderMatchSpecifier::PresentMatch(true),
        value => HeaderMatchSpecifier::StringMatch(text(value)),
    };
    HeaderMatcher { name: name.to_owned(), header_match_specifier: Some(how), ..Default::default() }
}

/// Hosts are the same in upper and lower case.
pub(super) fn host(value: &str) -> HeaderMatcher {
    let mut matcher = header(":authority", value);
    if let Some(HeaderMatchSpecifier::StringMatch(text)) = &mut matcher.header_match_specifier {
        text.ignore_case = true;
    }
    matcher
}

/// One of the comma separated values of a header.
pub(super) fn inline_header(name: &str, value: &str) -> HeaderMatcher {
    let wanted = match (value, value.strip_prefix('*'), value.strip_suffix('*')) {
        ("*", ..) => return header(name, value),
        (_, Some(rest), _) => format!("[^,]*{}", escaped(rest)),
        (_, _, Some(rest)) => format!("{}[^,]*", escaped(rest)),
        _ => escaped(value),
    };
    HeaderMatcher {
        name: name.to_owned(),
        header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(regex(format!(
            r"(.*,)?\s*{wanted}\s*(,.*)?"
        )))),
        ..Default::default()
    }
}

/// A value in the metadata that a filter leaves.
pub(super) fn metadata(filter: &str, path: &[&str], value: ValueMatcher) -> MetadataMatcher {
    let segment = |key: &&str| PathSegment { segment: Some(Segment::Key((*key).to_owned())) };
    MetadataMatcher {
        filter: filter.to_owned(),
        path: path.iter().map(segment).collect(),
        value: Some(value),
        ..Default::default()
    }
}

/// The same of the request or connection itself, as RBAC wants it.
pub(super) fn dynamic(filter: &str, path: &[&str], value: ValueMatcher) -> SourcedMetadata {
    SourcedMetadata {
        metadata_matcher: Some(metadata(filter, path, value)),
        metadata_source: MetadataSource::Dynamic.into(),
    }
}

pub(super) fn value(text: StringMatcher) -> ValueMatcher {
    pattern(value_matcher::MatchPattern::StringMatch(text))
}

/// One element of a list.
pub(super) fn in_list(one: ValueMatcher) -> ValueMatcher {
    let list =
        ListMatcher { match_pattern: Some(list_matcher::MatchPattern::OneOf(Box::new(one))) };
    pattern(value_matcher::MatchPattern::ListMatch(Box::new(list)))
}

/// Any of these; a single one stands for itself.
pub(super) fn or(mut values: Vec<ValueMatcher>) -> ValueMatcher {
    if values.len() == 1 {
        return values.remove(0);
    }
    pattern(value_matcher::MatchPattern::OrMatch(OrMatcher { value_matchers: values }))
}

fn pattern(pattern: value_matcher::MatchPattern) -> ValueMatcher {
    ValueMatcher { match_pattern: Some(pattern) }
}

/// A claim of the token, which may be a text or a list of them.
pub(super) fn claim(path: &[&str], values: &[String]) -> SourcedMetadata {
    let one = or(values.iter().map(|v| value(text(v))).collect());
    let path: Vec<&str> = std::iter::once(PAYLOAD).chain(path.iter().copied()).collect();
    dynamic(JWT, &path, or(vec![in_list(one.clone()), one]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(matcher: &StringMatcher) -> String {
        match matcher.match_pattern.as_ref().unwrap() {
            MatchPattern::Exact(text) => format!("={text}"),
            MatchPattern::Prefix(text) => format!("{text}…"),
            MatchPattern::Suffix(text) => format!("…{text}"),
            MatchPattern::SafeRegex(regex) => format!("/{}/", regex.regex),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn wildcards_stand_at_the_ends_and_nothing_else_is_special() {
        for (value, wanted) in [
            ("*", "/.+/"),
            ("a", "=a"),
            ("a*", "a…"),
            ("*a", "…a"),
            ("a*b", "=a*b"),
            ("**", "…*"),
            ("a.b", "=a.b"),
        ] {
            assert_eq!(shown(&text(value)), wanted);
        }
    }

    #[test]
    fn dots_of_users_are_dots() {
        assert_eq!(shown(&identity("*.local/ns/a/sa/b")), r"/spiffe://.*\.local/ns/a/sa/b/");
        assert_eq!(
            shown(&service_account("foo", "my.sa")),
            r"/spiffe://.+/ns/foo/(.+/|)sa/my\.sa(/.+)?/"
        );
        assert_eq!(shown(&namespace("a.b*")), r"/.*/ns/a\.b.*/.*/");
        assert_eq!(shown(&trust_domain("*.local")), r"/spiffe://[^/]*\.local/.*/");
    }
}
