//! A new root signs only when everybody trusts it.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::watch;

use super::{leaf_of, open};
use crate::authority::{CACERTS_SECRET, Followers, Settings};
use crate::material::tests::{Party, plugged};
use crate::strongbox::{MemoryStrongbox, files};

/// Everybody trusts what is in here.
#[derive(Default)]
struct Crowd(watch::Sender<Vec<String>>);

impl Followers for Crowd {
    fn all_trust<'a>(&'a self, root: &'a str) -> BoxFuture<'a, ()> {
        let mut trusted = self.0.subscribe();
        Box::pin(async move {
            let _ = trusted.wait_for(|all| all.iter().any(|one| one == root)).await;
        })
    }
}

const WAIT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_new_root_is_announced_first_and_signs_when_everybody_trusts_it() {
    let strongbox = MemoryStrongbox::default();
    let (old, new) = (Party::root("old"), Party::root("new"));
    strongbox.put(CACERTS_SECRET, plugged(&old.below("one"), &[], &[&old]));
    let authority = open(Settings::default(), &strongbox).await.unwrap();
    let crowd = Arc::new(Crowd::default());
    authority.set_followers(crowd.clone());
    let running = authority.clone();
    let task = tokio::spawn(async move { running.run().await });
    let (mut roots, mut generation) = (authority.roots(), authority.generation());
    strongbox.put(CACERTS_SECRET, plugged(&new.below("two"), &[], &[&new]));
    let both = |roots: &ironsail_identity::RootBundle| roots.certificates().len() == 2;
    tokio::time::timeout(WAIT, roots.wait_for(both)).await.unwrap().unwrap();
    assert_eq!(authority.signing().certificate().subject(), "O=one", "nobody trusts it yet");
    assert_eq!(authority.next_root(), Some(new.certificate.fingerprint()));
    leaf_of(&authority);
    generation.mark_unchanged();
    crowd.0.send_modify(|all| all.push(new.certificate.fingerprint()));
    tokio::time::timeout(WAIT, generation.changed()).await.unwrap().unwrap();
    assert_eq!(authority.signing().certificate().subject(), "O=two");
    assert_eq!(authority.next_root(), None);
    leaf_of(&authority);
    // Both were announced, so the way back is free at once.
    strongbox.put(CACERTS_SECRET, plugged(&old.below("three"), &[], &[&old, &new]));
    tokio::time::timeout(WAIT, generation.changed()).await.unwrap().unwrap();
    assert_eq!(authority.signing().certificate().subject(), "O=three");
    task.abort();
}

#[tokio::test]
async fn a_change_that_is_taken_back_in_time_never_signs() {
    let strongbox = MemoryStrongbox::default();
    let (old, new) = (Party::root("old"), Party::root("new"));
    let first = plugged(&old.below("one"), &[], &[&old]);
    strongbox.put(CACERTS_SECRET, first.clone());
    let authority = open(Settings::default(), &strongbox).await.unwrap();
    authority.set_followers(Arc::new(Crowd::default()));
    strongbox.put(CACERTS_SECRET, plugged(&new.below("two"), &[], &[&new]));
    authority.reload().await.unwrap();
    assert!(authority.next_root().is_some());
    strongbox.put(CACERTS_SECRET, first);
    authority.reload().await.unwrap();
    assert_eq!(authority.next_root(), None);
    assert_eq!(authority.roots().borrow().certificates(), [old.certificate]);
}

#[tokio::test]
async fn somebody_who_never_answers_does_not_hold_up_a_new_root_for_ever() {
    let strongbox = MemoryStrongbox::default();
    let (old, new) = (Party::root("old"), Party::root("new"));
    strongbox.put(CACERTS_SECRET, plugged(&old.below("one"), &[], &[&old]));
    let settings = Settings { patience: Duration::from_millis(10), ..Settings::default() };
    let authority = open(settings, &strongbox).await.unwrap();
    authority.set_followers(Arc::new(Crowd::default()));
    strongbox.put(CACERTS_SECRET, plugged(&new.below("two"), &[], &[&new]));
    authority.reload().await.unwrap();
    tokio::time::timeout(WAIT, authority.due()).await.unwrap();
    authority.switch();
    assert_eq!(authority.signing().certificate().subject(), "O=two");
}

#[tokio::test]
async fn a_list_of_revoked_certificates_is_followed_and_a_broken_one_is_not_taken() {
    let strongbox = MemoryStrongbox::default();
    let root = Party::root("root");
    let signer = root.below("one");
    let with = |list: &str| {
        let mut all = plugged(&signer, &[], &[&root]);
        all.extend(files([("ca-crl.pem", list)]));
        all
    };
    strongbox.put(CACERTS_SECRET, with(""));
    let authority = open(Settings::default(), &strongbox).await.unwrap();
    assert_eq!(&**authority.revoked().borrow(), "");
    strongbox.put(CACERTS_SECRET, with("nonsense"));
    let error = authority.reload().await.unwrap_err();
    assert!(crate::authority::chain(&error).contains("ca-crl.pem"), "{error:?}");
    let list = crl();
    strongbox.put(CACERTS_SECRET, with(&list));
    authority.reload().await.unwrap();
    assert_eq!(**authority.revoked().borrow(), *list);
}

fn crl() -> String {
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.key_usages = vec![rcgen::KeyUsagePurpose::CrlSign];
    let key = rcgen::KeyPair::generate().unwrap();
    let issuer = rcgen::CertifiedIssuer::self_signed(params, key).unwrap();
    let list = rcgen::CertificateRevocationListParams {
        this_update: rcgen::date_time_ymd(2024, 1, 1),
        next_update: rcgen::date_time_ymd(4000, 1, 1),
        crl_number: 1.into(),
        issuing_distribution_point: None,
        revoked_certs: Vec::new(),
        key_identifier_method: rcgen::KeyIdMethod::Sha256,
    };
    list.signed_by(&issuer).unwrap().pem().unwrap()
}
