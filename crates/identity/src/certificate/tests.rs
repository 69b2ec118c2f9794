//! What is read of certificates, and which chains hold.

use proptest::prelude::*;

use super::{Certificate, ChainError, Error, verify_chain};
use crate::issue::tests::{at, issued, root};
use crate::{KeyKind, PrivateKey, Profile, San, empty_name, organization};

const NOW: u64 = 1_700_000_000;

fn key() -> PrivateKey {
    PrivateKey::generate(KeyKind::EcdsaP256).unwrap()
}

fn workload(name: &str) -> [San; 1] {
    [San::Uri(format!("spiffe://td/ns/ns/sa/{name}"))]
}

#[test]
fn a_chain_is_read_in_order_and_written_again() {
    let (ca, leaf_key) = (key(), key());
    let above = root("one", &ca);
    let leaf = issued((&above, &ca), empty_name(), &leaf_key, &workload("w"), Profile::Leaf);
    let text = format!("words before\n{}\n{}", leaf.to_pem(), above.to_pem());
    let read = Certificate::read_pem(text.as_bytes()).unwrap();
    assert_eq!(read, [leaf.clone(), above.clone()]);
    assert_eq!(leaf.spiffe().unwrap().to_string(), "spiffe://td/ns/ns/sa/w");
    assert_eq!((leaf.subject(), above.subject()), ("spiffe://td/ns/ns/sa/w", "O=one"));
    assert_eq!((leaf.is_authority(), above.is_authority()), (false, true));
    assert_eq!((leaf.not_before(), leaf.not_after()), (at(1_577_836_800), at(3_155_760_000)));
    assert!(format!("{leaf:?}").contains("until 2070"), "{leaf:?}");
}

#[test]
fn one_identity_is_wanted() {
    let ca = key();
    let above = root("one", &ca);
    let sans = [workload("a"), workload("b")].concat();
    let two = issued((&above, &ca), empty_name(), &key(), &sans, Profile::Leaf);
    assert!(matches!(two.spiffe(), Err(Error::Identities { found: 2, .. })));
    assert!(matches!(above.spiffe(), Err(Error::Identities { found: 0, .. })));
    let odd = [San::Uri("https://example.com".to_owned())];
    let odd = issued((&above, &ca), empty_name(), &key(), &odd, Profile::Leaf);
    assert!(matches!(odd.spiffe(), Err(Error::Identity(_))));
}

#[test]
fn a_chain_holds_through_intermediates_to_a_root() {
    let (top, middle_key, low_key) = (key(), key(), key());
    let above = root("top", &top);
    let authority = Profile::Authority { path: None };
    let middle = issued((&above, &top), &organization("middle"), &middle_key, &[], authority);
    let low = issued((&middle, &middle_key), &organization("low"), &low_key, &[], authority);
    let other = root("other", &key());
    let roots = [other.clone(), above.clone()];
    let others = [above.clone(), middle.clone()];
    assert_eq!(verify_chain(&low, &others, &roots, at(NOW)).unwrap(), &above);
    assert_eq!(verify_chain(&above, &[], &roots, at(NOW)).unwrap(), &above);
    assert!(matches!(verify_chain(&low, &[], &roots, at(NOW)), Err(ChainError::NoIssuer { .. })));
    assert!(matches!(
        verify_chain(&low, &others, &[other], at(NOW)),
        Err(ChainError::NoIssuer { .. })
    ));
}

#[test]
fn a_chain_with_a_fault_is_refused_for_that_fault() {
    let (top, leaf_key) = (key(), key());
    let above = root("top", &top);
    let leaf = issued((&above, &top), empty_name(), &leaf_key, &workload("w"), Profile::Leaf);
    let verify = |certificate, roots: &[Certificate], now| {
        verify_chain(certificate, &[], roots, at(now)).cloned()
    };
    let roots = [above.clone()];
    assert!(matches!(verify(&leaf, &roots, 3_155_760_000), Err(ChainError::Expired { .. })));
    assert!(matches!(verify(&leaf, &roots, 1_000), Err(ChainError::NotYet { .. })));
    // The same name, another key.
    let impostor = [root("top", &key())];
    assert!(matches!(verify(&leaf, &impostor, NOW), Err(ChainError::Signature { .. })));
    // A leaf that signs.
    let named = issued((&above, &top), &organization("leaf"), &leaf_key, &[], Profile::Leaf);
    let signed = issued((&named, &leaf_key), empty_name(), &key(), &workload("x"), Profile::Leaf);
    let result = verify_chain(&signed, &[named], &roots, at(NOW));
    assert!(matches!(result, Err(ChainError::NotAuthority { .. })), "{result:?}");
}

#[test]
fn a_circle_of_issuers_ends() {
    let (a, b) = (key(), key());
    let authority = Profile::Authority { path: None };
    let (one, two) = (root("one", &a), root("two", &b));
    let one_by_two = issued((&two, &b), &organization("one"), &a, &[], authority);
    let two_by_one = issued((&one, &a), &organization("two"), &b, &[], authority);
    let others = [one_by_two.clone(), two_by_one];
    let roots = [root("three", &key())];
    let result = verify_chain(&one_by_two, &others, &roots, at(NOW));
    assert_eq!(result, Err(ChainError::TooDeep));
}

#[test]
fn what_is_no_certificate_is_refused() {
    assert_eq!(Certificate::read_pem(b""), Err(Error::Empty));
    assert_eq!(Certificate::read_pem(&vec![b' '; 3 << 20]), Err(Error::TooLong));
    let bad = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    let good = root("one", &key()).to_pem();
    let result = Certificate::read_pem(format!("{good}{bad}").as_bytes());
    assert!(matches!(result, Err(Error::Der { number: 2, .. })), "{result:?}");
    let result = Certificate::read_pem(good.repeat(1_001).as_bytes());
    assert_eq!(result, Err(Error::TooMany));
    let result = Certificate::read_pem(&good.as_bytes()[..good.len() - 40]);
    assert!(matches!(result, Err(Error::Pem { number: 1, .. })), "{result:?}");
}

proptest! {
    #[test]
    fn no_bytes_make_reading_fail_badly(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Certificate::read_pem(&bytes);
        let _ = Certificate::from_der(&bytes);
    }

    #[test]
    fn a_flipped_byte_is_found_or_harmless(at_byte in 0..400_usize, flip in 1..=255_u8) {
        let top = key();
        let above = root("top", &top);
        let leaf = issued((&above, &top), empty_name(), &key(), &workload("w"), Profile::Leaf);
        let mut der = leaf.der().to_vec();
        let position = at_byte % der.len();
        der[position] ^= flip;
        if let Ok(changed) = Certificate::from_der(&der)
            && verify_chain(&changed, &[], &[above], at(NOW)).is_ok()
        {
            // Around the signed part there are bytes that the parser reads in more than one way.
            let says = |c: &Certificate| (c.sans().to_vec(), c.public_key_der().to_vec(), c.not_after());
            prop_assert_eq!(says(&changed), says(&leaf));
        }
    }
}
