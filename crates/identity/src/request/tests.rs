//! Requests, ours and those of openssl and rcgen.

use ironsail_sys::exec::command;
use proptest::prelude::*;

use super::{CertificateRequest, Error};
use crate::{KeyKind, PrivateKey, San};

fn names() -> Vec<San> {
    vec![San::Uri("spiffe://cluster.local/ns/a/sa/b".to_owned())]
}

#[test]
fn a_request_of_every_kind_of_key_is_read_again() {
    for kind in [KeyKind::EcdsaP256, KeyKind::EcdsaP384, KeyKind::Rsa2048, KeyKind::Ed25519] {
        let key = PrivateKey::generate(kind).unwrap();
        let pem = CertificateRequest::make(&key, &names()).unwrap();
        let read = CertificateRequest::from_pem(pem.as_bytes()).unwrap();
        assert_eq!(read.public_key, key.public_der(), "{kind:?}");
        assert_eq!(read.sans, names(), "{kind:?}");
        let pem = CertificateRequest::make(&key, &[]).unwrap();
        assert_eq!(CertificateRequest::from_pem(pem.as_bytes()).unwrap().sans, []);
    }
}

#[test]
fn openssl_takes_our_request() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("csr");
    let key = PrivateKey::generate(KeyKind::EcdsaP256).unwrap();
    std::fs::write(&path, CertificateRequest::make(&key, &names()).unwrap()).unwrap();
    let output =
        command("openssl").args(["req", "-verify", "-noout", "-text", "-in"]).arg(path).output();
    let output = output.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    assert!(text.contains("URI:spiffe://cluster.local/ns/a/sa/b"), "{text}");
}

#[test]
fn requests_of_openssl_and_rcgen_are_taken() {
    let output = command("openssl")
        .args(["req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", "/dev/null"])
        .args(["-subj", "/O=x", "-addext", "subjectAltName=URI:spiffe://td/ns/a/sa/b,DNS:x.y"])
        .output()
        .unwrap();
    let read = CertificateRequest::from_pem(&output.stdout).unwrap();
    let dns = San::Dns("x.y".to_owned());
    assert_eq!(read.sans, [San::Uri("spiffe://td/ns/a/sa/b".to_owned()), dns]);

    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    let uri = "spiffe://td/ns/a/sa/b".try_into().unwrap();
    params.subject_alt_names = vec![rcgen::SanType::URI(uri)];
    let pem = params.serialize_request(&key).unwrap().pem().unwrap();
    let read = CertificateRequest::from_pem(pem.as_bytes()).unwrap();
    assert_eq!(read.sans, [San::Uri("spiffe://td/ns/a/sa/b".to_owned())]);
}

#[test]
fn a_request_without_proof_is_refused() {
    let key = PrivateKey::generate(KeyKind::EcdsaP256).unwrap();
    let other = PrivateKey::generate(KeyKind::EcdsaP256).unwrap();
    let pem = CertificateRequest::make(&key, &names()).unwrap();
    use rustls_pki_types::pem::PemObject as _;
    let der = rustls_pki_types::CertificateSigningRequestDer::from_pem_slice(pem.as_bytes());
    let mut der = der.unwrap().to_vec();
    let at = der.windows(key.public_der().len()).position(|part| part == key.public_der());
    let at = at.unwrap();
    der[at..at + other.public_der().len()].copy_from_slice(other.public_der());
    assert!(matches!(CertificateRequest::from_der(&der), Err(Error::Proof(_))));
}

#[test]
fn what_is_no_request_is_refused() {
    let refused = |text: &[u8]| CertificateRequest::from_pem(text).unwrap_err();
    assert!(matches!(refused(b""), Error::Pem(_)));
    assert!(matches!(refused(b"dumb CSR"), Error::Pem(_)));
    assert!(matches!(refused(&vec![b'a'; 40_000]), Error::TooLong));
    let empty = crate::pem::encode("CERTIFICATE REQUEST", &[0x30, 0]);
    assert!(matches!(refused(empty.as_bytes()), Error::Der(_)));
}

proptest! {
    #[test]
    fn no_bytes_make_reading_fail_badly(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(CertificateRequest::from_der(&bytes).is_err());
        let _ = CertificateRequest::from_pem(&bytes);
    }

    #[test]
    fn a_flipped_byte_never_changes_what_is_asked(at in 0..400_usize, flip in 1..=255_u8) {
        let key = PrivateKey::generate(KeyKind::EcdsaP256).unwrap();
        let pem = CertificateRequest::make(&key, &names()).unwrap();
        use rustls_pki_types::pem::PemObject as _;
        let der = rustls_pki_types::CertificateSigningRequestDer::from_pem_slice(pem.as_bytes());
        let mut der = der.unwrap().to_vec();
        let good = CertificateRequest::from_der(&der).unwrap();
        let position = at % der.len();
        der[position] ^= flip;
        // Around the signed part there are bytes that the parser reads in more than one way.
        if let Ok(request) = CertificateRequest::from_der(&der) {
            prop_assert_eq!(request, good);
        }
    }
}

#[test]
fn who_asks_to_be_an_authority_is_refused() {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    let plain = params.serialize_request(&key).unwrap().pem().unwrap();
    assert!(CertificateRequest::from_pem(plain.as_bytes()).is_ok());
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let asked = params.serialize_request(&key).unwrap().pem().unwrap();
    let refused = CertificateRequest::from_pem(asked.as_bytes());
    assert!(matches!(refused, Err(Error::Authority)), "{refused:?}");
}
