//! Log lines in the shape that Istio's programs write: time, level, scope and text, tab-separated,
//! or one JSON object a line.
//!
//! The scope is the event's target with our crate prefix taken off, so `--log_output_level
//! ads:debug` and the scope in the line are the same word. Levels may change while the program runs.

use std::collections::BTreeMap;
use std::fmt;
use std::io::IsTerminal;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload;
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
    #[error("there is no log scope {0:?}")]
    Scope(String),
    #[error("the log is set up already")]
    Twice,
}

/// Sends this process's log to standard error.
pub fn start(config: &Config) -> Result<Levels, Error> {
    let format = Format {
        clock: Clock::system(),
        json: config.json,
        colour: std::io::stderr().is_terminal(),
    };
    let layer = tracing_subscriber::fmt::layer().event_format(format).with_writer(std::io::stderr);
    let (filter, levels) = Levels::parse(&config.levels)?;
    let subscriber = tracing_subscriber::registry().with(filter).with(layer);
    subscriber.try_init().map_err(|_| Error::Twice)?;
    Ok(levels)
}

/// The level of each scope, which may be changed while the program runs. Cheap to clone.
#[derive(Clone)]
pub struct Levels {
    scopes: Arc<Mutex<BTreeMap<String, LevelFilter>>>,
    set: Arc<dyn Fn(Targets) + Send + Sync>,
}

/// The scope of everything that has no level of its own.
pub const DEFAULT_SCOPE: &str = "default";

impl Levels {
    fn parse<S: Subscriber>(text: &str) -> Result<(reload::Layer<Targets, S>, Self), Error> {
        let mut scopes = BTreeMap::from([(DEFAULT_SCOPE.to_owned(), LevelFilter::INFO)]);
        for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let (scope, level) = part.split_once(':').unwrap_or((DEFAULT_SCOPE, part));
            let scope = if scope == "all" { DEFAULT_SCOPE } else { scope };
            scopes.insert(scope.to_owned(), parse_level(level)?);
        }
        let (layer, handle) = reload::Layer::new(targets(&scopes));
        // A log that is no longer there needs no levels.
        let set = move |targets| drop(handle.reload(targets));
        Ok((layer, Self { scopes: Arc::new(Mutex::new(scopes)), set: Arc::new(set) }))
    }

    /// Makes scopes known, so that they are listed before anyone sets them.
    pub fn declare(&self, names: &[&str]) {
        let mut scopes = self.scopes.lock();
        let default = scopes.get(DEFAULT_SCOPE).copied().unwrap_or(LevelFilter::INFO);
        for name in names {
            scopes.entry((*name).to_owned()).or_insert(default);
        }
    }

    /// Every known scope with its level.
    pub fn list(&self) -> Vec<(String, &'static str)> {
        self.scopes.lock().iter().map(|(name, level)| (name.clone(), filter_word(*level))).collect()
    }

    /// The level of a known scope.
    pub fn get(&self, scope: &str) -> Option<&'static str> {
        self.scopes.lock().get(scope).copied().map(filter_word)
    }

    /// Sets the level of a scope; `all` sets every scope.
    pub fn set(&self, scope: &str, level: &str) -> Result<(), Error> {
        let level = parse_level(level)?;
        let mut scopes = self.scopes.lock();
        match scope {
            "all" => scopes.values_mut().for_each(|own| *own = level),
            scope => match scopes.get_mut(scope) {
                Some(own) => *own = level,
                None => return Err(Error::Scope(scope.to_owned())),
            },
        }
        (self.set)(targets(&scopes));
        Ok(())
    }
}

fn targets(scopes: &BTreeMap<String, LevelFilter>) -> Targets {
    let mut targets = Targets::new();
    for (scope, level) in scopes {
        targets = match scope.as_str() {
            DEFAULT_SCOPE => targets.with_default(*level),
            // Both spellings of a scope: as printed, and as the crate it is.
            scope => targets
                .with_target(scope, *level)
                .with_target(format!("ironsail_{}", scope.replace('-', "_")), *level),
        };
    }
    targets
}

fn parse_level(text: &str) -> Result<LevelFilter, Error> {
    Ok(match text {
        "none" => LevelFilter::OFF,
        "fatal" | "error" => LevelFilter::ERROR,
        "warn" | "warning" => LevelFilter::WARN,
        "info" => LevelFilter::INFO,
        "debug" => LevelFilter::DEBUG,
        "trace" => LevelFilter::TRACE,
        other => return Err(Error::Level(other.to_owned())),
    })
}

fn filter_word(level: LevelFilter) -> &'static str {
    level.into_level().map_or("none", |level| level_word(&level))
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
        let library = fields.take_library();
        let scope = scope(library.as_deref().unwrap_or(meta.target()));
        if self.json {
            let mut line = serde_json::Map::new();
            line.insert("level".into(), level_word(meta.level()).into());
            line.insert("time".into(), time.into());
            line.insert("scope".into(), scope.into());
            line.insert("msg".into(), fields.message.into());
            for (key, value) in fields.rest {
                line.insert(key.into(), value);
            }
            return writeln!(out, "{}", Value::Object(line));
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
            match value {
                Value::String(text) => write!(out, "\t{key}={}", one_line(&text))?,
                other => write!(out, "\t{key}={other}")?,
            }
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
    rest: Vec<(&'static str, Value)>,
}

impl Fields {
    /// Libraries that use the `log` crate have their scope in a field, and beside it their line of
    /// code, which is of no use to who runs the program.
    fn take_library(&mut self) -> Option<String> {
        let target = self.rest.iter().find(|(key, _)| *key == "log.target");
        let target = target.and_then(|(_, value)| Some(value.as_str()?.to_owned()))?;
        self.rest.retain(|(key, _)| !key.starts_with("log."));
        Some(target)
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => self.rest.push((name, format!("{value:?}").into())),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.rest.push((field.name(), value.into()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.rest.push((field.name(), value.into()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.rest.push((field.name(), value.into()));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message = value.to_owned(),
            name => self.rest.push((name, value.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

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
        logged_with(levels, json, |_| emit())
    }

    fn logged_with(levels: &str, json: bool, emit: impl FnOnce(Levels)) -> String {
        let buffer = Buffer::default();
        let clock = Clock::fixed(SystemTime::UNIX_EPOCH + Duration::from_millis(1_500));
        let format = Format { clock, json, colour: false };
        let layer =
            tracing_subscriber::fmt::layer().event_format(format).with_writer(buffer.clone());
        let (filter, levels) = Levels::parse(levels).unwrap();
        let subscriber = tracing_subscriber::registry().with(filter).with(layer);
        tracing::subscriber::with_default(subscriber, || emit(levels));
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
                "scope": "x", "msg": "two words", "count": 3})
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
        let parsed = Levels::parse::<tracing_subscriber::Registry>("ads:loud");
        assert_eq!(parsed.map(|_| ()).unwrap_err(), Error::Level("loud".into()));
    }

    #[test]
    fn a_library_that_logs_otherwise_has_its_own_scope_and_no_line_of_code() {
        let text = logged("default:info", false, || {
            tracing::info!(target: "log", { log.target = "other::part", log.line = 7 }, "said");
        });
        assert_eq!(text, "1970-01-01T00:00:01.500000Z\tinfo\tother\tsaid\n");
    }

    #[test]
    fn a_level_changes_while_the_program_runs() {
        let text = logged_with("default:warn", false, |levels| {
            levels.declare(&["ads"]);
            let say = |text: &str| tracing::info!(target: "ads", "{text}");
            say("early");
            levels.set("ads", "info").unwrap();
            say("middle");
            levels.set("all", "none").unwrap();
            say("late");
            assert_eq!(levels.get("ads"), Some("none"));
            assert_eq!(levels.set("nobody", "info"), Err(Error::Scope("nobody".into())));
        });
        assert!(text.contains("middle") && !text.contains("early") && !text.contains("late"));
    }
}
