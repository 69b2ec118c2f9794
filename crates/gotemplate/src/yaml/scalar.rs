//! How a text is written in YAML: plain where nothing can misread it, else quoted, else a block.

use crate::format::float;
use crate::literal::{parse_float, parse_int};

/// Where a text starts, and where its further lines do.
#[derive(Clone, Copy)]
pub(super) struct Fold {
    pub(super) column: usize,
    pub(super) indent: usize,
}

/// Lines longer than this are folded at the next space.
const WIDTH: usize = 80;

/// The text without its own line ends: plain, in single quotes, or in double quotes.
pub(super) fn one_line(text: &str, fold: Option<Fold>) -> String {
    let shape = Shape::of(text);
    if is_something_else(text) || shape.special || shape.broken {
        return format!("\"{}\"", folded(text, fold, 1, escaped));
    }
    if shape.plain {
        return folded(text, fold, 0, String::push);
    }
    let quoted = folded(text, fold, 1, |out, c| {
        out.push(c);
        if c == '\'' {
            out.push(c);
        }
    });
    format!("'{quoted}'")
}

/// Each character by `write`; `quotes` is the width of what stands before the text.
fn folded(
    text: &str,
    fold: Option<Fold>,
    quotes: usize,
    write: impl Fn(&mut String, char),
) -> String {
    let escapes = {
        let mut sample = String::new();
        write(&mut sample, '\t');
        sample == "\\t"
    };
    let mut out = String::with_capacity(text.len());
    let mut column = fold.map_or(0, |fold| fold.column + quotes);
    let mut after_space = true;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let next = chars.peek();
        let between = next.is_some() && !after_space && (escapes || next != Some(&' '));
        if let Some(fold) = fold.filter(|_| c == ' ' && between && column > WIDTH) {
            out.push('\n');
            out.push_str(&" ".repeat(fold.indent));
            column = fold.indent;
            // A space at the start of a line would be lost.
            if next == Some(&' ') {
                out.push('\\');
                column += 1;
            }
        } else {
            let before = out.len();
            write(&mut out, c);
            column += out[before..].chars().count();
        }
        after_space = c == ' ';
    }
    out
}

/// The text as a block after `|`, its lines at `indent`; `None` when it must be quoted or is one line.
pub(super) fn literal(text: &str, indent: usize) -> Option<String> {
    if !text.contains('\n') || Shape::of(text).special || text.ends_with(' ') {
        return None;
    }
    let mut block = String::from("|");
    if text.starts_with([' ', '\n']) {
        block.push('2');
    }
    if !text.ends_with('\n') {
        block.push('-');
    } else if text == "\n" || text.ends_with("\n\n") {
        block.push('+');
    }
    block.push('\n');
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        if !line.is_empty() {
            block.push_str(&" ".repeat(indent));
            block.push_str(line);
        }
        block.push('\n');
    }
    Some(block)
}

pub(super) fn is_simple_key(key: &str) -> bool {
    key.len() <= 128 && !key.contains(is_break)
}

fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// What in a text decides its style.
struct Shape {
    /// Nothing in it is an indicator, and it has no space at its ends.
    plain: bool,
    /// It must be escaped.
    special: bool,
    /// It has several lines.
    broken: bool,
}

impl Shape {
    fn of(text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let blank = |i: usize| chars.get(i).is_none_or(|c| *c == ' ' || *c == '\t');
        let mut shape = Self { plain: true, special: false, broken: false };
        let ends = |c: Option<&char>| c.is_some_and(|c| *c == ' ' || is_break(*c));
        if ends(chars.first()) || ends(chars.last()) || starts_document(text) {
            shape.plain = false;
        }
        for (i, c) in chars.iter().enumerate() {
            let indicator = match c {
                '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"'
                | '%' | '@' | '`'
                    if i == 0 =>
                {
                    true
                }
                '?' | '-' if i == 0 => blank(i + 1),
                ':' => blank(i + 1),
                '#' => blank(i - 1) || chars.get(i - 1).is_some_and(|c| is_break(*c)),
                _ => false,
            };
            shape.plain &= !indicator;
            shape.special |= !is_printable(*c);
            if is_break(*c) {
                shape.broken = true;
                // A space before a line end would be lost in a block.
                shape.special |= i > 0 && chars[i - 1] == ' ';
            }
        }
        shape
    }
}

fn starts_document(text: &str) -> bool {
    text.starts_with("---") || text.starts_with("...")
}

fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}')
}

/// The character inside double quotes.
fn escaped(out: &mut String, c: char) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\0' => out.push_str("\\0"),
        '\u{7}' => out.push_str("\\a"),
        '\u{8}' => out.push_str("\\b"),
        '\t' => out.push_str("\\t"),
        '\n' => out.push_str("\\n"),
        '\u{b}' => out.push_str("\\v"),
        '\u{c}' => out.push_str("\\f"),
        '\r' => out.push_str("\\r"),
        '\u{1b}' => out.push_str("\\e"),
        '\u{85}' => out.push_str("\\N"),
        '\u{2028}' => out.push_str("\\L"),
        '\u{2029}' => out.push_str("\\P"),
        _ if is_printable(c) => out.push(c),
        '\0'..='\u{ff}' => out.push_str(&format!("\\x{:02X}", u32::from(c))),
        '\u{100}'..='\u{ffff}' => out.push_str(&format!("\\u{:04X}", u32::from(c))),
        _ => out.push_str(&format!("\\U{:08X}", u32::from(c))),
    }
}

/// Whether a reader would take the plain text for a boolean, a number, a time, a merge or nothing.
fn is_something_else(text: &str) -> bool {
    const WORDS: &[&str] = &[
        "", "y", "yes", "true", "on", "n", "no", "false", "off", "~", "null", "<<", ".nan", ".inf",
        "+.inf", "-.inf",
    ];
    // Some readers take `oFF` for a boolean too; quotes mean the same to all.
    if WORDS.iter().any(|word| word.eq_ignore_ascii_case(text)) {
        return true;
    }
    match text.chars().next() {
        Some('.') => parse_float(text).is_some(),
        Some('+' | '-' | '0'..='9') => is_number(text) || is_time(text) || is_base60(text),
        _ => false,
    }
}

fn is_number(text: &str) -> bool {
    let plain = text.replace('_', "");
    parse_int(&plain).is_some() || is_large(&plain) || is_float(&plain)
}

/// An integer that needs 64 bits without a sign.
fn is_large(text: &str) -> bool {
    match text.get(..2).map(str::to_ascii_lowercase).as_deref() {
        Some("0x") => u64::from_str_radix(&text[2..], 16).is_ok(),
        Some("0b") => u64::from_str_radix(&text[2..], 2).is_ok(),
        Some("0o") => u64::from_str_radix(&text[2..], 8).is_ok(),
        _ => false,
    }
}

fn is_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let shaped = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && unsigned.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-'));
    shaped && parse_float(text).is_some_and(|f| float::format(f, 'g', None) != "NaN")
}

/// A time of day in base 60, which older readers know.
fn is_base60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut parts = unsigned.split(':');
    let digits = |s: &str| s.chars().all(|c| c.is_ascii_digit() || c == '_');
    let first =
        parts.next().is_some_and(|p| p.starts_with(|c: char| c.is_ascii_digit()) && digits(p));
    let rest: Vec<&str> = parts.collect();
    let Some((last, middle)) = rest.split_last() else { return false };
    let (last, fraction) = last.split_once('.').unwrap_or((last, ""));
    first && digits(fraction) && middle.iter().chain([&last]).all(|p| is_sixty(p))
}

fn is_sixty(part: &str) -> bool {
    match part.as_bytes() {
        [b] => b.is_ascii_digit(),
        [a, b] => (b'0'..=b'5').contains(a) && b.is_ascii_digit(),
        _ => false,
    }
}

/// A date, maybe with a time of day.
fn is_time(text: &str) -> bool {
    let (date, time) = match text.find([' ', 'T', 't']) {
        Some(at) => (&text[..at], Some(&text[at..])),
        None => (text, None),
    };
    is_date(date) && time.is_none_or(is_clock)
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts[..] else { return false };
    if year.len() != 4 || !is_digits(year) {
        return false;
    }
    let (Some(month), Some(day)) = (two_digits(month), two_digits(day)) else { return false };
    let leap = year.parse::<u32>().is_ok_and(|y| y % 4 == 0 && (y % 100 != 0 || y % 400 == 0));
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    (1..=12).contains(&month) && (1..=days).contains(&day)
}

/// ` 15:04:05`, or `T15:04:05` with a zone; a fraction may follow the seconds.
fn is_clock(text: &str) -> bool {
    let zoned = !text.starts_with(' ');
    let clock = &text[1..];
    let end = clock.find(['Z', '+', '-']).unwrap_or(clock.len());
    let (clock, zone) = clock.split_at(end);
    if zoned != is_zone(zone) || (!zoned && !zone.is_empty()) {
        return false;
    }
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let parts: Vec<Option<u32>> = clock.split(':').map(two_digits).collect();
    matches!(parts[..], [Some(0..=23), Some(0..=59), Some(0..=59)])
        && !fraction.is_empty()
        && is_digits(fraction)
}

fn is_zone(text: &str) -> bool {
    let Some(offset) = text.strip_prefix(['+', '-']) else { return text == "Z" };
    let parts: Vec<&str> = offset.split(':').collect();
    matches!(parts[..], [h, m] if h.len() == 2 && m.len() == 2 && is_digits(h) && is_digits(m))
}

fn two_digits(text: &str) -> Option<u32> {
    if text.len() > 2 || !is_digits(text) { None } else { text.parse().ok() }
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
}
