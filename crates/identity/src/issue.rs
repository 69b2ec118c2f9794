//! Certificates written and signed: leaves of workloads and servers, and certificates of authorities.
//!
//! The certificate is encoded here instead of by a library, so that signing is nearly all of the work
//! of issuing one. What goes in has been decided by the caller.

use std::time::{Duration, SystemTime};

use aws_lc_rs::digest;

use crate::der::{self, Writer};
use crate::key::{self, PrivateKey};
use crate::san::{self, San};

/// Contents of object identifiers.
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
const SUBJECT_KEY_ID: &[u8] = &[0x55, 0x1d, 0x0e];
const AUTHORITY_KEY_ID: &[u8] = &[0x55, 0x1d, 0x23];
const SERVER_AUTH: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 1];
const CLIENT_AUTH: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 2];
const ORGANIZATION: &[u8] = &[0x55, 4, 10];
const TRUE: &[u8] = &[1, 1, 0xff];

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("signing a certificate")]
    Sign(#[source] key::Error),
    #[error("a certificate cannot say the time {0:?}")]
    Time(SystemTime),
    #[error("no random numbers for a serial number")]
    Random,
}

/// What a certificate may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Both ends of TLS.
    Leaf,
    /// Signs other certificates. `path` is how many authorities may follow it.
    Authority { path: Option<u8> },
}

/// What a certificate says.
#[derive(Clone, Copy, Debug)]
pub struct Template<'a> {
    pub serial: [u8; 16],
    /// DER of the subject's name.
    pub subject: &'a [u8],
    /// DER of the subject's public key.
    pub public_key: &'a [u8],
    pub sans: &'a [San],
    pub not_before: SystemTime,
    pub not_after: SystemTime,
    pub profile: Profile,
}

/// Who signs.
#[derive(Clone, Copy, Debug)]
pub struct Issuer<'a> {
    /// DER of its name.
    pub name: &'a [u8],
    pub key: &'a PrivateKey,
    /// What its own certificate calls its key, if it does.
    pub key_id: Option<&'a [u8]>,
}

impl Template<'_> {
    /// The signed certificate in DER.
    pub fn sign(&self, issuer: &Issuer<'_>) -> Result<Vec<u8>, Error> {
        let mut writer = Writer::with_capacity(1024);
        let validity = [time(self.not_before)?, time(self.not_after)?];
        writer.nested(der::SEQUENCE, |w| self.body(w, issuer, &validity));
        let body = writer.finish();
        let signature = issuer.key.sign(&body).map_err(Error::Sign)?;
        let mut writer = Writer::with_capacity(body.len() + signature.len() + 32);
        writer.nested(der::SEQUENCE, |w| {
            w.raw(&body);
            w.raw(issuer.key.signature_algorithm());
            w.bit_string(&signature);
        });
        Ok(writer.finish())
    }

    fn body(&self, w: &mut Writer, issuer: &Issuer<'_>, validity: &[(u8, Vec<u8>); 2]) {
        w.nested(der::context(0), |w| w.unsigned(&[2]));
        w.unsigned(&self.serial);
        w.raw(issuer.key.signature_algorithm());
        w.raw(issuer.name);
        w.nested(der::SEQUENCE, |w| validity.iter().for_each(|(tag, text)| w.value(*tag, text)));
        w.raw(self.subject);
        w.raw(self.public_key);
        w.nested(der::context(3), |w| w.nested(der::SEQUENCE, |w| self.extensions(w, issuer)));
    }

    fn extensions(&self, w: &mut Writer, issuer: &Issuer<'_>) {
        let digital_signature_and_key_encipherment = [5, 0xa0];
        let certificate_and_crl_sign = [1, 0x06];
        match self.profile {
            Profile::Leaf => {
                extension(w, KEY_USAGE, true, |w| {
                    w.value(der::BIT_STRING, &digital_signature_and_key_encipherment);
                });
                extension(w, EXTENDED_KEY_USAGE, false, |w| {
                    w.nested(der::SEQUENCE, |w| {
                        w.value(der::OID, SERVER_AUTH);
                        w.value(der::OID, CLIENT_AUTH);
                    });
                });
                extension(w, BASIC_CONSTRAINTS, true, |w| w.nested(der::SEQUENCE, |_| {}));
            }
            Profile::Authority { path } => {
                extension(w, KEY_USAGE, true, |w| {
                    w.value(der::BIT_STRING, &certificate_and_crl_sign);
                });
                extension(w, BASIC_CONSTRAINTS, true, |w| {
                    w.nested(der::SEQUENCE, |w| {
                        w.raw(TRUE);
                        if let Some(path) = path {
                            w.unsigned(&[path]);
                        }
                    });
                });
                let id = key_id(self.public_key);
                extension(w, SUBJECT_KEY_ID, false, |w| w.value(der::OCTET_STRING, &id));
            }
        }
        if let Some(id) = issuer.key_id {
            extension(w, AUTHORITY_KEY_ID, false, |w| {
                w.nested(der::SEQUENCE, |w| w.value(der::context_primitive(0), id));
            });
        }
        if !self.sans.is_empty() {
            // RFC 5280 4.2.1.6: critical when the subject is empty.
            let critical = self.subject == empty_name();
            extension(w, san::OID, critical, |w| San::write_all(self.sans, w));
        }
    }
}

pub(crate) fn extension(
    w: &mut Writer,
    id: &[u8],
    critical: bool,
    content: impl FnOnce(&mut Writer),
) {
    w.nested(der::SEQUENCE, |w| {
        w.value(der::OID, id);
        if critical {
            w.raw(TRUE);
        }
        w.nested(der::OCTET_STRING, content);
    });
}

/// A name for a public key: the first 20 bytes of a digest of it (RFC 7093, method 1).
pub(crate) fn key_id(public_key: &[u8]) -> Vec<u8> {
    let bits = der::element(public_key)
        .and_then(|(_, inner, _)| der::elements(inner, 2))
        .and_then(|parts| parts.get(1).map(|(_, bits)| *bits))
        .unwrap_or(public_key);
    digest::digest(&digest::SHA256, bits).as_ref()[..20].to_vec()
}

/// DER of the name with nothing in it.
pub fn empty_name() -> &'static [u8] {
    &[der::SEQUENCE, 0]
}

/// DER of the name that holds an organization only, as the subject of Istio's own roots.
pub fn organization(name: &str) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.nested(der::SEQUENCE, |w| {
        w.nested(der::SET, |w| {
            w.nested(der::SEQUENCE, |w| {
                w.value(der::OID, ORGANIZATION);
                w.value(der::UTF8_STRING, name.as_bytes());
            });
        });
    });
    writer.finish()
}

/// A serial number nobody else has: 128 random bits.
pub fn serial() -> Result<[u8; 16], Error> {
    let mut serial = [0; 16];
    aws_lc_rs::rand::fill(&mut serial).map_err(|_| Error::Random)?;
    Ok(serial)
}

/// RFC 5280 4.1.2.5: two digits of the year until 2049, four from then on.
fn time(at: SystemTime) -> Result<(u8, Vec<u8>), Error> {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let seconds = i64::try_from(since.as_secs()).map_err(|_| Error::Time(at))?;
    let stamp = jiff::Timestamp::from_second(seconds).map_err(|_| Error::Time(at))?;
    let t = jiff::tz::Offset::UTC.to_datetime(stamp);
    let (year, month, day) = (t.year(), t.month(), t.day());
    let (hour, minute, second) = (t.hour(), t.minute(), t.second());
    let rest = format!("{month:02}{day:02}{hour:02}{minute:02}{second:02}Z");
    Ok(match year {
        ..2050 => (der::UTC_TIME, format!("{:02}{rest}", year % 100).into_bytes()),
        _ => (der::GENERALIZED_TIME, format!("{year:04}{rest}").into_bytes()),
    })
}

#[cfg(test)]
pub(crate) mod tests;
