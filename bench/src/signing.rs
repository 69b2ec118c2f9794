//! The CA: certificates a second on one core, held against the library it signs with.
//!
//! Both sides run in turns in the same process, so that a busy machine slows them alike; the median of
//! the rounds counts.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _,
    UnparsedPublicKey,
};
use ironsail_ca::{Authority, AuthoritySettings, Domains, MemoryStrongbox};
use ironsail_identity::{
    CertificateRequest, Issuer, KeyKind, PrivateKey, Profile, San, Template, certificate_pem,
    empty_name, organization, serial,
};
use ironsail_names::{SpiffeId, TrustDomains};
use ironsail_sys::clock::Clock;
use tokio::time::Instant;

const REQUESTS: usize = 1_000;
const ROUNDS: usize = 9;
/// About what is signed in a certificate.
const MESSAGE: [u8; 400] = [7; 400];

pub(crate) async fn run() -> anyhow::Result<()> {
    println!("{:<44} {:>12}", "certificate authority, one core", "");
    let domains = TrustDomains::new("cluster.local".parse()?, []);
    let strongbox = Arc::new(MemoryStrongbox::default());
    let settings = AuthoritySettings::default();
    let domains = Domains::new(domains);
    let authority = Authority::open(settings, strongbox, domains, Clock::system()).await?;
    let requests = (0..REQUESTS).map(request).collect::<anyhow::Result<Vec<_>>>()?;
    let mut raw = Raw::new()?;
    let mut maker = Maker::new(&requests)?;
    let mut times = [const { Vec::new() }; 4];
    for _ in 0..ROUNDS {
        times[0].push(timed(|| raw.sign())?);
        times[1].push(timed(|| maker.make())?);
        times[2].push(timed(|| raw.verify().and_then(|()| raw.sign()))?);
        times[3].push(timed(|| issue(&authority, &requests))?);
    }
    let [sign, make, both, issue] = times.map(median);
    line("library: signatures a second", rate(sign));
    line("certificates made and signed", rate(make));
    line("  of the library's speed (aim 70 %)", percent(sign, make));
    line("library: verifications and signatures", rate(both));
    line("requests read, checked, answered", rate(issue));
    line("  of the library's speed", percent(both, issue));
    Ok(())
}

fn line(what: &str, amount: impl std::fmt::Display) {
    println!("  {what:<42} {amount:>12}");
}

fn identity(number: usize) -> String {
    format!("spiffe://cluster.local/ns/bench/sa/account-{number}")
}

/// Who asks, and the request.
fn request(number: usize) -> anyhow::Result<(SpiffeId, String)> {
    let key = PrivateKey::generate(KeyKind::EcdsaP256)?;
    let csr = CertificateRequest::make(&key, &[San::Uri(identity(number))])?;
    Ok((identity(number).parse()?, csr))
}

/// The library alone.
struct Raw {
    key: EcdsaKeyPair,
    random: SystemRandom,
    signature: Vec<u8>,
}

impl Raw {
    fn new() -> anyhow::Result<Self> {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).ok();
        let key = key.context("making a key")?;
        let random = SystemRandom::new();
        let signature = key.sign(&random, &MESSAGE).ok().context("signing")?.as_ref().to_vec();
        Ok(Self { key, random, signature })
    }

    fn sign(&mut self) -> anyhow::Result<()> {
        for _ in 0..REQUESTS {
            black_box(self.key.sign(&self.random, &MESSAGE).ok().context("signing")?);
        }
        Ok(())
    }

    fn verify(&mut self) -> anyhow::Result<()> {
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, self.key.public_key().as_ref());
        for _ in 0..REQUESTS {
            key.verify(&MESSAGE, &self.signature).ok().context("verifying")?;
        }
        Ok(())
    }
}

/// Certificates for keys that are known already.
struct Maker {
    key: PrivateKey,
    name: Vec<u8>,
    requests: Vec<CertificateRequest>,
}

impl Maker {
    fn new(requests: &[(SpiffeId, String)]) -> anyhow::Result<Self> {
        let read = |(_, csr): &(SpiffeId, String)| CertificateRequest::from_pem(csr.as_bytes());
        Ok(Self {
            key: PrivateKey::generate(KeyKind::EcdsaP256)?,
            name: organization("cluster.local"),
            requests: requests.iter().map(read).collect::<Result<_, _>>()?,
        })
    }

    fn make(&mut self) -> anyhow::Result<()> {
        let issuer = Issuer { name: &self.name, key: &self.key, key_id: Some(&[1; 20]) };
        let now = Clock::system().now();
        for request in &self.requests {
            let template = Template {
                serial: serial()?,
                subject: empty_name(),
                public_key: &request.public_key,
                sans: &request.sans,
                not_before: now,
                not_after: now + Duration::from_secs(24 * 60 * 60),
                profile: Profile::Leaf,
            };
            black_box(certificate_pem(&template.sign(&issuer)?));
        }
        Ok(())
    }
}

fn issue(authority: &Authority, requests: &[(SpiffeId, String)]) -> anyhow::Result<()> {
    for (caller, csr) in requests {
        black_box(authority.issue(csr.as_bytes(), caller, Duration::ZERO)?);
    }
    Ok(())
}

fn timed(work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64())
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn rate(seconds: f64) -> String {
    format!("{:.0} /s", REQUESTS as f64 / seconds)
}

fn percent(library: f64, ours: f64) -> String {
    format!("{:.0} %", 100.0 * library / ours)
}
