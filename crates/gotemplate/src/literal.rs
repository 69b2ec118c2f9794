//! Go's literals: quoted strings, characters and numbers, as text to their values.

/// A number literal: every type it can stand for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Number {
    pub(crate) text: String,
    pub(crate) int: Option<i64>,
    pub(crate) float: Option<f64>,
    /// Without a wanted type it is a float.
    pub(crate) is_float: bool,
}

/// The value of a string literal with its quotes, `"…"` or `` `…` ``.
pub(crate) fn unquote(literal: &str) -> Option<String> {
    if let Some(raw) = literal.strip_prefix('`') {
        return Some(raw.strip_suffix('`')?.replace('\r', ""));
    }
    let inside = literal.strip_prefix('"')?.strip_suffix('"')?;
    let mut bytes = Vec::with_capacity(inside.len());
    let mut rest = inside;
    while !rest.is_empty() {
        rest = unescape(rest, '"', &mut bytes)?;
    }
    // Go's strings may hold any bytes; ours are text, so stray bytes are marked.
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Moves the first character of `rest`, maybe escaped, to `out`.
fn unescape<'s>(rest: &'s str, quote: char, out: &mut Vec<u8>) -> Option<&'s str> {
    let mut chars = rest.chars();
    let c = chars.next()?;
    if c == quote {
        return None;
    }
    if c != '\\' {
        push(out, c);
        return Some(chars.as_str());
    }
    let escape = chars.next()?;
    let rest = chars.as_str();
    let (digits, radix, offset) = match escape {
        'x' => (2, 16, 0),
        'u' => (4, 16, 0),
        'U' => (8, 16, 0),
        '0'..='7' => (3, 8, 1),
        _ => {
            push(out, simple_escape(escape, quote)?);
            return Some(rest);
        }
    };
    // An octal escape has its first digit where others have their letter.
    let from = &chars_before(rest, offset, escape);
    let number = from.get(..digits).filter(|d| d.chars().all(|c| c.is_digit(radix)))?;
    let code = u32::from_str_radix(number, radix).ok()?;
    match escape {
        'u' | 'U' => push(out, char::from_u32(code)?),
        _ => out.push(u8::try_from(code).ok()?),
    }
    rest.get(digits - offset..)
}

fn chars_before(rest: &str, offset: usize, first: char) -> String {
    let digits: String = rest.chars().take(8).collect();
    if offset == 1 { format!("{first}{digits}") } else { digits }
}

fn push(out: &mut Vec<u8>, c: char) {
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

fn simple_escape(escape: char, quote: char) -> Option<char> {
    Some(match escape {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        '\\' => '\\',
        c if c == quote => c,
        _ => return None,
    })
}

/// The value of a number or character literal, or what is wrong with it.
pub(crate) fn number(text: &str) -> Result<Number, String> {
    if text.starts_with('\'') {
        let code =
            character(text).ok_or_else(|| format!("malformed character constant: {text}"))?;
        #[expect(clippy::cast_precision_loss, reason = "code points are small")]
        let float = Some(code as f64);
        return Ok(Number { text: text.to_owned(), int: Some(code), float, is_float: false });
    }
    let quoted = || crate::format::quote::double(text);
    let marked = text.contains(['.', 'e', 'E', 'p', 'P']);
    let hex = is_hex(text) && !text.contains(['p', 'P']);
    #[expect(clippy::cast_precision_loss, reason = "as Go converts a literal")]
    if let Some(int) = parse_int(text) {
        return Ok(Number {
            text: text.to_owned(),
            int: Some(int),
            float: Some(int as f64),
            is_float: marked && !hex,
        });
    }
    let float = parse_float(text).ok_or_else(|| format!("illegal number syntax: {}", quoted()))?;
    if !marked || hex {
        return Err(format!("integer overflow: {}", quoted()));
    }
    Ok(Number { text: text.to_owned(), int: whole(float), float: Some(float), is_float: true })
}

fn is_hex(text: &str) -> bool {
    text.starts_with("0x") || text.starts_with("0X")
}

#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "checked back")]
fn whole(float: f64) -> Option<i64> {
    let int = float as i64;
    (int as f64 == float && float.abs() < 9.2e18).then_some(int)
}

fn character(text: &str) -> Option<i64> {
    let inside = text.strip_prefix('\'')?.strip_suffix('\'')?;
    let mut bytes = Vec::new();
    if !unescape(inside, '\'', &mut bytes)?.is_empty() {
        return None;
    }
    match std::str::from_utf8(&bytes) {
        Ok(s) => s.chars().next().map(|c| i64::from(u32::from(c))),
        Err(_) => bytes.first().map(|b| i64::from(*b)),
    }
}

/// As Go's `ParseInt` with base 0: prefixes and underscores.
pub(crate) fn parse_int(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix(['+', '-']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    let (radix, body) = radix_of(digits);
    // A prefix may be followed by an underscore; else one stands between digits only.
    let prefixed = radix != 10;
    let body = if prefixed { body.strip_prefix('_').unwrap_or(body) } else { body };
    if body.is_empty() || body.starts_with(['_', '+', '-']) || body.ends_with('_') {
        return None;
    }
    if body.contains("__") {
        return None;
    }
    let magnitude = u64::from_str_radix(&body.replace('_', ""), radix).ok()?;
    let signed = i128::from(magnitude) * if negative { -1 } else { 1 };
    i64::try_from(signed).ok()
}

fn radix_of(digits: &str) -> (u32, &str) {
    let lower = digits.get(..2).map(str::to_ascii_lowercase);
    match lower.as_deref() {
        Some("0x") => (16, &digits[2..]),
        Some("0o") => (8, &digits[2..]),
        Some("0b") => (2, &digits[2..]),
        Some(two) if two.starts_with('0') => (8, &digits[1..]),
        _ => (10, digits),
    }
}

/// As Go's `ParseFloat`, without its hexadecimal form.
pub(crate) fn parse_float(text: &str) -> Option<f64> {
    let plain = text.strip_prefix(['+', '-']).unwrap_or(text);
    let special = matches!(plain.to_ascii_lowercase().as_str(), "inf" | "infinity" | "nan");
    let digits = plain.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    if !special && !digits {
        return None;
    }
    let float: f64 = text.parse().ok()?;
    (special || float.is_finite()).then_some(float)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_unquoted_as_go_does() {
        assert_eq!(unquote(r#""a\tb\x41\101\u00e9\U0001F600\"""#).unwrap(), "a\tbAAé😀\"");
        assert_eq!(unquote("`a\\n\r`").unwrap(), "a\\n");
        assert_eq!(unquote(r#""\xff""#).unwrap(), "\u{fffd}");
        for bad in [r#""\q""#, r#""\'""#, r#""\x4""#, r#""\400""#, r#""\ud800""#, "\"", "x"] {
            assert_eq!(unquote(bad), None, "{bad}");
        }
    }

    #[test]
    fn numbers_have_every_type_they_can_stand_for() {
        assert_eq!(number("0x1F").unwrap().int, Some(31));
        assert_eq!(number("0755").unwrap().int, Some(0o755));
        assert_eq!(number("1_000").unwrap().int, Some(1000));
        assert_eq!(number("'a'").unwrap().int, Some(97));
        assert_eq!(number("1e3").unwrap().int, Some(1000));
        assert!(number("1e3").unwrap().is_float);
        assert!(number("0x1e3").is_ok_and(|n| !n.is_float));
        assert_eq!(number("1.5").unwrap().int, None);
        for bad in ["089", "1__0", "_1", "''", "99999999999999999999", "1_"] {
            assert!(number(bad).is_err(), "{bad}");
        }
    }
}
