//! Log lines in the shape that Istio's programs write: time, level, scope and text, tab-separated,
//! or one JSON object a line.
//!
//! The scope is the event's target with our crate prefix taken off, so `--log_output_level
//! ads:debug` and the scope in the line are the same word.

use std::fmt;
use std::io::IsTerminal;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use ironsail_sys::clock::Clock;

/// How to log; comes from flags.
#[derive(Clone, Debug)]
pub struct Config {
    /// `level`, or `scope:level,…` with the scope `default` for all others.
    pub levels: String,
    pub json: bool,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error("log level {0:?} is not one of none, fatal, error, warn, info, debug, trace")]
    Level(String),
    #[error("the log is set up already")]
    Twice,
}

/// Sends this process's log to standard error.
pub fn start(config: &Config) -> Result<(), Error> {
    let targets = parse_levels(&config.levels)?;
    let format = Format {
        clock: Clock::system(),
        json: config.json,
        colour: std::io::stderr().is_terminal(),
    };
    let layer = tracing_subscriber::fmt::layer().event_format(format).with_writer(std::io::stderr);
    tracing_subscriber::registry().with(targets).with(layer).try_init().map_err(|_| Error::Twice)
}

fn parse_levels(text: &str) -> Result<Targets, Error> {
    let mut targets = Targets::new().with_default(LevelFilter::INFO);
    for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let (scope, level) = part.split_once(':').unwrap_or(("default", part));
        let level = parse_level(level)?;
        targets = match scope {
            "default" | "all" => targets.with_default(level),
            // Both spellings of a scope: as printed, and as the crate it is.
            scope => targets
                .with_target(scope, level)
                .with_target(format!("ironsail_{}", scope.replace('-', "_")), level),
        };
    }
    Ok(targets)
}

fn parse_level(text: &str) -> Result<LevelFilter, Error> {
    Ok(match text {
        "none" => LevelFilter::OFF,
        "fatal" | "error" => LevelFilter::ERROR,
        "warn" => LevelFilter::WARN,
        "info" => LevelFilter::INFO,
        "debug" => LevelFilter::DEBUG,
        "trace" => LevelFilter::TRACE,
        other => return Err(Error::Level(other.to_owned())),
    })
}

struct Format {
    clock: Clock,
    json: bool,
    colour: bool,
}

impl<S, N> FormatEvent<S, N> for Format
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let meta = event.metadata();
        let time = timestamp(&self.clock);
        let scope = scope(meta.target());
        if self.json {
            let mut line = serde_json::Map::new();
            line.insert("level".into(), level_word(meta.level()).into());
            line.insert("time".into(), time.into());
            line.insert("scope".into(), scope.into());
            line.insert("msg".into(), fields.message.into());
            for (key, value) in fields.rest {
                line.insert(key.into(), value.into());
            }
            return writeln!(out, "{}", serde_json::Value::Object(line));
        }
        let level = level_word(meta.level());
        match (self.colour, *meta.level()) {
            (true, Level::ERROR) => write!(out, "{time}\t\x1b[31m{level}\x1b[0m\t{scope}\t")?,
            (true, Level::WARN) => write!(out, "{time}\t\x1b[33m{level}\x1b[0m\t{scope}\t")?,
            _ => write!(out, "{time}\t{level}\t{scope}\t")?,
        }
        // A message of several lines, or one that carries control characters from outside, stays
        // one line of the log.
        write!(out, "{}", one_line(&fields.message))?;
        for (key, value) in fields.rest {
            write!(out, "\t{key}={}", one_line(&value))?;
        }
        writeln!(out)
    }
}

fn level_word(level: &Level) -> &'static str {
    match *level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    }
}

fn scope(target: &str) -> &str {
    let first = target.split("::").next().unwrap_or(target);
    first.strip_prefix("ironsail_").unwrap_or(first)
}

fn one_line(text: &str) -> String {
    text.chars()
        .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
        .collect()
}

fn timestamp(clock: &Clock) -> String {
    let now = jiff::Timestamp::try_from(clock.now()).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

#[derive(Default)]
struct Fields {
    message: String,
    rest: Vec<(&'static str, String)>,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => self.rest.push((name, format!("{value:?}"))),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message = value.to_owned(),
            name => self.rest.push((name, value.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    use parking_lot::Mutex;
    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Buffer {
        type Writer = Self;
        fn make_writer(&'a self) -> Self {
            self.clone()
        }
    }

    fn logged(levels: &str, json: bool, emit: impl FnOnce()) -> String {
        let buffer = Buffer::default();
        let clock = Clock::fixed(SystemTime::UNIX_EPOCH + Duration::from_millis(1_500));
        let format = Format { clock, json, colour: false };
        let layer =
            tracing_subscriber::fmt::layer().event_format(format).with_writer(buffer.clone());
        let targets = parse_levels(levels).unwrap();
        let subscriber = tracing_subscriber::registry().with(targets).with(layer);
        tracing::subscriber::with_default(subscriber, emit);
        String::from_utf8(buffer.0.lock().clone()).unwrap()
    }

    #[test]
    fn a_line_is_time_level_scope_text() {
        let line = logged("info", false, || {
            tracing::info!(target: "ironsail_kubeapi::store", pod = "a\nb", "ready");
        });
        assert_eq!(line, "1970-01-01T00:00:01.500000Z\tinfo\tkubeapi\tready\tpod=a\\nb\n");
    }

    #[test]
    fn json_has_one_object_a_line() {
        let line = logged("info", true, || tracing::warn!(target: "x", count = 3, "two words"));
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            value,
            serde_json::json!({"level": "warn", "time": "1970-01-01T00:00:01.500000Z",
                "scope": "x", "msg": "two words", "count": "3"})
        );
    }

    #[test]
    fn a_scope_has_its_own_level() {
        let text = logged("default:warn,kubeapi:debug", false, || {
            tracing::info!(target: "ironsail_kubelet", "hidden");
            tracing::debug!(target: "ironsail_kubeapi", "shown");
        });
        assert!(text.contains("shown") && !text.contains("hidden"), "{text}");
    }

    #[test]
    fn an_unknown_level_is_refused_by_name() {
        assert_eq!(parse_levels("ads:loud").unwrap_err(), Error::Level("loud".into()));
    }
}
