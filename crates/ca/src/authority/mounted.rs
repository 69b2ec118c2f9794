//! Key material in a mounted directory, read.

use std::io::ErrorKind;
use std::path::Path;

use ironsail_identity::{Certificate, RootBundle};
use zeroize::Zeroizing;

use super::GENERATED;
use crate::material::{
    CA_CERT, CA_KEY, CERT_CHAIN, CRL, Error, Files, Origin, ROOT_CERT, TLS_CERT, TLS_KEY, TLS_ROOT,
};

/// The files that mean something here.
const KNOWN: [&str; 9] =
    [CA_CERT, CA_KEY, ROOT_CERT, CERT_CHAIN, TLS_CERT, TLS_KEY, TLS_ROOT, CRL, GENERATED];
/// More than any of them takes.
const MAX_FILE: u64 = 4 << 20;

/// What is there; nothing when the directory is not there.
pub(super) fn read(directory: &Path) -> std::io::Result<Files> {
    let mut files = Files::new();
    for name in KNOWN {
        let path = directory.join(name);
        match std::fs::metadata(&path) {
            Ok(facts) if facts.len() > MAX_FILE => {
                let why = format!("{name} is longer than {MAX_FILE} bytes");
                return Err(std::io::Error::new(ErrorKind::FileTooLarge, why));
            }
            Ok(_) => {
                files.insert(name.to_owned(), Zeroizing::new(std::fs::read(&path)?));
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(files)
}

/// Roots that are to be trusted beside those of a self-signed CA.
pub(super) fn extra_roots(files: &Files, origin: &Origin) -> Result<Option<RootBundle>, Error> {
    let Some(text) = files.get(ROOT_CERT).filter(|text| !text.is_empty()) else { return Ok(None) };
    let failed =
        |source| Error::Certificates { file: ROOT_CERT, origin: origin.to_string(), source };
    Ok(Some(RootBundle::new(Certificate::read_pem(text).map_err(failed)?)))
}
