//! Flows as a map: workloads, and what goes between them.
//!
//! Both ends tell of a request. The client's proxy knows of those that never arrived, so its numbers
//! count; whether a connection was encrypted only the server's knows.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::flow::{Flow, Flows, Party, Tally};
use crate::traffic::Source;

#[derive(Clone, Debug, Default, Serialize)]
pub struct Map {
    pub source: Source,
    /// Seconds that the numbers are of.
    pub seconds: f64,
    pub nodes: Vec<Node>,
    pub edges: Vec<Edge>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Node {
    /// `workload:NAMESPACE/NAME`, `service:NAMESPACE/NAME` for one without a known workload, `outside`.
    pub id: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub app: String,
    pub version: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Edge {
    pub from: String,
    pub to: String,
    /// The name that was called.
    pub host: String,
    pub service: String,
    pub service_namespace: String,
    pub protocol: String,
    /// Requests a second.
    pub rate: f64,
    /// Parts of one: failed by the server or the network, and refused.
    pub errors: f64,
    pub refused: f64,
    /// Bytes a second of connections, from the client and to it.
    pub sent: f64,
    pub received: f64,
    pub latency: Option<Latency>,
    /// `mutual_tls`, `none`, `mixed` or `unknown`
    pub security: String,
    /// Failures by Envoy's flags, a second.
    pub flags: BTreeMap<String, f64>,
}

/// Milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latency {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a> {
    source: &'a Party,
    destination: &'a Party,
    host: &'a str,
    service: &'a str,
    service_namespace: &'a str,
    protocol: &'a str,
}

/// Both ends and the protocol: what the two tell of the same requests. The server may know the service
/// by another of its names.
type Ends<'a> = [&'a str; 5];

impl<'a> Key<'a> {
    fn of(flow: &'a Flow) -> Self {
        Self {
            source: &flow.source,
            destination: &flow.destination,
            host: &flow.host,
            service: &flow.service,
            service_namespace: &flow.service_namespace,
            protocol: &flow.protocol,
        }
    }

    fn ends(&self) -> Ends<'a> {
        let (source, destination) = (self.source, self.destination);
        [
            &source.namespace,
            &source.workload,
            &destination.namespace,
            &destination.workload,
            self.protocol,
        ]
    }
}

pub(crate) fn draw(flows: &Flows, seconds: f64, source: Source) -> Map {
    let (mut clients, mut servers) = (BTreeMap::new(), BTreeMap::new());
    let (mut told, mut secured) = (BTreeSet::new(), BTreeMap::new());
    for (flow, tally) in flows.iter().filter(|(_, tally)| !tally.is_nothing()) {
        let key = Key::of(flow);
        let (secure, plain): &mut (f64, f64) = secured.entry(key.ends()).or_default();
        *secure += tally.secure;
        *plain += tally.plain;
        match flow.by_source {
            true => {
                told.insert(key.ends());
                clients.entry(key).or_insert_with(Tally::default).add(tally);
            }
            false => servers.entry(key).or_insert_with(Tally::default).add(tally),
        }
    }
    servers.retain(|key, _| !told.contains(&key.ends()));
    let (mut nodes, mut edges) = (BTreeMap::new(), Vec::new());
    for (key, tally) in clients.iter().chain(&servers) {
        let from = outside_or_workload(key.source);
        let to = match is_known(&key.destination.workload) {
            true => outside_or_workload(key.destination),
            false => service(key),
        };
        let mut edge = edge(key, tally, seconds);
        edge.security = security(secured[&key.ends()]).to_owned();
        (edge.from, edge.to) = (from.id.clone(), to.id.clone());
        nodes.entry(from.id.clone()).or_insert(from);
        nodes.entry(to.id.clone()).or_insert(to);
        edges.push(edge);
    }
    edges.sort_by(|a, b| {
        (&a.from, &a.to, &a.host, &a.protocol).cmp(&(&b.from, &b.to, &b.host, &b.protocol))
    });
    Map { source, seconds, nodes: nodes.into_values().collect(), edges }
}

fn is_known(text: &str) -> bool {
    !matches!(text, "" | "unknown")
}

fn outside_or_workload(party: &Party) -> Node {
    if !is_known(&party.workload) {
        let outside = "outside".to_owned();
        return Node {
            id: outside.clone(),
            kind: outside,
            name: "outside the mesh".to_owned(),
            ..Node::default()
        };
    }
    Node {
        id: format!("workload:{}/{}", party.namespace, party.workload),
        kind: "workload".to_owned(),
        namespace: party.namespace.clone(),
        name: party.workload.clone(),
        app: if is_known(&party.app) { party.app.clone() } else { party.workload.clone() },
        version: party.version.clone(),
    }
}

/// Somebody outside the mesh, or a service that nobody answers for.
fn service(key: &Key<'_>) -> Node {
    let namespace = if is_known(key.service_namespace) { key.service_namespace } else { "" };
    let name = if is_known(key.service) { key.service } else { key.host };
    Node {
        id: format!("service:{namespace}/{name}"),
        kind: "service".to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        app: name.to_owned(),
        version: String::new(),
    }
}

fn edge(key: &Key<'_>, tally: &Tally, seconds: f64) -> Edge {
    let part = |number: f64| if tally.requests > 0.0 { number / tally.requests } else { 0.0 };
    let latency = || {
        let at = |part| tally.quantile(part);
        Some(Latency { p50: at(0.5)?, p90: at(0.9)?, p99: at(0.99)? })
    };
    Edge {
        host: key.host.to_owned(),
        service: key.service.to_owned(),
        service_namespace: key.service_namespace.to_owned(),
        protocol: key.protocol.to_owned(),
        rate: tally.requests / seconds,
        errors: part(tally.errors),
        refused: part(tally.refused),
        sent: tally.received / seconds,
        received: tally.sent / seconds,
        latency: latency(),
        flags: tally.flags.iter().map(|(flags, n)| (flags.clone(), n / seconds)).collect(),
        ..Edge::default()
    }
}

fn security((secure, plain): (f64, f64)) -> &'static str {
    match (secure > 0.0, plain > 0.0) {
        (true, true) => "mixed",
        (true, false) => "mutual_tls",
        (false, true) => "none",
        (false, false) => "unknown",
    }
}

impl Flow {
    #[cfg(test)]
    fn between(source: &str, destination: &str, by_source: bool) -> Self {
        let party =
            |name: &str| Party { namespace: "n".into(), workload: name.into(), ..Party::default() };
        Self {
            source: party(source),
            destination: party(destination),
            host: "b.n.svc".into(),
            service: "b".into(),
            service_namespace: "n".into(),
            protocol: "http".into(),
            by_source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(requests: f64, secure: f64) -> Tally {
        Tally { requests, secure, ..Tally::default() }
    }

    #[test]
    fn a_request_that_both_ends_tell_of_is_one() {
        let flows: Flows = [
            (Flow::between("a", "b", true), tally(20.0, 0.0)),
            (
                // Under another name of the same service.
                Flow { host: "b-too.n.svc".into(), ..Flow::between("a", "b", false) },
                tally(19.0, 19.0),
            ),
        ]
        .into_iter()
        .collect();
        let map = draw(&flows, 10.0, Source::default());
        assert_eq!((map.nodes.len(), map.edges.len()), (2, 1));
        let edge = &map.edges[0];
        assert_eq!((edge.rate, edge.security.as_str()), (2.0, "mutual_tls"));
        assert_eq!((edge.from.as_str(), edge.to.as_str()), ("workload:n/a", "workload:n/b"));
    }

    #[test]
    fn who_is_not_known_is_outside_or_a_service() {
        let flows: Flows = [
            (Flow::between("unknown", "b", false), tally(1.0, 0.0)),
            (Flow::between("a", "unknown", true), tally(1.0, 0.0)),
        ]
        .into_iter()
        .collect();
        let map = draw(&flows, 1.0, Source::default());
        let ids: Vec<&str> = map.nodes.iter().map(|node| node.id.as_str()).collect();
        assert_eq!(ids, ["outside", "service:n/b", "workload:n/a", "workload:n/b"]);
    }
}
