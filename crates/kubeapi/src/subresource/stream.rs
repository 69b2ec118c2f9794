//! `pods/log`: text from a running pod, through [`PodStreams`].

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::StreamExt as _;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use ironsail_kubestream::pod::{Error, LogOptions, PodRef, PodStreams};
use serde_json::Value;

use crate::body::BoxError;
use crate::call::Call;
use crate::meta;
use crate::query::Query;
use crate::reply::{Reply, response};
use crate::status::Status;

pub(crate) fn streams(call: &Call) -> Result<Arc<dyn PodStreams>, Status> {
    call.server.streams.read().clone().ok_or_else(|| {
        Status::new(503, "ServiceUnavailable", "no node serves the streams of pods yet")
    })
}

pub(crate) fn pod_ref(call: &Call) -> PodRef {
    PodRef { namespace: call.namespace().to_owned(), name: call.name().to_owned() }
}

pub(crate) fn status(call: &Call, error: &Error) -> Status {
    match error {
        Error::NotFound(message) => {
            Status { message: message.clone(), ..Status::not_found(call.names(), call.name()) }
        }
        Error::BadRequest(message) => Status::bad_request(message.clone()),
        Error::Internal(message) => Status::internal(message.clone()),
    }
}

/// The pod, which must be on a node.
pub(crate) fn on_node(call: &Call) -> Result<Value, Status> {
    let name = call.name();
    let pod = call.value_of(&*call.stored(name)?);
    if pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty() {
        return Err(Status::bad_request(format!("pod {name} does not have a host assigned")));
    }
    Ok(pod)
}

/// The container that is meant; the pod must be on a node.
pub(crate) fn container(call: &Call, asked: Option<&str>) -> Result<String, Status> {
    let pod = on_node(call)?;
    let name = call.name();
    let all = |field: &str| names(&pod["spec"][field]);
    let (main, init) = (all("containers"), all("initContainers"));
    let ephemeral = all("ephemeralContainers");
    match asked.filter(|asked| !asked.is_empty()) {
        Some(asked) => {
            let known =
                [&main, &init, &ephemeral].iter().any(|list| list.iter().any(|n| n == asked));
            if !known {
                return Err(Status::bad_request(format!(
                    "container {asked} is not valid for pod {name}"
                )));
            }
            Ok(asked.to_owned())
        }
        None => match main.as_slice() {
            [one] => Ok(one.clone()),
            many => {
                let mut text = format!(
                    "a container name must be specified for pod {name}, choose one of: [{}]",
                    many.join(" ")
                );
                if !init.is_empty() {
                    text.push_str(&format!(" or one of the init containers: [{}]", init.join(" ")));
                }
                Err(Status::bad_request(text))
            }
        },
    }
}

fn names(containers: &Value) -> Vec<String> {
    let list = containers.as_array().into_iter().flatten();
    list.filter_map(|one| one["name"].as_str()).map(str::to_owned).collect()
}

fn log_options(query: &Query, now: SystemTime) -> Result<LogOptions, Status> {
    let positive = |name: &str| -> Result<Option<u64>, Status> {
        let Some(number) = query.number(name)? else { return Ok(None) };
        u64::try_from(number).map(Some).map_err(|_| {
            let error = ironsail_schema::FieldError::invalid(
                name,
                number,
                "must be greater than or equal to 0",
            );
            Status::invalid("", "PodLogOptions", "", &[error])
        })
    };
    let since = match (positive("sinceSeconds")?, query.get("sinceTime")) {
        (Some(seconds), _) => now.checked_sub(Duration::from_secs(seconds)),
        (None, Some(text)) if !text.is_empty() => {
            let seconds = meta::parse_seconds(text)
                .and_then(|seconds| u64::try_from(seconds).ok())
                .ok_or_else(|| Status::bad_request(format!("sinceTime {text:?} is no time")))?;
            Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
        }
        _ => None,
    };
    Ok(LogOptions {
        container: None,
        follow: query.flag("follow"),
        previous: query.flag("previous"),
        timestamps: query.flag("timestamps"),
        tail_lines: positive("tailLines")?,
        limit_bytes: positive("limitBytes")?,
        since,
    })
}

pub(crate) async fn log(call: &Call) -> Result<Reply, Status> {
    let mut options = log_options(&call.query, call.server.clock.now())?;
    options.container = Some(container(call, call.query.get("container"))?);
    let streams = streams(call)?;
    let lines = streams.logs(pod_ref(call), options).await;
    let lines = lines.map_err(|error| status(call, &error))?;
    let frames = lines.map(|chunk: std::io::Result<Bytes>| {
        chunk.map(Frame::data).map_err(|error| Box::new(error) as BoxError)
    });
    let body = StreamBody::new(frames).boxed_unsync();
    Ok(Reply::Response(response(200, "text/plain", body)))
}
