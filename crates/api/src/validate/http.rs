//! What requests are made of: header names and values, methods, statuses.

use super::check::Check;
use super::name::head;
use crate::istio::networking::{HeaderOperations, Headers, StringMatch};

/// `@request.auth.claims.name` or `@request.auth.claims[name]`: routing by a claim of a token.
pub(super) fn is_claim(header: &str) -> bool {
    let rest = header.to_ascii_lowercase();
    rest.strip_prefix("@request.auth.claims")
        .is_some_and(|rest| rest.len() > 1 && rest.starts_with(['.', '[']))
}

pub(super) fn header_name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("header name cannot be empty".to_owned());
    }
    if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)) {
        Ok(())
    } else {
        Err(format!("header name {} is not a valid header name", head(name)))
    }
}

fn is_authority(name: &str) -> bool {
    name.eq_ignore_ascii_case(":authority") || name.eq_ignore_ascii_case("host")
}

fn changed_name(name: &str, authority_allowed: bool) -> Result<(), String> {
    if name.is_empty() {
        Err("header name cannot be empty".to_owned())
    } else if authority_allowed && is_authority(name) {
        Ok(())
    } else if name.eq_ignore_ascii_case("host") {
        Err(format!("invalid header {name:?}: cannot set Host header"))
    } else if name.starts_with(':') {
        Err(format!("invalid header {:?}: header cannot have \":\" prefix", head(name)))
    } else {
        Ok(())
    }
}

/// A value with Envoy's `%COMMAND%`s; `%%` is a percent sign.
fn header_value(value: &str) -> Result<(), String> {
    if value.chars().any(|c| (c < ' ' && c != '\t') || c == '\u{7f}') {
        return Err(format!("header value configuration {:?} is invalid", head(value)));
    }
    let mut rest = value;
    while let Some((_, after)) = rest.split_once('%') {
        if let Some(after) = after.strip_prefix('%') {
            rest = after;
            continue;
        }
        let command =
            after.find(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'));
        let command = command.filter(|length| *length > 0).map(|length| after.split_at(length));
        let tail = match command {
            // Arguments may hold a percent sign of their own.
            Some((_, tail)) if tail.starts_with('(') => {
                tail.split_once(')').map(|(_, tail)| tail).and_then(|tail| {
                    let tail = tail.strip_prefix(':').map_or(tail, |digits| {
                        digits.trim_start_matches(|c: char| c.is_ascii_digit())
                    });
                    tail.strip_prefix('%')
                })
            }
            Some((_, tail)) => tail.strip_prefix('%'),
            None => None,
        };
        let unfinished = || {
            format!(
                "header value configuration: un-terminated or invalid variable expression in {:?}",
                head(value)
            )
        };
        rest = tail.ok_or_else(unfinished)?;
    }
    Ok(())
}

/// Changes of headers in both directions.
pub(super) fn headers(check: &mut Check<'_>, headers: &Headers) {
    check.some("request", headers.request.as_ref(), |check, changes| {
        operations(check, changes, true);
    });
    check.some("response", headers.response.as_ref(), |check, changes| {
        operations(check, changes, false);
    });
}

fn operations(check: &mut Check<'_>, changes: &HeaderOperations, request: bool) {
    for (field, map) in [("add", &changes.add), ("set", &changes.set)] {
        for (name, value) in map {
            check.take_at(field, changed_name(name, request));
            check.take_at(field, header_value(value));
        }
    }
    check.each("remove", &changes.remove, |check, name| check.take(changed_name(name, false)));
}

/// The authority may be set in one place only.
pub(super) fn one_authority(check: &mut Check<'_>, rewrite: &str, headers: Option<&Headers>) {
    let Some(request) = headers.and_then(|headers| headers.request.as_ref()) else { return };
    let changes = request.set.iter().chain(&request.add).filter(|(name, _)| is_authority(name));
    let all: Vec<_> = std::iter::once(rewrite)
        .filter(|text| !text.is_empty())
        .chain(changes.map(|(_, value)| value.as_str()))
        .collect();
    if let [first, second, ..] = all[..] {
        check.error(format!(
            "authority header cannot be set multiple times: have {:?}, attempting to set {:?}",
            head(first),
            head(second)
        ));
    }
}

pub(super) fn method(name: &str) -> Result<(), String> {
    const METHODS: [&str; 9] =
        ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE"];
    if METHODS.contains(&name) {
        Ok(())
    } else {
        Err(format!("{:?} is not a supported HTTP method", head(name)))
    }
}

pub(super) fn status(status: i64) -> Result<(), String> {
    if (200..=600).contains(&status) {
        Ok(())
    } else {
        Err(format!("HTTP status {status} is not in range 200-599"))
    }
}

/// The number of a gRPC status that goes by this name.
#[must_use]
pub fn grpc_code(name: &str) -> Option<u32> {
    const NAMES: [&str; 17] = [
        "OK",
        "CANCELLED",
        "UNNAMES",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    ];
    NAMES.iter().position(|known| *known == name).and_then(|code| u32::try_from(code).ok())
}

pub(super) fn grpc_status(status: &str) -> Result<(), String> {
    match grpc_code(status) {
        Some(_) => Ok(()),
        None => {
            let shown = head(status);
            Err(format!("gRPC status {shown:?} is not supported, use for example 'NOT_FOUND'"))
        }
    }
}

/// A condition on a text; `place` names it in the message.
pub(super) fn string_match(check: &mut Check<'_>, place: &str, condition: &StringMatch) {
    match condition {
        StringMatch::Regex(expression) => {
            let result = super::check_regex(expression);
            check.take(result.map_err(|reason| format!("{place:?}: {reason}")));
        }
        StringMatch::Prefix(prefix) => check.require(!prefix.is_empty(), || {
            format!("{place:?}: prefix string match should not be empty")
        }),
        StringMatch::Exact(_) | StringMatch::Unset => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_value_may_hold_commands_and_percent_signs() {
        for good in ["a", "%HOSTNAME%", "100%%", "a %REQ(X-A?B):12% b", "%START_TIME(%s.%3f)%", ""]
        {
            assert_eq!(header_value(good), Ok(()), "{good}");
        }
        for bad in ["abc%123", "%START_TIME%%", "%REQ(a%", "a\u{0}"] {
            assert!(header_value(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_claim_needs_a_name() {
        assert!(is_claim("@request.auth.claims.sub"));
        assert!(is_claim("@Request.Auth.Claims[sub]"));
        assert!(!is_claim("@request.auth.claims"));
        assert!(!is_claim("x-claims"));
    }
}
