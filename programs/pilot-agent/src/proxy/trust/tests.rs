//! What is announced, what is trusted because of it, and what is said about it.

use super::*;
use crate::proxy::tests::Mint;

const ID: &str = "spiffe://cluster.local/ns/a/sa/b";

fn trust() -> Trust {
    Trust::new("cluster.local".parse().unwrap(), Clock::system())
}

fn bundle(mint: &Mint) -> Bundle {
    Bundle { credential: mint.credential(ID), roots: mint.bundle() }
}

fn announce(own: &[&Mint], signer: Option<&Mint>, foreign: Option<&Mint>) -> Vec<u8> {
    let domain = |name: &str| name.parse().unwrap();
    let joined = own.iter().map(|mint| mint.bundle()).reduce(|all, more| all.and(&more)).unwrap();
    let mut anchors =
        vec![Anchors { domains: vec![domain("cluster.local"), domain("old")], roots: joined }];
    anchors.extend(
        foreign.map(|mint| Anchors { domains: vec![domain("foreign")], roots: mint.bundle() }),
    );
    let signer = signer.map(|mint| mint.bundle().certificates()[0].fingerprint());
    Announcement { anchors, signer }.encode()
}

#[test]
fn who_says_which_root_signs_knows_all_of_them() {
    let (old, new, trust) = (Mint::new("old"), Mint::new("new"), trust());
    let own = |trust: &Trust| trust.roots(&old.bundle()).own;
    assert_eq!(own(&trust), old.bundle());
    trust.hear(&announce(&[&new], None, None)).unwrap();
    assert_eq!(own(&trust), old.bundle().and(&new.bundle()), "what came besides is trusted too");
    trust.hear(&announce(&[&new], Some(&new), None)).unwrap();
    assert_eq!(own(&trust), new.bundle(), "a root that was retired is trusted no more");
    assert!(trust.hear(b"\xff").is_err());
    assert_eq!(own(&trust), new.bundle(), "what cannot be read changes nothing");
}

#[test]
fn roots_of_other_domains_stay_apart() {
    let (own, far, trust) = (Mint::new("own"), Mint::new("far"), trust());
    trust.hear(&announce(&[&own], Some(&own), Some(&far))).unwrap();
    let roots = trust.roots(&own.bundle());
    assert_eq!(roots.own, own.bundle());
    assert_eq!(roots.names.len(), 2);
    assert_eq!(roots.others[0].roots, far.bundle());
}

#[test]
fn a_certificate_of_another_root_than_the_one_that_signs_is_superseded() {
    let (old, new, trust) = (Mint::new("old"), Mint::new("new"), trust());
    let held = bundle(&old);
    assert!(!trust.is_superseded(&held));
    trust.hear(&announce(&[&old, &new], Some(&old), None)).unwrap();
    assert!(!trust.is_superseded(&held));
    trust.hear(&announce(&[&old, &new], Some(&new), None)).unwrap();
    assert!(trust.is_superseded(&held));
    assert!(!trust.is_superseded(&bundle(&new)));
}

#[test]
fn only_what_the_proxy_took_is_reported_as_in_use() {
    let (old, new, trust) = (Mint::new("old"), Mint::new("new"), trust());
    let report = |trust: &Trust| trust.reports().borrow().clone();
    let prints = |mint: &Mint| fingerprints(&mint.bundle());
    trust.ready(&bundle(&old));
    assert_eq!(report(&trust), None, "nobody asked");
    trust.hear(&announce(&[&old, &new], Some(&old), None)).unwrap();
    let first = report(&trust).unwrap();
    assert!(!first.in_use && first.leaf.unwrap().root == prints(&old)[0]);
    let (one, two) = (trust.enter(), trust.enter());
    let both = [prints(&old), prints(&new)].concat();
    trust.took(one, Taken { roots: Some(both.clone()), leaf: None });
    assert!(report(&trust).unwrap().trusts(&prints(&new)[0]));
    trust.took(two, Taken { roots: Some(prints(&old)), leaf: None });
    let behind = report(&trust).unwrap();
    assert!(behind.in_use && !behind.trusts(&prints(&new)[0]), "one stream is behind");
    trust.leave(two);
    assert!(report(&trust).unwrap().trusts(&prints(&new)[0]));
}
