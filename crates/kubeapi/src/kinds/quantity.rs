//! Quantities of resources, such as `500m` or `1Gi`: reading, comparing and their canonical form.
//!
//! In: the text of a quantity. Out: its exact value as a multiple of 10⁻⁹, and the form Kubernetes
//! writes it in. Numbers beyond what fits are clamped, never wrapped.

/// A quantity read from its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantity {
    /// In billionths.
    nanos: i128,
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Decimal,
    Binary,
    Exponent,
}

const PATTERN: &str = "quantities must match the regular expression \
                       '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const NANO: i128 = 1_000_000_000;
/// Kubernetes clamps at the largest 64-bit number.
const MAX: i128 = (i64::MAX as i128) * NANO;
const DECIMAL: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];
const BINARY: [(&str, u32); 6] =
    [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

impl Quantity {
    /// Reads a quantity; the error is the text Kubernetes answers with.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let end = text
            .char_indices()
            .find(|(i, c)| {
                !(c.is_ascii_digit() || *c == '.' || (*i == 0 && matches!(c, '+' | '-')))
            })
            .map_or(text.len(), |(i, _)| i);
        let (number, suffix) = text.split_at(end);
        let (negative, digits) = match number.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, number.strip_prefix('+').unwrap_or(number)),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || text.len() > 64 {
            return Err(PATTERN);
        }
        let (format, power10, power2) = suffix_of(suffix)?;
        let nanos = scale(whole, fraction, power10, power2);
        Ok(Self { nanos: if negative { -nanos } else { nanos }, format })
    }

    /// In billionths.
    pub fn nanos(self) -> i128 {
        self.nanos
    }

    /// Rounded up to whole units.
    pub fn value(self) -> i64 {
        i64::try_from(self.nanos.div_euclid(NANO) + i128::from(self.nanos.rem_euclid(NANO) != 0))
            .unwrap_or(i64::MAX)
    }

    /// Rounded up to thousandths.
    pub fn millis(self) -> i64 {
        let unit = NANO / 1000;
        i64::try_from(self.nanos.div_euclid(unit) + i128::from(self.nanos.rem_euclid(unit) != 0))
            .unwrap_or(i64::MAX)
    }

    fn canonical(self) -> String {
        if self.nanos == 0 {
            return "0".to_owned();
        }
        let whole = self.nanos % NANO == 0;
        if self.format == Format::Binary && whole && (self.nanos / NANO).abs() >= 1024 {
            let value = self.nanos / NANO;
            let (suffix, shift) = BINARY
                .iter()
                .rev()
                .find(|(_, shift)| value % (1i128 << shift) == 0)
                .copied()
                .unwrap_or(("", 0));
            return format!("{}{suffix}", value >> shift);
        }
        let (suffix, exponent) = DECIMAL
            .iter()
            .rev()
            .find(|(_, e)| self.nanos % 10i128.pow(u32::try_from(e + 9).unwrap_or(0)) == 0)
            .copied()
            .unwrap_or(("n", -9));
        let value = self.nanos / 10i128.pow(u32::try_from(exponent + 9).unwrap_or(0));
        match self.format {
            Format::Exponent if exponent != 0 => format!("{value}e{exponent}"),
            _ => format!("{value}{suffix}"),
        }
    }
}

/// The form in which Kubernetes writes the quantity.
pub fn canonical(text: &str) -> Result<String, String> {
    Quantity::parse(text).map(Quantity::canonical).map_err(str::to_owned)
}

fn suffix_of(suffix: &str) -> Result<(Format, i32, u32), &'static str> {
    if let Some((_, power)) = BINARY.iter().find(|(s, _)| *s == suffix) {
        return Ok((Format::Binary, 0, *power));
    }
    if let Some((_, power)) = DECIMAL.iter().find(|(s, _)| *s == suffix) {
        return Ok((Format::Decimal, *power, 0));
    }
    let exponent = suffix.strip_prefix(['e', 'E']).ok_or(PATTERN)?;
    let power: i32 = exponent.parse().map_err(|_| PATTERN)?;
    Ok((Format::Exponent, power.clamp(-40, 40), 0))
}

/// Digits beyond a billionth are rounded up, as Kubernetes does.
fn scale(whole: &str, fraction: &str, power10: i32, power2: u32) -> i128 {
    let mut mantissa: i128 = 0;
    for digit in whole.bytes().chain(fraction.bytes()) {
        mantissa = mantissa.saturating_mul(10).saturating_add(i128::from(digit - b'0'));
    }
    mantissa = mantissa.saturating_mul(1i128 << power2);
    let exponent = power10 + 9 - i32::try_from(fraction.len()).unwrap_or(64);
    let factor = 10i128.checked_pow(exponent.unsigned_abs()).unwrap_or(i128::MAX);
    let nanos = if exponent >= 0 {
        mantissa.saturating_mul(factor)
    } else {
        mantissa / factor + i128::from(mantissa % factor != 0)
    };
    nanos.min(MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(canonical(text).as_deref(), Ok(expected), "{text}");
    }

    #[test]
    fn quantities_are_written_as_kubernetes_writes_them() {
        check("1000m", "1");
        check("0.5", "500m");
        check("1.5Gi", "1536Mi");
        check("1024Mi", "1Gi");
        check("1024", "1024");
        check("1000", "1k");
        check("0", "0");
        check("100e3", "100e3");
        check("12e6", "12e6");
        check("1E", "1E");
        check("128974848", "128974848");
        check("129M", "129M");
        check("0.1m", "100u");
        check("-1", "-1");
        check("1Ki", "1Ki");
        check("0.5Ki", "512");
        check("2000Ki", "2000Ki");
        check(".5", "500m");
        check("5.", "5");
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "zz", "1.2.3", "1kk", "Gi", "1 Gi", "--1", "1e", "e3"] {
            assert_eq!(canonical(text).unwrap_err(), PATTERN, "{text}");
        }
    }

    #[test]
    fn values_round_up() {
        assert_eq!(Quantity::parse("1500m").unwrap().value(), 2);
        assert_eq!(Quantity::parse("100u").unwrap().millis(), 1);
        assert_eq!(Quantity::parse("1Gi").unwrap().value(), 1 << 30);
        assert_eq!(Quantity::parse("99999999999999999999999").unwrap().value(), i64::MAX);
    }
}
