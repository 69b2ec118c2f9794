//! Envoy's ways to match: text, headers, chains, hosts, routes, policies, tokens.
//!
//! What cannot be known here (another filter's metadata, an extension) is `None`, and stays so through
//! and, or and not: an answer is never made up.

pub(crate) mod chain;
pub(crate) mod domain;
pub(crate) mod policy;
pub(crate) mod request;
pub(crate) mod route;
pub(crate) mod text;
pub(crate) mod token;

/// True, false, or not known.
pub(crate) type Truth = Option<bool>;

/// Whether all hold.
pub(crate) fn all(parts: impl IntoIterator<Item = Truth>) -> Truth {
    let mut known = true;
    for part in parts {
        match part {
            Some(false) => return Some(false),
            Some(true) => {}
            None => known = false,
        }
    }
    known.then_some(true)
}

/// Whether one holds.
pub(crate) fn any(parts: impl IntoIterator<Item = Truth>) -> Truth {
    not(all(parts.into_iter().map(not)))
}

pub(crate) fn not(part: Truth) -> Truth {
    part.map(|part| !part)
}

#[cfg(test)]
mod tests {
    use super::{all, any, not};

    #[test]
    fn what_is_not_known_is_not_made_up() {
        assert_eq!(all([Some(true), None]), None);
        assert_eq!(all([None, Some(false)]), Some(false));
        assert_eq!(any([None, Some(true)]), Some(true));
        assert_eq!(any([None, Some(false)]), None);
        assert_eq!((all([]), any([]), not(None)), (Some(true), Some(false), None));
    }
}
