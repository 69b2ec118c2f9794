//! Strings in Go's quotes.

/// Go's `%q`: double quotes, escapes for what does not print.
pub(crate) fn double(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    text.chars().for_each(|c| escape(&mut out, c, '"', false));
    out.push('"');
    out
}

/// Go's `%+q`: only ASCII is left as it is.
pub(crate) fn ascii(text: &str) -> String {
    let mut out = String::from("\"");
    text.chars().for_each(|c| escape(&mut out, c, '"', true));
    out.push('"');
    out
}

/// Go's `%q` of a number: the character in single quotes.
pub(crate) fn character(code: i64, ascii: bool) -> String {
    let c = u32::try_from(code).ok().and_then(char::from_u32).unwrap_or('\u{fffd}');
    let mut out = String::from("'");
    escape(&mut out, c, '\'', ascii);
    out.push('\'');
    out
}

fn escape(out: &mut String, c: char, quote: char, ascii: bool) {
    match c {
        '\u{7}' => out.push_str("\\a"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{b}' => out.push_str("\\v"),
        _ if c == quote || c == '\\' => {
            out.push('\\');
            out.push(c);
        }
        ' '..='~' => out.push(c),
        _ if !ascii && is_printable(c) => out.push(c),
        '\0'..='\u{7f}' => out.push_str(&format!("\\x{:02x}", u32::from(c))),
        '\u{80}'..='\u{ffff}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
        _ => out.push_str(&format!("\\U{:08x}", u32::from(c))),
    }
}

/// Go's `unicode.IsPrint`, by the table behind Rust's debug escapes.
pub(crate) fn is_printable(c: char) -> bool {
    // After a letter, marks that combine with it are not escaped.
    let mut text = String::from("a");
    text.push(c);
    c != '\'' && c != '"' && text.escape_debug().count() == 2 || matches!(c, '\'' | '"')
}

/// Whether Go would print the text between backquotes for `%#q`.
pub(crate) fn can_backquote(text: &str) -> bool {
    text.chars().all(|c| c != '`' && c != '\u{feff}' && c != '\u{7f}' && (c >= ' ' || c == '\t'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_print_is_escaped() {
        assert_eq!(
            double("a\"\\\n\u{1}é\u{a0}\u{301}😀\u{200b}"),
            "\"a\\\"\\\\\\n\\x01é\\u00a0\u{301}😀\\u200b\""
        );
        assert_eq!(ascii("é😀"), "\"\\u00e9\\U0001f600\"");
        assert_eq!(character(0x27, false), "'\\''");
    }
}
