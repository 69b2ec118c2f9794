//! The same numbers from a Prometheus that has scraped the proxies.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use crate::fetch::{Error, Fetcher, Longer};
use crate::flow::{DURATION_BUCKET, Flow, Flows, MOST_FLOWS, RECEIVED, REQUESTS, SENT};

const PATIENCE: Duration = Duration::from_secs(10);
const LONGEST: usize = 64 << 20;

/// What tells flows apart.
const FLOW: &str = "reporter,source_workload_namespace,source_workload,source_canonical_service,\
    source_canonical_revision,destination_workload_namespace,destination_workload,\
    destination_canonical_service,destination_canonical_revision,destination_service,\
    destination_service_name,destination_service_namespace,request_protocol";

/// Each metric with the further labels that its numbers are entered by.
const ASKED: [(&str, &str); 4] = [
    (REQUESTS, "response_code,grpc_response_status,response_flags,connection_security_policy"),
    (DURATION_BUCKET, "le"),
    (SENT, "connection_security_policy"),
    (RECEIVED, "connection_security_policy"),
];

#[derive(Deserialize)]
struct Answer {
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    result: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    metric: BTreeMap<String, String>,
    value: (f64, String),
}

/// What happened within the last `window`.
pub(crate) async fn flows(fetcher: &Fetcher, url: &str, window: Duration) -> Result<Flows, Error> {
    let mut flows = Flows::default();
    for (metric, labels) in ASKED {
        let seconds = window.as_secs().max(30);
        let query = format!("sum by ({FLOW},{labels}) (increase({metric}[{seconds}s])) > 0");
        let uri = format!("{}/api/v1/query?query={}", url.trim_end_matches('/'), encode(&query));
        let body = fetcher.get(&uri, PATIENCE, (LONGEST, Longer::Refuse)).await?;
        let answer: Answer = serde_json::from_slice(&body)
            .map_err(|error| Error::Read { uri: uri.clone(), why: error.to_string() })?;
        for row in &answer.data.result {
            enter(&mut flows, metric, row);
        }
    }
    Ok(flows)
}

fn enter(flows: &mut Flows, metric: &str, row: &Row) {
    let label = |name: &str| row.metric.get(name).map_or("", String::as_str);
    let flow = Flow::of(|name| label(name).to_owned());
    let Ok(value) = row.value.1.parse::<f64>() else { return };
    if flows.len() < MOST_FLOWS || flows.contains_key(&flow) {
        flows.entry(flow).or_default().enter(metric, value, label);
    }
}

/// As a query of a URL has it.
fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 3);
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => out.push(byte.into()),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_flows() {
        let text = r#"{"status":"success","data":{"resultType":"vector","result":[
            {"metric":{"reporter":"source","source_workload":"a","response_code":"500"},"value":[1.5,"4"]},
            {"metric":{"reporter":"source","source_workload":"a","response_code":"200"},"value":[1.5,"6.5"]}]}}"#;
        let answer: Answer = serde_json::from_str(text).unwrap();
        let mut flows = Flows::default();
        answer.data.result.iter().for_each(|row| enter(&mut flows, REQUESTS, row));
        let tally = flows.values().next().unwrap();
        assert_eq!((flows.len(), tally.requests, tally.errors), (1, 10.5, 4.0));
        assert_eq!(encode("a[5s] > 0"), "a%5B5s%5D%20%3E%200");
    }
}
