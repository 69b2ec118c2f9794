//! Exec, attach and port-forward: asks admission, then hands the connection over to
//! `ironsail-kubestream`, which speaks the client's protocol with the node.

use http::request::Parts;
use ironsail_kubestream::pod::ExecOptions;
use ironsail_kubestream::{Refused, Upgrade, exec, forward};
use serde_json::{Value, json};

use super::stream::{container, on_node, pod_ref, streams};
use crate::admission::Operation;
use crate::body::full;
use crate::call::Call;
use crate::query::{Query, WriteOptions};
use crate::reply::Reply;
use crate::status::Status;

pub(crate) async fn open(call: &mut Call, mut parts: Parts) -> Result<Reply, Status> {
    let name = call.target.subresource.clone().unwrap_or_default();
    let streams = streams(call)?;
    let pod = pod_ref(call);
    let refused = |refused: Refused| Status::new(refused.code, "", refused.message);
    let Upgrade { response, session } = if name == "portforward" {
        on_node(call)?;
        let ports = ports(&call.query)?;
        admit(call, &name, json!({ "kind": "PodPortForwardOptions", "ports": ports })).await?;
        forward::accept(&mut parts, pod, &ports, streams).map_err(refused)?
    } else {
        let request = exec_request(call, &name)?;
        let options = json!({
            "kind": if name == "exec" { "PodExecOptions" } else { "PodAttachOptions" },
            "container": request.options.container,
            "command": request.options.command,
            "stdin": request.stdin,
            "stdout": request.stdout,
            "stderr": request.stderr,
            "tty": request.options.tty,
        });
        admit(call, &name, options).await?;
        exec::accept(&mut parts, request, streams).map_err(refused)?
    };
    tokio::spawn(session);
    Ok(Reply::Response(response.map(|()| full(Vec::new()))))
}

fn exec_request(call: &Call, name: &str) -> Result<exec::Request, Status> {
    let query = &call.query;
    let asked = query.get("container").filter(|c| !c.is_empty());
    let command: Vec<_> = query.all("command").map(str::to_owned).collect();
    if name == "exec" && command.is_empty() {
        return Err(Status::bad_request("you must specify at least one command for the container"));
    }
    let options = ExecOptions {
        container: Some(match asked {
            Some(asked) => container(call, Some(asked))?,
            None => container(call, None)?,
        }),
        command: if name == "exec" { command } else { Vec::new() },
        tty: query.flag("tty"),
    };
    Ok(exec::Request {
        pod: pod_ref(call),
        options,
        stdin: query.flag("stdin"),
        stdout: query.flag("stdout"),
        stderr: query.flag("stderr"),
    })
}

/// `ports=80,443`, as often as the client likes.
fn ports(query: &Query) -> Result<Vec<u16>, Status> {
    let parse = |text: &str| {
        let port = text.trim().parse::<u16>().ok().filter(|port| *port > 0);
        port.ok_or_else(|| Status::bad_request(format!("unable to parse {text:?} as a port")))
    };
    let all = query.all("ports").flat_map(|list| list.split(',')).filter(|p| !p.is_empty());
    all.map(parse).collect()
}

async fn admit(call: &mut Call, subresource: &str, mut options: Value) -> Result<(), Status> {
    options["apiVersion"] = json!("v1");
    let name = call.name().to_owned();
    let mut request = call.admission_request(
        Operation::Connect,
        Some(subresource),
        &name,
        &WriteOptions::default(),
    );
    request.object = Some(options);
    request.options = Value::Null;
    call.validate(&request).await
}
