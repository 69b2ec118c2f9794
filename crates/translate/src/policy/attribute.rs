//! The attributes that rules of an AuthorizationPolicy speak of, and what each is to Envoy.
//!
//! In: an attribute and its values. Out: a permission (what is asked) or a principal (who asks) that
//! holds if one of the values does; or the reason why the values cannot be used on this kind of
//! connection.

use ironsail_proto::envoy::config::core::v3::{CidrRange, TypedExtensionConfig};
use ironsail_proto::envoy::config::rbac::v3::principal::{Authenticated, Identifier};
use ironsail_proto::envoy::config::rbac::v3::{
    Permission, Principal, SourcedMetadata, permission, principal,
};
use ironsail_proto::envoy::extensions::path::r#match::uri_template::v3::UriTemplateMatchConfig;
use ironsail_proto::envoy::r#type::matcher::v3::{PathMatcher, StringMatcher, path_matcher};
use ironsail_proto::pack;
use permission::Rule;

use super::matching::{self, JWT, PAYLOAD};
use crate::filter::wire;

/// What a condition is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Attribute {
    Host,
    Method,
    Path,
    Port,
    DestinationIp,
    Sni,
    /// Metadata of a filter: its name and the key in it.
    Filter(String, String),
    Principal,
    RequestPrincipal,
    Namespace,
    ServiceAccount,
    TrustDomain,
    RemoteIp,
    SourceIp,
    Header(String),
    InlineHeader(String),
    /// The path to a claim of the token.
    Claim(Vec<String>),
}

/// Why values cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// A plain connection has no such thing.
    HttpOnly,
    Invalid(String),
}

impl Attribute {
    /// The attribute that `when.key` names.
    pub(super) fn parse(key: &str) -> Result<Self, Refusal> {
        let claim = |name: &str| Self::Claim(vec![name.to_owned()]);
        Ok(match key {
            "destination.ip" => Self::DestinationIp,
            "destination.port" => Self::Port,
            "connection.sni" => Self::Sni,
            "source.ip" => Self::SourceIp,
            "remote.ip" => Self::RemoteIp,
            "source.namespace" => Self::Namespace,
            "source.principal" => Self::Principal,
            "source.serviceAccount" => Self::ServiceAccount,
            "source.trustDomain" => Self::TrustDomain,
            "request.auth.principal" => Self::RequestPrincipal,
            "request.auth.audiences" => claim("aud"),
            "request.auth.presenter" => claim("azp"),
            _ => return Self::parse_map(key),
        })
    }

    /// `name[key]`, for claims also `name[key][key]`.
    fn parse_map(key: &str) -> Result<Self, Refusal> {
        let unknown = || Refusal::Invalid(format!("there is no attribute {key:?}"));
        let (name, inside) = key
            .split_once('[')
            .and_then(|(name, rest)| Some((name, rest.strip_suffix(']')?)))
            .filter(|(_, inside)| !inside.is_empty())
            .ok_or_else(unknown)?;
        match name {
            "request.headers" => Ok(Self::Header(header_name(inside)?)),
            "request.experimental.inlineHeaders" => Ok(Self::InlineHeader(header_name(inside)?)),
            "request.auth.claims" => {
                let path: Vec<String> = inside.split("][").map(str::to_owned).collect();
                match path.iter().any(|part| part.is_empty() || part.contains(['[', ']'])) {
                    true => Err(unknown()),
                    false => Ok(Self::Claim(path)),
                }
            }
            _ => match name.strip_prefix("experimental.") {
                Some(filter) if filter.starts_with("envoy.filters.") => {
                    Ok(Self::Filter(filter.to_owned(), inside.to_owned()))
                }
                _ => Err(unknown()),
            },
        }
    }

    /// It is about what is asked, not about who asks.
    pub(super) fn is_about_operation(&self) -> bool {
        matches!(
            self,
            Self::Host
                | Self::Method
                | Self::Path
                | Self::Port
                | Self::DestinationIp
                | Self::Sni
                | Self::Filter(..)
        )
    }

    fn is_http_only(&self) -> bool {
        matches!(
            self,
            Self::Host
                | Self::Method
                | Self::Path
                | Self::RequestPrincipal
                | Self::Header(_)
                | Self::InlineHeader(_)
                | Self::Claim(_)
        )
    }

    /// What is asked for fits one of the values.
    pub(super) fn permission(&self, values: &[String], tcp: bool) -> Result<Permission, Refusal> {
        self.usable(tcp)?;
        if let Self::Filter(filter, key) = self {
            let one =
                |value: &String| match value.strip_prefix('[').and_then(|v| v.strip_suffix(']')) {
                    Some(inner) => matching::in_list(matching::value(matching::text(inner))),
                    None => matching::value(matching::text(value)),
                };
            let value = matching::or(values.iter().map(one).collect());
            return Ok(rule(Rule::SourcedMetadata(matching::dynamic(filter, &[key], value))));
        }
        let each = values.iter().map(|value| self.operation(value).map(rule));
        let rules = each.collect::<Result<_, _>>()?;
        Ok(rule(Rule::OrRules(permission::Set { rules })))
    }

    /// Who asks fits one of the values. `own` is the policy's namespace.
    pub(super) fn principal(
        &self,
        values: &[String],
        own: &str,
        tcp: bool,
    ) -> Result<Principal, Refusal> {
        self.usable(tcp)?;
        if let Self::Claim(path) = self {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            return Ok(id(Identifier::SourcedMetadata(matching::claim(&path, values))));
        }
        let mut ids: Vec<Principal> =
            values.iter().map(|value| self.source(value, own).map(id)).collect::<Result<_, _>>()?;
        if *self == Self::RequestPrincipal && ids.len() == 1 {
            return Ok(ids.remove(0));
        }
        Ok(id(Identifier::OrIds(principal::Set { ids })))
    }

    fn usable(&self, tcp: bool) -> Result<(), Refusal> {
        match tcp && self.is_http_only() {
            true => Err(Refusal::HttpOnly),
            false => Ok(()),
        }
    }

    fn operation(&self, value: &str) -> Result<Rule, Refusal> {
        Ok(match self {
            Self::Host => Rule::Header(matching::host(value)),
            Self::Method => Rule::Header(matching::header(":method", value)),
            Self::Path => path(value)?,
            Self::Port => Rule::DestinationPort(port(value)?),
            Self::DestinationIp => Rule::DestinationIp(range(value)?),
            Self::Sni => Rule::RequestedServerName(matching::text(value)),
            _ => return Err(Refusal::Invalid("it is not about the operation".into())),
        })
    }

    fn source(&self, value: &str, own: &str) -> Result<Identifier, Refusal> {
        Ok(match self {
            Self::Principal => authenticated(matching::identity(value)),
            Self::Namespace => authenticated(matching::namespace(value)),
            Self::ServiceAccount => authenticated(matching::service_account(own, value)),
            Self::TrustDomain => authenticated(matching::trust_domain(value)),
            Self::RequestPrincipal => request_principal(value),
            Self::SourceIp => Identifier::DirectRemoteIp(range(value)?),
            Self::RemoteIp => Identifier::RemoteIp(range(value)?),
            Self::Header(name) => Identifier::Header(matching::header(name, value)),
            Self::InlineHeader(name) => Identifier::Header(matching::inline_header(name, value)),
            _ => return Err(Refusal::Invalid("it is not about the source".into())),
        })
    }
}

fn rule(rule: Rule) -> Permission {
    Permission { rule: Some(rule) }
}

fn id(identifier: Identifier) -> Principal {
    Principal { identifier: Some(identifier) }
}

fn authenticated(name: StringMatcher) -> Identifier {
    Identifier::Authenticated(Authenticated { principal_name: Some(name) })
}

fn header_name(name: &str) -> Result<String, Refusal> {
    let good = |c: u8| c.is_ascii_graphic() && !b"()<>@,;\\\"/[]?={}".contains(&c);
    match name.bytes().all(good) {
        true => Ok(name.to_owned()),
        false => Err(Refusal::Invalid(format!("{name:?} is no name of a header"))),
    }
}

fn port(value: &str) -> Result<u32, Refusal> {
    let port = value.parse::<u16>().map(u32::from);
    port.map_err(|_| Refusal::Invalid(format!("{value:?} is no port")))
}

fn range(value: &str) -> Result<CidrRange, Refusal> {
    wire::cidr(value).ok_or_else(|| Refusal::Invalid(format!("{value:?} is no address or range")))
}

fn path(value: &str) -> Result<Rule, Refusal> {
    if !value.contains("{*}") && !value.contains("{**}") {
        let path = path_matcher::Rule::Path(matching::text(value));
        return Ok(Rule::UrlPath(PathMatcher { rule: Some(path) }));
    }
    if !is_template(value) {
        return Err(Refusal::Invalid(format!(
            "{value:?} is no path template: {{*}} and {{**}} stand for whole segments, {{**}} once and last"
        )));
    }
    let config =
        UriTemplateMatchConfig { path_template: value.replace("{*}", "*").replace("{**}", "**") };
    Ok(Rule::UriTemplate(TypedExtensionConfig {
        name: "uri-template".into(),
        typed_config: Some(pack(&config)),
    }))
}

/// What Envoy takes for a template, so that one policy does not make it refuse the listener.
fn is_template(path: &str) -> bool {
    let Some(rest) = path.strip_prefix('/') else { return false };
    let mut rest_seen = false;
    rest.split('/').all(|segment| match segment {
        "{*}" => !rest_seen,
        "{**}" => !std::mem::replace(&mut rest_seen, true),
        literal => {
            let good = |c: u8| c.is_ascii_alphanumeric() || b"-._~%!$&'()+,;:@=".contains(&c);
            !literal.is_empty() && literal.bytes().all(good)
        }
    })
}

/// `issuer/subject`; the issuer may have slashes of its own.
fn request_principal(value: &str) -> Identifier {
    let split = value.rsplit_once('/');
    let issuer = split.map_or(value, |(issuer, _)| issuer);
    let subject = split.map_or("", |(_, subject)| subject);
    let or_any = |text: &str, how: fn(&str) -> StringMatcher| match text {
        "" => matching::any(),
        text => how(text),
    };
    let (issuer, subject) = if value == "*" {
        (matching::any(), matching::any())
    } else if let Some(rest) = value.strip_prefix('*') {
        match split {
            Some(_) => {
                let issuer = issuer.strip_prefix('*').unwrap_or_default();
                (or_any(issuer, matching::suffix), matching::exact(subject))
            }
            None => (matching::any(), matching::suffix(rest)),
        }
    } else if let Some(rest) = value.strip_suffix('*') {
        match split {
            Some(_) => {
                let subject = subject.strip_suffix('*').unwrap_or_default();
                (matching::exact(issuer), or_any(subject, matching::prefix))
            }
            None => (matching::prefix(rest), matching::any()),
        }
    } else {
        (matching::exact(issuer), matching::exact(subject))
    };
    let ids = [("iss", issuer), ("sub", subject)]
        .map(|(name, text)| id(Identifier::SourcedMetadata(token(name, text))));
    Identifier::AndIds(principal::Set { ids: ids.into() })
}

fn token(name: &str, text: StringMatcher) -> SourcedMetadata {
    matching::dynamic(JWT, &[PAYLOAD, name], matching::value(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_conditions_are_read() {
        assert_eq!(Attribute::parse("source.ip"), Ok(Attribute::SourceIp));
        assert_eq!(Attribute::parse("request.headers[X-a]"), Ok(Attribute::Header("X-a".into())));
        assert_eq!(
            Attribute::parse("request.auth.claims[a][b]"),
            Ok(Attribute::Claim(vec!["a".into(), "b".into()]))
        );
        assert_eq!(
            Attribute::parse("experimental.envoy.filters.a.b[c]"),
            Ok(Attribute::Filter("envoy.filters.a.b".into(), "c".into()))
        );
        for bad in [
            "",
            "a",
            "source.what",
            "request.headers",
            "request.headers[]",
            "request.headers[a b]",
            "request.headers[a\n]",
            "request.auth.claims[a][]",
            "request.auth.claims[a]b]",
            "experimental.other[c]",
        ] {
            assert!(matches!(Attribute::parse(bad), Err(Refusal::Invalid(_))), "{bad}");
        }
    }

    #[test]
    fn templates_that_envoy_would_refuse_are_refused_here() {
        for good in ["/a/{*}", "/{**}/b", "/{*}/{**}", "/{*}", "/a/{*}/b"] {
            assert!(is_template(good), "{good}");
        }
        for bad in
            ["{*}", "/a{*}", "/{**}/{*}", "/{**}/{**}", "//{*}", "/{*}/", "/a b/{*}", "/{*}/*"]
        {
            assert!(!is_template(bad), "{bad}");
        }
    }
}
