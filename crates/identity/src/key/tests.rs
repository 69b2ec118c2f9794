//! Keys of every kind, written and read, and keys that openssl wrote.

use super::{Error, KeyKind, PrivateKey};
use crate::signature;
use ironsail_sys::exec::command;
use proptest::prelude::*;
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::{AlgorithmIdentifier, SubjectPublicKeyInfo};

const KINDS: [KeyKind; 5] = [
    KeyKind::EcdsaP256,
    KeyKind::EcdsaP384,
    KeyKind::EcdsaP521,
    KeyKind::Rsa2048,
    KeyKind::Ed25519,
];

fn verifies(key: &PrivateKey, message: &[u8], signature: &[u8]) -> bool {
    let (_, public) = SubjectPublicKeyInfo::from_der(key.public_der()).unwrap();
    let (_, algorithm) = AlgorithmIdentifier::from_der(key.signature_algorithm()).unwrap();
    signature::verify(&public, &algorithm, message, signature).is_ok()
}

#[test]
fn a_key_of_every_kind_survives_pem_and_signs() {
    for kind in KINDS {
        let key = PrivateKey::generate(kind).unwrap();
        let read = PrivateKey::from_pem(key.to_pem().as_bytes()).unwrap();
        assert_eq!((read.kind(), read.public_der()), (kind, key.public_der()));
        let signature = read.sign(b"message").unwrap();
        assert!(verifies(&key, b"message", &signature), "{kind:?}");
        assert!(!verifies(&key, b"massage", &signature), "{kind:?}");
    }
}

#[test]
fn a_signature_of_another_key_does_not_fit() {
    let (one, two) =
        (PrivateKey::generate(KeyKind::EcdsaP256), PrivateKey::generate(KeyKind::EcdsaP256));
    let signature = one.unwrap().sign(b"message").unwrap();
    assert!(!verifies(&two.unwrap(), b"message", &signature));
}

#[test]
fn debug_shows_no_key() {
    let key = PrivateKey::generate(KeyKind::EcdsaP256).unwrap();
    assert_eq!(format!("{key:?}"), "PrivateKey(EcdsaP256)");
}

#[test]
fn keys_of_openssl_are_read_in_every_form() {
    let make = |args: &[&str]| {
        let output = command("openssl").args(args).output().unwrap();
        assert!(output.status.success(), "openssl {args:?}");
        output.stdout
    };
    for (args, kind) in [
        (&["ecparam", "-genkey", "-name", "prime256v1"][..], KeyKind::EcdsaP256),
        (&["ecparam", "-genkey", "-noout", "-name", "secp384r1"], KeyKind::EcdsaP384),
        (&["genrsa", "-traditional", "2048"], KeyKind::Rsa2048),
        (&["genrsa", "3072"], KeyKind::Rsa3072),
        (&["genpkey", "-algorithm", "ed25519"], KeyKind::Ed25519),
    ] {
        let pem = make(args);
        let key = PrivateKey::from_pem(&pem).unwrap_or_else(|error| panic!("{args:?}: {error}"));
        assert_eq!(key.kind(), kind, "{args:?}");
    }
    let weak = make(&["genrsa", "1024"]);
    assert!(matches!(PrivateKey::from_pem(&weak), Err(Error::Unsupported)));
    let locked = make(&["genpkey", "-algorithm", "ed25519", "-aes256", "-pass", "pass:x"]);
    assert!(matches!(PrivateKey::from_pem(&locked), Err(Error::Encrypted)));
}

#[test]
fn what_is_no_key_is_refused() {
    assert!(matches!(PrivateKey::from_pem(b""), Err(Error::NoKey)));
    assert!(matches!(PrivateKey::from_pem(&vec![b'a'; 100_000]), Err(Error::TooLong)));
    let garbage = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    assert!(matches!(PrivateKey::from_pem(garbage.as_bytes()), Err(Error::Unsupported)));
    let open = "-----BEGIN PRIVATE KEY-----\nAAAA\n";
    assert!(matches!(PrivateKey::from_pem(open.as_bytes()), Err(Error::Pem(_))));
}

#[test]
fn settings_of_istio_name_a_kind() {
    let kind = |ecc, curve, bits| KeyKind::from_settings(ecc, curve, bits).ok();
    assert_eq!(kind(None, None, None), Some(KeyKind::EcdsaP256));
    assert_eq!(kind(Some("ECDSA"), None, Some("4096")), Some(KeyKind::EcdsaP256));
    assert_eq!(kind(Some("ECDSA"), Some("P384"), None), Some(KeyKind::EcdsaP384));
    assert_eq!(kind(None, None, Some("2048")), Some(KeyKind::Rsa2048));
    assert_eq!(kind(None, None, Some("4096")), Some(KeyKind::Rsa4096));
    for (ecc, curve, bits) in
        [(Some("DSA"), None, None), (None, Some("P1"), None), (None, None, Some("1024"))]
    {
        assert_eq!(kind(ecc, curve, bits), None);
    }
}

proptest! {
    #[test]
    fn no_bytes_make_reading_fail_badly(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = PrivateKey::from_pem(&bytes);
        let pem = crate::pem::encode("PRIVATE KEY", &bytes);
        prop_assert!(PrivateKey::from_pem(pem.as_bytes()).is_err());
    }
}
