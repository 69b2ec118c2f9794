//! Who a member of the mesh is, and how it proves it: keys, requests, certificates, TLS.
//!
//! In: PEM of files, Secrets and the CA, and the current time; out: keys that never show themselves,
//! requests and certificates as DER and PEM, and rustls configurations that follow changes. Whether a
//! caller *may* have a certificate is for the crate `ca` to say. No private key is logged, printed by
//! `Debug` or sent.

mod announce;
mod certificate;
pub mod client;
mod credential;
mod der;
mod issue;
mod key;
mod pem;
mod report;
mod request;
mod revocation;
mod rotation;
mod san;
mod signature;
pub mod tls;
mod trust;

pub use announce::{Anchors, Announcement, Error as AnnouncementError, TYPE_URL as ANNOUNCEMENT};
pub use certificate::{Certificate, ChainError, Error as CertificateError, verify_chain};
pub use credential::{Credential, Error as CredentialError};
pub use issue::{Error as IssueError, Issuer, Profile, Template, empty_name, organization, serial};
pub use key::{Error as KeyError, KeyKind, PrivateKey};
pub use pem::certificate as certificate_pem;
pub use report::{HeldLeaf, TrustReport};
pub use request::{CertificateRequest, Error as RequestError};
pub use revocation::{Error as RevocationError, check as check_crl};
pub use rotation::{RenewalPolicy, backoff};
pub use san::San;
pub use trust::{RootBundle, TrustBundles};
