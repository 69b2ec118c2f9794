//! For tests only: whatever reads bytes of strangers, each behind one function that takes any bytes and
//! panics if a promise is broken.
//!
//! In: bytes, as a fuzzer or a generator makes them; out: nothing. The same functions are the targets of
//! `fuzz/`, which looks for new inputs for hours, and of `tests/generated.rs`, which runs in seconds with
//! what was kept and with what a generator makes.

#![allow(clippy::unwrap_used, reason = "a broken promise is a panic")]

mod json;
mod sample;
mod session;
mod target;

use arbitrary::{Arbitrary, Unstructured};

/// A name, and what takes the bytes.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const ALL: &[Target] = &[
    ("admission", target::admission::target),
    ("certificate", target::certificate::target),
    ("csr", target::csr::target),
    ("discovery", target::discovery::target),
    ("dns", target::dns::target),
    ("inject", target::inject::target),
    ("jwks", target::jwks::target),
    ("jwt", target::jwt::target),
    ("kinds", target::kinds::target),
    ("node", target::node::target),
    ("object", target::object::target),
    ("patch", target::patch::target),
    ("protobuf", target::protobuf::target),
    ("proxyconfig", target::proxyconfig::target),
    ("recovery", target::recovery::target),
    ("request", target::request::target),
    ("resource", target::resource::target),
    ("schema", target::schema::target),
    ("spdy", target::spdy::target),
    ("websocket", target::websocket::target),
    ("yaml", target::yaml::target),
];

/// Gives the bytes to one target.
pub fn run(name: &str, bytes: &[u8]) {
    let found = ALL.iter().find(|(other, _)| *other == name);
    found.unwrap_or_else(|| panic!("there is no target {name}")).1(bytes);
}

/// A value made of all the bytes; None if they are too few.
fn made<'a, T: Arbitrary<'a>>(bytes: &'a [u8]) -> Option<T> {
    T::arbitrary_take_rest(Unstructured::new(bytes)).ok()
}

/// A folder in memory, where there is such a place: the store syncs every write.
fn scratch() -> tempfile::TempDir {
    let memory = std::path::Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a temporary folder can be made")
}

/// Good bytes with some of them replaced: where, and by what.
fn changed(good: &[u8], changes: &[(u16, u8)]) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for (at, by) in changes {
        let at = usize::from(*at) % bytes.len();
        bytes[at] = *by;
    }
    bytes
}
