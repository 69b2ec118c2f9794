//! The forms of an answer: text for people, JSON and YAML for programs.

use anyhow::Context as _;
use clap::ValueEnum;
use serde::Serialize;

use crate::failure::Failure;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Json,
    Yaml,
}

/// Prints `value` in the form asked for; without one, the text for people.
pub(crate) fn print<T: Serialize>(
    format: Option<Format>,
    value: &T,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    let answer = match format {
        None => text(),
        Some(Format::Json) => {
            let json = serde_json::to_string_pretty(value).context("writing JSON")?;
            format!("{json}\n")
        }
        Some(Format::Yaml) => serde_saphyr::to_string(value).context("writing YAML")?,
    };
    write(&answer)
}

/// Prints; a reader that has gone away is no fault.
pub(crate) fn write(text: &str) -> Result<(), Failure> {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result.context("writing to standard output")?),
    }
}
