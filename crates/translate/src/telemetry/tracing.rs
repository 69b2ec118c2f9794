//! Traces: where spans go, how many, with which tags.

use ironsail_api::Diagnostic;
use ironsail_api::istio::telemetry::{self as tel, CustomTag};
use ironsail_api::mesh::{Provider, TraceContextOption};

use super::provider::{Place, headers, place};
use super::{Context, concerns, problems, provider};
use crate::filter::settings::{
    REPORT_TIMEOUT, Settings, Side, Tag, TraceProvider, Tracing, mesh_tracing,
};

/// What all that was said comes to.
#[derive(Default)]
struct Merged<'a> {
    providers: Option<Vec<&'a str>>,
    sampling: Option<f64>,
    disabled: bool,
    tags: Option<&'a std::collections::BTreeMap<String, CustomTag>>,
    istio_tags: Option<bool>,
    by_request_id: Option<bool>,
}

pub(super) fn apply(settings: &mut Settings, context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    let config = &context.snapshot.mesh.config;
    let defaults = config.default_providers.as_ref().map_or(&[][..], |p| &p.tracing);
    let said = context.parts(|telemetry| &telemetry.tracing).next().is_some();
    if !said && defaults.is_empty() {
        return;
    }
    let base = mesh_tracing(&context.snapshot.mesh, context.class);
    let client = side(context, Side::Client, defaults, base.client.clone(), found);
    let server = side(context, Side::Server, defaults, base.server, found);
    settings.tracing.client = client;
    settings.tracing.server = server;
    for (object, i, part) in context.parts(|telemetry| &telemetry.tracing) {
        if part.disable_context_propagation == Some(true) {
            let field = format!("spec.tracing[{i}].disableContextPropagation");
            problems(object, found).unsupported(&field);
        }
    }
}

fn side(
    context: &Context<'_>,
    side: Side,
    defaults: &[String],
    base: Option<Tracing>,
    found: &mut Vec<Diagnostic>,
) -> Option<Tracing> {
    let mut merged = Merged::default();
    for (_, _, part) in context.parts(|telemetry| &telemetry.tracing) {
        let mode = part.r#match.as_ref().map(|m| m.mode).unwrap_or_default();
        if concerns(mode, side) {
            merge(&mut merged, part);
        }
    }
    if merged.disabled {
        return None;
    }
    let defaults = || defaults.iter().map(String::as_str).collect::<Vec<_>>();
    let named = merged.providers.take().unwrap_or_else(defaults);
    let tracer = match named.first() {
        None => None,
        Some(name) => tracer(context, name, found),
    };
    // Without a provider, and without tracing in the mesh, there is nothing to set.
    let mut tracing = match (base, &tracer) {
        (Some(tracing), _) => tracing,
        (None, None) => return None,
        (None, Some(_)) => Tracing {
            sampling: 10_000,
            max_path_length: None,
            tags: std::collections::BTreeMap::new(),
            provider: None,
            by_request_id: true,
        },
    };
    if let Some((provider, length)) = tracer {
        tracing.provider = Some(provider);
        tracing.max_path_length = length.or(tracing.max_path_length);
    }
    if let Some(percent) = merged.sampling {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and a million"
        )]
        let share = (percent.clamp(0.0, 100.0) * 10_000.0).round() as u32;
        tracing.sampling = share;
    }
    if merged.istio_tags == Some(false) {
        tracing.tags.retain(|name, _| !name.starts_with("istio."));
    }
    if let Some(tags) = merged.tags {
        tracing.tags.retain(|name, _| name.starts_with("istio."));
        tracing.tags.extend(tags.iter().filter_map(|(n, tag)| Some((n.clone(), custom(tag)?))));
    }
    tracing.by_request_id = merged.by_request_id.unwrap_or(true);
    Some(tracing)
}

fn merge<'a>(merged: &mut Merged<'a>, part: &'a tel::Tracing) {
    if !part.providers.is_empty() {
        merged.providers = Some(part.providers.iter().map(|p| p.name.as_str()).collect());
    }
    merged.sampling = part.random_sampling_percentage.or(merged.sampling);
    merged.disabled = part.disable_span_reporting.unwrap_or(merged.disabled);
    if !part.custom_tags.is_empty() {
        merged.tags = Some(&part.custom_tags);
    }
    merged.istio_tags = part.enable_istio_tags.or(merged.istio_tags);
    merged.by_request_id = part.use_request_id_for_trace_sampling.or(merged.by_request_id);
}

fn custom(tag: &CustomTag) -> Option<Tag> {
    Some(match tag {
        CustomTag::Unset => return None,
        CustomTag::Literal(tag) => Tag::Literal(tag.value.clone()),
        CustomTag::Environment(from) => {
            Tag::Environment { name: from.name.clone(), default: from.default_value.clone() }
        }
        CustomTag::Header(from) => {
            Tag::Header { name: from.name.clone(), default: from.default_value.clone() }
        }
        CustomTag::Formatter(format) => Tag::Format(format.value.clone()),
    })
}

/// The tracer, and the longest path in its spans.
fn tracer(
    context: &Context<'_>,
    name: &str,
    found: &mut Vec<Diagnostic>,
) -> Option<(TraceProvider, Option<u32>)> {
    let mut tell = |why: String| {
        if let Some((object, i, _)) = context.parts(|telemetry| &telemetry.tracing).last() {
            let field = format!("spec.tracing[{i}].providers");
            problems(object, found).missing(&field, format!("extension provider {name:?}: {why}"));
        }
    };
    let Some(provider) = provider::find(context, name) else {
        tell("the mesh configuration has none of this name".into());
        return None;
    };
    let (service, port, length) = match provider {
        Provider::Zipkin(to) => (&to.service, to.port, to.max_tag_length),
        Provider::OpenTelemetry(to) => (&to.service, to.port, to.max_tag_length),
        Provider::Datadog(to) => (&to.service, to.port, to.max_tag_length),
        Provider::SkyWalking(to) => (&to.service, to.port, 0),
        _ => {
            tell("it does not take traces, or is not supported yet".into());
            return None;
        }
    };
    let Some(at) = place(context, service, port) else {
        tell(format!("{service}:{port} is no service that the workload sees"));
        return None;
    };
    let built = build(context, provider, at, port)?;
    Some((built, Some(length).filter(|length| *length > 0)))
}

fn build(
    context: &Context<'_>,
    provider: &Provider,
    at: Place,
    port: u32,
) -> Option<TraceProvider> {
    let service = context.class.service_cluster.to_string();
    let Place { cluster, host } = at;
    Some(match provider {
        Provider::Zipkin(to) => TraceProvider::Zipkin {
            cluster,
            host,
            path: if to.path.is_empty() { "/api/v2/spans".into() } else { to.path.clone() },
            short_ids: to.enable_64bit_trace_id,
            w3c: to.trace_context_option == TraceContextOption::UseB3WithW3cPropagation,
            timeout: to.timeout,
            headers: headers(&to.headers),
        },
        Provider::OpenTelemetry(to) => {
            let detectors = to.resource_detectors.as_ref();
            let environment = detectors.is_some_and(|some| some.environment.is_some());
            match &to.http {
                Some(http) => TraceProvider::OtelHttp {
                    cluster,
                    uri: format!("http://{host}:{port}{}", http.path),
                    service,
                    timeout: http.timeout.unwrap_or(REPORT_TIMEOUT),
                    headers: headers(&http.headers),
                    environment,
                },
                None => TraceProvider::OtelGrpc {
                    cluster,
                    authority: host,
                    service,
                    timeout: to.grpc.as_ref().and_then(|grpc| grpc.timeout),
                    metadata: to
                        .grpc
                        .as_ref()
                        .map(|grpc| headers(&grpc.initial_metadata))
                        .unwrap_or_default(),
                    environment,
                },
            }
        }
        Provider::Datadog(_) => TraceProvider::Datadog { cluster, host, service },
        Provider::SkyWalking(to) => TraceProvider::SkyWalking {
            cluster,
            authority: host,
            service,
            token: to.access_token.clone(),
        },
        _ => return None,
    })
}
