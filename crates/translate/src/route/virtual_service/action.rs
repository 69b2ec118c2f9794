//! What a route does with a request that fits: to clusters, elsewhere, or an answer of its own.

use ironsail_api::istio::networking::{
    Destination, HttpBody, HttpDirectResponse, HttpRedirect, HttpRoute, HttpRouteDestination,
    RedirectPort, RedirectPortSelection,
};
use ironsail_names::Hostname;
use ironsail_proto::envoy::config::core::v3::{DataSource, data_source::Specifier};
use ironsail_proto::envoy::config::route::v3::{
    DirectResponseAction, RedirectAction, Route, RouteAction, WeightedCluster,
    redirect_action::{PathRewriteSpecifier, RedirectResponseCode, SchemeRewriteSpecifier},
    route::Action,
    route_action::{ClusterSpecifier, HostRewriteSpecifier, RequestMirrorPolicy},
    weighted_cluster::{ClusterWeight, cluster_weight},
};
use ironsail_proto::envoy::r#type::matcher::v3::{RegexMatchAndSubstitute, RegexMatcher};

use super::{Context, From, fault, header, retry};
use crate::filter::wire;
use crate::problem::Problems;
use crate::route::{check, destination};

/// Requests that cannot be answered as the VirtualService says get this, not some other place.
fn failed() -> Action {
    Action::DirectResponse(DirectResponseAction { status: 500, ..Default::default() })
}

pub(super) fn action(
    out: &mut Route,
    from: &From<'_>,
    authority: Option<String>,
    context: &Context<'_>,
    problems: &mut Problems<'_>,
) {
    let route = &*from.route;
    out.action = Some(if let Some(to) = &route.redirect {
        redirect(to, context).unwrap_or_else(|why| {
            problems.invalid(&from.at("redirect"), format!("{why}; requests get 500"));
            failed()
        })
    } else if let Some(answer) = &route.direct_response {
        direct(answer).unwrap_or_else(|why| {
            problems.invalid(&from.at("directResponse"), format!("{why}; requests get 500"));
            failed()
        })
    } else {
        forward(out, from, authority, context, problems).unwrap_or_else(|(field, why)| {
            problems.invalid(&from.at(&field), format!("{why}; requests get 500"));
            failed()
        })
    });
}

fn redirect(to: &HttpRedirect, context: &Context<'_>) -> Result<Action, String> {
    for text in [&to.uri, &to.authority, &to.scheme, &to.prefix_rewrite] {
        check::header_value(text)?;
    }
    let response_code = match to.redirect_code {
        0 | 301 => RedirectResponseCode::MovedPermanently,
        302 => RedirectResponseCode::Found,
        303 => RedirectResponseCode::SeeOther,
        307 => RedirectResponseCode::TemporaryRedirect,
        308 => RedirectResponseCode::PermanentRedirect,
        other => return Err(format!("{other} is no status of a redirect")),
    };
    let mut port = match to.port {
        RedirectPort::Port(port) => port,
        RedirectPort::DerivePort(RedirectPortSelection::FromRequestPort) => {
            context.listen_port.into()
        }
        RedirectPort::DerivePort(RedirectPortSelection::FromProtocolDefault)
        | RedirectPort::Unset => 0,
    };
    let scheme = match (to.scheme.as_str(), context.tls) {
        ("", true) => "https",
        ("", false) => "http",
        (own, _) => own,
    };
    if matches!((port, scheme), (80, "http") | (443, "https")) {
        port = 0;
    }
    let path = match to.prefix_rewrite.is_empty() {
        true => PathRewriteSpecifier::PathRedirect(to.uri.clone()),
        false => PathRewriteSpecifier::PrefixRewrite(to.prefix_rewrite.clone()),
    };
    Ok(Action::Redirect(RedirectAction {
        host_redirect: to.authority.clone(),
        path_rewrite_specifier: Some(path),
        scheme_rewrite_specifier: (!to.scheme.is_empty())
            .then(|| SchemeRewriteSpecifier::SchemeRedirect(to.scheme.clone())),
        port_redirect: port,
        response_code: response_code.into(),
        ..Default::default()
    }))
}

fn direct(answer: &HttpDirectResponse) -> Result<Action, String> {
    if !(200..600).contains(&answer.status) {
        return Err(format!("{} is not between 200 and 599", answer.status));
    }
    let body = answer.body.as_ref().and_then(|body| match body {
        HttpBody::Unset => None,
        HttpBody::String(text) => Some(Specifier::InlineString(text.clone())),
        HttpBody::Bytes(bytes) => Some(Specifier::InlineBytes(bytes.0.clone())),
    });
    Ok(Action::DirectResponse(DirectResponseAction {
        status: answer.status,
        body: body.map(|specifier| DataSource { specifier: Some(specifier), ..Default::default() }),
        ..Default::default()
    }))
}

type Bad = (String, String);

#[expect(deprecated, reason = "max_stream_duration does not honour grpc-timeout the same way")]
fn forward(
    out: &mut Route,
    from: &From<'_>,
    mut authority: Option<String>,
    context: &Context<'_>,
    problems: &mut Problems<'_>,
) -> Result<Action, Bad> {
    let route = &*from.route;
    let timeout = wire::span(route.timeout.unwrap_or_default());
    let mut action = RouteAction { timeout, max_grpc_timeout: timeout, ..Default::default() };
    if let Some(rewrite) = &route.rewrite {
        if let Some(regex) = &rewrite.uri_regex_rewrite {
            let field = || "rewrite.uriRegexRewrite".to_owned();
            let groups = check::regex(&regex.r#match).map_err(|why| (field(), why))?;
            check::substitution(&regex.rewrite, groups).map_err(|why| (field(), why))?;
            action.regex_rewrite = Some(RegexMatchAndSubstitute {
                pattern: Some(RegexMatcher { regex: regex.r#match.clone(), ..Default::default() }),
                substitution: regex.rewrite.clone(),
            });
        } else if !rewrite.uri.is_empty() {
            check::header_value(&rewrite.uri).map_err(|why| ("rewrite.uri".to_owned(), why))?;
            action.prefix_rewrite.clone_from(&rewrite.uri);
        }
        if !rewrite.authority.is_empty() {
            authority = Some(rewrite.authority.clone());
        }
    }
    if let Some(authority) = authority {
        check::header_value(&authority).map_err(|why| ("rewrite.authority".to_owned(), why))?;
        action.host_rewrite_specifier = Some(HostRewriteSpecifier::HostRewriteLiteral(authority));
    }
    action.request_mirror_policies = mirrors(from, context, problems);
    let mut hashed = false;
    match route.route.as_slice() {
        [] => return Err(("route".into(), "it leads nowhere".into())),
        [only] => hashed = one(out, &mut action, from, only, context, problems)?,
        many => weighted(&mut action, from, many, context, problems)?,
    }
    action.retry_policy = retry::policy(route.retries.as_ref().or(context.retries.get()), hashed);
    Ok(Action::Route(action))
}

/// The only destination; returns whether requests stick to endpoints.
fn one(
    out: &mut Route,
    action: &mut RouteAction,
    from: &From<'_>,
    to: &HttpRouteDestination,
    context: &Context<'_>,
    problems: &mut Problems<'_>,
) -> Result<bool, Bad> {
    let host = resolve(&to.destination, from, context, problems, "route[0]")?;
    let cluster =
        destination::cluster(&to.destination, &host, context.targets, context.listen_port);
    action.cluster_specifier = Some(ClusterSpecifier::Cluster(cluster));
    let changes = header::changes(to.headers.as_ref(), |why| {
        problems.invalid(&from.at("route[0].headers"), format!("{why}; the header is left alone"));
    });
    out.request_headers_to_add.extend(changes.request_add);
    out.request_headers_to_remove.extend(changes.request_remove);
    out.response_headers_to_add.extend(changes.response_add);
    out.response_headers_to_remove.extend(changes.response_remove);
    if action.host_rewrite_specifier.is_none() {
        action.host_rewrite_specifier =
            changes.authority.map(HostRewriteSpecifier::HostRewriteLiteral);
    }
    let hash = hashing(&to.destination, &host, context);
    action.hash_policy.extend(hash.clone());
    Ok(hash.is_some())
}

fn weighted(
    action: &mut RouteAction,
    from: &From<'_>,
    to: &[HttpRouteDestination],
    context: &Context<'_>,
    problems: &mut Problems<'_>,
) -> Result<(), Bad> {
    let mut clusters = Vec::new();
    for (i, to) in to.iter().enumerate() {
        // What gets nothing is left out: Envoy takes no weight of zero.
        let Some(weight) = u32::try_from(to.weight).ok().filter(|weight| *weight > 0) else {
            continue;
        };
        let field = format!("route[{i}]");
        let host = resolve(&to.destination, from, context, problems, &field)?;
        let changes = header::changes(to.headers.as_ref(), |why| {
            let field = from.at(&format!("{field}.headers"));
            problems.invalid(&field, format!("{why}; the header is left alone"));
        });
        clusters.push(ClusterWeight {
            name: destination::cluster(
                &to.destination,
                &host,
                context.targets,
                context.listen_port,
            ),
            weight: wire::number(weight),
            request_headers_to_add: changes.request_add,
            request_headers_to_remove: changes.request_remove,
            response_headers_to_add: changes.response_add,
            response_headers_to_remove: changes.response_remove,
            host_rewrite_specifier: changes
                .authority
                .map(cluster_weight::HostRewriteSpecifier::HostRewriteLiteral),
            ..Default::default()
        });
        action.hash_policy.extend(hashing(&to.destination, &host, context));
    }
    if clusters.is_empty() {
        return Err(("route".into(), "no destination has a weight".into()));
    }
    let clusters = WeightedCluster { clusters, ..Default::default() };
    action.cluster_specifier = Some(ClusterSpecifier::WeightedClusters(clusters));
    Ok(())
}

fn hashing(
    to: &Destination,
    host: &Hostname,
    context: &Context<'_>,
) -> Option<ironsail_proto::envoy::config::route::v3::route_action::HashPolicy> {
    let port = to.port_number().and_then(|port| u16::try_from(port).ok());
    let by = context.targets.get(host)?.hashing.of_destination(&to.subset, port)?;
    Some(by.policy())
}

/// A destination that nobody knows still gets its cluster: a static one of the bootstrap may be meant.
fn resolve(
    to: &Destination,
    from: &From<'_>,
    context: &Context<'_>,
    problems: &mut Problems<'_>,
    field: &str,
) -> Result<Hostname, Bad> {
    let host = from
        .full_host(&to.host, context.domain)
        .map_err(|error| (format!("{field}.destination.host"), error.to_string()))?;
    if !context.targets.get(&host).is_some_and(|target| target.known) {
        let field = from.at(&format!("{field}.destination.host"));
        problems.missing(&field, format!("no service {host} is visible here; requests get 503"));
    }
    Ok(host)
}

fn mirrors(
    from: &From<'_>,
    context: &Context<'_>,
    problems: &mut Problems<'_>,
) -> Vec<RequestMirrorPolicy> {
    let route = &*from.route;
    let mut out = Vec::new();
    let mut add = |to: &Destination, share, field: &str, problems: &mut Problems<'_>| match resolve(
        to, from, context, problems, field,
    ) {
        Ok(host) => out.push(RequestMirrorPolicy {
            cluster: destination::cluster(to, &host, context.targets, context.listen_port),
            runtime_fraction: Some(fault::runtime(share)),
            trace_sampled: wire::flag(false),
            ..Default::default()
        }),
        Err((field, why)) => {
            problems.invalid(&from.at(&field), format!("{why}; nothing is mirrored there"));
        }
    };
    if let Some(to) = &route.mirror {
        let share = match (&route.mirror_percentage, route.mirror_percent) {
            (Some(share), _) => fault::percent(share),
            (None, Some(share)) => fault::hundredths(share),
            (None, None) => fault::hundredths(100),
        };
        if share.numerator > 0 {
            add(to, share, "mirror", problems);
        }
    }
    for (i, mirror) in route.mirrors.iter().enumerate() {
        let share = mirror.percentage.as_ref().map_or(fault::hundredths(100), fault::percent);
        if share.numerator > 0 {
            add(&mirror.destination, share, &format!("mirrors[{i}]"), problems);
        }
    }
    out
}

/// Whether the route sends requests on, as opposed to answering them.
pub(super) fn forwards(route: &HttpRoute) -> bool {
    route.redirect.is_none() && route.direct_response.is_none()
}
