//! The access logger: one call at the end of each request, and at times during a connection.

use std::borrow::Cow;

use ironsail_telemetry::config::{Logger, Metric, Override, Reporter, Traffic};
use ironsail_telemetry::expression::Expression;
use ironsail_telemetry::label::NAMES;
use ironsail_telemetry::peer::UNKNOWN;
use ironsail_telemetry::report::{Facts, labels};
use ironsail_telemetry::{Peer, flags};

use crate::abi::{Attribute, Buffer, Event, Headers, Level, Ours, Theirs, guard, log};
use crate::attributes::Asked;
use crate::bootstrap::own;
use crate::metrics::{self, Handle};
use crate::{handoff, recall, tcp};

/// Why Envoy logs, by its numbers.
const TCP_PERIODIC: u32 = 2;
const TCP_END: u32 = 3;
const REQUEST_END: u32 = 6;

/// One metric as this logger counts it.
struct Counted {
    metric: Metric,
    handle: Handle,
    /// How many labels stand behind the standard ones.
    extra: usize,
    /// Labels that are dropped, and those with a value of the user's own.
    own: Vec<(usize, Option<Expression>)>,
}

pub(crate) struct Counter {
    config: Logger,
    counted: Vec<Counted>,
}

impl Counter {
    fn new(config: Logger) -> Self {
        let metrics = Metric::ALL.iter().filter(|metric| metric.traffic() == config.traffic);
        let counted = metrics.filter_map(|metric| {
            let plain = Override::default();
            let change = config.overrides.get(metric).unwrap_or(&plain);
            if change.disabled { None } else { counted(*metric, change) }
        });
        let counted = counted.collect();
        Self { config, counted }
    }

    pub(crate) fn count(&self, metric: Metric, event: &Labelled<'_>, by: u64) {
        let Some(counted) = self.counted.iter().find(|one| one.metric == metric) else { return };
        let standard = metrics::standard(metric).len();
        if counted.own.is_empty() {
            let row = (&event.values[..standard], event.digest);
            metrics::count(counted.handle, row, by);
            return;
        }
        let mut row = [const { Cow::Borrowed("") }; 64];
        for (place, value) in row.iter_mut().zip(&event.values[..standard]) {
            *place = Cow::Borrowed(&**value);
        }
        for (place, expression) in &counted.own {
            row[*place] = match expression {
                None => Cow::Borrowed(""),
                Some(expression) => {
                    let value = expression.evaluate(&event.asked).map(|value| value.to_string());
                    Cow::Owned(bounded(value.unwrap_or_else(|| UNKNOWN.to_owned())))
                }
            };
        }
        let row = &row[..standard + counted.extra];
        metrics::count(counted.handle, (row, metrics::digest(row)), by);
    }

    fn log(&self, event: Event<'_>, why: u32) {
        match (self.config.traffic, why) {
            (Traffic::Http, REQUEST_END) => self.request(event),
            (Traffic::Tcp, TCP_PERIODIC | TCP_END) => {
                tcp::connection(self, &self.config, event, why == TCP_END);
            }
            _ => {}
        }
    }

    fn request(&self, event: Event<'_>) {
        let Some(own) = own() else { return };
        handoff::with(event.connection(), |known| {
            let content = event.header(Headers::Request, "content-type").unwrap_or_default();
            let is_grpc = content.starts_with("application/grpc");
            let (mut code, mut bits, mut status) = (String::new(), String::new(), String::new());
            write_number(event.response_code(), &mut code);
            flags::write(event.response_flags(), &mut bits);
            if let Some(number) = known.and_then(|known| known.grpc_status).filter(|_| is_grpc) {
                status = number.to_string();
            }
            let cluster = event.cluster().unwrap_or_default();
            let by_name = || recall::cluster(cluster);
            let service = known.and_then(|known| known.service.clone()).or_else(by_name);
            let (source, destination) = principals(event, self.config.reporter);
            let facts = Facts {
                reporter: self.config.reporter,
                local: &own.peer,
                peer: known.and_then(|known| known.peer.as_deref()),
                service: service.as_deref(),
                cluster,
                route: event.attribute(Attribute::RouteName).unwrap_or_default(),
                host: event.header(Headers::Request, ":authority").unwrap_or_default(),
                source_principal: source,
                destination_principal: destination,
                protocol: if is_grpc { "grpc" } else { "http" },
                mutual_tls: event.is_mutual_tls(),
                response_code: &code,
                grpc_status: &status,
                response_flags: &bits,
            };
            let labelled = Labelled::new(event, &facts, Metric::Requests);
            self.count(Metric::Requests, &labelled, 1);
            let duration = event.duration_ns().unwrap_or_default() / 1_000_000;
            self.count(Metric::Duration, &labelled, duration);
            let (received, sent) = event.wire();
            self.count(Metric::RequestBytes, &labelled, received);
            self.count(Metric::ResponseBytes, &labelled, sent);
            if let Some((requests, responses)) = known.and_then(|known| known.messages)
                && is_grpc
            {
                self.count(Metric::RequestMessages, &labelled, requests);
                self.count(Metric::ResponseMessages, &labelled, responses);
            }
        });
    }
}

/// An event with the values of its standard labels.
pub(crate) struct Labelled<'a> {
    values: [Cow<'a, str>; NAMES.len()],
    /// Of the values that its metrics have.
    digest: u64,
    asked: Asked<'a>,
}

impl<'a> Labelled<'a> {
    pub(crate) fn new(event: Event<'a>, facts: &Facts<'a>, metric: Metric) -> Self {
        let (upstream, downstream): (Option<&Peer>, _) = match facts.reporter {
            Reporter::Source => (facts.peer, Some(facts.local)),
            Reporter::Destination | Reporter::Waypoint => (Some(facts.local), facts.peer),
        };
        let asked = Asked { event, local: facts.local, upstream, downstream };
        let values = labels(facts);
        let digest = metrics::digest(&values[..metrics::standard(metric).len()]);
        Self { values, digest, asked }
    }
}

/// Who the client and the server are, by their certificates.
pub(crate) fn principals<'a>(event: Event<'a>, reporter: Reporter) -> (&'a str, &'a str) {
    let (source, destination) = match reporter {
        Reporter::Source => (Attribute::UpstreamLocalUriSan, Attribute::UpstreamPeerUriSan),
        _ => (Attribute::PeerUriSan, Attribute::LocalUriSan),
    };
    let get = |attribute| event.attribute(attribute).unwrap_or_default();
    (get(source), get(destination))
}

fn counted(metric: Metric, change: &Override) -> Option<Counted> {
    let standard = metrics::standard(metric);
    let is_new = |name: &String| !standard.contains(&name.as_str());
    let (handle, extra) =
        match change.labels.iter().any(|(name, text)| text.is_some() && is_new(name)) {
            true => metrics::extended(metric)?,
            false => (metrics::plain(metric)?, Vec::new()),
        };
    let mut own = Vec::new();
    for (name, text) in &change.labels {
        let among_extra = || extra.iter().position(|known| known == name);
        let place = standard
            .iter()
            .position(|known| known == name)
            .or_else(|| Some(standard.len() + among_extra()?));
        let expression = text.as_deref().map(Expression::parse).transpose();
        match (place, expression) {
            (Some(place), Ok(expression)) => own.push((place, expression)),
            (None, Ok(None)) => {}
            (None, Ok(Some(_))) => {
                log(Level::Warn, &format!("telemetry: {name} is not among the extra labels"));
            }
            (_, Err(error)) => log(Level::Warn, &format!("telemetry: label {name}: {error}")),
        }
    }
    Some(Counted { metric, handle, extra: extra.len(), own })
}

fn write_number(number: u32, into: &mut String) {
    use std::fmt::Write;
    let _ = write!(into, "{number}");
}

fn bounded(mut text: String) -> String {
    let mut end = text.len().min(ironsail_telemetry::peer::MOST_VALUE);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_access_logger_config_new(
    _config: Theirs,
    _name: Buffer,
    text: Buffer,
) -> Ours {
    guard(std::ptr::null(), || {
        // SAFETY: the text is valid during the hook.
        let text = unsafe { text.text() }.unwrap_or_default();
        match serde_json::from_str::<Logger>(text) {
            Ok(config) => Box::into_raw(Box::new(Counter::new(config))).cast_const().cast(),
            Err(error) => {
                log(Level::Error, &format!("telemetry: the logger's configuration: {error}"));
                std::ptr::null()
            }
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_access_logger_config_destroy(config: Ours) {
    // SAFETY: made by `config_new`, destroyed once, after its loggers.
    guard((), || unsafe { drop(Box::from_raw(config.cast::<Counter>().cast_mut())) });
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_access_logger_new(config: Ours, _logger: Theirs) -> Ours {
    // Loggers of all threads share their configuration, which outlives them.
    config
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_access_logger_log(logger: Theirs, ours: Ours, why: u32) {
    guard((), || {
        // SAFETY: made by `config_new`, not destroyed while loggers use it; nothing in it changes.
        let counter = unsafe { &*ours.cast::<Counter>() };
        // SAFETY: Envoy passes the event that it logs.
        counter.log(unsafe { Event::new(logger) }, why);
    });
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_access_logger_destroy(_ours: Ours) {}
