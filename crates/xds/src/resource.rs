//! One encoded resource, shared by every proxy that gets it.

use std::fmt;
use std::sync::{Arc, Weak};

use bytes::Bytes;

use crate::{Name, TypeUrl};

/// The hash of a resource's content; equal content has equal versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(u64);

impl Version {
    /// A version that no content has: what a proxy got from somebody else.
    pub const FOREIGN: Self = Self(0);

    pub fn of(content: &[u8]) -> Self {
        Self::from_hash(xxhash_rust::xxh3::xxh3_64(content))
    }

    pub(crate) fn from_hash(hash: u64) -> Self {
        Self(hash.max(1))
    }

    /// The version that a proxy names. What we did not write is foreign.
    pub fn parse(text: &str) -> Self {
        let plain = |c: u8| matches!(c, b'0'..=b'9' | b'a'..=b'f');
        match text.len() == 16 && text.bytes().all(plain) {
            true => u64::from_str_radix(text, 16).map_or(Self::FOREIGN, Self),
            false => Self::FOREIGN,
        }
    }

    pub(crate) fn to_bits(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A resource: name, content and the version of the content. Cheap to clone.
#[derive(Clone)]
pub struct Resource(Arc<Parts>);

struct Parts {
    name: Name,
    version: Version,
    body: Bytes,
    aliases: Box<[Name]>,
    content_type: Option<TypeUrl>,
}

/// A resource that lives only as long as somebody else holds it.
#[derive(Clone)]
pub struct WeakResource(Weak<Parts>);

impl WeakResource {
    pub fn upgrade(&self) -> Option<Resource> {
        self.0.upgrade().map(Resource)
    }

    pub fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }
}

impl Resource {
    /// `body` is the encoded message, without the `Any` around it.
    pub fn new(name: impl Into<Name>, body: impl Into<Bytes>) -> Self {
        Self::with_aliases(name, body, [])
    }

    /// A resource that goes by other names as well.
    pub fn with_aliases(
        name: impl Into<Name>,
        body: impl Into<Bytes>,
        aliases: impl IntoIterator<Item = Name>,
    ) -> Self {
        let (name, body) = (name.into(), body.into());
        let (version, aliases) = (Version::of(&body), aliases.into_iter().collect());
        Self(Arc::new(Parts { name, version, body, aliases, content_type: None }))
    }

    /// A resource whose content is of another type than it is asked for by.
    pub fn with_content_type(
        name: impl Into<Name>,
        body: impl Into<Bytes>,
        content_type: impl Into<TypeUrl>,
    ) -> Self {
        let (name, body) = (name.into(), body.into());
        let (version, content_type) = (Version::of(&body), Some(content_type.into()));
        Self(Arc::new(Parts { name, version, body, aliases: Box::new([]), content_type }))
    }

    /// Stands for what a proxy says it has, of which only the version is known.
    pub(crate) fn held(name: Name, version: Version) -> Self {
        let (body, aliases) = (Bytes::new(), Box::new([]));
        Self(Arc::new(Parts { name, version, body, aliases, content_type: None }))
    }

    pub fn name(&self) -> &Name {
        &self.0.name
    }

    pub fn version(&self) -> Version {
        self.0.version
    }

    pub fn body(&self) -> &Bytes {
        &self.0.body
    }

    pub fn aliases(&self) -> &[Name] {
        &self.0.aliases
    }

    /// The type of the content, if it is not the one that is asked for.
    pub fn content_type(&self) -> Option<&TypeUrl> {
        self.0.content_type.as_ref()
    }

    pub fn downgrade(&self) -> WeakResource {
        WeakResource(Arc::downgrade(&self.0))
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name(), self.version())
    }
}

#[cfg(test)]
mod tests {
    use super::{Resource, Version};

    #[test]
    fn equal_content_has_equal_versions() {
        let of = |body: &'static str| Resource::new("a", body).version();
        assert_eq!(of("x"), of("x"));
        assert_ne!(of("x"), of("y"));
    }

    #[test]
    fn versions_of_others_are_foreign() {
        let version = Version::of(b"x");
        assert_eq!(Version::parse(&version.to_string()), version);
        for other in ["", "1", "2026-01-01T00:00:00Z/3", "+00000000000000a", "00000000000000AB"] {
            assert_eq!(Version::parse(other), Version::FOREIGN, "{other}");
        }
    }
}
