//! What a control plane tells the agents of its mesh about trust, over discovery.
//!
//! The resource is Istio's `ProxyConfig` with `caCertificatesPem`, one text of PEM for each set of trust
//! domains. Lines before a certificate are no part of PEM, so other agents pass over them; ours read in
//! them which domains the roots speak for, and which root signs now.

use ironsail_names::TrustDomain;
use prost::Message as _;

use crate::certificate;
use crate::trust::RootBundle;

pub const TYPE_URL: &str = "type.googleapis.com/istio.mesh.v1alpha1.ProxyConfig";

const DOMAINS: &str = "# trust domains: ";
const SIGNER: &str = "# signing root: ";
/// More than any mesh trusts.
const MAX_TEXTS: usize = 256;
const MAX_DOMAINS: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("it is no ProxyConfig: {0}")]
    Decode(String),
    #[error(
        "it has more than {MAX_TEXTS} sets of roots, or one of more than {MAX_DOMAINS} domains"
    )]
    TooMany,
    #[error("reading its certificates")]
    Certificates(#[source] certificate::Error),
    #[error("reading the domains of its certificates")]
    Domain(#[source] ironsail_names::Error),
}

/// The one field of `ProxyConfig` that matters here.
#[derive(Clone, PartialEq, prost::Message)]
struct Wire {
    #[prost(string, repeated, tag = "34")]
    ca_certificates_pem: Vec<String>,
}

/// Roots, and the trust domains whose members they vouch for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchors {
    /// Empty: the mesh's own.
    pub domains: Vec<TrustDomain>,
    pub roots: RootBundle,
}

/// Whom everybody in the mesh should trust.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Announcement {
    pub anchors: Vec<Anchors>,
    /// The fingerprint of the root that new leaves lead to. Who says it knows all roots of its domain:
    /// what is not among them is to be trusted no more.
    pub signer: Option<String>,
}

impl Announcement {
    pub fn encode(&self) -> Vec<u8> {
        let mut signer = self.signer.as_deref();
        let texts = self.anchors.iter().map(|anchors| {
            let names: Vec<&str> = anchors.domains.iter().map(TrustDomain::as_str).collect();
            let mut text = String::new();
            if !names.is_empty() {
                text += &format!("{DOMAINS}{}\n", names.join(","));
            }
            if let Some(signer) = signer.take() {
                text += &format!("{SIGNER}{signer}\n");
            }
            text + anchors.roots.pem()
        });
        Wire { ca_certificates_pem: texts.collect() }.encode_to_vec()
    }

    pub fn decode(body: &[u8]) -> Result<Self, Error> {
        let wire = Wire::decode(body).map_err(|error| Error::Decode(error.to_string()))?;
        if wire.ca_certificates_pem.len() > MAX_TEXTS {
            return Err(Error::TooMany);
        }
        let mut announcement = Self::default();
        for text in &wire.ca_certificates_pem {
            let mut domains = Vec::new();
            for line in text.lines().take_while(|line| line.starts_with('#')) {
                if let Some(names) = line.strip_prefix(DOMAINS) {
                    for name in names.split(',') {
                        domains.push(name.trim().parse().map_err(Error::Domain)?);
                    }
                } else if let Some(signer) = line.strip_prefix(SIGNER) {
                    announcement.signer = Some(signer.trim().chars().take(64).collect());
                }
            }
            if domains.len() > MAX_DOMAINS {
                return Err(Error::TooMany);
            }
            let roots = RootBundle::from_pem(text.as_bytes()).map_err(Error::Certificates)?;
            announcement.anchors.push(Anchors { domains, roots });
        }
        Ok(announcement)
    }

    /// The roots of the mesh that `own` belongs to; None if there are none.
    pub fn own_roots(&self, own: &TrustDomain) -> Option<RootBundle> {
        let of_own =
            |anchors: &&Anchors| anchors.domains.is_empty() || anchors.domains.contains(own);
        let sets = self.anchors.iter().filter(of_own).map(|anchors| anchors.roots.clone());
        sets.reduce(|all, more| all.and(&more))
    }

    /// What speaks for other domains than `own`.
    pub fn others(&self, own: &TrustDomain) -> impl Iterator<Item = &Anchors> {
        let of_own =
            |anchors: &Anchors| anchors.domains.is_empty() || anchors.domains.contains(own);
        self.anchors.iter().filter(move |anchors| !of_own(anchors))
    }

    /// The other names of the domain `own`.
    pub fn aliases(&self, own: &TrustDomain) -> Vec<TrustDomain> {
        let sets = self.anchors.iter().filter(|anchors| anchors.domains.contains(own));
        let names = sets.flat_map(|anchors| &anchors.domains).filter(|domain| *domain != own);
        names.cloned().collect()
    }
}

#[cfg(test)]
mod tests;
