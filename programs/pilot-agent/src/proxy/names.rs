//! DNS for the application: the mesh's own names first, all others from the servers it had before.
//!
//! In: the name table of the control plane and the resolver's search domains; out: answers. A name
//! counts as ours in each form that an application may ask: as it is, and with each search domain.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use ironsail_dns::{Answer, Lookup, Name, RData, Record, RecordType, rdata};
use ironsail_proto::istio::networking::nds::v1::NameTable;
use serde_json::{Value, json};
use tokio::sync::watch;

/// Seconds that a client may keep an answer; short, since services come and go.
const TTL: u32 = 30;
/// More names than a mesh can mean.
const MAX_NAMES: usize = 500_000;

/// The names that are answered here. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Names(Arc<ArcSwap<Table>>);

#[derive(Default)]
struct Table {
    /// By name in lower case, without the last dot.
    addresses: HashMap<Box<str>, Arc<[IpAddr]>>,
    wildcards: bool,
}

impl Names {
    /// Follows the control plane's table. `domain` is the workload's, `ns.svc.cluster.local`.
    pub(crate) async fn follow(
        self,
        tables: watch::Sender<Option<Arc<NameTable>>>,
        domain: String,
        search: Vec<String>,
    ) {
        let mut seen = tables.subscribe();
        while seen.changed().await.is_ok() {
            let newest = seen.borrow_and_update().clone();
            let Some(table) = newest else { continue };
            self.0.store(Arc::new(Table::new(&table, &domain, &search)));
            // Read, it is only in the way, unless another has come.
            tables.send_if_modified(|kept| {
                if kept.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, &table)) {
                    *kept = None;
                }
                false
            });
        }
    }

    /// What is known, for people: the answer of `/debug/ndsz`.
    pub(crate) fn shown(&self) -> Value {
        let table = self.0.load();
        let mut names: Vec<_> = table.addresses.iter().collect();
        names.sort();
        let shown = names.into_iter().map(|(name, ips)| (name.to_string(), json!(ips)));
        Value::Object(shown.collect())
    }
}

impl Table {
    fn new(table: &NameTable, domain: &str, search: &[String]) -> Self {
        let mut new = Self::default();
        let (own_namespace, rest) = domain.split_once('.').unwrap_or((domain, ""));
        for (host, info) in table.table.iter().take(MAX_NAMES) {
            let ips: Arc<[IpAddr]> = info.ips.iter().filter_map(|ip| ip.parse().ok()).collect();
            if ips.is_empty() {
                continue;
            }
            let host = host.to_lowercase();
            new.wildcards |= host.starts_with("*.");
            let mut put = |name: String| {
                new.addresses.entry(name.into_boxed_str()).or_insert_with(|| ips.clone());
            };
            if info.registry == "Kubernetes" && !info.shortname.is_empty() {
                let short = format!("{}.{}", info.shortname, info.namespace);
                put(short.clone());
                if let Some(svc) = rest.split('.').next().filter(|part| !part.is_empty()) {
                    put(format!("{short}.{svc}"));
                }
                if info.namespace == own_namespace {
                    put(info.shortname.clone());
                }
            } else {
                // The resolver of the application tries its search domains before the name itself.
                search.iter().for_each(|domain| put(format!("{host}.{domain}")));
            }
            new.addresses.insert(host.into_boxed_str(), ips);
        }
        new
    }

    fn find(&self, name: &str) -> Option<&Arc<[IpAddr]>> {
        if let Some(found) = self.addresses.get(name) {
            return Some(found);
        }
        if !self.wildcards {
            return None;
        }
        let mut rest = name;
        while let Some((_, tail)) = rest.split_once('.') {
            if let Some(found) = self.addresses.get(format!("*.{tail}").as_str()) {
                return Some(found);
            }
            rest = tail;
        }
        None
    }
}

impl Lookup for Names {
    fn lookup(&self, name: &Name, kind: RecordType) -> Answer {
        let text = name.to_string();
        let table = self.0.load();
        let Some(addresses) = table.find(text.trim_end_matches('.')) else {
            return Answer::NotMine;
        };
        let record = |ip: &IpAddr| match (kind, ip) {
            (RecordType::A, IpAddr::V4(ip)) => Some(RData::A(rdata::A(*ip))),
            (RecordType::AAAA, IpAddr::V6(ip)) => Some(RData::AAAA(rdata::AAAA(*ip))),
            _ => None,
        };
        let records: Vec<Record> = addresses
            .iter()
            .filter_map(record)
            .map(|data| Record::from_rdata(name.clone(), TTL, data))
            .collect();
        match (records.is_empty(), kind) {
            (false, _) => Answer::records(records),
            // The other address family: the name is ours and has none.
            (true, RecordType::A | RecordType::AAAA) => Answer::NoData,
            (true, _) => Answer::NotMine,
        }
    }

    fn authority(&self, _: &Name) -> Option<Record> {
        None
    }
}

/// The search domains of a resolver's file.
pub(crate) fn search_domains(resolv_conf: &str) -> Vec<String> {
    let mut lines = resolv_conf.lines().filter_map(|line| line.trim().strip_prefix("search "));
    let words = lines.next_back().map(str::split_whitespace);
    words.into_iter().flatten().map(|w| w.trim_end_matches('.').to_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use ironsail_proto::istio::networking::nds::v1::name_table::NameInfo;

    use super::*;

    fn info(ips: &[&str], registry: &str, short: &str, namespace: &str) -> NameInfo {
        NameInfo {
            ips: ips.iter().map(ToString::to_string).collect(),
            registry: registry.into(),
            shortname: short.into(),
            namespace: namespace.into(),
            ..NameInfo::default()
        }
    }

    fn names() -> Names {
        let entries = [
            ("web.a.svc.cluster.local", info(&["10.0.0.1"], "Kubernetes", "web", "a")),
            ("db.b.svc.cluster.local", info(&["10.0.0.2", "fd00::2"], "Kubernetes", "db", "b")),
            ("api.example.com", info(&["240.240.0.1"], "External", "", "")),
            ("*.wild.com", info(&["240.240.0.2"], "External", "", "")),
        ];
        let table = entries.into_iter().map(|(host, info)| (host.to_owned(), info)).collect();
        let search =
            search_domains("nameserver 1.1.1.1\nsearch a.svc.cluster.local cluster.local\n");
        let names = Names::default();
        let table = NameTable { table };
        names.0.store(Arc::new(Table::new(&table, "a.svc.cluster.local", &search)));
        names
    }

    fn ask(name: &str, kind: RecordType) -> String {
        let name = Name::from_ascii(format!("{name}.")).unwrap();
        match names().lookup(&name, kind) {
            Answer::Records { answers, .. } => {
                let data = answers.iter().map(|r| r.data.to_string());
                data.collect::<Vec<_>>().join(" ")
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_service_has_every_form_of_its_name() {
        let forms = ["web", "web.a", "web.a.svc", "web.a.svc.cluster.local"];
        for form in forms {
            assert_eq!(ask(form, RecordType::A), "10.0.0.1", "{form}");
        }
        assert_eq!(ask("db", RecordType::A), "NotMine");
        assert_eq!(ask("db.b", RecordType::AAAA), "fd00::2");
        assert_eq!(ask("web", RecordType::AAAA), "NoData");
        assert_eq!(ask("web", RecordType::TXT), "NotMine");
    }

    #[test]
    fn outside_names_and_wildcards_are_answered_also_with_search_domains() {
        assert_eq!(ask("api.example.com", RecordType::A), "240.240.0.1");
        assert_eq!(ask("api.example.com.a.svc.cluster.local", RecordType::A), "240.240.0.1");
        assert_eq!(ask("x.y.wild.com", RecordType::A), "240.240.0.2");
        assert_eq!(ask("wild.com", RecordType::A), "NotMine");
        assert_eq!(ask("other.example.com", RecordType::A), "NotMine");
    }
}
