//! Regular expressions: Go's syntax brought to that of the `regex` crate, whose time is linear too.

use regex::{Regex, RegexBuilder};

use super::Param::{Int, Str};
use super::{Outcome, Row, int_at, str_at};
use crate::error::Fault;
use crate::exec::Run;
use crate::value::{Elem, List, Value};

pub(super) const TABLE: &[Row] = &[
    ("mustRegexFind", &[Str, Str], None, find),
    ("mustRegexFindAll", &[Str, Str, Int], None, find_all),
    ("mustRegexMatch", &[Str, Str], None, must_match),
    ("mustRegexReplaceAll", &[Str, Str, Str], None, replace_all),
    ("mustRegexReplaceAllLiteral", &[Str, Str, Str], None, replace_all_literal),
    ("mustRegexSplit", &[Str, Str, Int], None, split),
    ("regexFind", &[Str, Str], None, find),
    ("regexFindAll", &[Str, Str, Int], None, find_all),
    ("regexMatch", &[Str, Str], None, matches),
    ("regexQuoteMeta", &[Str], None, quote_meta),
    ("regexReplaceAll", &[Str, Str, Str], None, replace_all),
    ("regexReplaceAllLiteral", &[Str, Str, Str], None, replace_all_literal),
    ("regexSplit", &[Str, Str, Int], None, split),
];

/// The pattern of the first argument, for the text of the second.
fn compiled(run: &mut Run<'_>, args: &[Value]) -> Result<Regex, Fault> {
    let pattern = str_at(args, 0);
    // Building one costs far more than its length.
    run.spend(pattern.len() as u64 * 100 + str_at(args, 1).len() as u64)?;
    RegexBuilder::new(&translated(pattern)).size_limit(1 << 20).build().map_err(|error| {
        let reason = match error {
            regex::Error::CompiledTooBig(_) => "expression is too large".to_owned(),
            other => other.to_string().lines().last().unwrap_or_default().to_owned(),
        };
        Fault::Problem(format!("error parsing regexp: {reason}: `{pattern}`"))
    })
}

/// Go's classes are ASCII only, and some characters are plain in Go that are not here.
fn translated(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    let mut class_start = None;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        rest = match c {
            '\\' => escape(&mut out, after),
            '[' if class_start.is_none() => {
                out.push('[');
                let body = after.strip_prefix('^').unwrap_or(after);
                out.push_str(if body.len() < after.len() { "^" } else { "" });
                class_start = Some(body.len());
                body
            }
            '[' if !after.starts_with(':') => {
                out.push_str("\\[");
                after
            }
            '[' => match after.find(":]") {
                Some(end) => {
                    out.push_str(&rest[..end + 3]);
                    &after[end + 2..]
                }
                None => {
                    out.push_str("\\[");
                    after
                }
            },
            // A bracket right at the start of a class is one of its members.
            ']' if class_start.is_some_and(|start| start == rest.len()) => {
                out.push_str("\\]");
                after
            }
            ']' => {
                class_start = None;
                out.push(']');
                after
            }
            '&' | '~' if class_start.is_some() => {
                out.push('\\');
                out.push(c);
                after
            }
            '{' if class_start.is_none() && !is_repetition(after) => {
                out.push_str("\\{");
                after
            }
            c => {
                out.push(c);
                after
            }
        };
    }
    out
}

/// What follows a backslash.
fn escape<'p>(out: &mut String, after: &'p str) -> &'p str {
    let Some(c) = after.chars().next() else {
        out.push('\\');
        return after;
    };
    let rest = &after[c.len_utf8()..];
    match c {
        'd' => out.push_str("[0-9]"),
        'D' => out.push_str("[^0-9]"),
        'w' => out.push_str("[0-9A-Za-z_]"),
        'W' => out.push_str("[^0-9A-Za-z_]"),
        's' => out.push_str("[\\t\\n\\f\\r ]"),
        'S' => out.push_str("[^\\t\\n\\f\\r ]"),
        'b' => out.push_str("(?-u:\\b)"),
        '<' | '>' => out.push(c),
        'Q' => {
            let end = rest.find("\\E").unwrap_or(rest.len());
            out.push_str(&regex::escape(&rest[..end]));
            return rest[end..].strip_prefix("\\E").unwrap_or_default();
        }
        c => {
            out.push('\\');
            out.push(c);
        }
    }
    rest
}

fn is_repetition(after: &str) -> bool {
    let Some((inside, _)) = after.split_once('}') else { return false };
    let (least, most) = inside.split_once(',').unwrap_or((inside, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    !least.is_empty() && digits(least) && digits(most)
}

fn must_match(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(compiled(run, args)?.is_match(str_at(args, 1)).into())
}

fn matches(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    match compiled(run, args) {
        Ok(regex) => Ok(regex.is_match(str_at(args, 1)).into()),
        Err(Fault::Problem(_)) => Ok(false.into()),
        Err(bound) => Err(bound),
    }
}

fn find(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let regex = compiled(run, args)?;
    Ok(regex.find(str_at(args, 1)).map_or("", |found| found.as_str()).into())
}

/// The most results wanted: a negative number is no limit.
fn most(args: &[Value]) -> usize {
    usize::try_from(int_at(args, 2)).unwrap_or(usize::MAX)
}

fn find_all(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let regex = compiled(run, args)?;
    let mut found = Vec::new();
    for one in regex.find_iter(str_at(args, 1)).take(most(args)) {
        run.spend(64)?;
        found.push(one.as_str());
    }
    if found.is_empty() {
        return Ok(Value::List(List::nil(Elem::Str)));
    }
    Ok(Value::strings(found))
}

fn replace_all(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    #[expect(
        clippy::redundant_closure_for_method_calls,
        reason = "the method itself fits only one lifetime of the captures"
    )]
    replaced(run, args, |captures, new, out| captures.expand(new, out))
}

fn replace_all_literal(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    replaced(run, args, |_, new, out| out.push_str(new))
}

/// Built piece by piece, so that a replacement cannot outgrow the limit.
fn replaced(
    run: &mut Run<'_>,
    args: &[Value],
    expand: fn(&regex::Captures<'_>, &str, &mut String),
) -> Outcome {
    let regex = compiled(run, args)?;
    let (text, new) = (str_at(args, 1), str_at(args, 2));
    let mut out = run.buffer();
    let mut last = 0;
    for captures in regex.captures_iter(text) {
        let Some(whole) = captures.get(0) else { continue };
        // A capture used many times in a long replacement must not be built first and checked then.
        let size = new.len().saturating_add(new.matches('$').count().saturating_mul(whole.len()));
        run.reserve(size)?;
        let mut piece = String::new();
        expand(&captures, new, &mut piece);
        out.push(&text[last..whole.start()]);
        out.push(&piece);
        out.check()?;
        last = whole.end();
    }
    out.push(&text[last..]);
    Ok(out.finish()?.into())
}

fn split(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let regex = compiled(run, args)?;
    let (pattern, text, most) = (str_at(args, 0), str_at(args, 1), most(args));
    if most == 0 {
        return Ok(Value::List(List::nil(Elem::Str)));
    }
    if text.is_empty() && !pattern.is_empty() {
        return Ok(Value::strings([""]));
    }
    let mut parts = Vec::new();
    let (mut start, mut end) = (0, 0);
    for found in regex.find_iter(text).take(most) {
        run.spend(64)?;
        if parts.len() + 1 == most {
            break;
        }
        end = found.start();
        // A match of nothing at the very start splits nothing off.
        if found.end() != 0 {
            parts.push(&text[start..end]);
        }
        start = found.end();
    }
    if end != text.len() {
        parts.push(&text[start..]);
    }
    Ok(Value::strings(parts))
}

fn quote_meta(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let mut out = run.buffer();
    for c in str_at(args, 0).chars() {
        out.push(if "\\.+*?()|[]{}^$".contains(c) { "\\" } else { "" });
        out.push_char(c);
    }
    Ok(out.finish()?.into())
}
