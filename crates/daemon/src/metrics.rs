//! Metrics in the text that Prometheus reads, under the names that Istio's dashboards know.
//!
//! In: families that the program registers once and holds handles of; out: one text a scrape. A
//! counter here has the name it is given: Istio's counters mostly lack the `_total` that the format
//! would add.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::{Metric, Registry};

pub use prometheus_client as client;

/// The content type of what [`Metrics::text`] returns.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All metrics of a program. Cheap to clone.
#[derive(Clone, Default)]
pub struct Metrics(Arc<Mutex<Registry>>);

impl Metrics {
    /// Metrics of the process itself come along.
    pub fn with_process() -> Self {
        let metrics = Self::default();
        metrics.0.lock().register_collector(Box::new(Process));
        metrics
    }

    /// Registers a metric and returns it.
    pub fn register<M: Metric + Clone>(&self, name: &str, help: &str, metric: M) -> M {
        // The format puts a full stop behind the help.
        self.0.lock().register(name, help.trim_end_matches('.'), metric.clone());
        metric
    }

    /// Registers something that is asked for its metrics at every scrape.
    pub fn collect(&self, collector: impl Collector + 'static) {
        self.0.lock().register_collector(Box::new(collector));
    }

    /// What Prometheus gets.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let written = prometheus_client::encoding::text::encode(&mut text, &self.0.lock());
        debug_assert!(written.is_ok(), "a string takes any text");
        // The end mark belongs to OpenMetrics, whose counters have other names.
        text.truncate(text.trim_end_matches("# EOF\n").len());
        text
    }
}

/// A counter whose name stays as it is. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Counter(Arc<AtomicU64>);

impl Counter {
    pub fn inc(&self) {
        self.add(1);
    }

    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl TypedMetric for Counter {
    const TYPE: MetricType = MetricType::Counter;
}

impl EncodeMetric for Counter {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        // As a gauge: encoded as a counter it would get `_total` behind its name.
        encoder.encode_gauge(&self.get())
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

/// What the kernel knows about this process.
#[derive(Debug)]
struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let Some(usage) = Usage::read() else { return Ok(()) };
        let gauges = [
            ("process_resident_memory_bytes", "Resident memory size in bytes", usage.resident),
            ("process_virtual_memory_bytes", "Virtual memory size in bytes", usage.virtual_size),
            ("process_open_fds", "Number of open file descriptors", usage.descriptors),
            ("process_threads", "Number of threads", usage.threads),
        ];
        for (name, help, value) in gauges {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX)).encode(metric)?;
        }
        let name = "process_cpu_seconds_total";
        let help = "Total user and system CPU time spent in seconds";
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        metric.encode_gauge(&usage.cpu_seconds)
    }
}

/// How much of the machine this process uses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    pub resident: u64,
    pub virtual_size: u64,
    pub descriptors: u64,
    pub threads: u64,
    pub cpu_seconds: f64,
}

impl Usage {
    /// None where the kernel does not tell.
    pub fn read() -> Option<Self> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let number = |key: &str| {
            let line = status.lines().find(|line| line.starts_with(key))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        };
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        // The program's name, in brackets, may hold spaces.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = |index: usize| fields.get(index)?.parse::<u64>().ok();
        let cpu = ticks(11)? + ticks(12)?;
        Some(Self {
            resident: number("VmRSS:")? * 1024,
            virtual_size: number("VmSize:")? * 1024,
            descriptors: std::fs::read_dir("/proc/self/fd").ok()?.count() as u64,
            threads: number("Threads:")?,
            // The kernel counts in hundredths of a second on every machine there is.
            cpu_seconds: cpu as f64 / 100.0,
        })
    }
}

/// A label value that fits on one line of the text.
pub fn one_line(value: &str) -> String {
    let mut line = String::with_capacity(value.len());
    for c in value.chars() {
        match c.is_control() {
            true => drop(write!(line, "{}", c.escape_default())),
            false => line.push(c),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::family::Family;

    use super::*;

    #[test]
    fn a_counter_keeps_its_name() {
        let metrics = Metrics::default();
        let pushes = Family::<Vec<(&str, &str)>, Counter>::default();
        let pushes = metrics.register("pilot_xds_pushes", "Pushes by type.", pushes);
        pushes.get_or_create(&vec![("type", "lds")]).add(3);
        assert_eq!(
            metrics.text(),
            "# HELP pilot_xds_pushes Pushes by type.\n# TYPE pilot_xds_pushes counter\n\
             pilot_xds_pushes{type=\"lds\"} 3\n"
        );
    }

    #[test]
    fn a_process_knows_its_own_size() {
        let text = Metrics::with_process().text();
        let line = text.lines().find(|l| l.starts_with("process_resident_memory_bytes ")).unwrap();
        let bytes: u64 = line.split(' ').nth(1).unwrap().parse().unwrap();
        assert!(bytes > 1024 * 1024, "{line}");
        assert!(text.contains("\nprocess_cpu_seconds_total "), "{text}");
    }
}
