//! Who calls whom, and the numbers of it: what the labels of Istio's metrics say, added up.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::exposition::{Sample, samples};

pub(crate) const REQUESTS: &str = "istio_requests_total";
pub(crate) const DURATION_BUCKET: &str = "istio_request_duration_milliseconds_bucket";
pub(crate) const SENT: &str = "istio_tcp_sent_bytes_total";
pub(crate) const RECEIVED: &str = "istio_tcp_received_bytes_total";

/// More flows of one proxy, or of one moment, are not kept.
pub(crate) const MOST_FLOWS: usize = 20_000;

/// One end.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Party {
    pub(crate) namespace: String,
    pub(crate) workload: String,
    pub(crate) app: String,
    pub(crate) version: String,
}

/// What is told apart on the map.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Flow {
    pub(crate) source: Party,
    pub(crate) destination: Party,
    pub(crate) host: String,
    pub(crate) service: String,
    pub(crate) service_namespace: String,
    /// `http`, `grpc` or `tcp`
    pub(crate) protocol: String,
    /// Told by the client's proxy.
    pub(crate) by_source: bool,
}

/// Numbers of a flow: totals of a proxy, or what came since, depending on who has them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tally {
    pub(crate) requests: f64,
    /// The server's fault, or nobody answered.
    pub(crate) errors: f64,
    /// Refused as the client's fault.
    pub(crate) refused: f64,
    pub(crate) sent: f64,
    pub(crate) received: f64,
    pub(crate) secure: f64,
    pub(crate) plain: f64,
    /// Cumulative, by upper end in milliseconds, in order.
    pub(crate) buckets: Vec<(f64, f64)>,
    /// Of failures, by Envoy's flags.
    pub(crate) flags: BTreeMap<String, f64>,
}

pub(crate) type Flows = FxHashMap<Flow, Tally>;

impl Flow {
    pub(crate) fn of(label: impl Fn(&str) -> String) -> Self {
        let party = |side: &str| Party {
            namespace: label(&format!("{side}_workload_namespace")),
            workload: label(&format!("{side}_workload")),
            app: label(&format!("{side}_canonical_service")),
            version: label(&format!("{side}_canonical_revision")),
        };
        Self {
            source: party("source"),
            destination: party("destination"),
            host: label("destination_service"),
            service: label("destination_service_name"),
            service_namespace: label("destination_service_namespace"),
            protocol: label("request_protocol"),
            by_source: label("reporter") == "source",
        }
    }
}

/// Whether the server is to blame.
fn is_error(code: &str, grpc: &str) -> bool {
    code == "0" || code.starts_with('5') || matches!(grpc, "2" | "4" | "13" | "14" | "15")
}

impl Tally {
    /// Enters one number of the metric `name`.
    pub(crate) fn enter<'a>(&mut self, name: &str, value: f64, label: impl Fn(&str) -> &'a str) {
        if !value.is_finite() || value < 0.0 {
            return;
        }
        match name {
            REQUESTS => {
                self.requests += value;
                let code = label("response_code");
                if is_error(code, label("grpc_response_status")) {
                    self.errors += value;
                } else if code.starts_with('4') {
                    self.refused += value;
                }
                let flags = label("response_flags");
                if !matches!(flags, "" | "-") && self.flags.len() < 32 {
                    *self.flags.entry(flags.to_owned()).or_default() += value;
                }
                self.enter_security(label("connection_security_policy"), value);
            }
            DURATION_BUCKET => {
                if let Ok(end) = label("le").parse::<f64>() {
                    self.enter_bucket(end, value);
                }
            }
            SENT => {
                self.sent += value;
                // A connection without a byte is told of as well.
                self.enter_security(label("connection_security_policy"), value + 1.0);
            }
            RECEIVED => self.received += value,
            _ => {}
        }
    }

    fn enter_security(&mut self, policy: &str, value: f64) {
        match policy {
            "mutual_tls" => self.secure += value,
            "none" => self.plain += value,
            _ => {}
        }
    }

    fn enter_bucket(&mut self, end: f64, value: f64) {
        match self.buckets.binary_search_by(|(known, _)| known.total_cmp(&end)) {
            Ok(at) => self.buckets[at].1 += value,
            Err(at) if self.buckets.len() < 64 => self.buckets.insert(at, (end, value)),
            Err(_) => {}
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.refused += other.refused;
        self.sent += other.sent;
        self.received += other.received;
        self.secure += other.secure;
        self.plain += other.plain;
        for (end, value) in &other.buckets {
            self.enter_bucket(*end, *value);
        }
        for (flags, value) in &other.flags {
            *self.flags.entry(flags.clone()).or_default() += value;
        }
    }

    /// What came since `before`. A proxy that started anew begins at nothing.
    pub(crate) fn since(&self, before: &Self) -> Self {
        if self.requests < before.requests || self.sent < before.sent {
            return self.clone();
        }
        let less = |now: f64, before: f64| (now - before).max(0.0);
        let bucket = |end: f64| {
            let found = before.buckets.iter().find(|(known, _)| known.total_cmp(&end).is_eq());
            found.map_or(0.0, |(_, value)| *value)
        };
        let flags = self.flags.iter().filter_map(|(flags, value)| {
            let new = value - before.flags.get(flags).unwrap_or(&0.0);
            (new > 0.0).then(|| (flags.clone(), new))
        });
        Self {
            requests: less(self.requests, before.requests),
            errors: less(self.errors, before.errors),
            refused: less(self.refused, before.refused),
            sent: less(self.sent, before.sent),
            received: less(self.received, before.received),
            secure: less(self.secure, before.secure),
            plain: less(self.plain, before.plain),
            buckets: self.buckets.iter().map(|(e, v)| (*e, less(*v, bucket(*e)))).collect(),
            flags: flags.collect(),
        }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        self.requests == 0.0 && self.sent == 0.0 && self.received == 0.0
    }

    /// The milliseconds within which a part of the requests was answered.
    pub(crate) fn quantile(&self, part: f64) -> Option<f64> {
        let all = self.buckets.last().map(|(_, count)| *count).filter(|count| *count > 0.0)?;
        let rank = all * part;
        let at = self.buckets.iter().position(|(_, count)| *count >= rank)?;
        let (end, count) = self.buckets[at];
        let (start, before) = at.checked_sub(1).map_or((0.0, 0.0), |at| self.buckets[at]);
        match end.is_finite() && count > before {
            true => Some(start + (end - start) * (rank - before) / (count - before)),
            false => Some(start),
        }
    }
}

/// The totals that a proxy shows.
pub(crate) fn totals(text: &str) -> Flows {
    let wanted = |name: &str| matches!(name, REQUESTS | DURATION_BUCKET | SENT | RECEIVED);
    let mut flows = Flows::default();
    for sample in samples(text, wanted) {
        enter(&mut flows, &sample);
    }
    flows
}

fn enter(flows: &mut Flows, sample: &Sample<'_>) {
    let flow = Flow::of(|name| sample.label(name).to_owned());
    if flows.len() >= MOST_FLOWS && !flows.contains_key(&flow) {
        return;
    }
    flows.entry(flow).or_default().enter(sample.name, sample.value, |name| sample.label(name));
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
istio_requests_total{reporter=\"source\",source_workload=\"a\",destination_workload=\"b\",response_code=\"200\",response_flags=\"-\",request_protocol=\"http\",connection_security_policy=\"mutual_tls\"} 8
istio_requests_total{reporter=\"source\",source_workload=\"a\",destination_workload=\"b\",response_code=\"503\",response_flags=\"UF\",request_protocol=\"http\",connection_security_policy=\"none\"} 2
istio_request_duration_milliseconds_bucket{reporter=\"source\",source_workload=\"a\",destination_workload=\"b\",request_protocol=\"http\",le=\"10\"} 5
istio_request_duration_milliseconds_bucket{reporter=\"source\",source_workload=\"a\",destination_workload=\"b\",request_protocol=\"http\",le=\"20\"} 9
istio_request_duration_milliseconds_bucket{reporter=\"source\",source_workload=\"a\",destination_workload=\"b\",request_protocol=\"http\",le=\"+Inf\"} 10
";

    #[test]
    fn series_of_one_flow_are_added_up() {
        let flows = totals(TEXT);
        assert_eq!(flows.len(), 1);
        let (flow, tally) = flows.iter().next().unwrap();
        assert!(flow.by_source && flow.source.workload == "a" && flow.destination.workload == "b");
        assert_eq!(
            (tally.requests, tally.errors, tally.secure, tally.plain),
            (10.0, 2.0, 8.0, 2.0)
        );
        assert_eq!(tally.flags["UF"], 2.0);
        assert_eq!(tally.quantile(0.5), Some(10.0));
        assert_eq!(tally.quantile(0.9), Some(20.0));
        assert_eq!(tally.quantile(0.99), Some(20.0), "the last bucket has no end");
    }

    #[test]
    fn what_came_since_is_the_difference_and_a_new_start_counts_whole() {
        let flows = totals(TEXT);
        let before = flows.values().next().unwrap();
        let mut now = before.clone();
        now.requests += 5.0;
        now.buckets[0].1 += 5.0;
        let since = now.since(before);
        assert_eq!((since.requests, since.errors, since.buckets[0].1), (5.0, 0.0, 5.0));
        let anew = Tally { requests: 3.0, ..Tally::default() };
        assert_eq!(anew.since(before).requests, 3.0);
    }
}
