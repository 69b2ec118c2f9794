//! Hostnames with an optional wildcard at the front: matching, containment, order by specificity.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::Error;

/// A DNS name in lower case, `*`, or a name that starts with `*` (`*.example.com`, `*-eu.example.com`).
/// Cheap to clone.
///
/// The order is by specificity, as routes are tried: names without a wildcard first, then longer
/// patterns before shorter ones, and by text among equals.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hostname(Arc<str>);

impl Hostname {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn is_wildcard(&self) -> bool {
        self.0.starts_with('*')
    }

    /// Whether some name is meant by both.
    pub fn matches(&self, other: &Self) -> bool {
        match (self.suffix(), other.suffix()) {
            (Some(a), Some(b)) => a.ends_with(b) || b.ends_with(a),
            (Some(suffix), None) => covers(suffix, &other.0),
            (None, Some(suffix)) => covers(suffix, &self.0),
            (None, None) => self == other,
        }
    }

    /// Whether every name meant by this one is meant by `other`.
    pub fn is_subset_of(&self, other: &Self) -> bool {
        match (self.suffix(), other.suffix()) {
            (Some(own), Some(wider)) => own.ends_with(wider),
            (None, Some(suffix)) => covers(suffix, &self.0),
            (_, None) => self == other,
        }
    }

    /// The text behind the wildcard.
    fn suffix(&self) -> Option<&str> {
        self.0.strip_prefix('*')
    }
}

/// A wildcard stands for at least one character.
fn covers(suffix: &str, name: &str) -> bool {
    name.len() > suffix.len() && name.ends_with(suffix)
}

impl Ord for Hostname {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_wildcard = self.is_wildcard().cmp(&other.is_wildcard());
        let by_length = match self.is_wildcard() {
            true => other.0.len().cmp(&self.0.len()),
            false => Ordering::Equal,
        };
        by_wildcard.then(by_length).then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for Hostname {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl FromStr for Hostname {
    type Err = Error;

    /// Upper case becomes lower case; one dot at the end is dropped.
    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = |why| Error::new("a hostname", text, why);
        let name = text.strip_suffix('.').unwrap_or(text);
        if name.is_empty() || name.len() > 255 {
            return Err(bad("it takes 1 to 255 characters"));
        }
        let mut labels = name.split('.');
        let first = labels.next().unwrap_or_default();
        // `*`, `*abc` and `*-abc` may stand in the first place.
        let behind = first.strip_prefix('*').map(|rest| rest.strip_prefix('-').unwrap_or(rest));
        let first_fits = match behind {
            Some("") => first == "*",
            Some(rest) => is_host_label(rest),
            None => is_host_label(first),
        };
        if !first_fits || !labels.all(is_host_label) {
            return Err(bad(
                "its labels take letters, digits, '-' and '_', and only the first may start with '*'",
            ));
        }
        Ok(Self(name.to_ascii_lowercase().into()))
    }
}

/// As a DNS label, with underscores, which real names of services have.
fn is_host_label(label: &str) -> bool {
    let edge = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
    let bytes = label.as_bytes();
    bytes.len() <= 63
        && bytes.iter().all(|c| edge(*c) || *c == b'-')
        && bytes.first().copied().is_some_and(edge)
        && bytes.last().copied().is_some_and(edge)
}

impl fmt::Display for Hostname {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Borrow<str> for Hostname {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Hostname {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests;
