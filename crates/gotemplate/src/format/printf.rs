//! Go's `printf`: the format walked, its mistakes shown in the output as Go shows them.

use super::spec::Spec;
use crate::buffer::Buffer;
use crate::value::Value;

/// Wider or more precise is refused by Go as well.
const WIDEST: usize = 1_000_000;

pub(crate) fn printf(out: &mut Buffer, format: &str, args: &[Value]) {
    let mut walk = Walk { args, next: 0, reordered: false, good_index: true };
    let mut rest = format;
    while let Some(percent) = rest.find('%') {
        out.push(&rest[..percent]);
        rest = walk.directive(out, &rest[percent + 1..]);
        if out.is_broken() {
            return;
        }
    }
    out.push(rest);
    if !walk.reordered && walk.next < args.len() {
        out.push("%!(EXTRA ");
        for (i, value) in args[walk.next..].iter().enumerate() {
            out.push(if i > 0 { ", " } else { "" });
            if value.is_nil() {
                out.push("<nil>");
            } else {
                out.push(value.type_name());
                out.push("=");
                super::display(out, value);
            }
        }
        out.push(")");
    }
}

struct Walk<'v> {
    args: &'v [Value],
    next: usize,
    /// An explicit index was used somewhere: unused arguments are no mistake then.
    reordered: bool,
    good_index: bool,
}

impl Walk<'_> {
    /// Writes the directive at the start of `text`, which is past its `%`; the text after it.
    fn directive<'t>(&mut self, out: &mut Buffer, text: &'t str) -> &'t str {
        let mut spec = Spec::default();
        let mut rest = flags(&mut spec, text);
        self.good_index = true;
        let mut indexed = false;
        rest = self.index(rest, &mut indexed);
        if let Some(after) = rest.strip_prefix('*') {
            rest = after;
            match self.star() {
                Some(n) => {
                    spec.minus |= n < 0;
                    spec.zero &= n >= 0;
                    spec.width = Some(usize::try_from(n.unsigned_abs()).unwrap_or(0));
                }
                None => out.push("%!(BADWIDTH)"),
            }
            indexed = false;
        } else {
            let (width, after) = number(rest);
            rest = after;
            spec.width = width;
            // `%[3]2d` is a mistake: the index must stand before the verb.
            self.good_index &= !(indexed && width.is_some());
        }
        rest = self.precision(out, &mut spec, rest, &mut indexed);
        if !indexed {
            rest = self.index(rest, &mut indexed);
        }
        let Some(verb) = rest.chars().next() else {
            out.push("%!(NOVERB)");
            return rest;
        };
        self.verb(out, spec, verb);
        &rest[verb.len_utf8()..]
    }

    fn precision<'t>(
        &mut self,
        out: &mut Buffer,
        spec: &mut Spec,
        text: &'t str,
        indexed: &mut bool,
    ) -> &'t str {
        let Some(mut rest) = text.strip_prefix('.') else { return text };
        self.good_index &= !*indexed;
        rest = self.index(rest, indexed);
        if let Some(after) = rest.strip_prefix('*') {
            match self.star() {
                Some(n) => spec.precision = usize::try_from(n).ok(),
                None => out.push("%!(BADPREC)"),
            }
            *indexed = false;
            return after;
        }
        let (precision, after) = number(rest);
        spec.precision = Some(precision.unwrap_or(0));
        after
    }

    fn verb(&mut self, out: &mut Buffer, mut spec: Spec, verb: char) {
        if verb == '%' {
            return out.push("%");
        }
        if !self.good_index {
            return out.push(&format!("%!{verb}(BADINDEX)"));
        }
        let Some(value) = self.args.get(self.next) else {
            return out.push(&format!("%!{verb}(MISSING)"));
        };
        self.next += 1;
        if verb == 'v' {
            spec.syntax = spec.sharp;
            spec.sharp = false;
            spec.plus = false;
        }
        spec.write(out, verb, value);
    }

    /// The number for a `*`.
    fn star(&mut self) -> Option<i64> {
        let value = self.args.get(self.next);
        if value.is_some() {
            self.next += 1;
        }
        let n = match value {
            Some(Value::Int(n) | Value::Int64(n)) => *n,
            Some(Value::Byte(n)) => i64::from(*n),
            _ => return None,
        };
        (n.unsigned_abs() <= WIDEST as u64).then_some(n)
    }

    /// `[n]` at the start of `text`: the argument to take next.
    fn index<'t>(&mut self, text: &'t str, indexed: &mut bool) -> &'t str {
        let Some(inside) = text.strip_prefix('[') else { return text };
        self.reordered = true;
        let Some(close) = inside.find(']') else {
            self.good_index = false;
            return inside;
        };
        let wanted: Option<usize> = inside[..close].parse().ok();
        match wanted.filter(|n| (1..=self.args.len()).contains(n)) {
            Some(n) => {
                self.next = n - 1;
                *indexed = true;
            }
            None => self.good_index = false,
        }
        &inside[close + 1..]
    }
}

fn flags<'t>(spec: &mut Spec, text: &'t str) -> &'t str {
    for (i, c) in text.char_indices() {
        match c {
            '#' => spec.sharp = true,
            '0' => spec.zero = true,
            '+' => spec.plus = true,
            '-' => spec.minus = true,
            ' ' => spec.space = true,
            _ => {
                spec.zero &= !spec.minus;
                return &text[i..];
            }
        }
    }
    ""
}

/// A number at the start of the text. One that is too large counts as none.
fn number(text: &str) -> (Option<usize>, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let value = text[..end].parse().ok().filter(|n| *n <= WIDEST);
    (value, &text[end..])
}
