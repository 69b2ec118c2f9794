//! Kinds of one family; their rules follow.

use super::*;

pub(super) const KINDS: &[Kind] = &[Kind {
    group: "certificates.k8s.io",
    kind: "CertificateSigningRequest",
    plural: "certificatesigningrequests",
    singular: "certificatesigningrequest",
    short_names: &["csr"],
    namespaced: false,
    subresources: &["approval", "status"],
    package: "certificates.v1",
    ..STORED
}];
