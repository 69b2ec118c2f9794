//! Plugged-in material, good and bad; and what other tests plug in.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use ironsail_identity::{
    Certificate, Issuer, KeyKind, PrivateKey, Profile, San, Template, empty_name, organization,
    serial,
};
use ironsail_sys::exec::command;

use super::{Files, Origin, Signing};
use crate::authority::chain;
use crate::strongbox::files;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The time of tests: 2023-11-14. What tests make is valid for decades around it.
pub(crate) fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)
}

/// A certificate with its key.
pub(crate) struct Party {
    pub(crate) certificate: Certificate,
    pub(crate) key: PrivateKey,
}

impl Party {
    fn make(
        name: &str,
        above: Option<&Self>,
        kind: KeyKind,
        profile: Profile,
        until: SystemTime,
    ) -> Self {
        let key = PrivateKey::generate(kind).unwrap();
        let subject = organization(name);
        let issuer = match above {
            None => Issuer { name: &subject, key: &key, key_id: None },
            Some(above) => Issuer {
                name: above.certificate.subject_der(),
                key: &above.key,
                key_id: above.certificate.key_id(),
            },
        };
        let template = Template {
            serial: serial().unwrap(),
            subject: &subject,
            public_key: key.public_der(),
            sans: &[],
            not_before: now() - 1000 * DAY,
            not_after: until,
            profile,
        };
        let certificate = Certificate::from_der(&template.sign(&issuer).unwrap()).unwrap();
        Self { certificate, key }
    }

    pub(crate) fn root(name: &str) -> Self {
        Self::make(name, None, KeyKind::EcdsaP256, AUTHORITY, now() + 10_000 * DAY)
    }

    pub(crate) fn below(&self, name: &str) -> Self {
        Self::make(name, Some(self), KeyKind::EcdsaP256, AUTHORITY, now() + 9_000 * DAY)
    }

    fn pem(&self) -> String {
        self.certificate.to_pem()
    }
}

const AUTHORITY: Profile = Profile::Authority { path: None };

/// Files as Istio's users plug them in.
pub(crate) fn plugged(signer: &Party, between: &[&Party], roots: &[&Party]) -> Files {
    let above: String = between.iter().chain(roots).map(|party| party.pem()).collect();
    files([
        ("ca-cert.pem", signer.pem()),
        ("ca-key.pem", signer.key.to_pem().to_string()),
        ("cert-chain.pem", signer.pem() + &above),
        ("root-cert.pem", roots.iter().map(|party| party.pem()).collect()),
    ])
}

fn read(files: &Files) -> Result<Signing, String> {
    let origin = Origin::Secret { described: "secret istio-system/cacerts".to_owned() };
    match Signing::read(files, &origin, now()) {
        Ok(found) => found.ok_or_else(|| "nothing".to_owned()),
        Err(error) => Err(chain(&error)),
    }
}

#[test]
fn an_intermediate_signs_below_its_root() {
    let root = Party::root("root");
    let (upper, lower);
    upper = root.below("upper");
    lower = upper.below("lower");
    let signing = read(&plugged(&lower, &[&upper], &[&root])).unwrap();
    let expected = [lower.certificate.clone(), upper.certificate.clone()];
    assert_eq!(signing.intermediates(), expected);
    assert_eq!(signing.roots().certificates(), std::slice::from_ref(&root.certificate));
    assert_eq!(signing.above(), [lower.pem(), upper.pem(), root.pem()]);
}

#[test]
fn the_root_of_the_chain_comes_last() {
    let (new, old) = (Party::root("new"), Party::root("old"));
    let signer = new.below("signer");
    let signing = read(&plugged(&signer, &[], &[&new, &old])).unwrap();
    assert_eq!(signing.above(), [signer.pem(), old.pem(), new.pem()]);
    let both = [new.certificate.clone(), old.certificate.clone()];
    assert_eq!(signing.roots().certificates(), both);
}

#[test]
fn secrets_of_type_tls_are_taken_too() {
    let root = Party::root("root");
    let signer = root.below("signer");
    let signing = read(&files([
        ("tls.crt", signer.pem()),
        ("tls.key", signer.key.to_pem().to_string()),
        ("ca.crt", root.pem()),
    ]));
    assert_eq!(signing.unwrap().above(), [signer.pem(), root.pem()]);
}

#[test]
fn a_root_may_sign_itself_and_may_be_of_any_key() {
    for kind in [KeyKind::EcdsaP256, KeyKind::EcdsaP384, KeyKind::Rsa2048] {
        let root = Party::make("root", None, kind, AUTHORITY, now() + DAY);
        let signing = read(&files([
            ("ca-cert.pem", root.pem()),
            ("ca-key.pem", root.key.to_pem().to_string()),
            ("root-cert.pem", String::new()),
        ]));
        assert_eq!(signing.unwrap().above(), [root.pem()]);
    }
}

#[test]
fn every_fault_names_the_file_and_the_secret() {
    let root = Party::root("root");
    let signer = root.below("signer");
    let good = plugged(&signer, &[], &[&root]);
    let with = |file: &str, content: &str| {
        let mut files = good.clone();
        files.extend(crate::strongbox::files([(file, content)]));
        read(&files).unwrap_err()
    };
    let other = Party::root("other");
    let leaf = Party::make("leaf", Some(&root), KeyKind::EcdsaP256, Profile::Leaf, now() + DAY);
    let old = Party::make("old", Some(&root), KeyKind::EcdsaP256, AUTHORITY, now() - DAY);
    let place = "in secret istio-system/cacerts";
    for (error, expected) in [
        (with("ca-key.pem", ""), format!("ca-key.pem is missing {place}, which has ca-cert.pem")),
        (with("ca-cert.pem", ""), format!("ca-cert.pem is missing {place}, which has ca-key.pem")),
        (
            with("root-cert.pem", ""),
            format!("root-cert.pem is missing {place}, which has ca-key.pem"),
        ),
        (
            with("ca-cert.pem", "words"),
            format!(
                "ca-cert.pem {place} is no list of certificates: there is no certificate in it"
            ),
        ),
        (
            with("cert-chain.pem", "words"),
            format!(
                "cert-chain.pem {place} is no list of certificates: there is no certificate in it"
            ),
        ),
        (
            with("ca-key.pem", "words"),
            format!(
                "ca-key.pem {place} is no private key: no private key in it: it takes a PEM block PRIVATE KEY, EC PRIVATE KEY or RSA PRIVATE KEY"
            ),
        ),
        (
            with("ca-key.pem", &other.key.to_pem()),
            format!("ca-key.pem {place} is not the key of the certificate in ca-cert.pem"),
        ),
        (
            with("root-cert.pem", &other.pem()),
            format!(
                "the certificate in ca-cert.pem {place} does not lead to a root in root-cert.pem: the certificate of O=signer says it was issued by O=root, whose certificate is not there"
            ),
        ),
        (
            read(&plugged(&leaf, &[], &[&root])).unwrap_err(),
            format!(
                "the certificate in ca-cert.pem {place} is not that of an authority: it may not sign others"
            ),
        ),
        (
            read(&plugged(&old, &[], &[&root])).unwrap_err(),
            format!(
                "the certificate in ca-cert.pem {place} does not lead to a root in root-cert.pem: the certificate of O=old expired at 2023-11-13T22:13:20Z"
            ),
        ),
    ] {
        assert_eq!(error, expected);
    }
}

#[test]
fn roots_alone_are_no_ca() {
    let root = Party::root("root");
    let origin = Origin::Directory(PathBuf::from("etc/cacerts"));
    let found = Signing::read(&files([("root-cert.pem", root.pem())]), &origin, now());
    assert!(found.unwrap().is_none());
}

#[test]
fn material_made_by_openssl_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let script = "
        openssl req -x509 -newkey rsa:2048 -nodes -sha256 -days 3650 -subj '/O=Istio/CN=Root CA' \
            -addext 'basicConstraints=critical,CA:true' -addext 'keyUsage=critical,keyCertSign' \
            -keyout root-key.pem -out root-cert.pem
        openssl req -newkey rsa:2048 -nodes -subj '/O=Istio/CN=Intermediate CA/L=cluster1' \
            -keyout ca-key.pem -out ca.csr
        printf 'basicConstraints=critical,CA:true,pathlen:0\nkeyUsage=critical,digitalSignature,keyCertSign\n' > ext
        openssl x509 -req -sha256 -days 730 -CA root-cert.pem -CAkey root-key.pem -CAcreateserial \
            -in ca.csr -out ca-cert.pem -extfile ext
        cat ca-cert.pem root-cert.pem > cert-chain.pem";
    let run = command("sh").args(["-ec", script]).current_dir(dir.path()).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let read = |name: &str| (name.to_owned(), std::fs::read(dir.path().join(name)).unwrap());
    let files = files(["ca-cert.pem", "ca-key.pem", "root-cert.pem", "cert-chain.pem"].map(read));
    let origin = Origin::Directory(dir.path().to_owned());
    let today = ironsail_sys::clock::Clock::system().now();
    let signing = Signing::read(&files, &origin, today).unwrap().unwrap();
    assert_eq!(signing.above().len(), 2);

    let key = PrivateKey::generate(KeyKind::EcdsaP256).unwrap();
    let names = [San::Uri("spiffe://td/ns/a/sa/b".to_owned())];
    let leaf = crate::sign::leaf(&signing, key.public_der(), &names, DAY, today).unwrap();
    let write = |name: &str, text: String| std::fs::write(dir.path().join(name), text).unwrap();
    write("leaf.pem", crate::sign::to_pem(&leaf));
    let verify =
        "openssl verify -x509_strict -CAfile root-cert.pem -untrusted ca-cert.pem leaf.pem";
    let run = command("sh").args(["-ec", verify]).current_dir(dir.path()).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    assert_eq!(leaf[0], 0x30);
    assert_eq!(empty_name(), [0x30, 0]);
}
