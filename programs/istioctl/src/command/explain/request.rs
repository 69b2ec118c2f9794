//! A request by its id: who logged it, and what would become of it now.

use futures::StreamExt as _;
use ironsail_explain::{Line, Question, Url, meaning};

use super::live::Live;
use super::{Explained, Logged};
use crate::cluster::{Cluster, PROXY};
use crate::failure::Failure;

/// Lines of each log that are searched, from its end.
const LINES: i64 = 20_000;
/// Logs that are read at the same time.
const AT_ONCE: usize = 8;

pub(super) async fn explain(
    cluster: &Cluster,
    source: Option<&str>,
    id: &str,
) -> Result<Explained, Failure> {
    let mut live = Live::new(cluster).await?;
    let only = match source {
        Some(source) => Some(live.source(source).await?),
        None => None,
    };
    let pods: Vec<String> = live
        .world()
        .pods()
        .filter(|pod| pod.proxied && only.as_ref().is_none_or(|only| *only == pod.id))
        .map(|pod| pod.id.clone())
        .collect();
    let logged = find(cluster, &pods, id).await;
    let (source, line) = asked(&live, &logged).ok_or_else(|| {
        let count = pods.len();
        anyhow::anyhow!("none of {count} proxies has logged a request {id}; are access logs on?")
    })?;
    let question = question(&source, &line)?;
    let answer = live.explain(&question).await?;
    Ok(Explained { answer, logged })
}

async fn find(cluster: &Cluster, pods: &[String], id: &str) -> Vec<Logged> {
    let logs = futures::stream::iter(pods.iter().map(|pod| async move {
        let (name, namespace) = pod.rsplit_once('.').unwrap_or((pod, ""));
        // A pod that has just gone, or has not begun, has nothing to tell.
        let log = cluster.log(namespace, name, PROXY, LINES).await.unwrap_or_default();
        (pod.clone(), log)
    }));
    let mut logs: Vec<(String, String)> = logs.buffer_unordered(AT_ONCE).collect().await;
    logs.sort();
    let mut found: Vec<Logged> = Vec::new();
    for (pod, log) in &logs {
        for line in Line::of_request(log, id) {
            found.push(Logged { pod: pod.clone(), meaning: meaning(&line), line });
        }
    }
    // The client's side first.
    found.sort_by_key(|one| (!one.line.is_outbound(), one.line.start_time.clone()));
    found
}

/// Who asked, and the line that says what.
fn asked(live: &Live<'_>, logged: &[Logged]) -> Option<(String, Line)> {
    let first = logged.first()?;
    if first.line.is_outbound() && caller(live, &first.line).is_none_or(|pod| pod == first.pod) {
        return Some((first.pod.clone(), first.line.clone()));
    }
    let source = caller(live, &first.line).unwrap_or_else(|| first.pod.clone());
    Some((source, first.line.clone()))
}

/// The pod at the other end of a line.
fn caller(live: &Live<'_>, line: &Line) -> Option<String> {
    let (ip, _) = line.downstream_remote.rsplit_once(':')?;
    let ip = ip.trim_matches(['[', ']']).parse().ok()?;
    live.world().pod_at(ip).map(|pod| pod.id.clone())
}

fn question(source: &str, line: &Line) -> Result<Question, Failure> {
    let port = line.downstream_local.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    let host = line.authority.as_str();
    let plain = Url::parse(&format!("http://{host}{}", line.path));
    let url = match (plain, port) {
        // The client may have called another port than the one its header says.
        (Ok(url), Some(port)) if line.is_outbound() && url.port != port => {
            Url::parse(&format!("http://{}:{port}{}", url.host, line.path))
        }
        (plain, _) => plain,
    };
    let url = url.map_err(|error| anyhow::anyhow!("the log's address: {error}"))?;
    let mut question = Question::get(source, url);
    question.method.clone_from(&line.method);
    question.headers.push(("host".to_owned(), host.to_owned()));
    question.http2 = line.protocol == "HTTP/2";
    Ok(question)
}
