//! Letters and words: case, abbreviation, wrapping.

use super::Param::{Int, Str};
use super::text::cut;
use super::{Outcome, Row, int_at, str_at};
use crate::error::Fault;
use crate::exec::Run;
use crate::lex::is_alphanumeric;
use crate::value::Value;

pub(super) const TABLE: &[Row] = &[
    ("abbrev", &[Int, Str], None, abbrev),
    ("abbrevboth", &[Int, Int, Str], None, abbrev_both),
    ("initials", &[Str], None, initials),
    ("lower", &[Str], None, lower),
    ("nospace", &[Str], None, nospace),
    ("swapcase", &[Str], None, swap_case),
    ("title", &[Str], None, title),
    ("untitle", &[Str], None, untitle),
    ("upper", &[Str], None, upper),
    ("wrap", &[Int, Str], None, wrap),
    ("wrapWith", &[Int, Str, Str], None, wrap_with),
];

/// One character for one, as Go maps them; where Unicode wants several it stays.
fn upper_char(c: char) -> char {
    let mut mapped = c.to_uppercase();
    match (mapped.next(), mapped.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

pub(super) fn lower_char(c: char) -> char {
    c.to_lowercase().next().unwrap_or(c)
}

fn upper(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(str_at(args, 0).chars().map(upper_char).collect::<String>().into())
}

pub(super) fn lower(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(str_at(args, 0).chars().map(lower_char).collect::<String>().into())
}

fn title(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    let mut starts = true;
    let titled = str_at(args, 0).chars().map(|c| {
        let out = if starts { upper_char(c) } else { c };
        starts = !is_alphanumeric(c) && (c.is_ascii() || c.is_whitespace());
        out
    });
    Ok(titled.collect::<String>().into())
}

fn untitle(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    let mut starts = true;
    let lowered = str_at(args, 0).chars().map(|c| {
        let out = if starts { lower_char(c) } else { c };
        starts = c.is_whitespace();
        out
    });
    Ok(lowered.collect::<String>().into())
}

fn swap_case(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    let swap = |c: char| if c.is_uppercase() { lower_char(c) } else { upper_char(c) };
    Ok(str_at(args, 0).chars().map(swap).collect::<String>().into())
}

fn nospace(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(str_at(args, 0).chars().filter(|c| !c.is_whitespace()).collect::<String>().into())
}

fn initials(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    let words = str_at(args, 0).split_whitespace();
    Ok(words.filter_map(|word| word.chars().next()).collect::<String>().into())
}

fn abbrev(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    let (width, text) = (int_at(args, 0), str_at(args, 1));
    if width < 4 {
        return Ok(text.into());
    }
    Ok(shortened(text, 0, usize::try_from(width).unwrap_or(usize::MAX))?.into())
}

fn abbrev_both(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    let (left, right, text) = (int_at(args, 0), int_at(args, 1), str_at(args, 2));
    if right < 4 || (left > 0 && right < 7) {
        return Ok(text.into());
    }
    let left = usize::try_from(left).unwrap_or(0);
    Ok(shortened(text, left, usize::try_from(right).unwrap_or(usize::MAX))?.into())
}

/// At most `width` bytes, dots where something is left out; what is shown starts near `offset`.
fn shortened(text: &str, offset: usize, width: usize) -> Result<String, Fault> {
    let length = text.len();
    if length <= width {
        return Ok(text.to_owned());
    }
    let shown = width.saturating_sub(3);
    let offset = offset.min(length - shown);
    if offset <= 4 {
        return Ok(format!("{}...", cut(text, 0, shown)?));
    }
    if offset + shown < length {
        let inner = shown.saturating_sub(3);
        return Ok(format!("...{}...", cut(text, offset, offset + inner)?));
    }
    Ok(format!("...{}", cut(text, length - shown, length)?))
}

fn wrap(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    wrapped(run, str_at(args, 1), int_at(args, 0), "\n", false)
}

fn wrap_with(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    let joint = if str_at(args, 1).is_empty() { "\n" } else { str_at(args, 1) };
    wrapped(run, str_at(args, 2), int_at(args, 0), joint, true)
}

/// Lines of at most `width` bytes, broken at spaces; long words only when `cuts`.
fn wrapped(run: &mut Run<'_>, text: &str, width: i64, joint: &str, cuts: bool) -> Outcome {
    let width = usize::try_from(width.max(1)).unwrap_or(usize::MAX);
    let bytes = text.as_bytes();
    let mut out = run.buffer();
    let mut at = 0;
    while bytes.len() - at > width {
        run.spend(1)?;
        out.check()?;
        if bytes[at] == b' ' {
            at += 1;
            continue;
        }
        let window = &bytes[at..=at + width];
        let line_end = match window.iter().rposition(|b| *b == b' ') {
            Some(space) => at + space,
            None if cuts => {
                out.push(&cut(text, at, at + width)?);
                out.push(joint);
                at += width;
                continue;
            }
            None => match bytes[at + width..].iter().position(|b| *b == b' ') {
                Some(space) => at + width + space,
                None => break,
            },
        };
        out.push(&cut(text, at, line_end)?);
        out.push(joint);
        at = line_end + 1;
    }
    out.push(&cut(text, at, bytes.len())?);
    Ok(out.finish()?.into())
}
