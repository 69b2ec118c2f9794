//! What is spoken on a port: from its name, its `appProtocol`, its number.
//!
//! The rules are those of Istio's protocol selection; what nothing says is `Auto`: the proxy looks
//! at the first bytes.

use std::fmt;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    Http,
    /// HTTP used as a proxy (`CONNECT`, absolute targets).
    HttpProxy,
    Http2,
    Grpc,
    GrpcWeb,
    Https,
    Tls,
    Tcp,
    Hbone,
    DoubleHbone,
    Mongo,
    Mysql,
    Redis,
    Udp,
    /// Not said: to be sniffed.
    #[default]
    Auto,
}

/// Servers here speak first, so that waiting for the client's bytes would hang: SMTP, DNS, MySQL,
/// MongoDB. Without a declared protocol they are TCP.
const SERVER_FIRST: [u16; 4] = [25, 53, 3306, 27017];

impl Protocol {
    /// By name, in any case; `None` if there is no such protocol.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "http" => Self::Http,
            "http_proxy" => Self::HttpProxy,
            "http2" => Self::Http2,
            "grpc" => Self::Grpc,
            "grpc-web" => Self::GrpcWeb,
            "https" => Self::Https,
            "tls" => Self::Tls,
            "tcp" => Self::Tcp,
            "hbone" => Self::Hbone,
            "double-hbone" => Self::DoubleHbone,
            "mongo" => Self::Mongo,
            "mysql" => Self::Mysql,
            "redis" => Self::Redis,
            "udp" => Self::Udp,
            _ => return None,
        })
    }

    /// Of a port of a Kubernetes Service. `transport` is `TCP`, `UDP` or `SCTP`.
    pub fn of_port(number: u16, name: &str, transport: &str, app: Option<&str>) -> Self {
        if transport.eq_ignore_ascii_case("udp") {
            return Self::Udp;
        }
        match app {
            Some("kubernetes.io/h2c") => return Self::Http2,
            Some("kubernetes.io/ws") => return Self::Http,
            Some("kubernetes.io/wss") => return Self::Https,
            _ => {}
        }
        let said = app.unwrap_or(name).to_ascii_lowercase();
        if said.starts_with("grpc-web") {
            return Self::GrpcWeb;
        }
        let prefix = said.split('-').next().unwrap_or_default();
        match Self::parse(prefix) {
            Some(protocol) => protocol,
            None if SERVER_FIRST.contains(&number) => Self::Tcp,
            None => Self::Auto,
        }
    }

    /// Read request by request: HTTP in the clear.
    pub fn is_http(self) -> bool {
        matches!(self, Self::Http | Self::HttpProxy | Self::Http2 | Self::Grpc | Self::GrpcWeb)
    }

    /// HTTP that needs HTTP/2 to the upstream.
    pub fn is_http2(self) -> bool {
        matches!(self, Self::Http2 | Self::Grpc | Self::GrpcWeb)
    }

    /// Encrypted by the application: routed by server name.
    pub fn is_tls(self) -> bool {
        matches!(self, Self::Https | Self::Tls)
    }

    /// Bytes that nobody reads, or only a filter for the protocol.
    pub fn is_tcp(self) -> bool {
        matches!(
            self,
            Self::Tcp
                | Self::Https
                | Self::Tls
                | Self::Mongo
                | Self::Mysql
                | Self::Redis
                | Self::Hbone
        )
    }

    pub fn is_auto(self) -> bool {
        self == Self::Auto
    }

    /// As Istio writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "HTTP",
            Self::HttpProxy => "HTTP_PROXY",
            Self::Http2 => "HTTP2",
            Self::Grpc => "GRPC",
            Self::GrpcWeb => "GRPC-Web",
            Self::Https => "HTTPS",
            Self::Tls => "TLS",
            Self::Tcp => "TCP",
            Self::Hbone => "HBONE",
            Self::DoubleHbone => "DOUBLE-HBONE",
            Self::Mongo => "Mongo",
            Self::Mysql => "MySQL",
            Self::Redis => "Redis",
            Self::Udp => "UDP",
            Self::Auto => "UnsupportedProtocol",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::Protocol;

    #[test]
    fn a_port_says_its_protocol_by_name_app_protocol_or_number() {
        for (number, name, transport, app, protocol) in [
            (80, "http", "TCP", None, Protocol::Http),
            (80, "HTTP-web", "TCP", None, Protocol::Http),
            (80, "http2-web", "TCP", None, Protocol::Http2),
            (80, "httpweb", "TCP", None, Protocol::Auto),
            (80, "", "TCP", None, Protocol::Auto),
            (80, "web", "TCP", None, Protocol::Auto),
            (80, "grpc-web", "TCP", None, Protocol::GrpcWeb),
            (80, "grpc-web-x", "TCP", None, Protocol::GrpcWeb),
            (80, "grpc-x", "TCP", None, Protocol::Grpc),
            (443, "https-x", "TCP", None, Protocol::Https),
            (443, "tls", "TCP", None, Protocol::Tls),
            (3306, "db", "TCP", None, Protocol::Tcp),
            (3306, "mysql-db", "TCP", None, Protocol::Mysql),
            (3306, "http", "TCP", None, Protocol::Http),
            (25, "", "TCP", None, Protocol::Tcp),
            (53, "dns", "UDP", None, Protocol::Udp),
            (80, "tcp", "TCP", Some("http"), Protocol::Http),
            (80, "tcp", "TCP", Some("kubernetes.io/h2c"), Protocol::Http2),
            (80, "tcp", "TCP", Some("kubernetes.io/ws"), Protocol::Http),
            (80, "tcp", "TCP", Some("kubernetes.io/wss"), Protocol::Https),
            (80, "http", "TCP", Some("example.com/own"), Protocol::Auto),
            (80, "kubernetes.io/h2c", "TCP", None, Protocol::Auto),
        ] {
            let found = Protocol::of_port(number, name, transport, app);
            assert_eq!(found, protocol, "{number} {name} {transport} {app:?}");
        }
    }
}
