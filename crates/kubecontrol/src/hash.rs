//! Short, stable names for content: the `pod-template-hash` and the names of revisions. Pure.

use serde::Serialize;

/// Letters and digits that cannot form a word or be mistaken for one another.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// A hash of the content as text that is safe in names and labels. `salt` steps aside when two
/// contents meet at one hash.
pub(crate) fn of<T: Serialize>(content: &T, salt: Option<i32>) -> String {
    let mut bytes = serde_json::to_vec(content).unwrap_or_default();
    if let Some(salt) = salt {
        bytes.extend_from_slice(&salt.to_le_bytes());
    }
    let mut hash: u32 = 0x811c_9dc5;
    for byte in bytes {
        hash ^= u32::from(byte);
        hash = hash.wrapping_mul(0x0100_0193);
    }
    safe(&hash.to_string())
}

fn safe(digits: &str) -> String {
    digits.bytes().map(|b| char::from(ALPHABET[usize::from(b) % ALPHABET.len()])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_and_salt_make_the_hash() {
        let first = of(&"template", None);
        assert_eq!(first, of(&"template", None));
        assert_ne!(first, of(&"template", Some(1)));
        assert_ne!(first, of(&"other", None));
        assert!(first.bytes().all(|b| ALPHABET.contains(&b)), "{first}");
    }
}
