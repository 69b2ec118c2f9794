//! Certificate requests at the authority: whatever is asked, what is signed is a leaf for the caller.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use arbitrary::Arbitrary;
use ironsail_ca::{Authority, AuthoritySettings, Domains, MemoryStrongbox};
use ironsail_identity::{Certificate, CertificateRequest, KeyKind, PrivateKey, San};
use ironsail_names::{SpiffeId, TrustDomains};
use ironsail_sys::clock::Clock;

const CALLER: &str = "spiffe://cluster.local/ns/a/sa/b";
/// As the authority's settings say by default.
const LONGEST: Duration = Duration::from_secs(90 * 24 * 3600);

#[derive(Arbitrary, Debug)]
enum Input {
    Text(Vec<u8>),
    Names(Vec<Name>),
    /// Bytes of a good request that are replaced: where, and by what.
    Changed(Vec<(u16, u8)>),
}

#[derive(Arbitrary, Debug)]
enum Name {
    Caller,
    Alias,
    Other,
    Uri(String),
    Dns(String),
    Ip([u8; 4]),
}

impl Name {
    fn san(self) -> San {
        match self {
            Self::Caller => San::Uri(CALLER.to_owned()),
            Self::Alias => San::Uri("spiffe://old/ns/a/sa/b".to_owned()),
            Self::Other => San::Uri("spiffe://cluster.local/ns/a/sa/c".to_owned()),
            Self::Uri(text) => San::Uri(text),
            Self::Dns(text) => San::Dns(text),
            Self::Ip(ip) => San::Ip(ip.into()),
        }
    }
}

static KEY: LazyLock<PrivateKey> =
    LazyLock::new(|| PrivateKey::generate(KeyKind::EcdsaP256).unwrap());

static AUTHORITY: LazyLock<Arc<Authority>> = LazyLock::new(|| {
    let domains = TrustDomains::new("cluster.local".parse().unwrap(), ["old".parse().unwrap()]);
    let kept = Arc::new(MemoryStrongbox::default());
    let opened =
        Authority::open(AuthoritySettings::default(), kept, Domains::new(domains), Clock::system());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(opened).unwrap()
});

static GOOD: LazyLock<String> =
    LazyLock::new(|| CertificateRequest::make(&KEY, &[Name::Caller.san()]).unwrap());

pub(crate) fn target(bytes: &[u8]) {
    let Some((input, hours)) = crate::made::<(Input, u16)>(bytes) else { return };
    let csr = match input {
        Input::Text(text) => text,
        Input::Names(names) => {
            let names: Vec<San> = names.into_iter().map(Name::san).collect();
            CertificateRequest::make(&KEY, &names).unwrap().into_bytes()
        }
        Input::Changed(changes) => crate::changed(GOOD.as_bytes(), &changes),
    };
    let caller: SpiffeId = CALLER.parse().unwrap();
    let lifetime = Duration::from_secs(u64::from(hours) * 3600);
    let Ok(chain) = AUTHORITY.issue(&csr, &caller, lifetime) else { return };
    let leaf = Certificate::read_pem(chain[0].as_bytes()).unwrap().remove(0);
    assert_eq!(leaf.sans(), [Name::Caller.san()], "a leaf is for its caller");
    assert!(!leaf.is_authority(), "a leaf signs nothing");
    assert_eq!(leaf.public_key_der(), KEY.public_der(), "for the key that was proved");
    assert!(leaf.not_after() <= AUTHORITY.clock().now() + LONGEST, "not longer than may be");
}
