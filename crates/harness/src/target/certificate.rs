//! Certificate requests, certificates and keys as they come from outside: any bytes, and good ones with
//! some bytes changed.

use std::sync::LazyLock;

use arbitrary::Arbitrary;
use ironsail_identity::{Certificate, CertificateRequest, KeyKind, PrivateKey, San, verify_chain};

#[derive(Arbitrary, Debug)]
enum Input {
    Text(Vec<u8>),
    Der(Vec<u8>),
    /// Bytes of a good request that are replaced: where, and by what.
    Request(Vec<(u16, u8)>),
    /// The same for a certificate, which the request's own key signed.
    Certificate(Vec<(u16, u8)>),
}

struct Good {
    request: Vec<u8>,
    certificate: Vec<u8>,
}

static GOOD: LazyLock<Good> = LazyLock::new(|| {
    let key = PrivateKey::generate(KeyKind::EcdsaP256).unwrap();
    let sans = [San::Uri("spiffe://td/ns/a/sa/b".to_owned()), San::Dns("a.b".to_owned())];
    let pem = CertificateRequest::make(&key, &sans).unwrap();
    let body: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    let name = ironsail_identity::organization("fuzz");
    let template = ironsail_identity::Template {
        serial: [1; 16],
        subject: &name,
        public_key: key.public_der(),
        sans: &sans,
        not_before: std::time::SystemTime::UNIX_EPOCH,
        not_after: std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1 << 32),
        profile: ironsail_identity::Profile::Authority { path: None },
    };
    let issuer = ironsail_identity::Issuer { name: &name, key: &key, key_id: None };
    Good { request: unbase64(&body), certificate: template.sign(&issuer).unwrap() }
});

fn unbase64(text: &str) -> Vec<u8> {
    let digit = |c: u8| {
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
            .iter()
            .position(|d| *d == c)
    };
    let (mut out, mut bits, mut held) = (Vec::new(), 0_u32, 0);
    for value in text.bytes().filter_map(digit) {
        held = held << 6 | value as u32;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push((held >> bits) as u8);
        }
    }
    out
}

fn read(der: &[u8]) {
    let now = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
    let _ = CertificateRequest::from_der(der);
    if let Ok(certificate) = Certificate::from_der(der) {
        let _ = certificate.spiffe();
        let _ = format!("{certificate:?} {}", certificate.to_pem());
        let chain = [certificate.clone()];
        let _ = verify_chain(&certificate, &chain, &[], now);
        let _ = verify_chain(&certificate, &[], &chain, now);
    }
}

pub(crate) fn target(bytes: &[u8]) {
    let Some(input) = crate::made::<Input>(bytes) else { return };
    match input {
        Input::Text(text) => {
            let _ = CertificateRequest::from_pem(&text);
            let _ = Certificate::read_pem(&text);
            let _ = PrivateKey::from_pem(&text);
        }
        Input::Der(der) => read(&der),
        Input::Request(changes) => {
            let bytes = crate::changed(&GOOD.request, &changes);
            read(&bytes);
            // The requester's proof covers every byte of what it asks for.
            if let Ok(request) = CertificateRequest::from_der(&bytes) {
                let good = CertificateRequest::from_der(&GOOD.request).unwrap();
                assert_eq!(request, good);
            }
        }
        Input::Certificate(changes) => read(&crate::changed(&GOOD.certificate, &changes)),
    }
}
