//! `outlierDetection`: hosts that fail are left alone for a while.
//!
//! In: the settings. Out: the draft with Envoy's detection; what Istio never asks for stays off.

use ironsail_api::istio::networking::OutlierDetection as Settings;
use ironsail_proto::envoy::config::cluster::v3::OutlierDetection;
use ironsail_proto::envoy::config::common::matcher::v3::{
    HttpHeadersMatch, MatchPredicate,
    match_predicate::{MatchSet, Rule},
};
use ironsail_proto::envoy::config::route::v3::{
    HeaderMatcher, header_matcher::HeaderMatchSpecifier,
};
use ironsail_proto::envoy::extensions::upstreams::http::v3::http_protocol_options::OutlierDetection as Errors;
use ironsail_proto::envoy::r#type::matcher::v3::{StringMatcher, string_matcher::MatchPattern};
use ironsail_proto::envoy::r#type::v3::Percent;
use ironsail_proto::google::protobuf::UInt32Value;

use super::draft::Draft;

pub(crate) fn apply(draft: &mut Draft, settings: &Settings) {
    let number = |value: u32| Some(UInt32Value { value });
    let all_if = |value: u32| number(if value > 0 { 100 } else { 0 });
    let mut out = OutlierDetection { enforcing_success_rate: number(0), ..Default::default() };
    if let Some(errors) = settings.consecutive_5xx_errors {
        out.consecutive_5xx = number(errors);
        out.enforcing_consecutive_5xx = all_if(errors);
    }
    if let Some(errors) = settings.consecutive_gateway_errors {
        out.consecutive_gateway_failure = number(errors);
        out.enforcing_consecutive_gateway_failure = all_if(errors);
    }
    out.interval = settings.interval.map(Into::into);
    out.base_ejection_time = settings.base_ejection_time.map(Into::into);
    if let Ok(percent @ 1..) = u32::try_from(settings.max_ejection_percent) {
        out.max_ejection_percent = number(percent);
    }
    if settings.split_external_local_origin_errors {
        out.split_external_local_origin_errors = true;
        if let Some(errors @ 1..) = settings.consecutive_local_origin_failures {
            out.consecutive_local_origin_failure = number(errors);
            out.enforcing_consecutive_local_origin_failure = number(100);
        }
        out.enforcing_local_origin_success_rate = number(0);
    }
    draft.cluster.outlier_detection = Some(out);
    count_codes(draft, &settings.outlier_detection_http_error_codes);
    // Envoy's default of 50 % would send traffic to ejected hosts of small services.
    if settings.min_health_percent >= 0 {
        let value = f64::from(settings.min_health_percent);
        draft.lb().healthy_panic_threshold = Some(Percent { value });
    }
}

/// Which answers count as errors, instead of all 5xx.
fn count_codes(draft: &mut Draft, codes: &[u32]) {
    let rule = |code: &u32| {
        let exact = StringMatcher {
            match_pattern: Some(MatchPattern::Exact(code.to_string())),
            ..Default::default()
        };
        let status = HeaderMatcher {
            name: ":status".into(),
            header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(exact)),
            ..Default::default()
        };
        let headers = HttpHeadersMatch { headers: vec![status] };
        MatchPredicate { rule: Some(Rule::HttpResponseHeadersMatch(headers)) }
    };
    let mut rules: Vec<MatchPredicate> = codes.iter().map(rule).collect();
    // Envoy wants at least two for a choice.
    let matcher = match rules.len() {
        0 => return,
        1 => rules.pop(),
        _ => Some(MatchPredicate { rule: Some(Rule::OrMatch(MatchSet { rules })) }),
    };
    draft.http().outlier_detection = Some(Errors { error_matcher: matcher });
}
