//! Digests: one number that stands for a value's content. Equal content, equal digest.

use std::hash::{Hash, Hasher};
use std::ops::Deref;

use xxhash_rust::xxh3::Xxh3Default;

/// The digest of anything that can be hashed.
pub fn digest<T: Hash + ?Sized>(value: &T) -> u64 {
    let mut hasher = Xxh3Default::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A value and its digest, computed once. Hashing it hashes only the digest.
#[derive(Clone, Debug)]
pub struct Hashed<T> {
    value: T,
    digest: u64,
}

impl<T> Hashed<T> {
    pub fn new(value: T) -> Self
    where
        T: Hash,
    {
        let digest = digest(&value);
        Self { value, digest }
    }

    /// For values whose digest somebody else knows.
    pub fn with_digest(value: T, digest: u64) -> Self {
        Self { value, digest }
    }

    pub fn digest(&self) -> u64 {
        self.digest
    }
}

impl<T> Deref for Hashed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> PartialEq for Hashed<T> {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl<T> Eq for Hashed<T> {}

impl<T> Hash for Hashed<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.digest);
    }
}
