//! `outlierDetection`: hosts that fail are left alone for a while.
//!
//! In: the settings. Out: the draft with Envoy's detection; what Istio never asks for stays off.

use ironsail_api::istio::networking::OutlierDetection as Settings;
use ironsail_proto::envoy::config::cluster::v3::OutlierDetection;
use ironsail_proto::envoy::r#type::v3::Percent;
use ironsail_proto::google::protobuf::UInt32Value;

use super::draft::Draft;

pub(crate) fn apply(draft: &mut Draft, settings: &Settings) {
    let number = |value: u32| Some(UInt32Value { value });
    let all_if = |value: u32| number(if value > 0 { 100 } else { 0 });
    let mut out = OutlierDetection { enforcing_success_rate: number(0), ..Default::default() };
    // The older field counted gateway errors and 5xx alike.
    let errors = settings.consecutive_5xx_errors;
    if let Some(errors) = errors {
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
    // Envoy's default of 50 % would send traffic to ejected hosts of small services.
    if settings.min_health_percent >= 0 {
        let value = f64::from(settings.min_health_percent);
        draft.lb().healthy_panic_threshold = Some(Percent { value });
    }
}
