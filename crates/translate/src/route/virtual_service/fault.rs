//! Faults that are put in, and requests of browsers from other origins: both are settings of a filter
//! for one route.

use ironsail_api::grpc_code;
use ironsail_api::istio::networking::{
    AbortError, CorsPolicy as Cors, DelayDuration, HttpFaultInjection, Percent, StringMatch,
    UnmatchedPreflights,
};
use ironsail_proto::envoy::config::core::v3::RuntimeFractionalPercent;
use ironsail_proto::envoy::extensions::filters::common::fault::v3::{
    FaultDelay, fault_delay::FaultDelaySecifier,
};
use ironsail_proto::envoy::extensions::filters::http::cors::v3::CorsPolicy;
use ironsail_proto::envoy::extensions::filters::http::fault::v3::{
    FaultAbort, HttpFault, fault_abort::ErrorType,
};
use ironsail_proto::envoy::r#type::v3::{FractionalPercent, fractional_percent::DenominatorType};

use super::matching;
use crate::filter::wire;

/// A share with four digits behind the point.
pub(super) fn percent(percent: &Percent) -> FractionalPercent {
    let value = (percent.value.clamp(0.0, 100.0) * 10_000.0).round();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at most a million"
    )]
    let numerator = value as u32;
    FractionalPercent { numerator, denominator: DenominatorType::Million.into() }
}

pub(super) fn hundredths(percent: u32) -> FractionalPercent {
    FractionalPercent { numerator: percent.min(100), denominator: DenominatorType::Hundred.into() }
}

pub(super) fn runtime(default_value: FractionalPercent) -> RuntimeFractionalPercent {
    RuntimeFractionalPercent { default_value: Some(default_value), ..Default::default() }
}

/// None if nothing is left of it.
pub(super) fn fault(
    fault: &HttpFaultInjection,
    mut bad: impl FnMut(&str, String),
) -> Option<HttpFault> {
    let delay = fault.delay.as_ref().and_then(|delay| {
        let share = match &delay.percentage {
            Some(share) => percent(share),
            None => hundredths(u32::try_from(delay.percent).unwrap_or_default()),
        };
        match delay.duration {
            DelayDuration::FixedDelay(time) if !time.is_zero() => Some(FaultDelay {
                percentage: Some(share),
                fault_delay_secifier: Some(FaultDelaySecifier::FixedDelay(time.into())),
            }),
            _ => {
                bad("delay", "only a fixed delay longer than nothing is possible".into());
                None
            }
        }
    });
    let abort = fault.abort.as_ref().and_then(|abort| {
        let error = match &abort.error {
            AbortError::HttpStatus(status) if (200..600).contains(status) => {
                ErrorType::HttpStatus(u32::try_from(*status).unwrap_or_default())
            }
            AbortError::GrpcStatus(name) => match grpc_code(name) {
                Some(status) => ErrorType::GrpcStatus(status),
                None => {
                    bad("abort.grpcStatus", format!("{name:?} is no status of gRPC"));
                    return None;
                }
            },
            AbortError::HttpStatus(status) => {
                bad("abort.httpStatus", format!("{status} is not between 200 and 599"));
                return None;
            }
            AbortError::Unset | AbortError::Http2Error(_) => {
                bad("abort", "it needs an httpStatus or a grpcStatus".into());
                return None;
            }
        };
        Some(FaultAbort {
            percentage: abort.percentage.as_ref().map(percent),
            error_type: Some(error),
            ..Default::default()
        })
    });
    (delay.is_some() || abort.is_some()).then(|| HttpFault { delay, abort, ..Default::default() })
}

/// An origin that cannot be matched is left out and told.
pub(super) fn cors(cors: &Cors, mut bad: impl FnMut(&str, String)) -> CorsPolicy {
    let exact;
    let origins = match cors.allow_origins.is_empty() {
        false => &cors.allow_origins,
        true => {
            exact = cors.allow_origin.iter().cloned().map(StringMatch::Exact).collect();
            &exact
        }
    };
    let mut allowed = Vec::new();
    for origin in origins {
        match matching::text(origin, "allowOrigins") {
            Ok(Some(matcher)) => allowed.push(matcher),
            Ok(None) => bad("allowOrigins", "an origin needs a value".into()),
            Err((field, why)) => bad(&field, why),
        }
    }
    CorsPolicy {
        allow_origin_string_match: allowed,
        allow_methods: cors.allow_methods.join(","),
        allow_headers: cors.allow_headers.join(","),
        expose_headers: cors.expose_headers.join(","),
        max_age: cors.max_age.map(|age| age.as_secs().to_string()).unwrap_or_default(),
        allow_credentials: cors.allow_credentials.and_then(wire::flag),
        filter_enabled: Some(runtime(hundredths(100))),
        forward_not_matching_preflights: wire::flag(
            cors.unmatched_preflights != UnmatchedPreflights::Ignore,
        ),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_keep_four_digits() {
        assert_eq!(percent(&Percent { value: 0.1 }).numerator, 1000);
        assert_eq!(percent(&Percent { value: 33.3333 }).numerator, 333_333);
        assert_eq!(percent(&Percent { value: 1e9 }).numerator, 1_000_000);
    }

    #[test]
    fn statuses_of_grpc_go_by_name() {
        assert_eq!(grpc_code("UNAVAILABLE"), Some(14));
        assert_eq!(grpc_code("unavailable"), None);
    }
}
