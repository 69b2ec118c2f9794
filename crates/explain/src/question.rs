//! What is asked: a request, and the pod that it comes from.
//!
//! In: texts as a user types them; out: typed values, or what is wrong with the text.

use std::net::IpAddr;

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// `POD.NAMESPACE` of the client.
    pub source: String,
    pub url: Url,
    pub method: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The client speaks HTTP/2 from the start.
    pub http2: bool,
    /// Seconds since 1970 by which tokens are judged; without it their times are not looked at.
    pub now: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    pub scheme: String,
    pub host: String,
    pub port: u16,
    /// With its query; `/` if the text has none.
    pub path: String,
    /// The port was written.
    explicit: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("{0:?} is longer than an address may be")]
    TooLong(String),
    #[error("{0:?} has a scheme other than http, https, tcp and tls")]
    Scheme(String),
    #[error("{0:?} names no host")]
    Host(String),
    #[error("{0:?}: a port is a number from 1 to 65535")]
    Port(String),
    #[error("{0:?} is no header; write NAME: VALUE")]
    Header(String),
}

/// Longer ones are refused by every proxy.
const LONGEST: usize = 64 << 10;

impl Url {
    /// Reads `[SCHEME://]HOST[:PORT][/PATH]`; without a scheme it is http.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.len() > LONGEST {
            return Err(Error::TooLong(text.chars().take(60).collect()));
        }
        let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
        let scheme = scheme.to_ascii_lowercase();
        let usual = match scheme.as_str() {
            "http" => Some(80),
            "https" => Some(443),
            "tcp" | "tls" => None,
            _ => return Err(Error::Scheme(text.to_owned())),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let path = path.split('#').next().unwrap_or_default();
        let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let (host, port) = split_port(authority).ok_or_else(|| Error::Port(text.to_owned()))?;
        if !is_host(host) {
            return Err(Error::Host(text.to_owned()));
        }
        Ok(Self {
            scheme,
            host: host.to_ascii_lowercase(),
            port: port.or(usual).ok_or_else(|| Error::Port(text.to_owned()))?,
            path: if path.starts_with('/') { path.to_owned() } else { format!("/{path}") },
            explicit: port.is_some(),
        })
    }

    /// As clients write `Host`.
    pub fn authority(&self) -> String {
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        match self.explicit {
            true => format!("{host}:{}", self.port),
            false => host,
        }
    }

    pub fn is_http(&self) -> bool {
        matches!(self.scheme.as_str(), "http" | "https")
    }

    pub fn is_tls(&self) -> bool {
        matches!(self.scheme.as_str(), "https" | "tls")
    }

    pub fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

impl std::fmt::Display for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = if self.is_http() { self.path.as_str() } else { "" };
        write!(f, "{}://{}{path}", self.scheme, self.authority())
    }
}

/// A name or an address; what has colons is an address.
fn is_host(host: &str) -> bool {
    let odd = |c: char| c.is_whitespace() || c.is_control() || "[]@\\%<>\"'{}|^`".contains(c);
    match host.contains(':') {
        true => host.parse::<IpAddr>().is_ok(),
        false => !host.is_empty() && !host.contains(odd),
    }
}

/// Host and port of an authority; None if the port is no port.
fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            (host, port.strip_prefix(':'))
        }
        None => match authority.rsplit_once(':') {
            Some((host, _)) if host.contains(':') => (authority, None),
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    match port {
        None => Some((host, None)),
        Some(port) => match port.parse::<u16>() {
            Ok(port) if port != 0 => Some((host, Some(port))),
            _ => None,
        },
    }
}

impl Question {
    /// A GET.
    pub fn get(source: &str, url: Url) -> Self {
        Self {
            source: source.to_owned(),
            url,
            method: "GET".to_owned(),
            headers: Vec::new(),
            http2: false,
            now: None,
        }
    }

    /// Adds a header written `Name: value`.
    pub fn header(&mut self, line: &str) -> Result<(), Error> {
        let (name, value) = line.split_once(':').ok_or_else(|| Error::Header(line.to_owned()))?;
        let name = name.trim().to_ascii_lowercase();
        if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(Error::Header(line.to_owned()));
        }
        self.headers.push((name, value.trim().to_owned()));
        Ok(())
    }

    /// What the client calls the server: its header `host`, or the URL.
    pub(crate) fn authority(&self) -> String {
        let own = self.headers.iter().find(|(name, _)| name == "host");
        own.map_or_else(|| self.url.authority(), |(_, value)| value.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::{Question, Url};
    use proptest::prelude::*;

    #[test]
    fn urls_are_read_as_clients_read_them() {
        for (text, shown, port) in [
            ("reviews", "http://reviews/", 80),
            ("http://reviews:9080/a?b=c#d", "http://reviews:9080/a?b=c", 9080),
            ("https://User@Example.COM", "https://example.com/", 443),
            ("http://[::1]:8080/x", "http://[::1]:8080/x", 8080),
            ("tcp://db:3306", "tcp://db:3306", 3306),
            ("http://10.0.0.1?x", "http://10.0.0.1/?x", 80),
        ] {
            let url = Url::parse(text).unwrap();
            assert_eq!((url.to_string().as_str(), url.port), (shown, port), "{text}");
        }
        for bad in
            ["", "http://", "ftp://a", "tcp://db", "http://a:0", "http://a:x/", "http://a:99999"]
        {
            assert!(Url::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_host_header_says_what_the_server_is_called() {
        let mut question = Question::get("a.b", Url::parse("http://10.0.0.1/").unwrap());
        question.header("Host: reviews").unwrap();
        assert_eq!(question.authority(), "reviews");
        assert!(question.header("no header").is_err() && question.header(" : x").is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,60}") {
            if let Ok(url) = Url::parse(&text) {
                prop_assert_eq!(Url::parse(&url.to_string()).map(|u| u.host), Ok(url.host));
            }
        }
    }
}
