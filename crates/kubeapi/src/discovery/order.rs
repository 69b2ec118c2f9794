//! The order of API versions: v2 before v1 before v1beta2 before v1alpha1 before anything else.

use std::cmp::Ordering;

/// The greater version is the preferred one.
pub(crate) fn compare(a: &str, b: &str) -> Ordering {
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        // Among others the alphabetically first one is preferred.
        (None, None) => b.cmp(a),
    }
}

/// Stability, major number, minor number.
fn parse(version: &str) -> Option<(u8, u32, u32)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let major = rest[..digits].parse().ok()?;
    match &rest[digits..] {
        "" => Some((2, major, 0)),
        rest => {
            let (stability, minor) = match rest.strip_prefix("beta") {
                Some(minor) => (1, minor),
                None => (0, rest.strip_prefix("alpha")?),
            };
            Some((stability, major, minor.parse().ok()?))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_in_the_order_of_kubernetes() {
        let expected = [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v10beta3",
            "v3beta1",
            "v12alpha1",
            "v11alpha2",
            "foo1",
            "foo10",
        ];
        let mut versions = expected;
        versions.reverse();
        versions.sort_by(|a, b| compare(b, a));
        assert_eq!(versions, expected);
    }
}
