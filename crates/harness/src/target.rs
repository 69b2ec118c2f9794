//! One module a target; `target` in each takes the bytes.

pub(crate) mod admission;
pub(crate) mod certificate;
pub(crate) mod csr;
pub(crate) mod discovery;
pub(crate) mod dns;
pub(crate) mod inject;
pub(crate) mod jwks;
pub(crate) mod jwt;
pub(crate) mod kinds;
pub(crate) mod node;
pub(crate) mod object;
pub(crate) mod patch;
pub(crate) mod protobuf;
pub(crate) mod proxyconfig;
pub(crate) mod recovery;
pub(crate) mod request;
pub(crate) mod resource;
pub(crate) mod schema;
pub(crate) mod spdy;
pub(crate) mod websocket;
pub(crate) mod yaml;
