//! When a request is tried again.

use ironsail_api::istio::networking::HttpRetry;
use ironsail_proto::envoy::config::route::v3::{
    RetryPolicy,
    retry_policy::{RetryBackOff, RetryPriority, retry_priority},
};
use ironsail_proto::envoy::extensions::retry::priority::previous_priorities::v3::PreviousPrioritiesConfig;
use ironsail_proto::pack;

use crate::filter::wire;
use crate::route::part;

/// The policy of a route. `hashed`: the same request must reach the same host, so another one is not
/// preferred. None: no retries at all.
pub(crate) fn policy(own: Option<&HttpRetry>, hashed: bool) -> Option<RetryPolicy> {
    let mut out = part::retry();
    if hashed {
        out.retry_host_predicate.clear();
    }
    let Some(own) = own else { return Some(out) };
    let attempts = u32::try_from(own.attempts).ok().filter(|attempts| *attempts > 0)?;
    out.num_retries = wire::number(attempts);
    if !own.retry_on.is_empty() {
        (out.retry_on, out.retriable_status_codes) = reasons(&own.retry_on);
    }
    out.per_try_timeout = own.per_try_timeout.and_then(wire::span);
    if let Some(ignore) = own.retry_ignore_previous_hosts {
        out.retry_host_predicate = if ignore { vec![part::previous_hosts()] } else { Vec::new() };
    }
    if own.retry_remote_localities == Some(true) {
        let config = PreviousPrioritiesConfig { update_frequency: 2 };
        out.retry_priority = Some(RetryPriority {
            name: "envoy.retry_priorities.previous_priorities".into(),
            config_type: Some(retry_priority::ConfigType::TypedConfig(pack(&config))),
        });
    }
    out.retry_back_off = own
        .backoff
        .filter(|backoff| !backoff.is_zero())
        .map(|backoff| RetryBackOff { base_interval: wire::span(backoff), ..Default::default() });
    Some(out)
}

/// Reasons and statuses, which users write in one list.
fn reasons(text: &str) -> (String, Vec<u32>) {
    let mut codes = Vec::new();
    let mut names = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        match part.parse::<u32>() {
            Ok(code) if (100..600).contains(&code) => codes.push(code),
            _ => names.push(part),
        }
    }
    if !codes.is_empty() && !names.contains(&"retriable-status-codes") {
        names.push("retriable-status-codes");
    }
    (names.join(","), codes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_and_reasons_are_told_apart() {
        assert_eq!(
            reasons("503, gateway-error"),
            ("gateway-error,retriable-status-codes".into(), vec![503])
        );
        assert_eq!(reasons("5xx,reset"), ("5xx,reset".into(), vec![]));
    }

    #[test]
    fn no_attempts_means_no_retries() {
        assert!(policy(Some(&HttpRetry::default()), false).is_none());
        assert_eq!(policy(None, false).unwrap().num_retries, wire::number(2));
        assert!(policy(None, true).unwrap().retry_host_predicate.is_empty());
    }
}
