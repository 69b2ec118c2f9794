//! Where something runs: region, zone, subzone.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::Error;

/// A place. Empty parts are unknown; a zone without a region does not occur. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Locality {
    region: Arc<str>,
    zone: Arc<str>,
    subzone: Arc<str>,
}

impl Locality {
    /// A part behind an empty one is dropped.
    pub fn new(region: &str, zone: &str, subzone: &str) -> Self {
        let zone = if region.is_empty() { "" } else { zone };
        let subzone = if zone.is_empty() { "" } else { subzone };
        Self { region: region.into(), zone: zone.into(), subzone: subzone.into() }
    }

    /// The value of the label `istio-locality`, in which dots stand for slashes: a label cannot have
    /// a slash. A value with slashes (from an annotation or an entry) is taken as it is.
    pub fn from_label(value: &str) -> Result<Self, Error> {
        if value.contains('/') { value.parse() } else { value.replace('.', "/").parse() }
    }

    pub fn region(&self) -> &str {
        &self.region
    }

    pub fn zone(&self) -> &str {
        &self.zone
    }

    pub fn subzone(&self) -> &str {
        &self.subzone
    }

    pub fn is_unknown(&self) -> bool {
        self.region.is_empty()
    }

    /// How many parts, from the left, are known and the same: 0 to 3.
    pub fn shared_with(&self, other: &Self) -> usize {
        let parts = |l: &Self| [l.region.clone(), l.zone.clone(), l.subzone.clone()];
        let both = parts(self).into_iter().zip(parts(other));
        both.take_while(|(a, b)| a == b && !a.is_empty()).count()
    }
}

impl FromStr for Locality {
    type Err = Error;

    /// `region`, `region/zone` or `region/zone/subzone`; empty is unknown.
    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = |why| Error::new("a locality", text, why);
        if text.len() > 512 {
            return Err(bad("it is longer than 512 characters"));
        }
        let mut parts = text.split('/');
        let mut next = || parts.next().unwrap_or_default();
        let (region, zone, subzone) = (next(), next(), next());
        if parts.next().is_some() {
            return Err(bad("it has more than three parts"));
        }
        if (region.is_empty() && !zone.is_empty()) || (zone.is_empty() && !subzone.is_empty()) {
            return Err(bad("a part is missing before another"));
        }
        Ok(Self::new(region, zone, subzone))
    }
}

impl fmt::Display for Locality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.region)?;
        for part in [&self.zone, &self.subzone] {
            if !part.is_empty() {
                write!(f, "/{part}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Locality;

    #[test]
    fn places_share_parts_from_the_left() {
        let place = |text: &str| text.parse::<Locality>().unwrap();
        for (a, b, shared) in [
            ("r/z/s", "r/z/s", 3),
            ("r/z/s", "r/z/t", 2),
            ("r/z", "r/z", 2),
            ("r/y/s", "r/z/s", 1),
            ("q/z/s", "r/z/s", 0),
            ("", "", 0),
        ] {
            assert_eq!(place(a).shared_with(&place(b)), shared, "{a} {b}");
        }
    }

    #[test]
    fn a_label_has_dots_for_slashes() {
        assert_eq!(Locality::from_label("r.z.s").unwrap().to_string(), "r/z/s");
        assert_eq!(Locality::from_label("r.1/z").unwrap().region(), "r.1");
        for bad in ["a/b/c/d", "/z", "a//s"] {
            assert!(bad.parse::<Locality>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn text_survives(text in "([a-z0-9.-]{1,9}(/[a-z0-9-]{1,9}){0,2})?") {
            prop_assert_eq!(text.parse::<Locality>().unwrap().to_string(), text);
        }
    }
}
