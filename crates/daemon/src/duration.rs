//! Durations as Go writes them: `5s`, `1m30s`, `300ms`, `1.5h`.

use std::time::Duration;

/// Go's longest duration is a little less.
const LONGEST: f64 = 1e10;

/// Reads a duration; the error says what is wrong with it.
pub fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || "is not a duration such as 5s or 1m30s".to_owned();
    let mut seconds = 0.0;
    let mut rest = text;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() && rest != "0" {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, tail) = rest.split_at(digits);
        let unit = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit);
        let scale = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return Err(wrong()),
        };
        seconds += number.parse::<f64>().map_err(|_| wrong())? * scale;
        rest = tail;
    }
    if seconds > LONGEST {
        return Err("is longer than 292 years".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::parse;
    use std::time::Duration;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, millis) in [("5s", 5000), ("1m30s", 90_000), ("300ms", 300), ("1.5h", 5_400_000)]
        {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(parse("0"), Ok(Duration::ZERO));
        // The longest certificate that Istio signs.
        assert_eq!(parse("2160h"), Ok(Duration::from_secs(90 * 24 * 3600)));
        for text in ["", "5", "s", "5 s", "-5s", "5d", "1e9s", "..s", "99999999h", "5s!"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
