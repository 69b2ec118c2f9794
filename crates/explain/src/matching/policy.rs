//! Rules of Envoy's RBAC against a request or a connection.

use std::net::IpAddr;

use ironsail_proto::envoy::config::core::v3::CidrRange;
use ironsail_proto::envoy::config::rbac::v3::{
    Permission, Policy, Principal, Rbac, permission::Rule, principal::Identifier, rbac::Action,
};
use ironsail_proto::envoy::extensions::path::r#match::uri_template::v3::UriTemplateMatchConfig;
use ironsail_proto::envoy::r#type::matcher::v3::{
    PathMatcher, ValueMatcher, metadata_matcher, path_matcher,
};
use ironsail_proto::unpack;

use super::request::{Connection, Request};
use super::{Truth, all, any, chain, not, text};

const JWT: &str = "envoy.filters.http.jwt_authn";

/// Who asks for what. A plain connection has no request.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) request: Option<&'a Request>,
}

/// What the rules of one filter come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// By the policy of that name; none if nothing forbids it.
    Allow(Option<String>),
    /// By the policy of that name; none if nothing allows it.
    Deny(Option<String>),
    /// Rules whose truth cannot be known decide.
    Unknown(Vec<String>),
}

pub(crate) fn decide(rules: &Rbac, asked: Asked<'_>) -> Decision {
    let mut doubtful = Vec::new();
    let mut found = None;
    // Envoy tries them by name, as they stand in the map.
    for (name, policy) in &rules.policies {
        match fits(policy, asked) {
            Some(true) => {
                found = Some(name.clone());
                break;
            }
            Some(false) => {}
            None => doubtful.push(name.clone()),
        }
    }
    match (rules.action(), found) {
        (Action::Log, _) => Decision::Allow(None),
        (Action::Allow, Some(name)) => Decision::Allow(Some(name)),
        (Action::Deny, Some(name)) => Decision::Deny(Some(name)),
        (_, None) if !doubtful.is_empty() => Decision::Unknown(doubtful),
        (Action::Allow, None) => Decision::Deny(None),
        (Action::Deny, None) => Decision::Allow(None),
    }
}

pub(crate) fn fits(policy: &Policy, asked: Asked<'_>) -> Truth {
    let permission = any(policy.permissions.iter().map(|one| permits(one, asked)));
    let principal = any(policy.principals.iter().map(|one| is(one, asked)));
    let condition = policy.condition.is_none().then_some(true);
    all([permission, principal, condition])
}

fn permits(permission: &Permission, asked: Asked<'_>) -> Truth {
    let connection = asked.connection;
    match permission.rule.as_ref()? {
        Rule::Any(any) => Some(*any),
        Rule::AndRules(set) => all(set.rules.iter().map(|one| permits(one, asked))),
        Rule::OrRules(set) => any(set.rules.iter().map(|one| permits(one, asked))),
        Rule::NotRule(rule) => not(permits(rule, asked)),
        Rule::Header(header) => asked.request.map_or(Some(false), |request| request.has(header)),
        Rule::UrlPath(matcher) => asked.request.map_or(Some(false), |r| path(matcher, r)),
        Rule::UriTemplate(extension) => {
            let config = extension.typed_config.as_ref()?;
            let config: UriTemplateMatchConfig = unpack(config).ok()?;
            asked.request.map_or(Some(false), |r| template(&config.path_template, r.path_only()))
        }
        Rule::DestinationIp(range) => within(range, connection.destination),
        Rule::DestinationPort(port) => Some(*port == u32::from(connection.port)),
        Rule::DestinationPortRange(range) => {
            Some((range.start..range.end).contains(&i32::from(connection.port)))
        }
        Rule::RequestedServerName(matcher) => text::string(matcher, connection.sni()),
        Rule::SourcedMetadata(sourced) => {
            let matcher = sourced.metadata_matcher.as_ref()?;
            sourced_metadata(matcher, asked)
        }
        _ => None,
    }
}

fn is(principal: &Principal, asked: Asked<'_>) -> Truth {
    let connection = asked.connection;
    match principal.identifier.as_ref()? {
        Identifier::Any(any) => Some(*any),
        Identifier::AndIds(set) => all(set.ids.iter().map(|one| is(one, asked))),
        Identifier::OrIds(set) => any(set.ids.iter().map(|one| is(one, asked))),
        Identifier::NotId(id) => not(is(id, asked)),
        Identifier::Authenticated(wanted) => match (&wanted.principal_name, &connection.peer) {
            (_, None) => Some(false),
            (None, Some(_)) => Some(true),
            (Some(matcher), Some(peer)) => text::string(matcher, peer),
        },
        Identifier::DirectRemoteIp(range) => within(range, connection.source),
        Identifier::RemoteIp(range) => {
            // A sidecar believes no one's x-forwarded-for.
            within(range, connection.source)
        }
        Identifier::Header(header) => {
            asked.request.map_or(Some(false), |request| request.has(header))
        }
        Identifier::UrlPath(matcher) => asked.request.map_or(Some(false), |r| path(matcher, r)),
        Identifier::SourcedMetadata(sourced) => {
            let matcher = sourced.metadata_matcher.as_ref()?;
            sourced_metadata(matcher, asked)
        }
        _ => None,
    }
}

fn sourced_metadata(
    matcher: &ironsail_proto::envoy::r#type::matcher::v3::MetadataMatcher,
    asked: Asked<'_>,
) -> Truth {
    let known = match asked.request {
        Some(request) => metadata(&matcher.filter, &matcher.path, matcher.value.as_ref(), request),
        None => None,
    };
    if matcher.invert { not(known) } else { known }
}

/// Claims of tokens are the only metadata that is known here.
pub(crate) fn metadata(
    filter: &str,
    path: &[metadata_matcher::PathSegment],
    wanted: Option<&ValueMatcher>,
    request: &Request,
) -> Truth {
    if filter != JWT {
        return None;
    }
    let wanted = wanted?;
    let mut keys = path.iter().filter_map(|part| match part.segment.as_ref()? {
        metadata_matcher::path_segment::Segment::Key(key) => Some(key.as_str()),
    });
    if keys.next() != Some("payload") {
        return None;
    }
    let mut value = request.claims.as_ref();
    for key in keys {
        value = value.and_then(|value| value.get(key));
    }
    text::value(wanted, value)
}

fn path(matcher: &PathMatcher, request: &Request) -> Truth {
    match matcher.rule.as_ref()? {
        path_matcher::Rule::Path(matcher) => text::string(matcher, request.path_only()),
    }
}

/// `*` is one segment, `**` any number of them, also none.
fn template(template: &str, path: &str) -> Truth {
    let mut expression = String::new();
    for segment in template.split('/').skip(1) {
        match segment {
            "*" => expression.push_str("/[^/]+"),
            "**" => expression.push_str("/.*"),
            literal => {
                expression.push('/');
                expression.push_str(&regex::escape(literal));
            }
        }
    }
    text::regex(&expression, path)
}

fn within(range: &CidrRange, ip: Option<IpAddr>) -> Truth {
    let net = chain::net(range)?;
    ip.map(|ip| net.contains(&ip))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matching::request::{Transport, sample};
    use ironsail_proto::from_json;
    use serde_json::{Value, json};

    fn connection(peer: Option<&str>) -> Connection {
        Connection {
            destination: "10.0.0.2".parse().ok(),
            port: 8080,
            source: "10.0.0.1".parse().ok(),
            transport: Transport::Raw,
            plain: None,
            peer: peer.map(str::to_owned),
        }
    }

    fn decided(rules: &Value, peer: Option<&str>, path: &str) -> Decision {
        let connection = connection(peer);
        let mut request = sample(path, &[("x", "1")]);
        request.claims = Some(json!({"iss": "me", "groups": ["dev"]}));
        let asked = Asked { connection: &connection, request: Some(&request) };
        decide(&from_json(rules).unwrap(), asked)
    }

    fn one(action: &str, permission: &Value, principal: &Value) -> Value {
        json!({"action": action, "policies": {"p": {"permissions": [permission], "principals": [principal]}}})
    }

    #[test]
    fn an_action_decides_what_a_match_means() {
        let any = || json!({"any": true});
        let none = || json!({"not_rule": {"any": true}});
        let yes = Some("p".to_owned());
        for (action, permission, wanted) in [
            ("ALLOW", any(), Decision::Allow(yes.clone())),
            ("ALLOW", none(), Decision::Deny(None)),
            ("DENY", any(), Decision::Deny(yes.clone())),
            ("DENY", none(), Decision::Allow(None)),
            ("LOG", any(), Decision::Allow(None)),
        ] {
            assert_eq!(decided(&one(action, &permission, &any()), None, "/"), wanted, "{action}");
        }
    }

    #[test]
    fn conditions_are_judged_as_envoy_judges_them() {
        let foo = Some("spiffe://td/ns/foo/sa/a");
        let of_ns =
            json!({"authenticated": {"principal_name": {"safe_regex": {"regex": ".*/ns/foo/.*"}}}});
        for (permission, principal, peer, path, wanted) in [
            (json!({"any": true}), of_ns.clone(), foo, "/", true),
            (json!({"any": true}), of_ns.clone(), None, "/", false),
            (json!({"any": true}), json!({"not_id": of_ns}), None, "/", true),
            (
                json!({"url_path": {"path": {"prefix": "/a"}}}),
                json!({"any": true}),
                None,
                "/ab?x",
                true,
            ),
            (json!({"destination_port": 8080}), json!({"any": true}), None, "/", true),
            (json!({"destination_port": 80}), json!({"any": true}), None, "/", false),
            (
                json!({"header": {"name": ":method", "string_match": {"exact": "POST"}}}),
                json!({"any": true}),
                None,
                "/",
                false,
            ),
            (
                json!({"any": true}),
                json!({"direct_remote_ip": {"address_prefix": "10.0.0.0", "prefix_len": 24}}),
                None,
                "/",
                true,
            ),
            (
                json!({"any": true}),
                json!({"direct_remote_ip": {"address_prefix": "10.0.1.0", "prefix_len": 24}}),
                None,
                "/",
                false,
            ),
        ] {
            let rules = one("DENY", &permission, &principal);
            let denied = decided(&rules, peer, path) == Decision::Deny(Some("p".into()));
            assert_eq!(denied, wanted, "{permission} {principal} {path}");
        }
    }

    #[test]
    fn what_cannot_be_known_is_said() {
        let other = json!({"sourced_metadata": {"metadata_matcher": {"filter": "other",
            "path": [{"key": "a"}], "value": {"present_match": true}}}});
        let rules = one("DENY", &other, &json!({"any": true}));
        assert_eq!(decided(&rules, None, "/"), Decision::Unknown(vec!["p".into()]));
    }

    #[test]
    fn templates_stand_for_segments() {
        for (pattern, path, wanted) in [
            ("/a/*", "/a/b", true),
            ("/a/*", "/a/b/c", false),
            ("/a/*/c", "/a/b/c", true),
            ("/a/**", "/a/b/c", true),
            ("/a.b/*", "/axb/c", false),
        ] {
            assert_eq!(template(pattern, path), Some(wanted), "{pattern} {path}");
        }
    }
}
