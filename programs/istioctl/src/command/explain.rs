//! `istioctl explain SOURCE URL`: what becomes of a request, step by step, and which object says so.
//!
//! In: a client and a URL, or the id of a request that was logged; a mesh, or files. Out: the steps and
//! the outcome as text or JSON. All judgement is in `ironsail_explain`; here is only where its input
//! comes from.

mod files;
mod live;
mod request;

use ironsail_explain::{Answer, Line, Meaning, Question, Url, explain};
use serde::Serialize;

use crate::Context;
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::output::{self, Format};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # What becomes of a request from the pods of a deployment
  istioctl explain deploy/sleep http://httpbin:8000/headers

  # With a method and headers
  istioctl explain sleep.foo http://reviews:9080/ -X POST -H 'end-user: jason'

  # A connection that is not HTTP
  istioctl explain deploy/client tcp://mysql:3306

  # A request that was logged
  istioctl explain --request-id 4d1a2f6c-9d0a-4c1d-a7a5-0c5b5f0f6f3e

  # Before anything is applied
  istioctl explain deploy/sleep http://httpbin:8000/ -f manifests/ -f new-route.yaml")]
pub(crate) struct Args {
    /// The client: [KIND/]NAME[.NAMESPACE], such as deploy/sleep, pod/x.foo or sleep.foo
    source: Option<String>,
    /// What it asks for: [SCHEME://]HOST[:PORT][/PATH]; SCHEME is http, https, tcp or tls
    url: Option<String>,
    /// Method of the request
    #[arg(short = 'X', long, default_value = "GET")]
    method: String,
    /// Header of the request, NAME: VALUE; may be given more than once
    #[arg(short = 'H', long = "header", value_name = "HEADER")]
    headers: Vec<String>,
    /// The client speaks HTTP/2 from the start, as gRPC does
    #[arg(long)]
    http2: bool,
    /// Explain the request with this X-Request-Id, found in the access logs of the proxies
    #[arg(long, value_name = "ID", conflicts_with_all = ["url", "files"])]
    request_id: Option<String>,
    /// Ask files instead of a mesh: a file, a folder, or - ; may be given more than once
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    files: Vec<std::path::PathBuf>,
    /// One of json, yaml
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
}

/// A line of an access log, and what it means.
#[derive(Debug, Serialize)]
struct Logged {
    pod: String,
    line: Line,
    meaning: Meaning,
}

#[derive(Debug, Serialize)]
struct Explained {
    #[serde(flatten)]
    answer: Answer,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    logged: Vec<Logged>,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let explained = match &args.request_id {
        Some(id) => {
            let cluster = Cluster::connect(&context.global).await?;
            request::explain(&cluster, args.source.as_deref(), id).await?
        }
        None => Explained { answer: asked(args, context).await?, logged: Vec::new() },
    };
    output::print(args.output, &explained, || text(&explained))
}

async fn asked(args: &Args, context: &Context) -> Result<Answer, Failure> {
    let (Some(source), Some(url)) = (&args.source, &args.url) else {
        let fault = "give SOURCE and URL, or --request-id; see istioctl explain --help";
        return Err(Failure::setting(fault));
    };
    let url = Url::parse(url).map_err(|error| Failure::setting(format!("URL: {error}")))?;
    let mut question = Question::get("", url);
    question.method = args.method.to_ascii_uppercase();
    question.http2 = args.http2;
    question.now = i64::try_from(ironsail_sys::clock::Clock::system().since_epoch().as_secs()).ok();
    let faults: Vec<String> = args
        .headers
        .iter()
        .filter_map(|line| question.header(line).err())
        .map(|error| format!("--header: {error}"))
        .collect();
    if !faults.is_empty() {
        return Err(Failure::Settings(faults));
    }
    if !args.files.is_empty() {
        let (world, source) = files::world(&args.files, source, &context.global)?;
        question.source = source;
        return Ok(explain(&world, &question));
    }
    let cluster = Cluster::connect(&context.global).await?;
    let mut live = live::Live::new(&cluster).await?;
    question.source = live.source(source).await?;
    Ok(live.explain(&question).await?)
}

fn text(explained: &Explained) -> String {
    let mut text = explained.answer.to_string();
    for logged in &explained.logged {
        let Logged { pod, line, meaning } = logged;
        let status = line.status.map(|status| status.to_string()).unwrap_or_default();
        let said = [&line.flags, &line.details, &line.termination].map(String::as_str);
        let said: Vec<&str> = said.into_iter().filter(|part| !part.is_empty()).collect();
        text.push_str(&format!("\nlogged by {pod}: {status} {}\n", said.join(" ")));
        text.push_str(&format!("  which means: {}\n", meaning.text));
        if let Some(from) = &meaning.from {
            text.push_str(&format!("  because of {from}\n"));
        }
    }
    text
}
