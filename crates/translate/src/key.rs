//! The key of a view: one hash over everything that its resource may depend on.
//!
//! In: digests, names, flags, in a fixed order. Out: 64 bits. Every part is written with its length,
//! so that two different lists of parts never read the same.

use std::fmt::{self, Write};

use xxhash_rust::xxh3::Xxh3Default;

/// Collects the parts of a key.
///
/// ```
/// # use ironsail_translate::Key;
/// let key = Key::new("cluster").text("httpbin").number(8000).flag(true).finish();
/// assert_ne!(key, Key::new("cluster").text("httpbin").number(8000).flag(false).finish());
/// ```
#[derive(Clone)]
#[must_use = "a key is made to be finished"]
pub struct Key(Box<Xxh3Default>);

impl Key {
    /// `kind` keeps the keys of different generators apart.
    pub fn new(kind: &str) -> Self {
        Self(Box::new(Xxh3Default::new())).text(kind)
    }

    pub fn text(mut self, text: &str) -> Self {
        self.0.update(&(text.len() as u64).to_le_bytes());
        self.0.update(text.as_bytes());
        self
    }

    /// What prints, without a string in between.
    pub fn display(mut self, value: &impl fmt::Display) -> Self {
        struct Into<'a>(&'a mut Xxh3Default, u64);
        impl Write for Into<'_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0.update(text.as_bytes());
                self.1 += text.len() as u64;
                Ok(())
            }
        }
        let mut into = Into(&mut self.0, 0);
        write!(into, "{value}").expect("a hasher takes every text");
        let length = into.1;
        self.0.update(&length.to_le_bytes());
        self
    }

    pub fn number(mut self, number: u64) -> Self {
        self.0.update(&number.to_le_bytes());
        self
    }

    /// The digest of an input.
    pub fn digest(self, digest: u64) -> Self {
        self.number(digest)
    }

    pub fn flag(mut self, flag: bool) -> Self {
        self.0.update(&[u8::from(flag)]);
        self
    }

    /// A part that may be missing.
    pub fn maybe<T>(self, part: Option<T>, write: impl FnOnce(Self, T) -> Self) -> Self {
        match part {
            Some(part) => write(self.flag(true), part),
            None => self.flag(false),
        }
    }

    /// A list, with its length.
    pub fn each<T>(
        self,
        parts: impl IntoIterator<Item = T, IntoIter: ExactSizeIterator>,
        mut write: impl FnMut(Self, T) -> Self,
    ) -> Self {
        let parts = parts.into_iter();
        let mut key = self.number(parts.len() as u64);
        for part in parts {
            key = write(key, part);
        }
        key
    }

    pub fn finish(self) -> u64 {
        self.0.digest()
    }
}

#[cfg(test)]
mod tests {
    use super::Key;

    #[test]
    fn the_same_parts_give_the_same_key() {
        let key = || Key::new("a").text("x").number(1).flag(true).finish();
        assert_eq!(key(), key());
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        let keys = [
            Key::new("k").text("ab").text("c"),
            Key::new("k").text("a").text("bc"),
            Key::new("k").display(&"ab").display(&"c"),
            Key::new("k").display(&"a").display(&"bc"),
            Key::new("k").each(["ab", "c"], Key::text),
            Key::new("k").maybe(Some("abc"), Key::text),
            Key::new("k").maybe(None, Key::text),
            Key::new("kabc"),
        ];
        let mut keys: Vec<u64> = keys.into_iter().map(Key::finish).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 8);
    }
}
