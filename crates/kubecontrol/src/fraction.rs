//! Numbers that may be written as percentages: `maxSurge`, `maxUnavailable`. Pure.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// The number itself, or the percentage of `total`. Text that is no percentage counts as zero:
/// the API refuses it before it gets here.
pub(crate) fn resolve(value: &IntOrString, total: i32, round_up: bool) -> i32 {
    match value {
        IntOrString::Int(number) => *number,
        IntOrString::String(text) => {
            let percent: i64 =
                text.strip_suffix('%').and_then(|p| p.trim().parse().ok()).unwrap_or(0);
            let hundredfold = percent.clamp(0, 100_000) * i64::from(total);
            let whole = if round_up { (hundredfold + 99) / 100 } else { hundredfold / 100 };
            i32::try_from(whole).unwrap_or(i32::MAX)
        }
    }
}

/// How far a rolling update may go above and below the wanted number: (surge, unavailable).
/// Both zero would never move, so one may then be missing.
pub(crate) fn bounds(
    surge: Option<&IntOrString>,
    unavailable: Option<&IntOrString>,
    wanted: i32,
) -> (i32, i32) {
    let quarter = IntOrString::String("25%".into());
    let surge = resolve(surge.unwrap_or(&quarter), wanted, true).max(0);
    let unavailable = resolve(unavailable.unwrap_or(&quarter), wanted, false).max(0);
    if surge == 0 && unavailable == 0 {
        return (0, 1.min(wanted.max(0)));
    }
    (surge, unavailable.min(wanted.max(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surge_rounds_up_and_unavailable_rounds_down() {
        let number = IntOrString::Int;
        let text = |s: &str| IntOrString::String(s.into());
        let rows = [
            (None, None, 3, (1, 0)),
            (None, None, 10, (3, 2)),
            (None, None, 1, (1, 0)),
            (Some(number(0)), Some(number(2)), 10, (0, 2)),
            (Some(number(0)), Some(text("10%")), 3, (0, 1)),
            (Some(text("100%")), Some(number(0)), 4, (4, 0)),
            (Some(number(1)), Some(number(9)), 4, (1, 4)),
            (Some(text("nonsense")), Some(number(1)), 4, (0, 1)),
        ];
        for (surge, unavailable, wanted, expected) in rows {
            assert_eq!(bounds(surge.as_ref(), unavailable.as_ref(), wanted), expected);
        }
    }
}
