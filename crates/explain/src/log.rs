//! Lines of access logs: Istio's default text, or its JSON fields.
//!
//! In: one line; out: its fields, or None if it is neither. A custom format is read as far as it has
//! the JSON names.

use serde::Serialize;
use serde_json::Value;

/// Longer lines are no access log.
const LONGEST: usize = 256 << 10;

/// What a proxy logged of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Line {
    pub start_time: String,
    pub method: String,
    pub path: String,
    pub protocol: String,
    pub status: Option<u16>,
    pub flags: String,
    pub details: String,
    pub termination: String,
    pub transport_failure: String,
    pub request_id: String,
    pub authority: String,
    pub upstream_host: String,
    pub upstream_cluster: String,
    pub downstream_local: String,
    pub downstream_remote: String,
    pub route: String,
}

impl Line {
    /// The lines of a log about a request.
    pub fn of_request<'a>(log: &'a str, id: &'a str) -> impl Iterator<Item = Self> + 'a {
        let lines = log.lines().filter(move |line| !id.is_empty() && line.contains(id));
        lines.filter_map(Self::parse).filter(move |line| line.request_id == id)
    }

    pub fn parse(line: &str) -> Option<Self> {
        if line.len() > LONGEST {
            return None;
        }
        match line.trim_start().starts_with('{') {
            true => Self::from_json(line),
            false => Self::from_text(line),
        }
    }

    fn from_json(line: &str) -> Option<Self> {
        let fields: Value = serde_json::from_str(line).ok()?;
        let text = |key: &str| match &fields[key] {
            Value::String(text) => blank(text),
            Value::Number(number) => number.to_string(),
            _ => String::new(),
        };
        fields.get("request_id")?;
        Some(Self {
            start_time: text("start_time"),
            method: text("method"),
            path: text("path"),
            protocol: text("protocol"),
            status: text("response_code").parse().ok(),
            flags: text("response_flags"),
            details: text("response_code_details"),
            termination: text("connection_termination_details"),
            transport_failure: text("upstream_transport_failure_reason"),
            request_id: text("request_id"),
            authority: text("authority"),
            upstream_host: text("upstream_host"),
            upstream_cluster: text("upstream_cluster"),
            downstream_local: text("downstream_local_address"),
            downstream_remote: text("downstream_remote_address"),
            route: text("route_name"),
        })
    }

    fn from_text(line: &str) -> Option<Self> {
        let words = words(line)?;
        let [
            start,
            request,
            status,
            flags,
            details,
            termination,
            failure,
            _,
            _,
            _,
            _,
            _,
            _,
            id,
            authority,
            host,
            cluster,
            _,
            local,
            remote,
            _,
            route,
        ] = &words[..]
        else {
            return None;
        };
        let mut request = request.split(' ');
        Some(Self {
            start_time: start.clone(),
            method: blank(request.next().unwrap_or_default()),
            path: blank(request.next().unwrap_or_default()),
            protocol: blank(request.next().unwrap_or_default()),
            status: status.parse().ok(),
            flags: blank(flags),
            details: blank(details),
            termination: blank(termination),
            transport_failure: blank(failure),
            request_id: blank(id),
            authority: blank(authority),
            upstream_host: blank(host),
            upstream_cluster: blank(cluster),
            downstream_local: blank(local),
            downstream_remote: blank(remote),
            route: blank(route),
        })
    }

    /// Whether the proxy of the client wrote it.
    pub fn is_outbound(&self) -> bool {
        !self.upstream_cluster.starts_with("inbound|")
            && self.upstream_cluster != "InboundPassthroughCluster"
    }
}

/// `-` stands for nothing.
fn blank(text: &str) -> String {
    if text == "-" { String::new() } else { text.to_owned() }
}

/// Words between spaces; quotes and the brackets of the time hold some together.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() && words.len() < 64 {
        let close = match rest.chars().next()? {
            '"' => Some('"'),
            '[' => Some(']'),
            _ => None,
        };
        let (word, after) = match close {
            Some(close) => rest[1..].split_once(close)?,
            None => rest.split_once(' ').unwrap_or((rest, "")),
        };
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const TEXT: &str = "[2026-01-01T00:00:00.000Z] \"GET /a?b=c HTTP/1.1\" 503 UH no_healthy_upstream - \"-\" 0 19 0 - \
        \"-\" \"curl/8 (x) y\" \"id-1\" \"reviews:9080\" \"-\" outbound|9080|v1|reviews - 10.96.0.1:9080 10.244.0.2:5555 - default";

    #[test]
    fn the_default_line_is_read() {
        let line = Line::parse(TEXT).unwrap();
        assert_eq!(
            (line.method.as_str(), line.path.as_str(), line.status),
            ("GET", "/a?b=c", Some(503))
        );
        assert_eq!((line.flags.as_str(), line.details.as_str()), ("UH", "no_healthy_upstream"));
        assert_eq!((line.request_id.as_str(), line.authority.as_str()), ("id-1", "reviews:9080"));
        assert_eq!(
            (line.downstream_remote.as_str(), line.route.as_str()),
            ("10.244.0.2:5555", "default")
        );
        assert!(line.is_outbound() && line.upstream_host.is_empty());
        let log = format!("something else\n{TEXT}\n");
        assert_eq!(Line::of_request(&log, "id-1").count(), 1);
        assert_eq!(Line::of_request(&log, "id").count(), 0);
    }

    #[test]
    fn fields_of_json_are_read() {
        let line = json!({"request_id": "x", "response_code": 403, "response_flags": "-",
            "response_code_details": "rbac_access_denied_matched_policy[none]", "authority": "a",
            "upstream_cluster": "inbound|80||"});
        let line = Line::parse(&line.to_string()).unwrap();
        assert_eq!((line.status, line.flags.as_str(), line.is_outbound()), (Some(403), "", false));
        assert_eq!(Line::parse("{\"level\": \"info\"}"), None);
        assert_eq!(Line::parse("2026 info a line of the agent"), None);
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_not(line in "\\PC{0,120}") {
            let _ = Line::parse(&line);
        }
    }
}
