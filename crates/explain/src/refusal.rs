//! What flags and details of an access log mean, and which object they name.
//!
//! In: a line; out: words, and the object where the line itself names one.

use serde::Serialize;

use crate::answer::Origin;
use crate::log::Line;
use crate::object::from_rule;

/// What a line tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Meaning {
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Origin>,
}

/// Details by how they begin, and their meaning; the first that fits counts.
const DETAILS: [(&str, &str); 20] = [
    ("rbac_access_denied_matched_policy[none]", "policies that allow exist, and none of them fits"),
    ("rbac_access_denied", "a policy denies it"),
    ("jwt_authn_access_denied", "its token was not taken"),
    ("ext_authz_denied", "an external authorizer said no"),
    ("ext_authz_error", "an external authorizer could not be asked"),
    ("fault_filter_abort", "a fault was put in"),
    ("local_rate_limited", "a local rate limit was reached"),
    ("request_rate_limited", "a global rate limit was reached"),
    ("route_not_found", "no route fits"),
    (
        "cluster_not_found",
        "the route leads to a cluster that does not exist: a host or subset is missing",
    ),
    ("no_healthy_upstream", "no endpoint is ready, or all are ejected"),
    ("filter_chain_not_found", "no chain takes the connection: plaintext where only mTLS is taken"),
    (
        "direct_response",
        "a route answers itself: a redirect, an answer of one's own, or blocked egress",
    ),
    ("overflow", "a limit of connections or requests was reached"),
    ("response_timeout", "no answer within the route's timeout"),
    ("upstream_response_timeout", "no answer within the route's timeout"),
    (
        "upstream_reset_before_response_started{remote_connection_failure",
        "the server could not be connected to, or the TLS handshake failed",
    ),
    (
        "upstream_reset_before_response_started{connection_termination",
        "the server closed the connection",
    ),
    ("upstream_reset", "the server broke the exchange"),
    ("via_upstream", "the application answered"),
];

/// Flags, for connections and for what has no details.
const FLAGS: [(&str, &str); 14] = [
    ("UH", "no endpoint is ready, or the destination is blocked"),
    ("NC", "the cluster does not exist"),
    ("NR", "no route or chain fits"),
    ("UF", "the server could not be connected to"),
    ("UC", "the server closed the connection"),
    ("UO", "a limit of connections or requests was reached"),
    ("UT", "no answer within the route's timeout"),
    ("FI", "a fault was put in"),
    ("DI", "a delay was put in"),
    ("RL", "a rate limit was reached"),
    ("UAEX", "an authorizer or a token's check said no"),
    ("DC", "the client went away"),
    ("URX", "retries or attempts to connect were used up"),
    ("DPE", "the client did not speak the protocol"),
];

/// What a line means.
pub fn meaning(line: &Line) -> Meaning {
    let details = [line.details.as_str(), &line.termination];
    let known = details.iter().filter(|one| !one.is_empty()).find_map(|one| {
        DETAILS.iter().find(|(begin, _)| one.starts_with(begin)).map(|(_, text)| *text)
    });
    let flag = || {
        let mut all = line.flags.split(',');
        all.find_map(|flag| FLAGS.iter().find(|(own, _)| *own == flag)).map(|(_, text)| *text)
    };
    let text = known.or_else(flag).unwrap_or("nothing is known of it");
    let mut text = text.to_owned();
    if !line.transport_failure.is_empty() {
        text.push_str(&format!(" ({})", line.transport_failure));
    }
    let from = details.iter().find_map(|one| from_rule(one));
    Meaning { text, from }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(flags: &str, details: &str) -> Meaning {
        meaning(&Line { flags: flags.into(), details: details.into(), ..Default::default() })
    }

    #[test]
    fn details_name_the_rule_that_denies() {
        let found = of("", "rbac_access_denied_matched_policy[ns[foo]-policy[p]-rule[2]]");
        assert_eq!(found.text, "a policy denies it");
        assert_eq!(found.from.unwrap().to_string(), "AuthorizationPolicy foo/p spec.rules[2]");
        assert_eq!(of("", "rbac_access_denied_matched_policy[none]").from, None);
    }

    #[test]
    fn flags_speak_where_there_are_no_details() {
        assert_eq!(of("UF,URX", "").text, "the server could not be connected to");
        assert_eq!(of("", "").text, "nothing is known of it");
        let broken = Line {
            transport_failure: "TLS_error".into(),
            flags: "UF".into(),
            ..Default::default()
        };
        assert!(meaning(&broken).text.ends_with("(TLS_error)"));
    }
}
