//! A response that a client refused, kept for whoever asks.

use crate::{Name, Resource, Version};

/// Longest reason kept.
const MAX_MESSAGE: usize = 8 * 1024;
/// Most names kept.
const MAX_NAMES: usize = 32;

/// What was refused and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    pub nonce: String,
    pub version: Version,
    pub message: String,
    /// The resources that the client blames, or if it names none, those that were sent.
    pub resources: Vec<Name>,
    /// How many more there are.
    pub more: usize,
    /// The client said which ones, so it took the others.
    pub is_precise: bool,
}

impl Rejection {
    pub(super) fn new(nonce: &str, version: Version, message: &str, sent: &[Resource]) -> Self {
        let end = message.floor_char_boundary(MAX_MESSAGE);
        let message = message[..end].to_owned();
        let blamed: Vec<&Name> =
            sent.iter().map(Resource::name).filter(|n| mentions(&message, n)).collect();
        let is_precise = !blamed.is_empty();
        let all: Vec<&Name> =
            if is_precise { blamed } else { sent.iter().map(Resource::name).collect() };
        let resources: Vec<Name> = all.iter().take(MAX_NAMES).map(|n| (*n).clone()).collect();
        let more = all.len() - resources.len();
        Self { nonce: nonce.to_owned(), version, message, resources, more, is_precise }
    }
}

/// Whether `text` has `name` as a word: `80` is not meant by `8080`.
fn mentions(text: &str, name: &str) -> bool {
    let part_of_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '|');
    !name.is_empty()
        && text.match_indices(name).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            let after = text[at + name.len()..].chars().next();
            !before.is_some_and(part_of_name) && !after.is_some_and(part_of_name)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejection(message: &str, names: &[&str]) -> Rejection {
        let sent: Vec<_> = names.iter().map(|n| Resource::new(*n, "")).collect();
        Rejection::new("1", Version::FOREIGN, message, &sent)
    }

    #[test]
    fn the_blamed_resource_is_found_in_the_reason() {
        let found = rejection("Error adding/updating listener(s) 8080: no filter", &["80", "8080"]);
        assert_eq!(found.resources, ["8080".into()]);
        assert!(found.is_precise);
    }

    #[test]
    fn without_blame_all_are_suspect_up_to_a_limit() {
        let names: Vec<String> = (0..100).map(|i| format!("n{i}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let found = rejection("broken", &names);
        assert_eq!((found.resources.len(), found.more, found.is_precise), (32, 68, false));
    }

    #[test]
    fn a_long_reason_is_cut() {
        assert_eq!(rejection(&"ü".repeat(10_000), &[]).message.len(), MAX_MESSAGE);
    }
}
