//! One record of a container's log file: time, stream, whether the line is whole, text.
//!
//! The form is the CRI's: `2026-11-15T08:00:00.123456789Z stdout F text`.

use jiff::Timestamp;

/// Longer lines are written in pieces.
pub const MAX_PIECE: usize = 16 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// Appends a record to `out`. `text` has no line end.
pub fn append(out: &mut Vec<u8>, time: Timestamp, stream: Stream, whole: bool, text: &[u8]) {
    out.extend_from_slice(stamp(time).as_bytes());
    out.push(b' ');
    out.extend_from_slice(stream.name().as_bytes());
    out.extend_from_slice(if whole { b" F " } else { b" P " });
    out.extend_from_slice(text);
    out.push(b'\n');
}

/// Always nine places, so that records sort as text.
fn stamp(time: Timestamp) -> String {
    let time = time.to_zoned(jiff::tz::TimeZone::UTC);
    format!("{}.{:09}Z", time.strftime("%Y-%m-%dT%H:%M:%S"), time.subsec_nanosecond())
}

/// A record as it stands in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pub stamp: &'a str,
    pub stream: Stream,
    pub whole: bool,
    pub text: &'a [u8],
}

impl<'a> Record<'a> {
    /// `line` without its line end; `None` for anything but a record.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let mut parts = line.splitn(4, |b| *b == b' ');
        let stamp = std::str::from_utf8(parts.next()?).ok()?;
        let stream = match parts.next()? {
            b"stdout" => Stream::Stdout,
            b"stderr" => Stream::Stderr,
            _ => return None,
        };
        let whole = match parts.next()? {
            b"F" => true,
            b"P" => false,
            _ => return None,
        };
        Some(Self { stamp, stream, whole, text: parts.next()? })
    }

    pub fn time(&self) -> Option<Timestamp> {
        self.stamp.parse().ok()
    }
}

/// Cuts a stream of bytes into lines and bounded pieces of lines.
#[derive(Default)]
pub struct Splitter {
    rest: Vec<u8>,
}

impl Splitter {
    /// Calls `emit` with each piece and whether it ends a line.
    pub fn push(&mut self, bytes: &[u8], mut emit: impl FnMut(&[u8], bool)) {
        let mut bytes = bytes;
        while !bytes.is_empty() {
            let room = MAX_PIECE - self.rest.len();
            let window = &bytes[..bytes.len().min(room)];
            match window.iter().position(|b| *b == b'\n') {
                Some(end) => {
                    self.rest.extend_from_slice(&window[..end]);
                    emit(&self.rest, true);
                    self.rest.clear();
                    bytes = &bytes[end + 1..];
                }
                None => {
                    self.rest.extend_from_slice(window);
                    bytes = &bytes[window.len()..];
                    if self.rest.len() == MAX_PIECE {
                        emit(&self.rest, false);
                        self.rest.clear();
                    }
                }
            }
        }
    }

    /// What is left at the end of the stream.
    pub fn finish(&mut self, mut emit: impl FnMut(&[u8], bool)) {
        if !self.rest.is_empty() {
            emit(&self.rest, false);
            self.rest.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let mut out = Vec::new();
        let time: Timestamp = "2026-01-02T03:04:05.000000006Z".parse().unwrap();
        append(&mut out, time, Stream::Stderr, true, b"a b  c");
        assert_eq!(out, b"2026-01-02T03:04:05.000000006Z stderr F a b  c\n");
        let record = Record::parse(&out[..out.len() - 1]).unwrap();
        assert_eq!(
            (record.time(), record.stream, record.whole, record.text),
            (Some(time), Stream::Stderr, true, &b"a b  c"[..])
        );
        assert_eq!(Record::parse(b"2026 stdout X y"), None);
        assert_eq!(Record::parse(b""), None);
    }

    #[test]
    fn lines_are_cut_and_bounded() {
        let mut splitter = Splitter::default();
        let mut seen = Vec::new();
        let mut emit = |piece: &[u8], whole| seen.push((piece.len(), whole));
        splitter.push(b"ab", &mut emit);
        splitter.push(b"c\n\nd", &mut emit);
        splitter.push(&vec![b'x'; MAX_PIECE], &mut emit);
        splitter.push(b"\n", &mut emit);
        splitter.push(b"tail", &mut emit);
        splitter.finish(&mut emit);
        assert_eq!(seen, [(3, true), (0, true), (MAX_PIECE, false), (1, true), (4, false)]);
    }
}
