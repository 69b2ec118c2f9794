//! Metrics: which are counted on which side, and with which labels.

use std::collections::BTreeMap;
use std::time::Duration;

use ironsail_api::Diagnostic;
use ironsail_api::istio::telemetry::{
    IstioMetric, MetricName, MetricsOverrides, TagOperation, WorkloadMode,
};
use ironsail_api::mesh::Provider;
use ironsail_telemetry::attribute;
use ironsail_telemetry::config::{EXTRA_LABELS, Metric, NODE_KEY, NODE_VALUE, Override};
use ironsail_telemetry::expression::Expression;
use ironsail_telemetry::label::NAMES;

use super::{Context, concerns, problems, provider};
use crate::filter::settings::{Metrics, Settings, Side, Sided};

/// The provider that is there without being configured.
const PROMETHEUS: &str = "prometheus";
/// How often open connections are counted.
const INTERVAL: Duration = Duration::from_secs(5);
const EXTRA_TAGS: &str = "sidecar.istio.io/extraStatTags";

pub(super) fn apply(settings: &mut Settings, context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    let has_module = context.class.metadata.get(NODE_KEY).is_some_and(|v| v == NODE_VALUE);
    let merged = merge(context, found);
    settings.metrics = merged.filter(|_| has_module);
}

fn merge(context: &Context<'_>, found: &mut Vec<Diagnostic>) -> Option<Metrics> {
    let config = &context.snapshot.mesh.config;
    let defaults = config.default_providers.as_ref().map_or(&[][..], |p| &p.metrics);
    let mut current: Vec<&str> = match defaults {
        [] => vec![PROMETHEUS],
        some => some.iter().map(String::as_str).collect(),
    };
    let mut out = Metrics { interval: INTERVAL, ..Metrics::default() };
    for (object, i, part) in context.parts(|telemetry| &telemetry.metrics) {
        if !part.providers.is_empty() {
            current = part.providers.iter().map(|provider| provider.name.as_str()).collect();
            for (j, name) in current.iter().enumerate() {
                if !is_prometheus(context, name) {
                    let field = format!("spec.metrics[{i}].providers[{j}]");
                    problems(object, found).unsupported(&field);
                }
            }
        }
        if let Some(interval) = part.reporting_interval {
            out.interval = interval.max(Duration::from_millis(1));
        }
        if !current.iter().any(|name| is_prometheus(context, name)) {
            continue;
        }
        for (j, change) in part.overrides.iter().enumerate() {
            let field = format!("spec.metrics[{i}].overrides[{j}]");
            let mut told = problems(object, found);
            one(context, &mut out.overrides, change, |under, why| {
                told.invalid(&format!("{field}.{under}"), why);
            });
        }
    }
    current.iter().any(|name| is_prometheus(context, name)).then_some(out)
}

fn is_prometheus(context: &Context<'_>, name: &str) -> bool {
    match provider::find(context, name) {
        Some(provider) => matches!(provider, Provider::Prometheus(_)),
        None => name == PROMETHEUS,
    }
}

fn one(
    context: &Context<'_>,
    out: &mut Sided<BTreeMap<Metric, Override>>,
    change: &MetricsOverrides,
    mut tell: impl FnMut(&str, String),
) {
    let (named, mode) = match &change.r#match {
        None => (metrics(&MetricName::Unset), WorkloadMode::ClientAndServer),
        Some(of) => (metrics(&of.name), of.mode),
    };
    let Some(named) = named else {
        tell("match.customMetric", "not supported yet: only the standard metrics are made".into());
        return;
    };
    let extra = extra_labels(context);
    let mut labels = BTreeMap::new();
    for (name, tag) in &change.tag_overrides {
        let expression = match tag.operation {
            TagOperation::Remove => None,
            TagOperation::Upsert => Some(tag.value.clone()),
        };
        if let Some(text) = &expression {
            let field = format!("tagOverrides[{name}]");
            if let Err(why) = usable(text) {
                tell(&field, why);
                continue;
            }
            let known = NAMES.contains(&name.as_str()) || extra.iter().any(|one| one == name);
            if !known {
                tell(
                    &field,
                    format!(
                        "a proxy takes new labels only at its start: name it in extraStatTags of the proxy's configuration, or in the annotation {EXTRA_TAGS}"
                    ),
                );
                continue;
            }
        }
        labels.insert(name.clone(), expression);
    }
    for (side, changes) in [(Side::Client, &mut out.client), (Side::Server, &mut out.server)] {
        if !concerns(mode, side) {
            continue;
        }
        for metric in &named {
            let place = changes.entry(*metric).or_default();
            place.disabled = change.disabled.unwrap_or(place.disabled);
            place.labels.extend(labels.clone());
        }
    }
    out.client.retain(|_, change| *change != Override::default());
    out.server.retain(|_, change| *change != Override::default());
}

/// Whether the proxy can evaluate it.
fn usable(text: &str) -> Result<(), String> {
    let parsed = Expression::parse(text).map_err(|error| error.to_string())?;
    match parsed.attributes().into_iter().find(|path| !attribute::is_known(path)) {
        None => Ok(()),
        Some(path) => {
            Err(format!("the attribute {} is not known, or not supported yet", path.join(".")))
        }
    }
}

/// The labels that the proxy was started with.
fn extra_labels(context: &Context<'_>) -> Vec<String> {
    let config = &context.snapshot.mesh.config;
    let own = match &context.class.proxy_config {
        Some(own) => config.default_config.clone().overlaid(own).value,
        None => config.default_config.clone(),
    };
    let mut all: Vec<String> = EXTRA_LABELS.iter().map(|&name| name.to_owned()).collect();
    all.extend(own.extra_stat_tags);
    if let Some(text) = context.class.annotations.get(EXTRA_TAGS) {
        all.extend(text.split(',').map(|name| name.trim().to_owned()));
    }
    all
}

/// None for one that is not among the standard ones.
fn metrics(name: &MetricName) -> Option<Vec<Metric>> {
    let one = match name {
        MetricName::Unset | MetricName::Metric(IstioMetric::AllMetrics) => {
            return Some(Metric::ALL.to_vec());
        }
        MetricName::CustomMetric(_) => return None,
        MetricName::Metric(metric) => match metric {
            IstioMetric::AllMetrics | IstioMetric::RequestCount => Metric::Requests,
            IstioMetric::RequestDuration => Metric::Duration,
            IstioMetric::RequestSize => Metric::RequestBytes,
            IstioMetric::ResponseSize => Metric::ResponseBytes,
            IstioMetric::TcpOpenedConnections => Metric::TcpOpened,
            IstioMetric::TcpClosedConnections => Metric::TcpClosed,
            IstioMetric::TcpSentBytes => Metric::TcpSent,
            IstioMetric::TcpReceivedBytes => Metric::TcpReceived,
            IstioMetric::GrpcRequestMessages => Metric::RequestMessages,
            IstioMetric::GrpcResponseMessages => Metric::ResponseMessages,
        },
    };
    Some(vec![one])
}
