//! What is signed and what is refused.

use std::time::Duration;

use ironsail_identity::{Certificate, CertificateRequest, KeyKind, PrivateKey, San, verify_chain};
use ironsail_names::{SpiffeId, TrustDomains};
use proptest::prelude::*;

use super::{Ask, Error, Limits, for_workload, go_duration};
use crate::material::tests::{Party, now, plugged};
use crate::material::{Origin, Signing};

const HOUR: Duration = Duration::from_secs(3600);
const ID: &str = "spiffe://cluster.local/ns/foo/sa/sleep";

fn signing(root: &Party) -> Signing {
    let origin = Origin::Secret { described: "secret cacerts".to_owned() };
    let signer = root.below("signer");
    Signing::read(&plugged(&signer, &[], &[root]), &origin, now()).unwrap().unwrap()
}

fn domains() -> TrustDomains {
    TrustDomains::new("cluster.local".parse().unwrap(), ["old-td".parse().unwrap()])
}

fn request(names: &[San]) -> (PrivateKey, String) {
    let key = PrivateKey::generate(KeyKind::EcdsaP256).unwrap();
    let pem = CertificateRequest::make(&key, names).unwrap();
    (key, pem)
}

fn uri(text: &str) -> San {
    San::Uri(text.to_owned())
}

fn sign(signing: &Signing, csr: &str, ttl: Duration) -> Result<Certificate, Error> {
    let caller: SpiffeId = ID.parse().unwrap();
    let ask = Ask { csr: csr.as_bytes(), caller: &caller, ttl };
    let der = for_workload(signing, Limits::default(), &domains(), ask, now())?;
    Ok(Certificate::from_der(&der).unwrap())
}

#[test]
fn a_leaf_is_for_the_caller_and_its_key_only() {
    let root = Party::root("root");
    let signing = signing(&root);
    let (key, csr) = request(&[uri(ID)]);
    let leaf = sign(&signing, &csr, HOUR).unwrap();
    assert_eq!(leaf.sans(), [uri(ID)]);
    assert_eq!(leaf.public_key_der(), key.public_der());
    assert_eq!(leaf.not_after(), now() + HOUR);
    assert_eq!(leaf.not_before(), now() - Duration::from_secs(120));
    assert!(!leaf.is_authority());
    let roots = [root.certificate.clone()];
    assert!(verify_chain(&leaf, signing.intermediates(), &roots, now()).is_ok());
}

#[test]
fn a_request_may_leave_its_names_out_or_use_an_alias_of_the_domain() {
    let signing = signing(&Party::root("root"));
    for names in [vec![], vec![uri("spiffe://old-td/ns/foo/sa/sleep")]] {
        let leaf = sign(&signing, &request(&names).1, HOUR).unwrap();
        assert_eq!(leaf.sans(), [uri(ID)], "{names:?}");
    }
}

#[test]
fn any_other_name_is_refused() {
    let signing = signing(&Party::root("root"));
    for names in [
        vec![uri("spiffe://cluster.local/ns/foo/sa/other")],
        vec![uri("spiffe://cluster.local/ns/bar/sa/sleep")],
        vec![uri("spiffe://evil/ns/foo/sa/sleep")],
        vec![uri(ID), uri("spiffe://cluster.local/ns/istio-system/sa/istiod")],
        vec![uri(ID), San::Dns("istiod.istio-system.svc".to_owned())],
        vec![San::Ip("10.0.0.1".parse().unwrap())],
        vec![uri("https://example.com")],
    ] {
        let result = sign(&signing, &request(&names).1, HOUR);
        assert!(matches!(result, Err(Error::Identity { .. })), "{names:?}: {result:?}");
    }
}

#[test]
fn lifetimes_have_a_default_and_two_ends() {
    let signing = signing(&Party::root("root"));
    let csr = request(&[]).1;
    let until = |ttl| sign(&signing, &csr, ttl).unwrap().not_after();
    assert_eq!(until(Duration::ZERO), now() + 24 * HOUR);
    assert_eq!(until(2160 * HOUR), now() + 2160 * HOUR);
    let error = sign(&signing, &csr, 2161 * HOUR).unwrap_err();
    assert_eq!(
        (error.to_string().as_str(), error.label()),
        ("requested TTL 2161h0m0s is greater than the max allowed TTL 2160h0m0s", "TTL_ERROR")
    );
}

#[test]
fn a_leaf_never_outlives_the_ca() {
    let signing = signing(&Party::root("root"));
    let (_, csr) = request(&[]);
    let caller: SpiffeId = ID.parse().unwrap();
    let end = signing.certificate().not_after();
    let ask = Ask { csr: csr.as_bytes(), caller: &caller, ttl: 24 * HOUR };
    let at = |now| for_workload(&signing, Limits::default(), &domains(), ask, now);
    let leaf = Certificate::from_der(&at(end - HOUR).unwrap()).unwrap();
    assert_eq!(leaf.not_after(), end);
    assert!(matches!(at(end), Err(Error::Expired { .. })));
}

#[test]
fn garbage_is_a_fault_of_the_request() {
    let signing = signing(&Party::root("root"));
    let error = sign(&signing, "dumb CSR", HOUR).unwrap_err();
    assert_eq!(error.label(), "CSR_ERROR");
}

#[test]
fn durations_read_as_in_go() {
    for (seconds, text) in [(0, "0s"), (59, "59s"), (60, "1m0s"), (86_400, "24h0m0s")] {
        assert_eq!(go_duration(Duration::from_secs(seconds)), text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_text_makes_signing_fail_badly(text in ".{0,300}") {
        let signing = signing(&Party::root("root"));
        prop_assert!(sign(&signing, &text, HOUR).is_err());
    }

    #[test]
    fn whatever_is_asked_for_a_leaf_has_the_caller_only(
        names in prop::collection::vec("[ -~]{0,40}", 0..3),
    ) {
        let signing = signing(&Party::root("root"));
        let names: Vec<San> = names.into_iter().map(San::Uri).collect();
        if let Ok(leaf) = sign(&signing, &request(&names).1, HOUR) {
            prop_assert_eq!(leaf.sans(), [uri(ID)]);
        }
    }
}
