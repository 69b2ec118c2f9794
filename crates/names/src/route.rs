//! Names of route configurations.

use std::fmt;
use std::str::FromStr;

use crate::{ClusterName, Error, Hostname, Namespace};

/// What a route configuration is for, as its name says it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RouteName {
    /// `8000`: everything HTTP on that port, from a sidecar.
    Port(u16),
    /// `httpbin.foo.svc.cluster.local:8000`: one service on a port whose protocol is sniffed.
    Service(Hostname, u16),
    /// `inbound|80||`: to the pod itself.
    Inbound(ClusterName),
    /// `http.8080`: plain HTTP at a gateway.
    GatewayHttp(u16),
    /// `https.443.PORTNAME.GATEWAY.NAMESPACE`: behind TLS at a gateway.
    GatewayHttps { port: u16, port_name: String, gateway: String, namespace: Namespace },
}

impl fmt::Display for RouteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(port) => write!(f, "{port}"),
            Self::Service(host, port) => write!(f, "{host}:{port}"),
            Self::Inbound(cluster) => write!(f, "{cluster}"),
            Self::GatewayHttp(port) => write!(f, "http.{port}"),
            Self::GatewayHttps { port, port_name, gateway, namespace } => {
                write!(f, "https.{port}.{port_name}.{gateway}.{namespace}")
            }
        }
    }
}

impl FromStr for RouteName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = || Error::new("the name of a route", text, "it has none of the known forms");
        let port = |text: &str| -> Result<u16, Error> {
            let port = text.parse().map_err(|_| bad())?;
            if u16::to_string(&port) == text { Ok(port) } else { Err(bad()) }
        };
        if let Ok(number) = port(text) {
            return Ok(Self::Port(number));
        }
        if text.contains('|') {
            return text.parse().map(Self::Inbound);
        }
        if let Some((host, number)) = text.rsplit_once(':') {
            return Ok(Self::Service(host.parse()?, port(number)?));
        }
        if let Some(number) = text.strip_prefix("http.") {
            return port(number).map(Self::GatewayHttp);
        }
        // The names of ports and gateways have no dots, but a gateway's might; it takes what is left.
        let rest = text.strip_prefix("https.").ok_or_else(bad)?;
        let (number, rest) = rest.split_once('.').ok_or_else(bad)?;
        let (port_name, rest) = rest.split_once('.').ok_or_else(bad)?;
        let (gateway, namespace) = rest.rsplit_once('.').ok_or_else(bad)?;
        Ok(Self::GatewayHttps {
            port: port(number)?,
            port_name: port_name.to_owned(),
            gateway: gateway.to_owned(),
            namespace: namespace.parse()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::RouteName;

    #[test]
    fn every_form_is_told_apart() {
        use super::RouteName::*;
        let parse = |text: &str| text.parse::<RouteName>().unwrap();
        assert!(matches!(parse("8000"), Port(8000)));
        assert!(matches!(parse("a.b.svc.cluster.local:80"), Service(_, 80)));
        assert!(matches!(parse("inbound|80||"), Inbound(_)));
        assert!(matches!(parse("http.8080"), GatewayHttp(8080)));
        assert!(matches!(parse("https.443.https.gw.ns"), GatewayHttps { port: 443, .. }));
        for bad in ["", "08", "http.", "https.443", "allow_any", "99999"] {
            assert!(bad.parse::<RouteName>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn text_survives(
            text in "[1-9][0-9]{0,3}|[a-z]{1,5}(\\.[a-z]{1,5}){0,2}:[1-9][0-9]{0,3}|inbound\\|[1-9][0-9]{0,3}\\|\\||http\\.[1-9][0-9]{0,3}|https\\.443\\.[a-z]{1,5}\\.[a-z]{1,5}(\\.[a-z]{1,3})?\\.[a-z]{1,5}"
        ) {
            prop_assert_eq!(text.parse::<RouteName>().unwrap().to_string(), text);
        }
    }
}
