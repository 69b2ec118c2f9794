//! Servers outside the mesh that Envoy itself talks to.

use crate::Error;

/// A server by name and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    pub host: String,
    pub port: u16,
    pub tls: Option<RemoteTls>,
    /// Seconds between keepalive probes: time, interval, and the number of them.
    pub keepalive: Option<Keepalive>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keepalive {
    pub probes: Option<u32>,
    pub time: Option<u64>,
    pub interval: Option<u64>,
}

/// How to talk TLS to it; paths are of files that the agent's SDS serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteTls {
    pub ca: Option<String>,
    /// Certificate and key.
    pub client: Option<(String, String)>,
    /// The mesh's own certificate.
    pub mesh: bool,
    pub sni: Option<String>,
    pub subject_alt_names: Vec<String>,
}

impl Remote {
    /// `what` says in an error which setting it is.
    pub fn parse(what: &'static str, text: &str) -> Result<Self, Error> {
        let wrong = || Error::Address { what, text: text.to_owned() };
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        let port = port.parse().map_err(|_| wrong())?;
        if host.is_empty() || port == 0 {
            return Err(wrong());
        }
        Ok(Self { host: host.to_owned(), port, tls: None, keepalive: None })
    }
}

/// Who collects traces when the whole proxy has one tracer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tracer {
    Zipkin(Remote),
    Datadog(Remote),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_a_port() {
        let parse = |text| Remote::parse("statsdUdpAddress", text);
        assert_eq!(parse("10.1.1.1:9125").map(|r| (r.host, r.port)), Ok(("10.1.1.1".into(), 9125)));
        assert_eq!(parse("[::1]:80").map(|r| (r.host, r.port)), Ok(("::1".into(), 80)));
        for wrong in ["", "a", "a:", ":1", "a:0", "a:70000", "a:-1"] {
            let error = parse(wrong).unwrap_err().to_string();
            assert_eq!(error, format!("statsdUdpAddress: {wrong:?} is not host:port"));
        }
    }
}
