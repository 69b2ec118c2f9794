//! Regular expressions: would Envoy's RE2 take this one?

use std::borrow::Cow;

/// Longer ones are refused, as Envoy's work on them grows with their size.
const LONGEST: usize = 1024;

/// Whether Envoy would accept the expression; the reason if not.
///
/// `regex` knows the same language but for corners: quoted text (`\Q…\E`) is only in RE2, some flags
/// are only in `regex`, and RE2 repeats nothing more than 1,000 times.
pub fn check_regex(expression: &str) -> Result<(), String> {
    if expression.is_empty() {
        return Err("regex string match should not be empty".to_owned());
    }
    if expression.len() > LONGEST {
        return Err(format!("regex is too large, max length allowed is {LONGEST}"));
    }
    let hint = "Istio uses RE2 style regex-based match (https://github.com/google/re2/wiki/Syntax)";
    let fail = |reason: &str| Err(format!("error parsing regexp: {reason}; {hint}"));
    if let Some(flag) = foreign_flag(expression) {
        return fail(&format!("invalid or unsupported flag {flag:?}"));
    }
    if let Some(count) = repeats(expression).find(|count| *count > 1000) {
        return fail(&format!("invalid repeat count {count}"));
    }
    match regex::RegexBuilder::new(&unquoted(expression)).size_limit(4 << 20).build() {
        Ok(_) => Ok(()),
        Err(regex::Error::Syntax(text)) => {
            // The library draws the place on lines of its own; its last line has the reason.
            let last = text.lines().rev().find_map(|line| line.strip_prefix("error: "));
            fail(last.unwrap_or("syntax error"))
        }
        Err(other) => fail(&other.to_string()),
    }
}

/// Text between `\Q` and `\E` means itself.
fn unquoted(expression: &str) -> Cow<'_, str> {
    if !expression.contains(r"\Q") {
        return Cow::Borrowed(expression);
    }
    let mut out = String::new();
    let mut rest = expression;
    while let Some((before, quoted)) = rest.split_once(r"\Q") {
        let (quoted, after) = quoted.split_once(r"\E").unwrap_or((quoted, ""));
        out.push_str(before);
        out.push_str(&regex::escape(quoted));
        rest = after;
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// A flag that only `regex` has, as in `(?x)`.
fn foreign_flag(expression: &str) -> Option<char> {
    expression.split("(?").skip(1).find_map(|group| {
        let flags: String =
            group.chars().take_while(|c| c.is_ascii_alphabetic() || *c == '-').collect();
        let ends = group[flags.len()..].starts_with([':', ')']);
        flags.chars().find(|flag| ends && !"imsU-".contains(*flag))
    })
}

/// The counts in `a{3,5}`.
fn repeats(expression: &str) -> impl Iterator<Item = u64> {
    expression.split('{').skip(1).flat_map(|rest| {
        let inside = rest.split('}').next().unwrap_or_default();
        let counts = inside.chars().all(|c| c.is_ascii_digit() || c == ',');
        let numbers = if counts { inside } else { "" };
        numbers.split(',').filter_map(|number| number.parse().ok())
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_re2_takes_is_taken() {
        for good in
            [r"a.*b", r"^/v\d+/(?P<id>[a-z]+)$", r"(?i)x", r"\Qa.b(\E+", r"\pL+", "a{1,1000}"]
        {
            assert_eq!(check_regex(good), Ok(()), "{good}");
        }
        for bad in ["", "[a", "(?=x)", r"(a)\1", "*", "a{1001}", "(?x) a", &"a".repeat(1025)] {
            assert!(check_regex(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_an_expression_or_not(text in "\\PC{0,60}") {
            let _ = check_regex(&text);
        }
    }
}
