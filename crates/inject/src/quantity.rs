//! Quantities of Kubernetes (`100m`, `1Gi`) and the one way in which Kubernetes writes each.

/// The amount in units of 10⁻⁹, and how it was written.
struct Quantity {
    nanos: i128,
    style: Style,
}

#[derive(PartialEq)]
enum Style {
    Decimal,
    Binary,
    Exponent,
}

const NANO: i128 = 1_000_000_000;
/// More digits than this are no quantity that anybody means.
const LONGEST: usize = 30;
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// As the API server writes it: `1000m` is `1`, `1024Mi` is `1Gi`. `None` when it is no quantity.
pub(crate) fn canonical(text: &str) -> Option<String> {
    parse(text).map(|quantity| quantity.show())
}

pub(crate) fn is_valid(text: &str) -> bool {
    parse(text).is_some()
}

fn parse(text: &str) -> Option<Quantity> {
    let (sign, rest) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || digits.len() > LONGEST || fraction.contains('.') {
        return None;
    }
    let mantissa: i128 = digits.parse().ok()?;
    let places = u32::try_from(fraction.len()).ok()?;
    let (numerator, denominator, style) = scale(suffix)?;
    let scaled = mantissa.checked_mul(numerator)?.checked_mul(NANO)?;
    let divisor = 10_i128.checked_pow(places)?.checked_mul(denominator)?;
    // What is finer than 10⁻⁹ is rounded up, as Kubernetes does.
    let nanos = scaled.checked_add(divisor - 1)?.checked_div(divisor)?;
    Some(Quantity { nanos: sign * nanos, style })
}

/// What the suffix multiplies by and divides by.
fn scale(suffix: &str) -> Option<(i128, i128, Style)> {
    if let Some(power) = BINARY.iter().skip(1).position(|known| *known == suffix) {
        let power = u32::try_from(power).ok()? + 1;
        return Some((1024_i128.checked_pow(power)?, 1, Style::Binary));
    }
    if let Some(index) = DECIMAL.iter().position(|known| *known == suffix) {
        let power = i32::try_from(index).ok()? - 3;
        let factor = 1000_i128.checked_pow(power.unsigned_abs())?;
        let (up, down) = if power < 0 { (1, factor) } else { (factor, 1) };
        return Some((up, down, Style::Decimal));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    let factor = 10_i128.checked_pow(exponent.unsigned_abs())?;
    let (up, down) = if exponent < 0 { (1, factor) } else { (factor, 1) };
    Some((up, down, Style::Exponent))
}

impl Quantity {
    fn show(&self) -> String {
        if self.nanos == 0 {
            return "0".to_owned();
        }
        if self.style == Style::Binary && self.nanos % NANO == 0 && self.nanos.abs() >= 1024 * NANO
        {
            let (amount, power) = reduced(self.nanos / NANO, 1024, BINARY.len() - 1);
            return format!("{amount}{}", BINARY[power]);
        }
        let (amount, power) = reduced(self.nanos, 1000, DECIMAL.len() - 1);
        match (&self.style, power) {
            (Style::Exponent, 3) => amount.to_string(),
            (Style::Exponent, power) => {
                format!("{amount}e{}", i64::try_from(power).unwrap_or(0) * 3 - 9)
            }
            (_, power) => format!("{amount}{}", DECIMAL[power]),
        }
    }
}

/// Divides as long as nothing is lost.
fn reduced(mut amount: i128, by: i128, most: usize) -> (i128, usize) {
    let mut power = 0;
    while power < most && amount % by == 0 {
        amount /= by;
        power += 1;
    }
    (amount, power)
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn quantities_are_written_as_the_api_server_writes_them() {
        for (text, expected) in [
            ("1000m", "1"),
            ("2000m", "2"),
            ("100m", "100m"),
            ("1500m", "1500m"),
            ("0.5", "500m"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("128Mi", "128Mi"),
            ("512", "512"),
            ("1000", "1k"),
            ("0", "0"),
            ("0Gi", "0"),
            ("1e3", "1e3"),
            ("12E", "12E"),
            ("-1", "-1"),
            ("0.1Ki", "102400m"),
        ] {
            assert_eq!(canonical(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in ["", "x", "1x", "1..2", "Gi", "--1", "1 Gi", "1e", "1e99999999999", "1Zi"] {
            assert_eq!(canonical(text), None, "{text}");
        }
    }
}
