//! One directive of a format: its flags, and how each kind of value follows them.

use super::{container, float, quote};
use crate::buffer::Buffer;
use crate::value::Value;

/// What stands between `%` and the verb.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spec {
    pub(crate) plus: bool,
    pub(crate) minus: bool,
    pub(crate) sharp: bool,
    pub(crate) space: bool,
    pub(crate) zero: bool,
    /// `%#v`: Go syntax.
    pub(crate) syntax: bool,
    pub(crate) width: Option<usize>,
    pub(crate) precision: Option<usize>,
}

impl Spec {
    pub(crate) fn write(&self, out: &mut Buffer, verb: char, value: &Value) {
        match (value, verb) {
            (_, 'T') => self.text(out, 's', value.type_name()),
            (Value::Nil, 'v') => self.padded(out, "<nil>"),
            (Value::Nil, _) => {
                out.push(&format!("%!{verb}(<nil>)"));
            }
            (Value::List(_) | Value::Map(_), 'p') => self.bad_verb(out, verb, value),
            (Value::List(_) | Value::Map(_), _) => container(out, self, verb, value, 0),
            _ => self.scalar(out, verb, value),
        }
    }

    /// A value inside a container.
    pub(super) fn write_inside(&self, out: &mut Buffer, verb: char, value: &Value, depth: usize) {
        match value {
            Value::Nil if self.syntax => out.push("interface {}(nil)"),
            Value::Nil => out.push("<nil>"),
            Value::List(_) | Value::Map(_) => container(out, self, verb, value, depth),
            _ => self.scalar(out, verb, value),
        }
    }

    fn scalar(&self, out: &mut Buffer, verb: char, value: &Value) {
        match (value, verb) {
            (Value::Bool(b), 't' | 'v') => self.padded(out, if *b { "true" } else { "false" }),
            (Value::Str(s), 'v' | 's' | 'x' | 'X' | 'q') => self.text(out, verb, s),
            (Value::Float(f), 'v' | 'e' | 'E' | 'f' | 'F' | 'g' | 'G' | 'b' | 'x' | 'X') => {
                self.float(out, verb, *f);
            }
            (Value::Int(n) | Value::Int64(n), _) if is_integer_verb(verb) => {
                self.integer(out, verb, *n);
            }
            (Value::Byte(n), 'v') if self.syntax => out.push(&format!("{n:#x}")),
            (Value::Byte(n), _) if is_integer_verb(verb) => {
                self.integer(out, verb, i64::from(*n));
            }
            _ => self.bad_verb(out, verb, value),
        }
    }

    fn bad_verb(&self, out: &mut Buffer, verb: char, value: &Value) {
        out.push(&format!("%!{verb}({}=", value.type_name()));
        self.write(out, 'v', value);
        out.push(")");
    }

    /// Filled up to the width, on the left unless `-`.
    pub(crate) fn padded(&self, out: &mut Buffer, text: &str) {
        let missing = self.width.unwrap_or(0).saturating_sub(text.chars().count());
        if self.minus {
            out.push(text);
            out.pad(' ', missing);
        } else {
            out.pad(if self.zero { '0' } else { ' ' }, missing);
            out.push(text);
        }
    }

    fn text(&self, out: &mut Buffer, verb: char, text: &str) {
        if matches!(verb, 'x' | 'X') {
            return self.hex_text(out, verb, text);
        }
        let cut: String;
        let text = match self.precision {
            Some(most) => {
                cut = text.chars().take(most).collect();
                &cut
            }
            None => text,
        };
        match verb {
            'v' if self.syntax => self.padded(out, &quote::double(text)),
            'q' if self.sharp && quote::can_backquote(text) => {
                self.padded(out, &format!("`{text}`"));
            }
            'q' if self.plus => self.padded(out, &quote::ascii(text)),
            'q' => self.padded(out, &quote::double(text)),
            _ => self.padded(out, text),
        }
    }

    fn hex_text(&self, out: &mut Buffer, verb: char, text: &str) {
        let bytes = text.as_bytes();
        let bytes = &bytes[..self.precision.unwrap_or(bytes.len()).min(bytes.len())];
        let prefix = if verb == 'x' { "0x" } else { "0X" };
        let mut hex = String::new();
        if self.sharp && !bytes.is_empty() {
            hex.push_str(prefix);
        }
        for (i, byte) in bytes.iter().enumerate() {
            if self.space && i > 0 {
                hex.push(' ');
                hex.push_str(if self.sharp { prefix } else { "" });
            }
            let digits = if verb == 'x' { format!("{byte:02x}") } else { format!("{byte:02X}") };
            hex.push_str(&digits);
        }
        self.padded(out, &hex);
    }

    fn integer(&self, out: &mut Buffer, verb: char, n: i64) {
        let spaced = Self { zero: false, ..*self };
        match verb {
            'c' => {
                let c = u32::try_from(n).ok().and_then(char::from_u32).unwrap_or('\u{fffd}');
                return self.padded(out, c.encode_utf8(&mut [0; 4]));
            }
            'q' => return self.padded(out, &quote::character(n, self.plus)),
            'U' => return spaced.padded(out, &self.unicode(n)),
            _ => {}
        }
        let size = n.unsigned_abs();
        let mut digits = match verb {
            'b' => format!("{size:b}"),
            'o' | 'O' => format!("{size:o}"),
            'x' => format!("{size:x}"),
            'X' => format!("{size:X}"),
            _ => size.to_string(),
        };
        let signed = n < 0 || self.plus || self.space;
        let mut least = self.precision.unwrap_or(0);
        if self.precision == Some(0) && n == 0 {
            return spaced.padded(out, "");
        }
        if let (None, true, false, Some(width)) =
            (self.precision, self.zero, self.minus, self.width)
        {
            least = width - usize::from(signed && width > 0);
        }
        if digits.len() < least {
            digits.insert_str(0, &"0".repeat(least - digits.len()));
        }
        let prefix = match verb {
            'b' if self.sharp => "0b",
            'o' if self.sharp && !digits.starts_with('0') => "0",
            'O' => "0o",
            'x' if self.sharp => "0x",
            'X' if self.sharp => "0X",
            _ => "",
        };
        let sign = match n {
            _ if n < 0 => "-",
            _ if self.plus => "+",
            _ if self.space => " ",
            _ => "",
        };
        spaced.padded(out, &format!("{sign}{prefix}{digits}"));
    }

    fn unicode(&self, n: i64) -> String {
        let digits = self.precision.unwrap_or(4).max(4);
        let code = format!("U+{n:0digits$X}");
        match u32::try_from(n).ok().and_then(char::from_u32) {
            Some(c) if self.sharp && quote::is_printable(c) => format!("{code} '{c}'"),
            _ => code,
        }
    }

    fn float(&self, out: &mut Buffer, verb: char, value: f64) {
        let (shape, fallback) = match verb.to_ascii_lowercase() {
            'v' | 'g' => ('g', None),
            shape @ ('b' | 'x') => (shape, None),
            shape => (shape, Some(6)),
        };
        let mut text = float::format(value, shape, self.precision.or(fallback));
        if verb.is_ascii_uppercase() {
            text = text.to_uppercase().replace("INF", "Inf").replace("NAN", "NaN");
        }
        let (sign, digits) = match text.strip_prefix(['+', '-']) {
            Some(rest) => (if text.starts_with('-') { "-" } else { "+" }, rest),
            None => ("+", text.as_str()),
        };
        let sign = match sign {
            "+" if self.plus => "+",
            "+" if self.space => " ",
            "+" => "",
            minus => minus,
        };
        let endless = !value.is_finite();
        // Only numbers are filled with zeros, and the sign stays in front of them.
        if self.zero && !self.minus && !endless && !sign.is_empty() {
            out.push(sign);
            let width = self.width.map(|w| w.saturating_sub(1));
            return Self { width, ..*self }.padded(out, digits);
        }
        // An infinity that was not asked to show its sign shows it all the same.
        let sign = if value == f64::INFINITY && sign.is_empty() { "+" } else { sign };
        let spec = Self { zero: self.zero && !endless, ..*self };
        spec.padded(out, &format!("{sign}{digits}"));
    }
}

fn is_integer_verb(verb: char) -> bool {
    matches!(verb, 'v' | 'd' | 'b' | 'o' | 'O' | 'x' | 'X' | 'c' | 'q' | 'U')
}
