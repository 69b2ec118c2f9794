//! Leaves: what is asked for held against who asks, and signed.
//!
//! Of a request only the public key goes into the certificate. The names are those of the caller; a
//! request that asks for any other name is refused rather than answered with less.

use std::time::{Duration, SystemTime};

use ironsail_identity::{
    Certificate, CertificateRequest, IssueError, Profile, RequestError, San, Template, empty_name,
    serial,
};
use ironsail_names::{SpiffeId, TrustDomains};

use crate::material::Signing;

/// Clocks of workloads may be this far behind ours.
const SKEW: Duration = Duration::from_secs(120);

/// How long leaves live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// When the request does not say.
    pub default_ttl: Duration,
    pub max_ttl: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let day = Duration::from_secs(24 * 60 * 60);
        Self { default_ttl: day, max_ttl: 90 * day }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("Istio CA is not ready: its own certificate of {subject} expired")]
    Expired { subject: String },
    #[error("{0}")]
    Request(#[source] RequestError),
    #[error("the certificate signing request asks for {asked}, but the caller is {caller}")]
    Identity { asked: String, caller: SpiffeId },
    #[error("requested TTL {asked} is greater than the max allowed TTL {max}", asked = go_duration(*.asked), max = go_duration(*.max))]
    Ttl { asked: Duration, max: Duration },
    #[error("making a certificate: {0}")]
    Issue(#[source] IssueError),
}

impl Error {
    /// The label that Istio's metric of failures has for it.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Expired { .. } => "CA_NOT_READY",
            Self::Request(_) | Self::Identity { .. } => "CSR_ERROR",
            Self::Ttl { .. } => "TTL_ERROR",
            Self::Issue(_) => "CERT_GEN_ERROR",
        }
    }
}

/// What a caller asks for.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) csr: &'a [u8],
    pub(crate) caller: &'a SpiffeId,
    /// Zero for the default.
    pub(crate) ttl: Duration,
}

/// Signs the request of a caller; gives the leaf in DER.
pub(crate) fn for_workload(
    signing: &Signing,
    limits: Limits,
    domains: &TrustDomains,
    ask: Ask<'_>,
    now: SystemTime,
) -> Result<Vec<u8>, Error> {
    let request = CertificateRequest::from_pem(ask.csr).map_err(Error::Request)?;
    check_names(&request.sans, ask.caller, domains)?;
    let ttl = lifetime(limits, ask.ttl)?;
    let names = [San::Uri(ask.caller.to_string())];
    leaf(signing, &request.public_key, &names, ttl, now)
}

/// How long a leaf lives for which `asked` was asked; zero means the default.
pub(crate) fn lifetime(limits: Limits, asked: Duration) -> Result<Duration, Error> {
    match asked {
        Duration::ZERO => Ok(limits.default_ttl),
        asked if asked > limits.max_ttl => Err(Error::Ttl { asked, max: limits.max_ttl }),
        asked => Ok(asked),
    }
}

/// A certificate for a key and its names, no longer than the CA itself lives.
pub(crate) fn leaf(
    signing: &Signing,
    public_key: &[u8],
    names: &[San],
    ttl: Duration,
    now: SystemTime,
) -> Result<Vec<u8>, Error> {
    let end = last_moment(signing);
    if end <= now {
        return Err(Error::Expired { subject: signing.certificate().subject().to_owned() });
    }
    let template = Template {
        serial: serial().map_err(Error::Issue)?,
        subject: empty_name(),
        public_key,
        sans: names,
        not_before: now - SKEW,
        not_after: (now + ttl).min(end),
        profile: Profile::Leaf,
    };
    template.sign(&signing.issuer()).map_err(Error::Issue)
}

pub(crate) fn to_pem(der: &[u8]) -> String {
    ironsail_identity::certificate_pem(der)
}

/// When the first certificate of the CA's own chain ends.
fn last_moment(signing: &Signing) -> SystemTime {
    let own = signing.certificate().not_after();
    signing.intermediates().iter().map(Certificate::not_after).fold(own, SystemTime::min)
}

/// Everything asked for must be the caller, in the mesh's own domain or one of its aliases.
pub(crate) fn check_names(
    names: &[San],
    caller: &SpiffeId,
    domains: &TrustDomains,
) -> Result<(), Error> {
    let is_caller = |uri: &str| {
        uri.parse::<SpiffeId>().is_ok_and(|asked| {
            asked.namespace == caller.namespace
                && asked.service_account == caller.service_account
                && (asked.trust_domain == caller.trust_domain
                    || domains.contains(&asked.trust_domain))
        })
    };
    for name in names {
        let asked = match name {
            San::Uri(uri) if is_caller(uri) => continue,
            San::Uri(text) | San::Dns(text) => text.chars().take(200).collect(),
            San::Ip(ip) => ip.to_string(),
            San::Other(kind) => format!("a name of kind {kind:?}"),
        };
        return Err(Error::Identity { asked, caller: caller.clone() });
    }
    Ok(())
}

/// A duration as Go prints it: `24h0m0s`.
fn go_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds}s"),
        _ => format!("{hours}h{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests;
