//! How long the workload's certificate lasts, as a metric: asked for at every scrape.

use std::time::SystemTime;

use ironsail_daemon::metrics::client::collector::Collector;
use ironsail_daemon::metrics::client::encoding::{DescriptorEncoder, EncodeMetric};
use ironsail_daemon::metrics::client::metrics::MetricType;
use ironsail_daemon::metrics::client::metrics::gauge::ConstGauge;
use ironsail_sys::clock::Clock;

use super::secret::Newest;

const NAME: &str = "istio_agent_cert_expiry_seconds";
const HELP: &str = "The time remaining, in seconds, before the certificate chain will expire. \
    A negative value indicates the cert is expired";

#[derive(Debug)]
pub(crate) struct Expiry {
    pub(crate) newest: Newest,
    pub(crate) clock: Clock,
}

/// Seconds from now; negative for what is over.
fn left(end: SystemTime, now: SystemTime) -> f64 {
    match end.duration_since(now) {
        Ok(left) => left.as_secs_f64(),
        Err(over) => -over.duration().as_secs_f64(),
    }
}

impl Collector for Expiry {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let Some(end) = self.newest.borrow().as_ref().map(|b| b.credential.leaf().not_after())
        else {
            return Ok(());
        };
        let mut metric = encoder.encode_descriptor(NAME, HELP, None, MetricType::Gauge)?;
        let labels = [("resource_name", "default")];
        ConstGauge::new(left(end, self.clock.now())).encode(metric.encode_family(&labels)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_is_over_is_negative() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
        assert_eq!(left(now + Duration::from_secs(5), now), 5.0);
        assert_eq!(left(now - Duration::from_secs(5), now), -5.0);
    }
}
