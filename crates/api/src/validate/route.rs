//! Routes of HTTP: conditions, and what happens to a request.

use std::collections::BTreeMap;

use super::check::Check;
use super::destination_rule::subset_name;
use super::http::{self, header_name, is_claim, string_match};
use super::name::{self, head};
use super::virtual_service::gateway_names;
use crate::istio::networking::{
    AbortError, CorsPolicy, DelayDuration, Destination, FaultAbort, FaultDelay, HttpBody,
    HttpDirectResponse, HttpFaultInjection, HttpMatchRequest, HttpRedirect, HttpRetry, HttpRewrite,
    HttpRoute, HttpRouteDestination, Percent, RedirectPort, StringMatch,
};

/// Part that a route plays when VirtualServices are put together.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Stands alone.
    Independent,
    /// Puts in the routes of another VirtualService.
    Root,
    /// Is put into another VirtualService.
    Delegate,
}

pub(super) fn http_route(check: &mut Check<'_>, route: &HttpRoute, role: Role) {
    conflicts(check, route, role);
    check.each("match", &route.r#match, |check, one| condition(check, one, role));
    check.some("headers", route.headers.as_ref(), http::headers);
    check.some("corsPolicy", route.cors_policy.as_ref(), cors);
    check.some("fault", route.fault.as_ref(), fault);
    mirrors(check, route);
    check.some("redirect", route.redirect.as_ref(), redirect);
    check.some("directResponse", route.direct_response.as_ref(), direct_response);
    check.some("retries", route.retries.as_ref(), retries);
    check.some("rewrite", route.rewrite.as_ref(), rewrite);
    let authority = route.rewrite.as_ref().map_or("", |rewrite| &rewrite.authority);
    http::one_authority(check, authority, route.headers.as_ref());
    check.each("route", &route.route, weighted);
    let weights: Vec<_> = route.route.iter().map(|one| one.weight).collect();
    total_weight(check, &weights);
    // 0s means no timeout; only the schema of a cluster refuses it.
    check.duration("timeout", route.timeout.filter(|timeout| !timeout.is_zero()));
}

fn conflicts(check: &mut Check<'_>, route: &HttpRoute, role: Role) {
    let set = [
        ("route", !route.route.is_empty()),
        ("redirect", route.redirect.is_some()),
        ("directResponse", route.direct_response.is_some()),
    ];
    if role == Role::Root {
        for (what, _) in set.iter().filter(|(_, set)| *set) {
            let name = &route.name;
            check.error(format!("root HTTP route {name} must not specify {what}"));
        }
        return;
    }
    check.require(
        !(role == Role::Delegate && route.delegate.is_some()),
        || "delegate HTTP route cannot contain delegate",
    );
    let chosen: Vec<_> = set.iter().filter(|(_, set)| *set).map(|(what, _)| *what).collect();
    match chosen[..] {
        [] => check.error("HTTP route, redirect or direct_response is required"),
        [first, second, ..] => {
            check.error(format!("HTTP route cannot contain both {first} and {second}"));
        }
        [_] => {}
    }
    if route.redirect.is_some() {
        check
            .require(route.fault.is_none(), || "HTTP route cannot contain both fault and redirect");
        check.require(
            route.rewrite.is_none(),
            || "HTTP route rule cannot contain both rewrite and redirect",
        );
    }
    if route.direct_response.is_some() {
        check.require(
            route.rewrite.is_none(),
            || "HTTP route rule cannot contain both rewrite and direct_response",
        );
    }
}

fn condition(check: &mut Check<'_>, condition: &HttpMatchRequest, role: Role) {
    let single = [
        ("uri", &condition.uri),
        ("scheme", &condition.scheme),
        ("method", &condition.method),
        ("authority", &condition.authority),
    ];
    for (field, text) in single {
        check.some(field, text.as_ref(), |check, text| one_match(check, field, text, role));
    }
    let named: [(&str, &BTreeMap<String, StringMatch>); 3] = [
        ("headers", &condition.headers),
        ("withoutHeaders", &condition.without_headers),
        ("queryParams", &condition.query_params),
    ];
    for (field, map) in named {
        for (key, text) in map {
            check.within(&format!("{field}[{}]", head(key)), |check| {
                if field != "queryParams" && !is_claim(key) {
                    check.take(header_name(key));
                }
                one_match(check, field, text, role);
            });
        }
    }
    if condition.port != 0 {
        check.take_at("port", name::port(condition.port));
    }
    check.labels("sourceLabels", &condition.source_labels);
    gateway_names(check, "gateways", &condition.gateways);
    let namespace = &condition.source_namespace;
    check.require(namespace.is_empty() || name::is_label(namespace), || {
        format!("sourceNamespace match {} is invalid", head(namespace))
    });
}

fn one_match(check: &mut Check<'_>, field: &str, text: &StringMatch, role: Role) {
    // Conditions of root and delegate are merged; expressions cannot be.
    if role != Role::Independent && matches!(text, StringMatch::Regex(_)) {
        check.error(format!("{field} match does not support regex match for delegating"));
    }
    string_match(check, field, text);
}

fn percentage(check: &mut Check<'_>, percent: Option<&Percent>) {
    check.some("percentage", percent, |check, Percent { value }| {
        let good = *value == 0.0 || (0.0001..=100.0).contains(value);
        check.require(good, || {
            format!("percentage {value} is neither 0.0, nor in range [0.0001, 100.0]")
        });
    });
}

fn cors(check: &mut Check<'_>, cors: &CorsPolicy) {
    if !cors.allow_origin.is_empty() {
        check.deprecated("corsPolicy.allowOrigin is deprecated, use allowOrigins instead");
    }
    check.each("allowOrigins", &cors.allow_origins, |check, origin| {
        let empty = match origin {
            StringMatch::Unset => true,
            StringMatch::Exact(text) | StringMatch::Prefix(text) | StringMatch::Regex(text) => {
                text.is_empty()
            }
        };
        if empty {
            check.error("'' is not a valid match type for CORS allow origins");
        } else {
            string_match(check, "corsPolicy.allowOrigins", origin);
        }
    });
    check.each("allowMethods", &cors.allow_methods, |check, method| {
        check.take(http::method(method));
    });
    for (field, names) in
        [("allowHeaders", &cors.allow_headers), ("exposeHeaders", &cors.expose_headers)]
    {
        check.each(field, names, |check, name| {
            if name != "*" {
                check.take(header_name(name));
            }
        });
    }
    if let Some(age) = cors.max_age {
        check.duration("maxAge", Some(age));
        check.require(
            age.subsec_nanos() == 0,
            || "max_age duration is accurate only to seconds precision",
        );
    }
}

fn fault(check: &mut Check<'_>, fault: &HttpFaultInjection) {
    check.require(
        fault.abort.is_some() || fault.delay.is_some(),
        || "HTTP fault injection must have an abort and/or a delay",
    );
    check.some("abort", fault.abort.as_ref(), |check, abort: &FaultAbort| {
        percentage(check, abort.percentage.as_ref());
        match &abort.error {
            AbortError::HttpStatus(status) => check.take(http::status((*status).into())),
            AbortError::GrpcStatus(status) => check.take(http::grpc_status(status)),
            AbortError::Http2Error(_) => {
                check.error("HTTP/2 abort fault injection not supported yet");
            }
            AbortError::Unset => check.warn("abort configured, but error type not set"),
        }
    });
    check.some("delay", fault.delay.as_ref(), |check, delay: &FaultDelay| {
        percentage(check, delay.percentage.as_ref());
        if delay.percent != 0 {
            check.deprecated("fault.delay.percent is deprecated, use percentage instead");
            check.require((0..=100).contains(&delay.percent), || {
                format!("percentage {} is not in range 0..100", delay.percent)
            });
        }
        match &delay.duration {
            DelayDuration::FixedDelay(duration) => check.duration("fixedDelay", Some(*duration)),
            DelayDuration::ExponentialDelay(_) => check.error("exponentialDelay not supported yet"),
            DelayDuration::Unset => check.warn("delay configured, but fixedDelay not set"),
        }
    });
}

fn mirrors(check: &mut Check<'_>, route: &HttpRoute) {
    if let Some(percent) = route.mirror_percent {
        check.require(percent <= 100, || {
            format!("mirror_percent must have a max value of 100 (it has {percent})")
        });
        check.deprecated(
            "using deprecated setting \"mirrorPercent\", use \"mirrorPercentage\" instead",
        );
    }
    let share = |check: &mut Check<'_>, what: &str, percent: Option<&Percent>| {
        let good = percent.is_none_or(|percent| (0.0..=100.0).contains(&percent.value));
        check.require(good, || format!("{what} must have a value between 0 and 100"));
    };
    share(check, "mirror_percentage", route.mirror_percentage.as_ref());
    check.some("mirror", route.mirror.as_ref(), destination);
    check.require(
        route.mirror.is_none() || route.mirrors.is_empty(),
        || "HTTP route cannot contain both mirror and mirrors",
    );
    check.each("mirrors", &route.mirrors, |check, mirror| {
        check.within("destination", |check| destination(check, &mirror.destination));
        share(check, "mirror percentage", mirror.percentage.as_ref());
    });
}

fn redirect(check: &mut Check<'_>, redirect: &HttpRedirect) {
    let nothing = redirect.uri.is_empty()
        && redirect.authority.is_empty()
        && redirect.port.is_unset()
        && redirect.scheme.is_empty()
        && redirect.prefix_rewrite.is_empty();
    check.require(!nothing, || "redirect must specify URI, authority, scheme, or port");
    check.require(
        redirect.uri.is_empty() || redirect.prefix_rewrite.is_empty(),
        || "redirect may only contain one of uri or prefixRewrite",
    );
    let code = redirect.redirect_code;
    check.require(code == 0 || (300..400).contains(&code), || {
        format!("{code} is not a valid redirect code, must be 3xx")
    });
    check.require(
        ["", "http", "https"].contains(&redirect.scheme.as_str()),
        || "invalid redirect scheme, must be \"http\" or \"https\"",
    );
    if let RedirectPort::Port(number) = redirect.port
        && number != 0
    {
        check.take_at("port", name::port(number));
    }
}

fn direct_response(check: &mut Check<'_>, response: &HttpDirectResponse) {
    let size = match &response.body {
        Some(HttpBody::String(text)) => text.len(),
        Some(HttpBody::Bytes(bytes)) => bytes.0.len(),
        Some(HttpBody::Unset) | None => 0,
    };
    if size > 1 << 20 {
        check.error(
            "large direct_responses may impact control plane performance, must be less than 1MB",
        );
    } else if size > 100 << 10 {
        check.warn("large direct_responses may impact control plane performance");
    }
    check.take_at("status", http::status(response.status.into()));
}

/// Reasons to try again that Envoy knows, for HTTP and for gRPC.
const RETRY_ON: [&str; 16] = [
    "5xx",
    "gateway-error",
    "reset",
    "reset-before-request",
    "connect-failure",
    "retriable-4xx",
    "refused-stream",
    "retriable-status-codes",
    "retriable-headers",
    "envoy-ratelimited",
    "http3-post-connect-failure",
    "cancelled",
    "deadline-exceeded",
    "internal",
    "resource-exhausted",
    "unavailable",
];

fn retries(check: &mut Check<'_>, retries: &HttpRetry) {
    check.require(retries.attempts >= 0, || "attempts cannot be negative");
    let configured = retries.per_try_timeout.is_some()
        || !retries.retry_on.is_empty()
        || retries.retry_remote_localities.is_some();
    check.require(
        !(retries.attempts == 0 && configured),
        || "http retry policy configured when attempts are set to 0 (disabled)",
    );
    check.duration("perTryTimeout", retries.per_try_timeout);
    check.duration("backoff", retries.backoff);
    for reason in retries.retry_on.split(',').filter(|_| !retries.retry_on.is_empty()) {
        let status = reason.parse::<u16>().is_ok_and(|status| (100..600).contains(&status));
        check.require(status || RETRY_ON.contains(&reason), || {
            format!("{:?} is not a valid retryOn policy", head(reason))
        });
    }
}

fn rewrite(check: &mut Check<'_>, rewrite: &HttpRewrite) {
    let regex = rewrite.uri_regex_rewrite.as_ref();
    check.require(
        rewrite.uri.is_empty() || regex.is_none(),
        || "rewrite may only contain one of URI or UriRegexRewrite",
    );
    check.require(!rewrite.uri.is_empty() || regex.is_some() || !rewrite.authority.is_empty(), || {
        "rewrite must specify at least one of URI, UriRegexRewrite, or authority. Only one of URI or UriRegexRewrite may be specified"
    });
    check.some("uriRegexRewrite", regex, |check, regex| {
        if regex.r#match.is_empty() || regex.rewrite.is_empty() {
            return check
                .error("UriRegexRewrite requires both Rewrite and Match fields to be specified");
        }
        check.take_at("match", super::check_regex(&regex.r#match));
    });
}

fn weighted(check: &mut Check<'_>, one: &HttpRouteDestination) {
    check.within("destination", |check| destination(check, &one.destination));
    check.some("headers", one.headers.as_ref(), http::headers);
    check.require(one.weight >= 0, || format!("weight {} < 0", one.weight));
}

pub(super) fn total_weight(check: &mut Check<'_>, weights: &[i32]) {
    let total: i64 = weights.iter().map(|weight| i64::from(*weight)).sum();
    check.require(weights.len() < 2 || total != 0, || "total destination weight = 0");
}

pub(super) fn destination(check: &mut Check<'_>, destination: &Destination) {
    let host = match destination.host.as_str() {
        "*" => Err("invalid destination host *".to_owned()),
        // A plain address is a destination, too.
        host if name::is_ip(host) => Ok(()),
        host => name::wildcard_domain(host),
    };
    check.take_at("host", host);
    if !destination.subset.is_empty() {
        check.take_at("subset", subset_name(&destination.subset));
    }
    check.some("port", destination.port.as_ref(), |check, port| {
        check.take_at("number", name::port(port.number));
    });
}
