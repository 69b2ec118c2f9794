//! Certificates as we write them, read by openssl and by a parser that is not ours.

use std::time::{Duration, SystemTime};

use ironsail_sys::exec::command;

use super::{Issuer, Profile, Template, empty_name, organization, serial};
use crate::{Certificate, KeyKind, PrivateKey, San};

pub(crate) fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

/// A root of `name`, valid from 2020 to 2070.
pub(crate) fn root(name: &str, key: &PrivateKey) -> Certificate {
    let subject = organization(name);
    let template = Template {
        serial: serial().unwrap(),
        subject: &subject,
        public_key: key.public_der(),
        sans: &[],
        not_before: at(1_577_836_800),
        not_after: at(3_155_760_000),
        profile: Profile::Authority { path: None },
    };
    let issuer = Issuer { name: &subject, key, key_id: None };
    Certificate::from_der(&template.sign(&issuer).unwrap()).unwrap()
}

/// Something that `issuer` signed, valid from 2020 to 2070.
pub(crate) fn issued(
    issuer: (&Certificate, &PrivateKey),
    subject: &[u8],
    key: &PrivateKey,
    sans: &[San],
    profile: Profile,
) -> Certificate {
    issued_until(issuer, subject, key, sans, profile, 3_155_760_000)
}

/// The same with another end, in seconds since 1970.
pub(crate) fn issued_until(
    issuer: (&Certificate, &PrivateKey),
    subject: &[u8],
    key: &PrivateKey,
    sans: &[San],
    profile: Profile,
    until: u64,
) -> Certificate {
    let template = Template {
        serial: serial().unwrap(),
        subject,
        public_key: key.public_der(),
        sans,
        not_before: at(1_577_836_800),
        not_after: at(until),
        profile,
    };
    let (above, with) = issuer;
    let issuer = Issuer { name: above.subject_der(), key: with, key_id: above.key_id() };
    Certificate::from_der(&template.sign(&issuer).unwrap()).unwrap()
}

fn openssl(args: &[&str], input: &str) -> String {
    use std::io::Write as _;
    let mut child = command("openssl")
        .args(args)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "openssl {args:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn openssl_reads_what_a_leaf_says() {
    let ca = PrivateKey::generate(KeyKind::EcdsaP256).unwrap();
    let above = root("cluster.local", &ca);
    let key = PrivateKey::generate(KeyKind::EcdsaP256).unwrap();
    let sans = [San::Uri("spiffe://cluster.local/ns/a/sa/b".to_owned())];
    let leaf = issued((&above, &ca), empty_name(), &key, &sans, Profile::Leaf);
    let text = openssl(&["x509", "-noout", "-text"], &leaf.to_pem());
    for part in [
        "X509v3 Subject Alternative Name: critical\n                URI:spiffe://cluster.local/ns/a/sa/b",
        "X509v3 Key Usage: critical\n                Digital Signature, Key Encipherment",
        "TLS Web Server Authentication, TLS Web Client Authentication",
        "X509v3 Basic Constraints: critical\n                CA:FALSE",
        "Issuer: O = cluster.local",
        "Not Before: Jan  1 00:00:00 2020 GMT",
        "Not After : Jan  1 00:00:00 2070 GMT",
        "Signature Algorithm: ecdsa-with-SHA256",
        "X509v3 Authority Key Identifier",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn openssl_verifies_leaves_of_every_kind_of_authority() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    for kind in [KeyKind::EcdsaP256, KeyKind::EcdsaP384, KeyKind::Rsa2048] {
        let top = PrivateKey::generate(kind).unwrap();
        let above = root("root", &top);
        let middle_key = PrivateKey::generate(kind).unwrap();
        let profile = Profile::Authority { path: Some(0) };
        let middle = issued((&above, &top), &organization("middle"), &middle_key, &[], profile);
        let key = PrivateKey::generate(KeyKind::EcdsaP256).unwrap();
        let sans = [San::Dns("a.b.svc".to_owned()), San::Ip("10.0.0.1".parse().unwrap())];
        let leaf = issued((&middle, &middle_key), empty_name(), &key, &sans, Profile::Leaf);
        let files = ["root", "middle", "leaf"]
            .into_iter()
            .zip([&above, &middle, &leaf])
            .map(|(name, certificate)| write(name, &certificate.to_pem()))
            .collect::<Vec<_>>();
        let output = openssl(
            &[
                "verify",
                "-x509_strict",
                "-verify_hostname",
                "a.b.svc",
                "-CAfile",
                &files[0],
                "-untrusted",
                &files[1],
                &files[2],
            ],
            "",
        );
        assert!(output.contains("OK"), "{kind:?}: {output}");
    }
}

#[test]
fn serials_differ() {
    let mut seen: Vec<_> = (0..1_000).map(|_| serial().unwrap()).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 1_000);
}
