//! A connection and a request as a proxy sees them, and headers against Envoy's matchers.

use std::net::IpAddr;

use ironsail_proto::envoy::config::route::v3::{
    HeaderMatcher, QueryParameterMatcher, header_matcher::HeaderMatchSpecifier,
    query_parameter_matcher::QueryParameterMatchSpecifier,
};
use serde_json::Value;

use super::{Truth, not, text};

/// What is on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Raw,
    Tls { sni: String, alpn: Vec<String> },
}

/// A connection as it reaches a listener.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// Unknown for a name that nobody here can look up.
    pub(crate) destination: Option<IpAddr>,
    pub(crate) port: u16,
    pub(crate) source: Option<IpAddr>,
    pub(crate) transport: Transport,
    /// What the HTTP inspector would find in plain text: `http/1.1` or `h2c`.
    pub(crate) plain: Option<&'static str>,
    /// The identity that the peer has proven; known once TLS is ended.
    pub(crate) peer: Option<String>,
}

impl Connection {
    pub(crate) fn sni(&self) -> &str {
        match &self.transport {
            Transport::Raw => "",
            Transport::Tls { sni, .. } => sni,
        }
    }
}

/// A request on a connection.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) scheme: String,
    pub(crate) authority: String,
    /// With its query.
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    /// What the tokens say that were found good.
    pub(crate) claims: Option<Value>,
}

impl Request {
    pub(crate) fn path_only(&self) -> &str {
        self.path.split('?').next().unwrap_or_default()
    }

    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        let (_, query) = self.path.split_once('?')?;
        let mut pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// All values of a header, with commas between them.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let name = name.to_ascii_lowercase();
        match name.as_str() {
            ":method" => return Some(self.method.clone()),
            ":path" => return Some(self.path.clone()),
            ":authority" | "host" => return Some(self.authority.clone()),
            ":scheme" => return Some(self.scheme.clone()),
            _ => {}
        }
        let values: Vec<&str> =
            self.headers.iter().filter(|(n, _)| *n == name).map(|(_, v)| v.as_str()).collect();
        (!values.is_empty()).then(|| values.join(","))
    }

    pub(crate) fn has(&self, matcher: &HeaderMatcher) -> Truth {
        use HeaderMatchSpecifier as How;
        let found = self.header(&matcher.name);
        let missing_is_empty = matcher.treat_missing_header_as_empty;
        let value = match (&found, missing_is_empty) {
            (Some(value), _) => Some(value.as_str()),
            (None, true) => Some(""),
            (None, false) => None,
        };
        let how = matcher.header_match_specifier.as_ref();
        let fits = match (how, value) {
            (None, _) => Some(found.is_some()),
            (Some(How::PresentMatch(wanted)), _) => {
                Some((found.is_some() || missing_is_empty) == *wanted)
            }
            // Of what is not there nothing can be said, not even the contrary.
            (Some(_), None) => return Some(false),
            (Some(How::StringMatch(matcher)), Some(value)) => text::string(matcher, value),
            (Some(How::RangeMatch(range)), Some(value)) => {
                let number = value.parse::<i64>();
                Some(number.is_ok_and(|n| (range.start..range.end).contains(&n)))
            }
            (Some(_), Some(_)) => None,
        };
        if matcher.invert_match { not(fits) } else { fits }
    }

    pub(crate) fn has_parameter(&self, matcher: &QueryParameterMatcher) -> Truth {
        let found = self.query(&matcher.name);
        match &matcher.query_parameter_match_specifier {
            None => Some(found.is_some()),
            Some(QueryParameterMatchSpecifier::PresentMatch(wanted)) => {
                Some(found.is_some() == *wanted)
            }
            Some(QueryParameterMatchSpecifier::StringMatch(matcher)) => match found {
                Some(value) => text::string(matcher, value),
                None => Some(false),
            },
        }
    }
}

#[cfg(test)]
pub(crate) fn sample(path: &str, headers: &[(&str, &str)]) -> Request {
    Request {
        method: "GET".into(),
        scheme: "http".into(),
        authority: "reviews:9080".into(),
        path: path.into(),
        headers: headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
        claims: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ironsail_proto::from_json;
    use serde_json::json;

    #[test]
    fn headers_match_as_envoy_matches_them() {
        let request = sample("/a?x=1&y", &[("a", "1"), ("a", "2"), ("n", "5")]);
        for (matcher, wanted) in [
            (json!({"name": "A", "string_match": {"exact": "1,2"}}), true),
            (json!({"name": "a", "present_match": true}), true),
            (json!({"name": "b", "present_match": true}), false),
            (json!({"name": "b", "present_match": false}), true),
            (json!({"name": "b", "present_match": true, "invert_match": true}), true),
            (json!({"name": "a", "string_match": {"exact": "x"}, "invert_match": true}), true),
            // Without the header, an inverted match of its value does not hold.
            (json!({"name": "b", "string_match": {"exact": "x"}, "invert_match": true}), false),
            (
                json!({"name": "b", "string_match": {"exact": "x"}, "invert_match": true,
                "treat_missing_header_as_empty": true}),
                true,
            ),
            (json!({"name": "n", "range_match": {"start": 1, "end": 5}}), false),
            (json!({"name": "n", "range_match": {"start": 5, "end": 6}}), true),
            (json!({"name": ":method", "string_match": {"exact": "GET"}}), true),
            (json!({"name": ":authority", "string_match": {"prefix": "reviews"}}), true),
        ] {
            let parsed: HeaderMatcher = from_json(&matcher).unwrap();
            assert_eq!(request.has(&parsed), Some(wanted), "{matcher}");
        }
        assert_eq!(
            (request.query("x"), request.query("y"), request.query("z")),
            (Some("1"), Some(""), None)
        );
    }
}
