//! From a request to the verb that answers it.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response};

use super::{Shared, documents};
use crate::accept;
use crate::auth::rbac;
use crate::auth::{Access, Peer, User};
use crate::body::{self, Body};
use crate::call::Call;
use crate::path::{self, Route, Target};
use crate::query::{ListOptions, Query};
use crate::registry::Definition;
use crate::reply::{self, Render, Reply};
use crate::status::Status;
use crate::subresource::{namespace, pod, scale, session, stream};
use crate::table::Include;
use crate::verb::{create, delete, list, patch, update, watch};

pub(super) async fn answer<B>(
    shared: Arc<Shared>,
    request: Request<B>,
    peer: Peer,
) -> Response<Body>
where
    B: http_body::Body + Send + 'static,
    B::Error: std::fmt::Display,
{
    let (parts, body) = request.into_parts();
    match routed(shared, parts, body, &peer).await {
        Ok(response) => response,
        Err(status) => reply::refusal(&status),
    }
}

async fn routed<B>(
    shared: Arc<Shared>,
    parts: Parts,
    body: B,
    peer: &Peer,
) -> Result<Response<Body>, Status>
where
    B: http_body::Body + Send + 'static,
    B::Error: std::fmt::Display,
{
    let user = shared.authenticator.authenticate(peer, &parts.headers)?;
    let Some(route) = path::parse(parts.uri.path()) else {
        return Ok(reply::text(404, "404 page not found\n"));
    };
    match route {
        Route::Document(path) => {
            let verb = parts.method.as_str().to_ascii_lowercase();
            let target = rbac::Target::Path(&path);
            shared.authorizer.check(&user, &Access { verb: &verb, target })?;
            Ok(documents::answer(&shared, &parts, &path))
        }
        Route::Resource(target) => resource(shared, parts, body, user, target).await,
    }
}

/// The Kubernetes verb of a request.
fn verb(method: &Method, target: &Target, query: &Query) -> Option<&'static str> {
    let named = target.name.is_some();
    Some(match (method.as_str(), named) {
        ("GET" | "HEAD", _) if query.flag("watch") && target.subresource.is_none() => "watch",
        ("GET" | "HEAD", true) => "get",
        ("GET" | "HEAD", false) => "list",
        ("POST", _) => "create",
        ("PUT", true) => "update",
        ("PATCH", true) => "patch",
        ("DELETE", true) => "delete",
        ("DELETE", false) => "deletecollection",
        _ => return None,
    })
}

fn authorize(shared: &Shared, user: &User, verb: &str, target: &Target) -> Result<(), Status> {
    // Kubernetes takes a namespace to be inside itself.
    let namespaces = target.group.is_empty() && target.resource == "namespaces";
    let own = target.name.as_deref().filter(|_| namespaces);
    let asked = rbac::Target::Resource {
        group: &target.group,
        version: &target.version,
        resource: &target.resource,
        subresource: target.subresource.as_deref().unwrap_or_default(),
        namespace: target.namespace.as_deref().or(own).unwrap_or_default(),
        name: target.name.as_deref().unwrap_or_default(),
    };
    Ok(shared.authorizer.check(user, &Access { verb, target: asked })?)
}

async fn resource<B>(
    shared: Arc<Shared>,
    parts: Parts,
    body: B,
    user: User,
    target: Target,
) -> Result<Response<Body>, Status>
where
    B: http_body::Body + Send + 'static,
    B::Error: std::fmt::Display,
{
    let query = Query::parse(parts.uri.query().unwrap_or_default())?;
    let Some(verb) = verb(&parts.method, &target, &query) else {
        return Err(Status::method_not_allowed());
    };
    authorize(&shared, &user, verb, &target)?;
    if !shared.registry.has_version(&target.group, &target.version) {
        return Ok(reply::text(404, "404 page not found\n"));
    }
    let definition = shared
        .registry
        .get(&target.group, &target.version, &target.resource)
        .ok_or_else(Status::unknown_resource)?;
    check_path(&*definition, &target, verb)?;
    let mut call = Call {
        server: shared,
        user,
        target,
        definition,
        query,
        accept: accept::negotiate(&parts.headers)?,
        headers: parts.headers.clone(),
        warnings: Vec::new(),
    };
    let reply = if is_stream(&call) {
        session::open(&mut call, parts).await
    } else {
        let bytes = match parts.method {
            Method::GET | Method::HEAD => Bytes::new(),
            _ => body::read(body).await?,
        };
        run(&mut call, verb, &bytes).await
    };
    let render = Render {
        accept: call.accept,
        include: Include::parse(&call.query)?,
        definition: &*call.definition,
        now: call.server.clock.now(),
    };
    let mut response = match reply {
        Ok(reply) => render.reply(reply),
        Err(status) => reply::refusal(&status),
    };
    reply::warn(&mut response, &call.warnings);
    Ok(response)
}

/// The path must fit the resource: its scope, its verbs and its subresources.
fn check_path(definition: &dyn Definition, target: &Target, verb: &str) -> Result<(), Status> {
    let names = definition.names();
    if target.namespace.is_some() && !names.namespaced {
        return Err(Status::unknown_resource());
    }
    let across = matches!(verb, "list" | "watch" | "deletecollection") && target.name.is_none();
    if names.namespaced && target.namespace.is_none() && !across {
        return Err(if verb == "create" && target.name.is_none() {
            Status::method_not_allowed()
        } else {
            Status::unknown_resource()
        });
    }
    let allowed = match &target.subresource {
        None => {
            let fits = verb != "create" || target.name.is_none();
            fits && definition.verbs().iter().any(|one| one == verb)
        }
        Some(name) => {
            let sub = definition.subresource(name).ok_or_else(Status::unknown_resource)?;
            sub.verbs.contains(&verb)
        }
    };
    if allowed { Ok(()) } else { Err(Status::method_not_allowed()) }
}

fn is_stream(call: &Call) -> bool {
    matches!(call.target.subresource.as_deref(), Some("exec" | "attach" | "portforward"))
}

async fn run(call: &mut Call, verb: &str, bytes: &[u8]) -> Result<Reply, Status> {
    if let Some(name) = call.target.subresource.clone() {
        return run_subresource(call, &name, verb, bytes).await;
    }
    match verb {
        "get" => {
            check_get(call)?;
            Ok(Reply::Object { code: 200, object: call.stored(call.name())? })
        }
        "list" => list::list(call, &ListOptions::parse(&call.query)?),
        "watch" => watch::watch(call, &ListOptions::parse(&call.query)?),
        "create" if !is_stored(call) => answer_review(call, bytes).await,
        "create" => create::create(call, bytes).await,
        "update" => update::update(call, None, bytes).await,
        "patch" => patch::patch(call, None, bytes).await,
        "delete" => delete::delete(call, bytes).await,
        "deletecollection" => delete::delete_collection(call, bytes).await,
        _ => Err(Status::method_not_allowed()),
    }
}

/// A get may ask for a state at least as new as a revision.
fn check_get(call: &Call) -> Result<(), Status> {
    let text = call.query.get("resourceVersion").unwrap_or_default();
    if text.is_empty() {
        return Ok(());
    }
    let options = ListOptions { resource_version: text.to_owned(), ..ListOptions::default() };
    let current = call.server.store.reader().revision();
    match options.revision()? {
        Some(wanted) if wanted > current => Err(Status::too_large_revision(wanted, current)),
        _ => Ok(()),
    }
}

fn is_stored(call: &Call) -> bool {
    call.definition.verbs().iter().any(|verb| verb == "get")
}

/// Kinds that are asked and answered, never stored.
async fn answer_review(call: &mut Call, bytes: &[u8]) -> Result<Reply, Status> {
    if *call.names().kind == *"Binding" {
        let pods = call.server.registry.get("", "v1", "pods");
        call.definition = pods.ok_or_else(Status::unknown_resource)?;
        return pod::bind(call, bytes).await;
    }
    let body = call.decode_body(bytes, crate::query::FieldValidation::Warn)?;
    let reviews = &call.server.reviews;
    let value = reviews.answer(&call.user, &call.names().plural, call.namespace(), body)?;
    Ok(Reply::Value { code: 201, value })
}

async fn run_subresource(
    call: &mut Call,
    name: &str,
    verb: &str,
    bytes: &[u8],
) -> Result<Reply, Status> {
    match (name, verb) {
        ("scale", "get") => scale::get(call),
        ("scale", "update") => scale::update(call, bytes).await,
        ("scale", "patch") => scale::patch(call, bytes).await,
        ("binding", "create") => pod::bind(call, bytes).await,
        ("eviction", "create") => pod::evict(call, bytes).await,
        ("finalize", "update") => namespace::finalize(call, bytes).await,
        ("log", "get") => stream::log(call).await,
        ("token", "create") => {
            let (body, _) = body::parse(bytes, body::format(&call.headers)?, "TokenRequest")?;
            let value = call.server.tokens.request(call.namespace(), call.name(), body)?;
            Ok(Reply::Value { code: 201, value })
        }
        (_, "get") => Ok(Reply::Object { code: 200, object: call.stored(call.name())? }),
        (name, "update") => update::update(call, Some(name), bytes).await,
        (name, "patch") => patch::patch(call, Some(name), bytes).await,
        _ => Err(Status::method_not_allowed()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_become_verbs() {
        let named = Target { name: Some("a".to_owned()), ..Target::default() };
        let all = Target::default();
        let none = Query::default();
        let watching = Query::parse("watch=1").unwrap();
        for (method, target, query, expected) in [
            (Method::GET, &all, &none, Some("list")),
            (Method::GET, &named, &none, Some("get")),
            (Method::GET, &all, &watching, Some("watch")),
            (Method::POST, &all, &none, Some("create")),
            (Method::PUT, &named, &none, Some("update")),
            (Method::PUT, &all, &none, None),
            (Method::DELETE, &all, &none, Some("deletecollection")),
            (Method::OPTIONS, &all, &none, None),
        ] {
            assert_eq!(verb(&method, target, query), expected, "{method}");
        }
    }
}
