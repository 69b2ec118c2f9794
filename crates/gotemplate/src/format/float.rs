//! Floating point numbers in the formats of Go's `strconv`.

/// Go's `FormatFloat`: `verb` is one of `b e f g x`, no `precision` means the shortest exact form.
pub(crate) fn format(value: f64, verb: char, precision: Option<usize>) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    match verb {
        'e' => scientific(&match precision {
            Some(digits) => format!("{value:.digits$e}"),
            None => format!("{value:e}"),
        }),
        'f' => match precision {
            Some(digits) => format!("{value:.digits$}"),
            None => format!("{value}"),
        },
        'b' => {
            let (mantissa, exponent) = parts(value);
            format!("{}{mantissa}p{exponent:+}", if value.is_sign_negative() { "-" } else { "" })
        }
        'x' => hexadecimal(value, precision),
        _ => general(value, precision),
    }
}

/// The number as a whole one times a power of two.
fn parts(value: f64) -> (u64, i32) {
    const FRACTION: u64 = (1 << 52) - 1;
    let bits = value.to_bits();
    let exponent = i32::try_from(bits >> 52 & 0x7ff).unwrap_or(0);
    match exponent {
        0 => (bits & FRACTION, -1074),
        _ => (bits & FRACTION | 1 << 52, exponent - 1075),
    }
}

/// `0x1.8p+01`: one binary digit before the point, hexadecimal ones after it.
fn hexadecimal(value: f64, precision: Option<usize>) -> String {
    let sign = if value.is_sign_negative() { "-" } else { "" };
    let (mut mantissa, mut exponent) = parts(value);
    if mantissa == 0 {
        exponent = -52;
    }
    // One bit at 2^60, so that 15 digits follow the point.
    while mantissa != 0 && mantissa & 1 << 60 == 0 {
        mantissa <<= 1;
        exponent -= 1;
    }
    let mut scale = if mantissa == 0 { 0 } else { exponent + 60 };
    let mut digits = precision;
    if let Some(wanted) = precision.filter(|p| *p < 15) {
        let shift = 60 - wanted * 4;
        let (rest, half) = (mantissa & ((1 << shift) - 1), 1 << (shift - 1));
        mantissa >>= shift;
        if rest > half || (rest == half && mantissa & 1 == 1) {
            mantissa += 1;
        }
        mantissa <<= shift;
        if mantissa & 1 << 61 != 0 {
            mantissa >>= 1;
            scale += 1;
        }
        digits = Some(wanted);
    }
    let fraction = format!("{:015x}", mantissa & ((1 << 60) - 1));
    let fraction = match digits {
        None => fraction.trim_end_matches('0').to_owned(),
        Some(wanted) => format!("{fraction:0<wanted$}")[..wanted].to_owned(),
    };
    let point = if fraction.is_empty() { "" } else { "." };
    let power = if scale < 0 { '-' } else { '+' };
    format!("{sign}0x{}{point}{fraction}p{power}{:02}", mantissa >> 60, scale.abs())
}

/// Rust's `1.5e7` as Go's `1.5e+07`.
fn scientific(text: &str) -> String {
    let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// `%g`: scientific for small and large exponents, else plain; no trailing zeros.
fn general(value: f64, precision: Option<usize>) -> String {
    let wanted = precision.map(|p| p.max(1));
    let text = match wanted {
        Some(digits) => format!("{value:.*e}", digits - 1),
        None => format!("{value:e}"),
    };
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits = if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        digits
    };
    let count = digits.chars().filter(char::is_ascii_digit).count();
    let whole = i32::try_from(count).is_ok_and(|count| count > exponent);
    // Go decides as if six digits were wanted when the shortest form is.
    let switch = match wanted {
        None => 6,
        Some(p) if p > count && whole => count,
        Some(p) => p,
    };
    if exponent < -4 || exponent >= i32::try_from(switch).unwrap_or(i32::MAX) {
        return scientific(&format!("{digits}e{exponent}"));
    }
    plain(digits, exponent)
}

/// Digits like `-1.234` with the point moved by `exponent`.
fn plain(digits: &str, exponent: i32) -> String {
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", digits),
    };
    let digits: String = digits.chars().filter(char::is_ascii_digit).collect();
    let point = exponent + 1;
    let Ok(point) = usize::try_from(point) else {
        return format!("{sign}0.{}{digits}", "0".repeat(point.unsigned_abs() as usize));
    };
    if point == 0 {
        return format!("{sign}0.{digits}");
    }
    if digits.len() <= point {
        return format!("{sign}{digits}{}", "0".repeat(point - digits.len()));
    }
    format!("{sign}{}.{}", &digits[..point], &digits[point..])
}

/// As `encoding/json` writes it: plain between 1e-6 and 1e21.
pub(crate) fn json(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        return format(value, 'f', None);
    }
    let text = format(value, 'e', None);
    // Go shortens e-09 to e-9.
    match text.rsplit_once("e-0") {
        Some((digits, exponent)) => format!("{digits}e-{exponent}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_form_is_gos() {
        for (value, text) in [
            (1.0, "1"),
            (1.5, "1.5"),
            (100_000.0, "100000"),
            (1e20, "1e+20"),
            (1e21, "1e+21"),
            (1_234_567.0, "1.234567e+06"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (-0.5, "-0.5"),
        ] {
            assert_eq!(format(value, 'g', None), text);
        }
    }

    #[test]
    fn json_has_its_own_limits() {
        assert_eq!(json(1e20), "100000000000000000000");
        assert_eq!(json(1e21), "1e+21");
        assert_eq!(json(1e-7), "1e-7");
        assert_eq!(json(-0.0), "-0");
    }
}
