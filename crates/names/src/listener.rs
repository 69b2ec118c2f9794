//! Names of listeners: `0.0.0.0_8000`, `10.96.0.7_443`, `virtualOutbound`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::Error;

/// All outbound traffic arrives here, on port 15001.
pub const VIRTUAL_OUTBOUND: &str = "virtualOutbound";
/// All inbound traffic arrives here, on port 15006.
pub const VIRTUAL_INBOUND: &str = "virtualInbound";
/// A waypoint's HBONE server.
pub const CONNECT_TERMINATE: &str = "connect_terminate";
/// A waypoint's inside, behind the tunnel.
pub const MAIN_INTERNAL: &str = "main_internal";
/// A proxy's HBONE client.
pub const CONNECT_ORIGINATE: &str = "connect_originate";

/// Where a listener is bound.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bind {
    Tcp(IpAddr),
    /// QUIC.
    Udp(IpAddr),
}

/// The name of a listener on an address and port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerName {
    pub bind: Bind,
    pub port: u16,
}

impl ListenerName {
    pub fn tcp(address: IpAddr, port: u16) -> Self {
        Self { bind: Bind::Tcp(address), port }
    }
}

impl fmt::Display for ListenerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bind {
            Bind::Tcp(address) => write!(f, "{address}_{}", self.port),
            Bind::Udp(address) => write!(f, "udp_{address}_{}", self.port),
        }
    }
}

impl FromStr for ListenerName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = || {
            Error::new("the name of a listener", text, "it reads ADDRESS_PORT or udp_ADDRESS_PORT")
        };
        let (rest, udp) = match text.strip_prefix("udp_") {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let (address, port) = rest.rsplit_once('_').ok_or_else(bad)?;
        let address = address.parse().map_err(|_| bad())?;
        let bind = if udp { Bind::Udp(address) } else { Bind::Tcp(address) };
        let name = Self { bind, port: port.parse().map_err(|_| bad())? };
        if name.to_string() == text { Ok(name) } else { Err(bad()) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_written_as_istio_writes_them() {
        for text in ["0.0.0.0_8000", "10.96.0.7_443", "::_80", "udp_0.0.0.0_443"] {
            assert_eq!(text.parse::<ListenerName>().unwrap().to_string(), text);
        }
        for bad in
            ["", "virtualOutbound", "0.0.0.0", "0.0.0.0_", "0.0.0.0_080", "a_80", "0.0.0.0_65536"]
        {
            assert!(bad.parse::<ListenerName>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn text_survives(address: IpAddr, port: u16, udp: bool) {
            let bind = if udp { Bind::Udp(address) } else { Bind::Tcp(address) };
            let name = ListenerName { bind, port };
            prop_assert_eq!(name.to_string().parse::<ListenerName>(), Ok(name));
        }
    }
}
