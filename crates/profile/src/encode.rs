//! CPU samples as a profile: the part of the format that they need.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use flate2::{Compression, write::GzEncoder};
use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Profile {
    #[prost(message, repeated, tag = "1")]
    pub(crate) sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    pub(crate) string_table: Vec<String>,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

pub(crate) fn samples(report: &pprof::Report, duration: Duration, frequency: i32) -> Vec<u8> {
    let period = 1_000_000_000 / i64::from(frequency);
    let mut tables = Tables::default();
    tables.string("");
    let count = ValueType { kind: tables.string("samples"), unit: tables.string("count") };
    let time = ValueType { kind: tables.string("cpu"), unit: tables.string("nanoseconds") };
    for (frames, count) in &report.data {
        let mut location_id = Vec::with_capacity(frames.frames.len());
        for symbols in &frames.frames {
            let lines = symbols.iter().map(|symbol| tables.line(symbol)).collect();
            location_id.push(tables.location(lines));
        }
        let count = i64::try_from(*count).unwrap_or(i64::MAX);
        tables.profile.sample.push(Sample { location_id, value: vec![count, count * period] });
    }
    let mut profile = tables.profile;
    profile.sample_type = vec![count, time];
    profile.period_type = Some(time);
    profile.period = period;
    profile.duration_nanos = i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
    gzip(&profile.encode_to_vec())
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut writer = GzEncoder::new(Vec::new(), Compression::fast());
    let written = writer.write_all(bytes).and_then(|()| writer.finish());
    written.expect("memory takes any bytes")
}

/// Strings, functions and places, each written once.
#[derive(Default)]
struct Tables {
    profile: Profile,
    strings: BTreeMap<String, i64>,
    functions: BTreeMap<String, u64>,
    locations: BTreeMap<Vec<(u64, i64)>, u64>,
}

impl Tables {
    fn string(&mut self, text: &str) -> i64 {
        if let Some(index) = self.strings.get(text) {
            return *index;
        }
        let index = self.profile.string_table.len() as i64;
        self.profile.string_table.push(text.to_owned());
        self.strings.insert(text.to_owned(), index);
        index
    }

    fn line(&mut self, symbol: &pprof::Symbol) -> Line {
        let name = symbol.name();
        let function_id = match self.functions.get(&name) {
            Some(id) => *id,
            None => {
                let id = self.profile.function.len() as u64 + 1;
                let function = Function {
                    id,
                    name: self.string(&name),
                    system_name: self.string(&symbol.sys_name()),
                    filename: self.string(&symbol.filename()),
                };
                self.profile.function.push(function);
                self.functions.insert(name, id);
                id
            }
        };
        Line { function_id, line: i64::from(symbol.lineno()) }
    }

    fn location(&mut self, line: Vec<Line>) -> u64 {
        let key = line.iter().map(|l| (l.function_id, l.line)).collect();
        let next = self.profile.location.len() as u64 + 1;
        let id = *self.locations.entry(key).or_insert(next);
        if id == next {
            self.profile.location.push(Location { id, line });
        }
        id
    }
}
