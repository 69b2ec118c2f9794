//! What Envoy would refuse a whole resource for, found before it is sent.
//!
//! Regular expressions are RE2's to Envoy. Our own engine takes nearly the same language; the rest of
//! the difference is checked here, on the strict side: what is not surely understood is refused.

/// The longest expression that is looked at.
const MAX_PATTERN: usize = 4096;
/// RE2's limit for counted repetition.
const MAX_REPEAT: u32 = 1000;

/// Why Envoy would not take the expression, and otherwise how many groups it has.
pub(crate) fn regex(pattern: &str) -> Result<usize, String> {
    if pattern.is_empty() {
        return Err("the regular expression is empty".into());
    }
    if pattern.len() > MAX_PATTERN {
        return Err(format!("the regular expression is longer than {MAX_PATTERN}"));
    }
    only_re2(pattern)?;
    let compiled = ::regex::RegexBuilder::new(pattern).size_limit(4 << 20).build();
    match compiled {
        Ok(compiled) => Ok(compiled.captures_len() - 1),
        Err(error) => {
            // The last line says what is wrong; the others draw it.
            let text = error.to_string();
            let last = text.lines().last().unwrap_or_default().trim();
            Err(format!("bad regular expression {pattern:?}: {last}"))
        }
    }
}

/// Refuses what our engine knows and RE2 does not.
fn only_re2(pattern: &str) -> Result<(), String> {
    let bad = |what: &str| Err(format!("bad regular expression {pattern:?}: RE2 has no {what}"));
    let bytes = pattern.as_bytes();
    let mut i = 0;
    let mut class = false;
    while i < bytes.len() {
        let rest = &pattern.get(i..).unwrap_or_default();
        match bytes[i] {
            b'\\' => {
                match bytes.get(i + 1) {
                    Some(b'u' | b'U' | b'<' | b'>' | b'h' | b'H' | b'R' | b'K' | b'G' | b'X') => {
                        return bad("such escape");
                    }
                    Some(b'b') if rest.starts_with("\\b{") => return bad("such boundary"),
                    _ => {}
                }
                i += 1;
            }
            b'[' if class && !rest.starts_with("[:") => return bad("class inside of a class"),
            b'[' => {
                class = true;
                // A bracket right at the start is a plain character.
                let skip =
                    if rest.starts_with("[^]") { 2 } else { usize::from(rest.starts_with("[]")) };
                i += skip;
            }
            b']' => class = false,
            b'&' | b'-' | b'~' if class && bytes.get(i + 1) == Some(&bytes[i]) => {
                return bad("operation on classes");
            }
            b'(' if !class && rest.starts_with("(?") => group(rest).or_else(bad)?,
            b'{' if !class => repeat(rest).or_else(bad)?,
            _ => {}
        }
        i += 1;
    }
    Ok(())
}

fn group(rest: &str) -> Result<(), &'static str> {
    let flags = &rest[2..];
    if flags.starts_with("P<") || flags.starts_with('<') {
        return Ok(());
    }
    let end = flags.find([':', ')']).unwrap_or(flags.len());
    match flags[..end].chars().all(|c| matches!(c, 'i' | 'm' | 's' | 'U' | '-')) {
        true => Ok(()),
        false => Err("such flag or group"),
    }
}

fn repeat(rest: &str) -> Result<(), &'static str> {
    let Some(end) = rest.find('}') else { return Ok(()) };
    for count in rest[1..end].split(',') {
        if count.trim().parse::<u32>().is_ok_and(|count| count > MAX_REPEAT) {
            return Err("repetition of more than 1000");
        }
    }
    Ok(())
}

/// A replacement may name only groups that are there: `\1`.
pub(crate) fn substitution(text: &str, groups: usize) -> Result<(), String> {
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            continue;
        }
        match chars.next() {
            Some('\\') => {}
            Some(digit) if digit.is_ascii_digit() => {
                let group = digit as usize - '0' as usize;
                if group > groups {
                    return Err(format!(
                        "the replacement {text:?} names group {group} of {groups}"
                    ));
                }
            }
            _ => return Err(format!("the replacement {text:?} has a backslash before no group")),
        }
    }
    header_value(text)
}

/// A name that can stand in a request.
pub(crate) fn header_name(name: &str) -> Result<(), String> {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let plain = name.strip_prefix(':').unwrap_or(name);
    match !plain.is_empty() && plain.len() <= 1024 && plain.chars().all(token) {
        true => Ok(()),
        false => Err(format!("{name:?} is no name of a header")),
    }
}

/// A value that does not end the line it stands in.
pub(crate) fn header_value(value: &str) -> Result<(), String> {
    match value.contains(['\0', '\r', '\n']) {
        true => Err(format!("{value:?} has a line break or a zero in it")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_that_re2_takes_pass() {
        for good in [
            "/api/v[0-9]+/.*",
            "^(https?://)?(www\\.)?example\\.com$",
            "(?i)foo",
            "(?i:foo)bar",
            "(?P<name>a)",
            "[]a]",
            "[^]a]",
            "[[:alpha:]]+",
            "a{2,1000}",
            "\\d+\\.\\w*\\pL",
            ".*",
        ] {
            assert!(regex(good).is_ok(), "{good}: {:?}", regex(good));
        }
        assert_eq!(regex("(a)(b)(?:c)"), Ok(2));
    }

    #[test]
    fn expressions_that_re2_refuses_do_not() {
        for bad in [
            "", "(", "[a", "*", "a**b(", "(?=a)", "(?<!a)", "(?x)a", "a{1001}", "[a&&b]", "[a[b]]",
            "\\u{41}", "(?u)a",
        ] {
            assert!(regex(bad).is_err(), "{bad}");
        }
        assert!(regex(&"a".repeat(5000)).is_err());
        assert!(regex("(((a{100}){100}){100})").is_err(), "too large");
    }

    #[test]
    fn a_bad_expression_is_named() {
        let error = regex("/a(b").unwrap_err();
        assert!(error.contains("/a(b") && !error.contains('\n'), "{error}");
    }

    #[test]
    fn replacements_name_groups_that_exist() {
        assert!(substitution("/a/\\1\\\\", 1).is_ok());
        assert!(substitution("\\2", 1).is_err());
        assert!(substitution("a\\", 1).is_err());
        assert!(substitution("\\x", 1).is_err());
    }
}
