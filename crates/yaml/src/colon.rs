//! A colon before a closing bracket, as in `[2001:db8::]`.
//!
//! By YAML 1.2 it makes a mapping, `[{2001:db8: : null}]`. Go's reader, and so kubectl, takes a colon
//! for an indicator only before a blank, so that it belongs to the text: `["2001:db8::"]`. Text comes
//! in; it goes out with such words quoted, which both read the same.

use std::borrow::Cow;

use granit_parser::{Event, Parser, ScalarStyle};

/// `text` in which every such word is quoted.
pub(crate) fn quoted(text: &str) -> Cow<'_, str> {
    if !may_have(text.as_bytes()) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut done = 0;
    // What does not parse is for the real reader to complain about.
    for (event, span) in Parser::new_from_str(text).map_while(Result::ok) {
        let Event::Scalar(_, ScalarStyle::Plain, ..) = event else { continue };
        let (Some(start), Some(end)) = (span.start.byte_offset(), span.end.byte_offset()) else {
            continue;
        };
        let Some(word) = text.get(start..end).filter(|word| !word.is_empty()) else { continue };
        let rest = text.as_bytes().get(end..).unwrap_or_default();
        let quotable = start >= done && !word.contains(['\n', '\'']);
        if quotable && matches!(rest, [b':', b',' | b']' | b'}', ..]) {
            out.push_str(&text[done..start]);
            out.extend(["'", word, ":'"]);
            done = end + 1;
        }
    }
    out.push_str(&text[done..]);
    Cow::Owned(out)
}

/// Whether it is worth looking: `x:]` and the like stand somewhere. JSON has only `":[` and `":{`.
fn may_have(bytes: &[u8]) -> bool {
    bytes.windows(3).any(|three| {
        matches!(three, [before, b':', b',' | b']' | b'}']
            if !matches!(before, b'"' | b'\'' | b' ' | b'\n'))
    })
}
