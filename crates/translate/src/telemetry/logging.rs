//! Access logs: which providers, for which side, and which requests.

use std::collections::BTreeMap;

use ironsail_api::Diagnostic;
use ironsail_api::istio::telemetry::AccessLogging;
use ironsail_api::mesh::{LogFormat, MeshConfig, Provider};
use ironsail_api::wire::Wire;

use super::provider::Place;
use super::{Context, concerns, problems, provider};
use crate::filter::settings::{Access, AccessFormat, Settings, Side, Sided, Sink};

/// The provider that is there without being configured.
const BUILTIN: &str = "envoy";

/// What is logged to one provider.
#[derive(Clone, PartialEq)]
struct Logged {
    filter: Option<String>,
}

pub(super) fn apply(settings: &mut Settings, context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    let config = &context.snapshot.mesh.config;
    let defaults = config.default_providers.as_ref().map_or(&[][..], |p| &p.access_logging);
    let said = context.parts(|telemetry| &telemetry.access_logging).next().is_some();
    if !said && defaults.is_empty() {
        return;
    }
    let client = merged(context, Side::Client, defaults, found);
    let server = merged(context, Side::Server, defaults, found);
    let listeners = !config.disable_envoy_listener_log;
    let mut names: Vec<&String> = client.keys().chain(server.keys()).collect();
    names.sort();
    names.dedup();
    settings.access.clear();
    for name in names {
        let Some(to) = sink(context, name, config, found) else { continue };
        let (client, server) = (client.get(name), server.get(name));
        let mut put = |one: &Logged, on: Sided<bool>| {
            let filter = one.filter.clone();
            settings.access.push(Access { to: to.clone(), listeners, on, filter });
        };
        match (client, server) {
            (Some(a), Some(b)) if a == b => put(a, Sided { client: true, server: true }),
            (a, b) => {
                a.into_iter().for_each(|a| put(a, Sided { client: true, server: false }));
                b.into_iter().for_each(|b| put(b, Sided { client: false, server: true }));
            }
        }
    }
}

/// The providers of one side: the last that were named, each with what was said of it last.
fn merged(
    context: &Context<'_>,
    side: Side,
    defaults: &[String],
    found: &mut Vec<Diagnostic>,
) -> BTreeMap<String, Logged> {
    let parts: Vec<_> = context
        .parts(|telemetry| &telemetry.access_logging)
        .filter(|(_, _, part)| {
            concerns(part.r#match.as_ref().map(|m| m.mode).unwrap_or_default(), side)
        })
        .collect();
    let mut in_scope: Vec<String> = defaults.to_vec();
    for (_, _, part) in &parts {
        if !part.providers.is_empty() {
            in_scope = names(part);
        }
    }
    let mut out = BTreeMap::new();
    if parts.is_empty() {
        out.extend(defaults.iter().map(|name| (name.clone(), Logged { filter: None })));
        return out;
    }
    let mut current: Vec<String> = defaults.to_vec();
    for (object, i, part) in parts {
        if !part.providers.is_empty() {
            current = names(part);
        }
        let filter = part.filter.as_ref().map(|filter| filter.expression.clone());
        let filter = filter.filter(|text| !text.is_empty());
        if let Some(Err(why)) = filter.as_deref().map(ironsail_schema::is_expression) {
            let field = format!("spec.accessLogging[{i}].filter.expression");
            problems(object, found).invalid(&field, format!("{why}; nothing is logged by it"));
            continue;
        }
        for name in current.iter().filter(|name| in_scope.contains(name)) {
            match part.disabled == Some(true) {
                true => out.remove(name),
                false => out.insert(name.clone(), Logged { filter: filter.clone() }),
            };
            if provider::find(context, name).is_none() && name != BUILTIN {
                let field = format!("spec.accessLogging[{i}].providers");
                let text = format!("the mesh configuration has no extension provider {name:?}");
                problems(object, found).missing(&field, text);
            }
        }
    }
    out
}

fn names(part: &AccessLogging) -> Vec<String> {
    part.providers.iter().map(|provider| provider.name.clone()).collect()
}

fn sink(
    context: &Context<'_>,
    name: &str,
    config: &MeshConfig,
    found: &mut Vec<Diagnostic>,
) -> Option<Sink> {
    let place = |service: &str, port: u32, found: &mut Vec<Diagnostic>| {
        let place = provider::place(context, service, port);
        if place.is_none() {
            tell(context, name, &format!("{service}:{port} is no service that it sees"), found);
        }
        place
    };
    let log_name = |own: &str, default: &str| match own {
        "" => default.to_owned(),
        own => own.to_owned(),
    };
    match provider::find(context, name) {
        None if name == BUILTIN => Some(Sink::File {
            path: "/dev/stdout".into(),
            format: AccessFormat::of_mesh(config),
            omit_empty: false,
        }),
        None => None,
        Some(Provider::EnvoyFileAccessLog(file)) => Some(Sink::File {
            path: if file.path.is_empty() { "/dev/stdout".into() } else { file.path.clone() },
            format: match &file.log_format {
                None | Some(LogFormat::Unset) => AccessFormat::Text(String::new()),
                Some(LogFormat::Text(text)) => AccessFormat::Text(text.clone()),
                Some(LogFormat::Labels(fields)) => AccessFormat::Json(fields.write().to_string()),
            },
            omit_empty: file.omit_empty_values,
        }),
        Some(Provider::EnvoyHttpAls(als)) => {
            let Place { cluster, host } = place(&als.service, als.port, found)?;
            Some(Sink::Grpc {
                tcp: false,
                cluster,
                authority: host,
                log_name: log_name(&als.log_name, "http_envoy_accesslog"),
                filter_state: als.filter_state_objects_to_log.clone(),
                request_headers: als.additional_request_headers_to_log.clone(),
                response_headers: als.additional_response_headers_to_log.clone(),
                response_trailers: als.additional_response_trailers_to_log.clone(),
            })
        }
        Some(Provider::EnvoyTcpAls(als)) => {
            let Place { cluster, host } = place(&als.service, als.port, found)?;
            Some(Sink::Grpc {
                tcp: true,
                cluster,
                authority: host,
                log_name: log_name(&als.log_name, "tcp_envoy_accesslog"),
                filter_state: als.filter_state_objects_to_log.clone(),
                request_headers: Vec::new(),
                response_headers: Vec::new(),
                response_trailers: Vec::new(),
            })
        }
        Some(Provider::EnvoyOtelAls(als)) => {
            let format = als.log_format.as_ref();
            let labels = format.and_then(|format| format.labels.as_ref());
            let labels = labels.into_iter().flat_map(|labels| &labels.0);
            let Place { cluster, host } = place(&als.service, als.port, found)?;
            Some(Sink::Otel {
                cluster,
                authority: host,
                log_name: log_name(&als.log_name, "otel_envoy_accesslog"),
                text: format.map(|format| format.text.clone()).unwrap_or_default(),
                labels: labels
                    .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                    .collect(),
            })
        }
        Some(_) => {
            tell(context, name, "it does not take access logs, or not supported yet", found);
            None
        }
    }
}

/// The owner of the narrowest object hears about providers.
fn tell(context: &Context<'_>, name: &str, why: &str, found: &mut Vec<Diagnostic>) {
    if let Some((object, i, _)) = context.parts(|telemetry| &telemetry.access_logging).last() {
        let field = format!("spec.accessLogging[{i}].providers");
        problems(object, found).missing(&field, format!("extension provider {name:?}: {why}"));
    }
}
