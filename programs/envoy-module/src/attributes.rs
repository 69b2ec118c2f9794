//! The attributes that expressions of labels may ask for, of one event.

use ironsail_telemetry::Peer;
use ironsail_telemetry::attribute::{Shape, find};
use ironsail_telemetry::expression::{Attributes, Value};

use crate::abi::{Event, Headers};

pub(crate) struct Asked<'a> {
    pub(crate) event: Event<'a>,
    pub(crate) local: &'a Peer,
    pub(crate) upstream: Option<&'a Peer>,
    pub(crate) downstream: Option<&'a Peer>,
}

impl Attributes for Asked<'_> {
    fn get(&self, path: &[String]) -> Option<Value> {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let path = path.strip_prefix(&["filter_state"]).unwrap_or(&path);
        let header =
            |headers, name: &str| self.event.header(headers, &name.to_ascii_lowercase()).map(text);
        match path {
            ["request", "headers", name] => header(Headers::Request, name),
            ["response", "headers", name] => header(Headers::Response, name),
            ["upstream_peer", rest @ ..] => of_peer(self.upstream?, rest),
            ["downstream_peer", rest @ ..] => of_peer(self.downstream?, rest),
            ["node" | "xds", rest @ ..] if rest.len() > 1 => {
                let rest = rest.strip_prefix(&["node"]).unwrap_or(rest);
                of_node(self.local, rest)
            }
            ["request", name] if self.of_request(name).is_some() => self.of_request(name),
            ["response", "code"] => Some(Value::Number(self.event.response_code().into())),
            ["response", "flags"] => Some(number(self.event.response_flags())),
            ["request", "size"] => Some(number(self.event.payload().0)),
            ["response", "size"] => Some(number(self.event.payload().1)),
            ["request", "total_size"] => Some(number(self.event.wire().0)),
            ["response", "total_size"] => Some(number(self.event.wire().1)),
            ["xds", "cluster_name"] => self.event.cluster().map(text),
            [root, name] => {
                let (id, shape) = find(root, name)?;
                match shape {
                    Shape::Text => self.event.attribute_by(id).map(text),
                    Shape::Number => self.event.number_by(id).map(number),
                    Shape::Flag => self.event.flag_by(id).map(Value::Bool),
                }
            }
            _ => None,
        }
    }
}

impl Asked<'_> {
    /// What a logger knows by the request's headers only.
    fn of_request(&self, name: &str) -> Option<Value> {
        let header = |name: &str| self.event.header(Headers::Request, name);
        Some(text(match name {
            "method" => header(":method")?,
            "path" => header(":path")?,
            "url_path" => header(":path")?.split('?').next()?,
            "query" => header(":path")?.split_once('?')?.1,
            "host" => header(":authority")?,
            "scheme" => header(":scheme")?,
            "useragent" => header("user-agent")?,
            "referer" => header("referer")?,
            "id" => header("x-request-id")?,
            _ => return None,
        }))
    }
}

#[expect(clippy::cast_precision_loss, reason = "codes, ports and sizes")]
fn number(number: u64) -> Value {
    Value::Number(number as f64)
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn of_peer(peer: &Peer, path: &[&str]) -> Option<Value> {
    let found = match path {
        ["workload" | "name", rest @ ..] if rest.len() < 2 => &peer.workload,
        ["namespace"] => &peer.namespace,
        ["cluster"] => &peer.cluster,
        ["service"] => &peer.canonical_service,
        ["revision"] => &peer.canonical_revision,
        ["app"] => &peer.app,
        ["version"] => &peer.version,
        ["labels", name] | ["labels", name, "value"] => peer.labels.get(*name)?,
        _ => return None,
    };
    (!found.is_empty()).then(|| text(found))
}

fn of_node(local: &Peer, path: &[&str]) -> Option<Value> {
    let found = match path {
        ["metadata", "WORKLOAD_NAME"] => &local.workload,
        ["metadata", "NAMESPACE"] => &local.namespace,
        ["metadata", "CLUSTER_ID"] => &local.cluster,
        ["metadata", "LABELS", name] => local.labels.get(*name)?,
        _ => return None,
    };
    (!found.is_empty()).then(|| text(found))
}
