//! Where roots come from, who agrees on them, and what changes do.

mod kubernetes;
mod switch;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ironsail_identity::{
    Certificate, CertificateRequest, KeyKind, PrivateKey, RootBundle, verify_chain,
};
use ironsail_names::TrustDomains;
use ironsail_sys::clock::Clock;
use parking_lot::Mutex;

use super::{Authority, CA_SECRET, CACERTS_SECRET, Error, Settings, chain};
use crate::caller::Domains;
use crate::material::Origin;
use crate::material::tests::{Party, now, plugged};
use crate::strongbox::{MemoryStrongbox, Strongbox, files};

const ID: &str = "spiffe://cluster.local/ns/foo/sa/sleep";

pub(super) fn domains() -> Domains {
    Domains::new(TrustDomains::new("cluster.local".parse().unwrap(), []))
}

pub(super) async fn open(
    settings: Settings,
    strongbox: &MemoryStrongbox,
) -> Result<Arc<Authority>, Error> {
    let kept = Arc::new(strongbox.clone());
    Authority::open(settings, kept, domains(), Clock::fixed(now())).await
}

/// A fresh leaf, and whether everything above it leads to one of the published roots.
pub(super) fn leaf_of(authority: &Authority) -> Certificate {
    let key = PrivateKey::generate(KeyKind::EcdsaP256).unwrap();
    let csr = CertificateRequest::make(&key, &[]).unwrap();
    let id = ID.parse().unwrap();
    let answer = authority.issue(csr.as_bytes(), &id, Duration::ZERO).unwrap();
    let read = |pem: &String| Certificate::read_pem(pem.as_bytes()).unwrap().remove(0);
    let answer: Vec<Certificate> = answer.iter().map(read).collect();
    let roots = authority.roots().borrow().clone();
    let today = authority.clock().now();
    verify_chain(&answer[0], &answer[1..], roots.certificates(), today).unwrap();
    answer[0].clone()
}

#[tokio::test]
async fn a_root_is_made_once_and_kept_as_istio_keeps_it() {
    let strongbox = MemoryStrongbox::default();
    let first = open(Settings::default(), &strongbox).await.unwrap();
    let kept = strongbox.read(CA_SECRET).await.unwrap().unwrap();
    let names: Vec<&str> = kept.files.keys().map(String::as_str).collect();
    let expected = ["ca-cert.pem", "ca-key.pem", "cert-chain.pem", "key.pem", "root-cert.pem"];
    assert_eq!(names, expected);
    assert_eq!(kept.files["root-cert.pem"].len(), 0);
    assert_eq!(first.signing().certificate().subject(), "O=cluster.local");
    let second = open(Settings::default(), &strongbox).await.unwrap();
    assert_eq!(first.signing().certificate(), second.signing().certificate());
    leaf_of(&second);
}

#[tokio::test]
async fn a_root_may_be_kept_in_cacerts() {
    let strongbox = MemoryStrongbox::default();
    let settings = Settings { keep_in_cacerts: true, ..Settings::default() };
    let authority = open(settings.clone(), &strongbox).await.unwrap();
    assert!(strongbox.read(CA_SECRET).await.unwrap().is_none());
    let kept = strongbox.read(CACERTS_SECRET).await.unwrap().unwrap();
    assert!(kept.files.contains_key("istio-generated"));
    assert!(matches!(authority.signing().origin(), Origin::SelfSigned { .. }));
    let again = open(settings, &strongbox).await.unwrap();
    assert_eq!(again.signing().certificate(), authority.signing().certificate());
}

#[tokio::test]
async fn every_kind_of_root_key_signs() {
    for root_key in [KeyKind::EcdsaP384, KeyKind::Rsa2048] {
        let settings = Settings { root_key, ..Settings::default() };
        leaf_of(&open(settings, &MemoryStrongbox::default()).await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn replicas_that_start_together_have_one_root() {
    let strongbox = MemoryStrongbox::default();
    let starting = (0..16).map(|_| {
        let strongbox = strongbox.clone();
        tokio::spawn(async move { open(Settings::default(), &strongbox).await.unwrap() })
    });
    let all = futures::future::join_all(starting.collect::<Vec<_>>()).await;
    let all: Vec<_> = all.into_iter().map(Result::unwrap).collect();
    let first = all[0].signing();
    assert!(all.iter().all(|one| one.signing().certificate() == first.certificate()));
}

#[tokio::test]
async fn what_is_plugged_in_comes_first() {
    let strongbox = MemoryStrongbox::default();
    open(Settings::default(), &strongbox).await.unwrap();
    let (by_secret, by_file) = (Party::root("by-secret"), Party::root("by-file"));
    strongbox.put(CACERTS_SECRET, plugged(&by_secret.below("a"), &[], &[&by_secret]));
    let authority = open(Settings::default(), &strongbox).await.unwrap();
    assert_eq!(authority.signing().certificate().subject(), "O=a");
    leaf_of(&authority);

    let dir = tempfile::tempdir().unwrap();
    for (name, content) in plugged(&by_file.below("b"), &[], &[&by_file]) {
        std::fs::write(dir.path().join(name), &*content).unwrap();
    }
    let settings = Settings { directory: Some(dir.path().to_owned()), ..Settings::default() };
    let authority = open(settings, &strongbox).await.unwrap();
    assert_eq!(authority.signing().certificate().subject(), "O=b");
    leaf_of(&authority);
}

#[tokio::test]
async fn mounted_roots_are_trusted_beside_a_self_signed_one() {
    let dir = tempfile::tempdir().unwrap();
    let more = Party::root("more");
    std::fs::write(dir.path().join("root-cert.pem"), more.certificate.to_pem()).unwrap();
    let settings = Settings { directory: Some(dir.path().to_owned()), ..Settings::default() };
    let authority = open(settings, &MemoryStrongbox::default()).await.unwrap();
    let roots = authority.roots().borrow().clone();
    assert_eq!(roots.certificates().len(), 2);
    assert!(roots.certificates().contains(&more.certificate));
    leaf_of(&authority);
}

#[tokio::test]
async fn bad_material_is_not_passed_over() {
    let strongbox = MemoryStrongbox::default();
    strongbox.put(CACERTS_SECRET, files([("ca-cert.pem", "words"), ("ca-key.pem", "words")]));
    let error = open(Settings::default(), &strongbox).await.err().unwrap();
    assert_eq!(
        chain(&error),
        "the CA's key material cannot be used: ca-cert.pem in secret cacerts in memory is no list \
         of certificates: there is no certificate in it"
    );
    let empty = MemoryStrongbox::default();
    empty.put(CA_SECRET, files([("ca-cert.pem", "")]));
    assert!(matches!(open(Settings::default(), &empty).await, Err(Error::Empty { .. })));
}

#[tokio::test]
async fn a_changed_intermediate_is_taken_and_a_broken_one_is_not() {
    let strongbox = MemoryStrongbox::default();
    let root = Party::root("root");
    strongbox.put(CACERTS_SECRET, plugged(&root.below("one"), &[], &[&root]));
    let authority = open(Settings::default(), &strongbox).await.unwrap();
    let roots = authority.roots();
    let old = leaf_of(&authority);

    strongbox.put(CACERTS_SECRET, plugged(&root.below("two"), &[], &[&root]));
    authority.reload().await.unwrap();
    assert_eq!(authority.signing().certificate().subject(), "O=two");
    assert!(!roots.has_changed().unwrap(), "the root is the same");
    assert_ne!(leaf_of(&authority).serial(), old.serial());

    let mut broken = plugged(&root.below("three"), &[], &[&root]);
    broken.extend(files([("ca-key.pem", root.key.to_pem().to_string())]));
    strongbox.put(CACERTS_SECRET, broken);
    let error = authority.reload().await.unwrap_err();
    assert!(chain(&error).contains("ca-key.pem"), "{}", chain(&error));
    assert_eq!(authority.signing().certificate().subject(), "O=two");
    let samples = authority.metrics().samples(now());
    let failures = samples.iter().find(|s| s.name == "ironsail_ca_reload_failure_count").unwrap();
    assert!((failures.value - 1.0).abs() < f64::EPSILON);

    strongbox.remove(CACERTS_SECRET);
    authority.reload().await.unwrap();
    assert_eq!(authority.signing().certificate().subject(), "O=two");
}

#[tokio::test]
async fn a_new_root_without_the_old_one_leaves_the_old_one_trusted() {
    let strongbox = MemoryStrongbox::default();
    let (old, new) = (Party::root("old"), Party::root("new"));
    strongbox.put(CACERTS_SECRET, plugged(&old.below("one"), &[], &[&old]));
    let authority = open(Settings::default(), &strongbox).await.unwrap();
    let other = RootBundle::new([Party::root("elsewhere").certificate]);
    let others = BTreeMap::from([("td2".parse().unwrap(), other)]);
    authority.set_other_domains(others.clone());
    strongbox.put(CACERTS_SECRET, plugged(&new.below("two"), &[], &[&new]));
    authority.reload().await.unwrap();
    let both = [new.certificate.clone(), old.certificate.clone()];
    assert_eq!(authority.roots().borrow().certificates(), both);
    assert_eq!(authority.trusted().current().unwrap().own.certificates(), both);
    leaf_of(&authority);
    // Looking again changes nothing.
    let mut roots = authority.roots();
    authority.reload().await.unwrap();
    assert!(!roots.has_changed().unwrap());
    // Whoever lists both decides for itself when the old one goes.
    strongbox.put(CACERTS_SECRET, plugged(&new.below("three"), &[], &[&new]));
    authority.reload().await.unwrap();
    roots.changed().await.unwrap();
    assert_eq!(roots.borrow().certificates(), [new.certificate]);
    let trusted = authority.trusted().current().unwrap();
    assert_eq!((&trusted.own, &trusted.by_domain), (&*roots.borrow(), &others));
}

#[tokio::test]
async fn a_root_is_renewed_with_its_key_before_it_ends() {
    let clock_hand = Arc::new(Mutex::new(now()));
    let told = clock_hand.clone();
    let clock = Clock::from_fn(move || *told.lock());
    let strongbox = MemoryStrongbox::default();
    let kept: Arc<dyn Strongbox> = Arc::new(strongbox.clone());
    let settings = Settings { root_ttl: Duration::from_secs(1_000_000), ..Settings::default() };
    let replica = || Authority::open(settings.clone(), kept.clone(), domains(), clock.clone());
    let (one, two) = (replica().await.unwrap(), replica().await.unwrap());
    let first = one.signing().certificate().clone();
    let old_leaf = leaf_of(&one);
    let move_to = |seconds| *clock_hand.lock() = now() + Duration::from_secs(seconds);

    move_to(790_000);
    one.renew_root().await.unwrap();
    assert_eq!(one.signing().certificate(), &first, "a fifth of its life is left");
    move_to(810_000);
    let (a, b) = tokio::join!(one.renew_root(), two.renew_root());
    assert!(a.is_ok() && b.is_ok());
    let renewed = one.signing().certificate().clone();
    assert_ne!(renewed, first);
    assert_eq!(renewed, *two.signing().certificate());
    assert_eq!(renewed.public_key_der(), first.public_key_der());
    let moment: SystemTime = one.clock().now();
    assert_eq!(renewed.not_after(), moment + Duration::from_secs(1_000_000));
    // What the old one signed holds under the new one.
    let early = now() + Duration::from_secs(60);
    let aged = Certificate::from_der(old_leaf.der()).unwrap();
    assert!(verify_chain(&aged, &[], &[first], early).is_ok());
    leaf_of(&one);
}

#[tokio::test]
async fn changes_of_secrets_and_files_are_followed() {
    let root = Party::root("root");
    let dir = tempfile::tempdir().unwrap();
    let settings = Settings { directory: Some(dir.path().to_owned()), ..Settings::default() };
    let strongbox = MemoryStrongbox::default();
    strongbox.put(CACERTS_SECRET, plugged(&root.below("one"), &[], &[&root]));
    let authority = open(settings, &strongbox).await.unwrap();
    let mut changed = authority.generation();
    let running = authority.clone();
    let task = tokio::spawn(async move { running.run().await });
    let wait = Duration::from_secs(30);

    let before = *changed.borrow_and_update();
    strongbox.put(CACERTS_SECRET, plugged(&root.below("two"), &[], &[&root]));
    tokio::time::timeout(wait, changed.changed()).await.unwrap().unwrap();
    assert_eq!(authority.signing().certificate().subject(), "O=two");
    assert_eq!(*changed.borrow_and_update(), before + 1);

    // The way the kubelet swaps a mounted Secret.
    let swapped = dir.path().join("..2024");
    std::fs::create_dir(&swapped).unwrap();
    for (name, content) in plugged(&root.below("three"), &[], &[&root]) {
        std::fs::write(swapped.join(&name), &*content).unwrap();
        let link = dir.path().join(&name);
        std::os::unix::fs::symlink(format!("..data/{name}"), link).unwrap();
    }
    std::os::unix::fs::symlink("..2024", dir.path().join("..tmp")).unwrap();
    std::fs::rename(dir.path().join("..tmp"), dir.path().join("..data")).unwrap();
    tokio::time::timeout(wait, changed.changed()).await.unwrap().unwrap();
    assert_eq!(authority.signing().certificate().subject(), "O=three");
    task.abort();
}
