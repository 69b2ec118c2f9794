//! `pods/binding` and `pods/eviction`: what the scheduler and drains post.

use serde_json::{Value, json};

use crate::body;
use crate::call::Call;
use crate::meta;
use crate::query::WriteOptions;
use crate::reply::Reply;
use crate::status::{Status, success};
use crate::verb::create::Owners;
use crate::verb::delete::{DeleteOptions, remove};
use crate::verb::update::{Edit, Made, Rules, change};

const EDIT: Edit<'static> = Edit { subresource: Some("binding"), rules: Rules::Server };

/// Puts a pod on a node.
pub(crate) async fn bind(call: &mut Call, bytes: &[u8]) -> Result<Reply, Status> {
    let options = WriteOptions::parse(&call.query, "CreateOptions")?;
    let (binding, _) = body::parse(bytes, body::format(&call.headers)?, "Binding")?;
    let name = meta::text(&binding, "name").to_owned();
    if call.target.name.is_none() {
        call.target.name = Some(name.clone());
    }
    if !name.is_empty() && name != call.name() {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.name()
        )));
    }
    let target = &binding["target"];
    if !matches!(target["kind"].as_str(), None | Some("" | "Node")) {
        return Err(Status::bad_request("the target of a binding must be a Node"));
    }
    let Some(node) = target["name"].as_str().filter(|node| !node.is_empty()) else {
        return Err(Status::bad_request("the target of a binding must have a name"));
    };
    let (node, pod) = (node.to_owned(), call.name().to_owned());
    let time = meta::timestamp(&call.server.clock, 0);
    let uid = meta::text(&binding, "uid").to_owned();
    let make = move |old: &Value| {
        let conflict = |why: String| Status::conflict("", "pods/binding", &pod, &why);
        if !uid.is_empty() && uid != meta::text(old, "uid") {
            let own = meta::text(old, "uid");
            return Err(conflict(format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {own}"
            )));
        }
        if meta::is_deleting(old) {
            return Err(conflict(format!(
                "pod {pod} is being deleted, cannot be assigned to a host"
            )));
        }
        if let Some(taken) = old["spec"]["nodeName"].as_str().filter(|taken| !taken.is_empty()) {
            return Err(conflict(format!("pod {pod} is already assigned to node {taken:?}")));
        }
        let mut value = old.clone();
        value["spec"]["nodeName"] = node.as_str().into();
        set_scheduled(&mut value, &time);
        Ok(Made { value, warnings: Vec::new(), owners: Owners::Track })
    };
    change(call, EDIT, &options, &make).await?;
    Ok(Reply::Value { code: 201, value: success(201, None) })
}

/// The condition that the scheduler's work is done.
fn set_scheduled(pod: &mut Value, time: &str) {
    let condition = json!({
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": null,
        "lastTransitionTime": time,
    });
    let conditions = &mut pod["status"]["conditions"];
    let Some(list) = conditions.as_array_mut() else {
        *conditions = json!([condition]);
        return;
    };
    match list.iter_mut().find(|one| one["type"] == "PodScheduled") {
        Some(one) => *one = condition,
        None => list.push(condition),
    }
}

/// Deletes a pod on behalf of a drain. Disruption budgets are stored and not acted on.
pub(crate) async fn evict(call: &mut Call, bytes: &[u8]) -> Result<Reply, Status> {
    let (eviction, _) = body::parse(bytes, body::format(&call.headers)?, "Eviction")?;
    let name = meta::text(&eviction, "name");
    if !name.is_empty() && name != call.name() {
        return Err(Status::bad_request(format!(
            "name in URL does not match name in Eviction object: {name}"
        )));
    }
    let options = match &eviction["deleteOptions"] {
        Value::Null => DeleteOptions::default(),
        options => DeleteOptions::from_value(options.clone())?,
    };
    let name = call.name().to_owned();
    remove(call, &name, &options).await?;
    Ok(Reply::Value { code: 201, value: success(201, None) })
}
