//! Strings: cut, joined, searched and quoted. Lengths and places count bytes, as in Go.

use super::Param::{Any, Int, Str};
use super::{Outcome, Row, int_at, str_at, to_text};
use crate::error::Fault;
use crate::exec::Run;
use crate::format::quote::double;
use crate::value::{Map, Value};

pub(super) const TABLE: &[Row] = &[
    ("cat", &[], Some(Any), cat),
    ("contains", &[Str, Str], None, contains),
    ("hasPrefix", &[Str, Str], None, has_prefix),
    ("hasSuffix", &[Str, Str], None, has_suffix),
    ("indent", &[Int, Str], None, indent),
    ("join", &[Str, Any], None, join),
    ("nindent", &[Int, Str], None, nindent),
    ("plural", &[Str, Str, Int], None, plural),
    ("quote", &[], Some(Any), quote),
    ("repeat", &[Int, Str], None, repeat),
    ("replace", &[Str, Str, Str], None, replace),
    ("sortAlpha", &[Any], None, sort_alpha),
    ("split", &[Str, Str], None, split),
    ("splitList", &[Str, Str], None, split_list),
    ("splitn", &[Str, Int, Str], None, splitn),
    ("squote", &[], Some(Any), squote),
    ("substr", &[Int, Int, Str], None, substr),
    ("toString", &[Any], None, to_string),
    ("toStrings", &[Any], None, to_strings),
    ("trim", &[Str], None, trim),
    ("trimAll", &[Str, Str], None, trim_all),
    ("trimPrefix", &[Str, Str], None, trim_prefix),
    ("trimSuffix", &[Str, Str], None, trim_suffix),
    ("trimall", &[Str, Str], None, trim_all),
    ("trunc", &[Int, Str], None, trunc),
];

/// The bytes from one place to another, as text.
pub(super) fn cut(text: &str, from: usize, to: usize) -> Result<String, Fault> {
    match text.as_bytes().get(from..to) {
        Some(bytes) => Ok(String::from_utf8_lossy(bytes).into_owned()),
        None => Err(format!(
            "runtime error: slice bounds out of range [{from}:{to}] with length {}",
            text.len()
        )
        .into()),
    }
}

fn cat(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    joined(run, args, " ", to_text)
}

fn quote(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    joined(run, args, " ", |run, value| Ok(double(&to_text(run, value)?)))
}

fn squote(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    joined(run, args, " ", |run, value| Ok(format!("'{}'", to_text(run, value)?)))
}

/// What is there, each shown by `show`.
fn joined(
    run: &mut Run<'_>,
    values: &[Value],
    joint: &str,
    show: fn(&mut Run<'_>, &Value) -> Result<String, Fault>,
) -> Outcome {
    let mut out = run.buffer();
    for (i, value) in values.iter().filter(|value| !value.is_nil()).enumerate() {
        out.push(if i > 0 { joint } else { "" });
        out.push(&show(run, value)?);
        out.check()?;
    }
    let text = out.finish()?;
    run.spend(text.len() as u64)?;
    Ok(text.into())
}

fn contains(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(str_at(args, 1).contains(str_at(args, 0)).into())
}

fn has_prefix(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(str_at(args, 1).starts_with(str_at(args, 0)).into())
}

fn has_suffix(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(str_at(args, 1).ends_with(str_at(args, 0)).into())
}

fn indent(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(indented(run, int_at(args, 0), str_at(args, 1))?.into())
}

fn nindent(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(format!("\n{}", indented(run, int_at(args, 0), str_at(args, 1))?).into())
}

fn indented(run: &mut Run<'_>, spaces: i64, text: &str) -> Result<String, Fault> {
    let pad = repeated(run, spaces, " ")?;
    let new = format!("\n{pad}");
    let replaced = replaced(run, text, "\n", &new)?;
    Ok(format!("{pad}{replaced}"))
}

fn repeat(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(repeated(run, int_at(args, 0), str_at(args, 1))?.into())
}

fn repeated(run: &mut Run<'_>, count: i64, text: &str) -> Result<String, Fault> {
    let count = usize::try_from(count).map_err(|_| "strings: negative Repeat count")?;
    run.reserve(count.saturating_mul(text.len()))?;
    Ok(text.repeat(count))
}

fn replace(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(replaced(run, str_at(args, 2), str_at(args, 0), str_at(args, 1))?.into())
}

fn replaced(run: &mut Run<'_>, text: &str, old: &str, new: &str) -> Result<String, Fault> {
    let count = text.matches(old).count();
    run.reserve(text.len().saturating_add(count.saturating_mul(new.len())))?;
    Ok(text.replace(old, new))
}

/// The texts of a list, or of one value; what is nil is left out.
fn texts(run: &mut Run<'_>, value: &Value) -> Result<Vec<String>, Fault> {
    match value {
        Value::List(list) => {
            run.spend(list.items().len() as u64 * 32)?;
            let present = list.items().iter().filter(|item| !item.is_nil());
            present.map(|item| to_text(run, item)).collect()
        }
        Value::Nil => Ok(Vec::new()),
        other => Ok(vec![to_text(run, other)?]),
    }
}

fn join(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let (texts, joint) = (texts(run, &args[1])?, str_at(args, 0));
    let size = texts.iter().map(|text| text.len().saturating_add(joint.len())).sum();
    run.reserve(size)?;
    Ok(texts.join(joint).into())
}

fn to_strings(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(Value::strings(texts(run, &args[0])?))
}

fn sort_alpha(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let mut texts = match &args[0] {
        Value::Nil => vec!["<nil>".to_owned()],
        other => texts(run, other)?,
    };
    texts.sort_unstable();
    Ok(Value::strings(texts))
}

/// As Go splits: an empty separator stands between all characters.
fn parts<'s>(text: &'s str, separator: &str, most: Option<usize>) -> Vec<&'s str> {
    let most = most.unwrap_or(usize::MAX);
    if !separator.is_empty() {
        return text.splitn(most, separator).collect();
    }
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next().filter(|_| out.len() + 1 < most) {
        let (first, after) = rest.split_at(c.len_utf8());
        out.push(first);
        rest = after;
    }
    if !rest.is_empty() {
        out.push(rest);
    }
    out
}

fn split(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    numbered(run, &parts(str_at(args, 1), str_at(args, 0), None))
}

fn splitn(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let parts = match int_at(args, 1) {
        0 => Vec::new(),
        n => parts(str_at(args, 2), str_at(args, 0), usize::try_from(n).ok()),
    };
    numbered(run, &parts)
}

/// A map of `_0`, `_1` and so on.
fn numbered(run: &mut Run<'_>, parts: &[&str]) -> Outcome {
    run.spend(parts.len() as u64 * 64)?;
    let entries = parts.iter().enumerate().map(|(i, part)| (format!("_{i}"), *part));
    Ok(Value::string_map(entries))
}

fn split_list(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let parts = parts(str_at(args, 1), str_at(args, 0), None);
    run.spend(parts.len() as u64 * 64)?;
    Ok(Value::strings(parts))
}

fn substr(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    let (start, end, text) = (int_at(args, 0), int_at(args, 1), str_at(args, 2));
    let out_of_range = || Fault::from("runtime error: slice bounds out of range");
    let place = |n: i64| usize::try_from(n).map_err(|_| out_of_range());
    let length = i64::try_from(text.len()).unwrap_or(i64::MAX);
    if start < 0 {
        return Ok(cut(text, 0, place(end)?)?.into());
    }
    if end < 0 || end > length {
        return Ok(cut(text, place(start)?, text.len())?.into());
    }
    Ok(cut(text, place(start)?, place(end)?)?.into())
}

/// The first `n` bytes, or the last ones for a negative `n`.
fn trunc(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    let (n, text) = (int_at(args, 0), str_at(args, 1));
    let size = usize::try_from(n.unsigned_abs()).unwrap_or(usize::MAX);
    if size >= text.len() {
        return Ok(text.into());
    }
    if n < 0 {
        return Ok(cut(text, text.len() - size, text.len())?.into());
    }
    Ok(cut(text, 0, size)?.into())
}

fn to_string(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(to_text(run, &args[0])?.into())
}

fn plural(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(str_at(args, usize::from(int_at(args, 2) != 1)).into())
}

fn trim(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(str_at(args, 0).trim().into())
}

fn trim_all(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    let set = str_at(args, 0);
    Ok(str_at(args, 1).trim_matches(|c| set.contains(c)).into())
}

fn trim_prefix(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    let (prefix, text) = (str_at(args, 0), str_at(args, 1));
    Ok(text.strip_prefix(prefix).unwrap_or(text).into())
}

fn trim_suffix(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    let (suffix, text) = (str_at(args, 0), str_at(args, 1));
    Ok(text.strip_suffix(suffix).unwrap_or(text).into())
}

/// A map from text to text, for callers that build one.
pub(super) fn string_map(map: &Map) -> Value {
    Value::string_map(map.entries().into_iter().filter_map(|(key, value)| match value {
        Value::Str(text) => Some((key, text)),
        _ => None,
    }))
}
