//! What is announced comes over whole, also what other control planes announce.

use proptest::prelude::*;

use super::*;

fn root(name: &str) -> RootBundle {
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    RootBundle::from_pem(params.self_signed(&key).unwrap().pem().as_bytes()).unwrap()
}

fn domain(name: &str) -> TrustDomain {
    name.parse().unwrap()
}

#[test]
fn an_announcement_comes_over_whole() {
    let (own, other) = (root("own"), root("other"));
    let said = Announcement {
        anchors: vec![
            Anchors { domains: vec![domain("td"), domain("old")], roots: own.clone() },
            Anchors { domains: vec![domain("foreign")], roots: other.clone() },
        ],
        signer: Some(own.certificates()[0].fingerprint()),
    };
    let heard = Announcement::decode(&said.encode()).unwrap();
    assert_eq!(heard, said);
    assert_eq!(heard.own_roots(&domain("td")).unwrap(), own);
    assert_eq!(heard.aliases(&domain("td")), [domain("old")]);
    let others: Vec<_> = heard.others(&domain("td")).map(|anchors| &anchors.roots).collect();
    assert_eq!(others, [&other]);
    assert_eq!(heard.own_roots(&domain("foreign")).unwrap(), other);
}

#[test]
fn plain_certificates_of_another_control_plane_are_roots_of_the_mesh() {
    let (one, two) = (root("one"), root("two"));
    let texts = vec![one.pem().to_owned(), two.pem().to_owned()];
    let body = Wire { ca_certificates_pem: texts }.encode_to_vec();
    let heard = Announcement::decode(&body).unwrap();
    assert_eq!(heard.signer, None);
    assert_eq!(heard.own_roots(&domain("td")).unwrap(), one.and(&two));
    assert_eq!(heard.others(&domain("td")).count(), 0);
    assert_eq!(Announcement::decode(&[]).unwrap().own_roots(&domain("td")), None);
}

proptest! {
    #[test]
    fn whatever_comes_is_read_or_refused(body in proptest::collection::vec(any::<u8>(), 0..300),
                                         text in "[#a-zA-Z: ,\n-]{0,200}") {
        let _ = Announcement::decode(&body);
        let _ = Announcement::decode(&Wire { ca_certificates_pem: vec![text] }.encode_to_vec());
    }
}
