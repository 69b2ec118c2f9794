//! Lists of certificates that a CA took back: whether a text is one.

use rustls_pki_types::CertificateRevocationListDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::prelude::{CertificateRevocationList, FromDer};

/// Why a text is no revocation list.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error("no PEM: {0}")]
    Pem(String),
    #[error("there is no X509 CRL in it")]
    Empty,
    #[error("block {0} is not a certificate revocation list")]
    Der(usize),
}

/// Whether `pem` holds revocation lists and nothing that only claims to be one. Nothing is verified:
/// that is for whoever holds the CA's certificate.
pub fn check(pem: &[u8]) -> Result<(), Error> {
    let mut count = 0;
    for list in CertificateRevocationListDer::pem_slice_iter(pem) {
        let list = list.map_err(|error| Error::Pem(error.to_string()))?;
        count += 1;
        match CertificateRevocationList::from_der(&list) {
            Ok(([], _)) => {}
            _ => return Err(Error::Der(count)),
        }
    }
    if count == 0 { Err(Error::Empty) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_list_is_one() {
        assert_eq!(check(b""), Err(Error::Empty));
        assert_eq!(check(b"hello"), Err(Error::Empty));
        let false_one = crate::pem::encode("X509 CRL", b"nothing of that kind");
        assert_eq!(check(false_one.as_bytes()), Err(Error::Der(1)));
        assert!(check(b"-----BEGIN X509 CRL-----\n%%%\n-----END X509 CRL-----\n").is_err());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_judged(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..400)) {
            let _ = check(&bytes);
            let _ = check(crate::pem::encode("X509 CRL", &bytes).as_bytes());
        }
    }
}
