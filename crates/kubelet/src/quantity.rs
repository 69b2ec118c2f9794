//! Resource quantities ("100m", "1.5Gi", "2e3") as exact numbers.
//!
//! A quantity comes in as text and goes out as whole units of whatever the reader counts in. The
//! API server has validated the text; what still does not parse is `None`, never a panic.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

const NANO: i128 = 1_000_000_000;

/// An amount in billionths, the finest step Kubernetes knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amount(i128);

impl Amount {
    pub const ONE: Self = Self(NANO);

    pub fn whole(units: i64) -> Self {
        Self(i128::from(units) * NANO)
    }

    pub fn of(quantity: &Quantity) -> Option<Self> {
        Self::parse(&quantity.0)
    }

    pub fn parse(text: &str) -> Option<Self> {
        // Longer than any number Kubernetes can hold.
        if text.len() > 64 {
            return None;
        }
        let digits_end = text
            .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-')))
            .unwrap_or(text.len());
        let (number, suffix) = text.split_at(digits_end);
        let (multiplier, divisor) = scale(suffix)?;
        let (negative, number) = match number.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, number.strip_prefix('+').unwrap_or(number)),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let mut mantissa: i128 = 0;
        for digit in whole.bytes().chain(fraction.bytes()) {
            let digit = i128::from((digit as char).to_digit(10)?);
            mantissa = mantissa.checked_mul(10)?.checked_add(digit)?;
        }
        let places = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        let nanos = ceil_div(
            mantissa.checked_mul(multiplier)?.checked_mul(NANO)?,
            places.checked_mul(divisor)?,
        );
        Some(Self(if negative { -nanos } else { nanos }))
    }

    /// How many of `unit` this is, rounded up as Kubernetes rounds.
    pub fn in_units_of(self, unit: Self) -> i64 {
        if unit.0 <= 0 {
            return 0;
        }
        i64::try_from(ceil_div(self.0, unit.0)).unwrap_or(i64::MAX)
    }

    pub fn units(self) -> i64 {
        self.in_units_of(Self::ONE)
    }

    pub fn millis(self) -> i64 {
        self.in_units_of(Self(NANO / 1000))
    }

    pub fn is_zero(self) -> bool {
        self.0 == 0
    }
}

fn ceil_div(a: i128, b: i128) -> i128 {
    a.div_euclid(b) + i128::from(a.rem_euclid(b) != 0)
}

fn scale(suffix: &str) -> Option<(i128, i128)> {
    let binary = |power: u32| 1_i128 << (10 * power);
    Some(match suffix {
        "" => (1, 1),
        "n" => (1, NANO),
        "u" => (1, 1_000_000),
        "m" => (1, 1000),
        "k" => (1000, 1),
        "M" => (1_000_000, 1),
        "G" => (NANO, 1),
        "T" => (1000 * NANO, 1),
        "P" => (1_000_000 * NANO, 1),
        "E" => (NANO * NANO, 1),
        "Ki" => (binary(1), 1),
        "Mi" => (binary(2), 1),
        "Gi" => (binary(3), 1),
        "Ti" => (binary(4), 1),
        "Pi" => (binary(5), 1),
        "Ei" => (binary(6), 1),
        _ => {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            let power = 10_i128.checked_pow(exponent.unsigned_abs())?;
            if power > NANO * NANO {
                return None;
            }
            if exponent < 0 { (1, power) } else { (power, 1) }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::Amount;

    #[test]
    fn quantities_are_read_as_kubernetes_reads_them() {
        let table = [
            ("1", 1, 1000),
            ("100m", 1, 100),
            ("1.5", 2, 1500),
            ("0.1", 1, 100),
            ("2k", 2000, 2_000_000),
            ("1Ki", 1024, 1_024_000),
            ("1.5Gi", 1_610_612_736, 1_610_612_736_000),
            ("1e3", 1000, 1_000_000),
            ("12E2", 1200, 1_200_000),
            ("500u", 1, 1),
            (".5", 1, 500),
        ];
        for (text, units, millis) in table {
            let amount = Amount::parse(text).unwrap();
            assert_eq!((amount.units(), amount.millis()), (units, millis), "{text}");
        }
    }

    #[test]
    fn nonsense_is_none() {
        for text in ["", "m", "1x", "1..2", "--1", "1e99", "9".repeat(80).as_str(), "1Kib"] {
            assert_eq!(Amount::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_divisor_rounds_up() {
        let mebi = Amount::parse("1Mi").unwrap();
        assert_eq!(Amount::parse("1500Ki").unwrap().in_units_of(mebi), 2);
        assert_eq!(Amount::parse("250m").unwrap().in_units_of(Amount::parse("1m").unwrap()), 250);
    }
}
