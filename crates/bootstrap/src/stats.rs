//! Which numbers Envoy keeps, and how their names are split into labels.

use serde_json::{Value, json};

use crate::Error;

/// What the user says about statistics.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Seconds.
    pub flush_interval: Option<u64>,
    pub eviction_interval: Option<u64>,
    pub compression: bool,
    /// Kept besides what is always kept.
    pub prefixes: Vec<String>,
    pub suffixes: Vec<String>,
    pub regexes: Vec<String>,
    /// Labels of the user's own.
    pub extra_tags: Vec<String>,
    /// The bounds of histograms, by the beginning of their names.
    pub histograms: Vec<Histogram>,
    /// Connections are counted, to know when the last one ends.
    pub count_connections: bool,
}

/// The bounds of one histogram's buckets.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    pub prefix: String,
    pub buckets: Vec<f64>,
}

impl Stats {
    /// Idle numbers are dropped at a flush, so the one interval must divide the other.
    pub fn check(&self) -> Result<(), Error> {
        let flush_seconds = self.flush_interval.unwrap_or(5).max(1);
        match self.eviction_interval {
            Some(eviction_seconds) if eviction_seconds % flush_seconds != 0 => {
                Err(Error::Eviction { eviction_seconds, flush_seconds })
            }
            _ => Ok(()),
        }
    }
}

/// Of a number's name, the part in the outer brackets is a label with the value in the inner ones.
const TAGS: [(&str, &str); 16] = [
    ("cluster_name", r"^cluster(\.(.+);)"),
    (
        "http_conn_manager_prefix",
        r"^http\.(((?:[_.[:digit:]\w]*|[_\[\]aAbBcCdDeEfF[:digit:]\w\:]*));\.)",
    ),
    ("thread_name", r"^server(\.(.+))\.watchdog"),
    ("tcp_prefix", r"^tcp\.((.*?)\.)\w+?$"),
    ("response_code", r"_rq(_(\d{3}))$"),
    ("response_code_class", r"_rq(_(\dxx))$"),
    (
        "http_conn_manager_listener_prefix",
        r"^listener(?=\.).*?\.http\.(((?:[_.[:digit:]]*|[_\[\]aAbBcCdDeEfF[:digit:]]*))\.)",
    ),
    ("listener_address", r"^listener\.(((?:[_.[:digit:]]*|[_\[\]aAbBcCdDeEfF[:digit:]]*))\.)"),
    ("mongo_prefix", r"^mongo\.(.+?)\.(collection|cmd|cx_|op_|delays_|decoding_)(.*?)$"),
    ("cache", r"(cache\.(.+?)\.)"),
    ("component", r"(component\.(.+?)\.)"),
    ("tag", r"(tag\.(.+?);\.)"),
    ("wasm_filter", r"(wasm_filter\.(.+?)\.)"),
    ("authz_enforce_result", r"rbac(\.(allowed|denied))"),
    ("authz_dry_run_action", r"(\.istio_dry_run_(allow|deny)_)"),
    ("authz_dry_run_result", r"(\.shadow_(allowed|denied))"),
];

const PREFIXES: [&str; 6] =
    ["reporter=", "cluster_manager", "listener_manager", "server", "cluster.xds-grpc", "wasm"];
const SUFFIXES: [&str; 4] = ["rbac.allowed", "rbac.denied", "shadow_allowed", "shadow_denied"];
/// Needed to drain until the last connection ended.
const CONNECTIONS: &str = "downstream_cx_active";
const REGEX: &str = r"vhost\..*\.route\..*";

impl Stats {
    /// Beginnings of the names that are kept, without those that Istio's own metrics have.
    pub(crate) fn all_prefixes(&self) -> Vec<&str> {
        PREFIXES[1..].iter().copied().chain(self.prefixes.iter().map(String::as_str)).collect()
    }

    pub(crate) fn all_suffixes(&self) -> Vec<&str> {
        let mut all = SUFFIXES.to_vec();
        all.extend(self.count_connections.then_some(CONNECTIONS));
        all.extend(self.suffixes.iter().map(String::as_str));
        all
    }

    pub(crate) fn all_regexes(&self) -> Vec<&str> {
        std::iter::once(REGEX).chain(self.regexes.iter().map(String::as_str)).collect()
    }

    pub(crate) fn histogram_settings(&self) -> Vec<Value> {
        let one = |h: &Histogram| json!({"match": {"prefix": h.prefix}, "buckets": h.buckets});
        self.histograms.iter().map(one).collect()
    }
}

pub(crate) fn config(stats: &Stats) -> Value {
    let own = stats.extra_tags.iter().map(|name| {
        let regex = format!(r"({name}\.=\.(.*?);\.)");
        json!({"tag_name": name, "regex": regex})
    });
    let known = TAGS.iter().map(|(name, regex)| json!({"tag_name": name, "regex": regex}));
    let tags: Vec<Value> = own.chain(known).collect();
    let one = |key: &str, text: &str| json!({ key: text });
    let mut patterns = vec![one("prefix", PREFIXES[0])];
    patterns.extend(stats.all_prefixes().iter().map(|p| one("prefix", p)));
    patterns.extend(stats.all_suffixes().iter().map(|s| one("suffix", s)));
    patterns.extend(
        stats.all_regexes().into_iter().map(|regex| json!({"safe_regex": {"regex": regex}})),
    );
    patterns.extend(["component", "istio"].map(|p| one("prefix", p)));
    let mut config = json!({
        "use_all_default_tags": false,
        "stats_tags": tags,
        "stats_matcher": {"inclusion_list": {"patterns": patterns}},
    });
    if !stats.histograms.is_empty() {
        config["histogram_bucket_settings"] = stats.histogram_settings().into();
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eviction_happens_at_a_flush() {
        let check = |flush, eviction| {
            Stats { flush_interval: flush, eviction_interval: eviction, ..Stats::default() }.check()
        };
        assert_eq!(check(Some(10), Some(20)), Ok(()));
        assert_eq!(check(None, Some(10)), Ok(()));
        assert_eq!(
            check(None, Some(11)),
            Err(Error::Eviction { eviction_seconds: 11, flush_seconds: 5 })
        );
    }
}
