//! What the CA counts, under the names that Istio's dashboards know.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::SystemTime;

use crate::material::Signing;

const LABELS: [&str; 4] = ["CA_NOT_READY", "CSR_ERROR", "TTL_ERROR", "CERT_GEN_ERROR"];

/// Counters of one CA. Reading them is `samples`.
#[derive(Debug, Default)]
pub struct Metrics {
    requests: AtomicU64,
    authentication_failures: AtomicU64,
    parse_failures: AtomicU64,
    identity_failures: AtomicU64,
    sign_failures: [AtomicU64; LABELS.len()],
    issued: AtomicU64,
    reload_failures: AtomicU64,
    /// Seconds since the epoch; zero for "not known".
    root_expiry: AtomicI64,
    chain_expiry: AtomicI64,
}

/// One value to export.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub name: &'static str,
    pub help: &'static str,
    pub kind: SampleKind,
    /// At most one label.
    pub label: Option<(&'static str, &'static str)>,
    pub value: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleKind {
    Counter,
    Gauge,
}

impl Metrics {
    pub(crate) fn count_request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_authentication_failure(&self) {
        self.authentication_failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_issued(&self) {
        self.issued.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_reload_failure(&self) {
        self.reload_failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_sign_failure(&self, error: &crate::sign::Error) {
        use crate::sign::Error;
        match error {
            Error::Request(_) => self.parse_failures.fetch_add(1, Ordering::Relaxed),
            Error::Identity { .. } => self.identity_failures.fetch_add(1, Ordering::Relaxed),
            _ => 0,
        };
        if let Some(at) = LABELS.iter().position(|label| *label == error.label()) {
            self.sign_failures[at].fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn record_expiry(&self, signing: &Signing) {
        let first_root = signing.roots().certificates().first();
        let root = first_root.map_or(0, |root| seconds(root.not_after()));
        let chain = match signing.intermediates().is_empty() {
            true => 0,
            false => seconds(signing.certificate().not_after()),
        };
        self.root_expiry.store(root, Ordering::Relaxed);
        self.chain_expiry.store(chain, Ordering::Relaxed);
    }

    /// Everything, in a fixed order.
    pub fn samples(&self, now: SystemTime) -> Vec<Sample> {
        let counter = |name, help, from: &AtomicU64| Sample {
            name,
            help,
            kind: SampleKind::Counter,
            label: None,
            value: from.load(Ordering::Relaxed) as f64,
        };
        let mut samples = vec![
            counter(
                "citadel_server_csr_count",
                "The number of CSRs received by Citadel server.",
                &self.requests,
            ),
            counter(
                "citadel_server_authentication_failure_count",
                "The number of authentication failures.",
                &self.authentication_failures,
            ),
            counter(
                "citadel_server_csr_parsing_err_count",
                "The number of errors occurred when parsing the CSR.",
                &self.parse_failures,
            ),
            counter(
                "citadel_server_id_extraction_err_count",
                "The number of errors occurred when extracting the ID from CSR.",
                &self.identity_failures,
            ),
            counter(
                "citadel_server_success_cert_issuance_count",
                "The number of certificates issuances that have succeeded.",
                &self.issued,
            ),
            counter(
                "ironsail_ca_reload_failure_count",
                "The number of times that changed CA material could not be used.",
                &self.reload_failures,
            ),
        ];
        for (label, count) in LABELS.into_iter().zip(&self.sign_failures) {
            let name = "citadel_server_csr_sign_err_count";
            let sample =
                counter(name, "The number of errors occurred when signing the CSR.", count);
            samples.push(Sample { label: Some(("error", label)), ..sample });
        }
        self.expiries(now, &mut samples);
        samples
    }

    fn expiries(&self, now: SystemTime, samples: &mut Vec<Sample>) {
        let mut gauge = |name, help, value| {
            samples.push(Sample { name, help, kind: SampleKind::Gauge, label: None, value });
        };
        let left = |at: i64| (at - seconds(now)) as f64;
        let root = self.root_expiry.load(Ordering::Relaxed);
        if root != 0 {
            gauge(
                "citadel_server_root_cert_expiry_timestamp",
                "The unix timestamp, in seconds, when the root cert will expire.",
                root as f64,
            );
            gauge(
                "citadel_server_root_cert_expiry_seconds",
                "The time remaining, in seconds, before the root cert will expire.",
                left(root),
            );
        }
        let chain = self.chain_expiry.load(Ordering::Relaxed);
        if chain != 0 {
            gauge(
                "citadel_server_cert_chain_expiry_timestamp",
                "The unix timestamp, in seconds, when the CA's own cert will expire.",
                chain as f64,
            );
            gauge(
                "citadel_server_cert_chain_expiry_seconds",
                "The time remaining, in seconds, before the CA's own cert will expire.",
                left(chain),
            );
        }
    }
}

fn seconds(at: SystemTime) -> i64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
