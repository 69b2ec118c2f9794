//! Names that a certificate is for.

use std::net::IpAddr;

use x509_parser::extensions::GeneralName;

use crate::der::{self, Writer};

/// Content of the object identifier of the extension, 2.5.29.17.
pub(crate) const OID: &[u8] = &[0x55, 0x1d, 0x11];

/// A name in a certificate's extension "subject alternative name".
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum San {
    Uri(String),
    Dns(String),
    Ip(IpAddr),
    /// A kind that the mesh has no use for, by its name.
    Other(&'static str),
}

impl San {
    pub(crate) fn read(name: &GeneralName<'_>) -> Self {
        match name {
            GeneralName::URI(uri) => Self::Uri((*uri).to_owned()),
            GeneralName::DNSName(name) => Self::Dns((*name).to_owned()),
            GeneralName::IPAddress(bytes) => {
                match (<[u8; 4]>::try_from(*bytes), <[u8; 16]>::try_from(*bytes)) {
                    (Ok(v4), _) => Self::Ip(v4.into()),
                    (_, Ok(v6)) => Self::Ip(v6.into()),
                    _ => Self::Other("address"),
                }
            }
            GeneralName::RFC822Name(_) => Self::Other("email"),
            GeneralName::DirectoryName(_) => Self::Other("directory name"),
            _ => Self::Other("other name"),
        }
    }

    fn write(&self, to: &mut Writer) {
        match self {
            Self::Uri(uri) => to.value(der::context_primitive(6), uri.as_bytes()),
            Self::Dns(name) => to.value(der::context_primitive(2), name.as_bytes()),
            Self::Ip(IpAddr::V4(ip)) => to.value(der::context_primitive(7), &ip.octets()),
            Self::Ip(IpAddr::V6(ip)) => to.value(der::context_primitive(7), &ip.octets()),
            // Read from elsewhere, never issued.
            Self::Other(_) => {}
        }
    }

    /// The extension's content: a sequence of names.
    pub(crate) fn write_all(names: &[Self], to: &mut Writer) {
        to.nested(der::SEQUENCE, |w| names.iter().for_each(|name| name.write(w)));
    }
}
