//! A route configuration put together from virtual hosts whose routes are encoded already.
//!
//! In: what stands around the routes, as messages, and the routes as bytes. Out: the bytes of the whole,
//! or the whole as a message for whoever has to change it. Nothing is translated here.

use std::sync::Arc;

use ironsail_api::Diagnostic;
use ironsail_proto::Message;
use ironsail_proto::envoy::config::route::v3::{RouteConfiguration, VirtualHost};

use super::memo::Made;
use crate::Translated;

/// `virtual_hosts` of a route configuration: field 2, a message.
const VIRTUAL_HOSTS: u8 = 2 << 3 | 2;

/// A route configuration.
#[derive(Debug)]
pub struct Assembly {
    /// Without virtual hosts.
    frame: RouteConfiguration,
    hosts: Vec<Host>,
    diagnostics: Vec<Diagnostic>,
}

/// A virtual host.
#[derive(Debug)]
pub(super) struct Host {
    /// Without routes.
    pub(super) frame: VirtualHost,
    /// Their routes add up; those that take everything come last.
    pub(super) routes: Vec<Arc<Made>>,
}

/// What keeps made routes known to the memo.
#[derive(Debug, Default)]
pub struct Kept {
    #[expect(dead_code, reason = "held, not read")]
    routes: Vec<Arc<Made>>,
}

impl Assembly {
    pub(super) fn new(
        frame: RouteConfiguration,
        hosts: Vec<Host>,
        diagnostics: Vec<Diagnostic>,
    ) -> Self {
        Self { frame, hosts, diagnostics }
    }

    /// The message, encoded; and what is to be held as long as that is.
    pub fn encode(self) -> (Translated<Vec<u8>>, Kept) {
        let size: usize = self.hosts.iter().map(Host::size).sum();
        let mut out = Vec::with_capacity(size + 256);
        let name = RouteConfiguration { name: self.frame.name.clone(), ..Default::default() };
        put(&mut out, &name);
        let mut one = Vec::new();
        for host in &self.hosts {
            one.clear();
            host.encode(&mut one);
            out.push(VIRTUAL_HOSTS);
            length(&mut out, one.len());
            out.extend_from_slice(&one);
        }
        put(&mut out, &RouteConfiguration { name: String::new(), ..self.frame });
        let routes = self.hosts.into_iter().flat_map(|host| host.routes).collect();
        (Translated { value: out, diagnostics: self.diagnostics }, Kept { routes })
    }

    /// The message.
    pub fn message(self) -> Translated<RouteConfiguration> {
        let (encoded, _) = self.encode();
        encoded.map(|bytes| {
            RouteConfiguration::decode(&*bytes).expect("what was encoded here can be read")
        })
    }
}

impl Host {
    /// About how many bytes it has.
    fn size(&self) -> usize {
        let routes: usize = self.routes.iter().map(|one| one.first.len() + one.last.len()).sum();
        let names: usize = self.frame.domains.iter().map(|domain| domain.len() + 4).sum();
        routes + names + self.frame.name.len() + 16
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let names = VirtualHost {
            name: self.frame.name.clone(),
            domains: self.frame.domains.clone(),
            ..Default::default()
        };
        put(out, &names);
        self.routes.iter().for_each(|one| out.extend_from_slice(&one.first));
        self.routes.iter().for_each(|one| out.extend_from_slice(&one.last));
        let rest = VirtualHost { name: String::new(), domains: Vec::new(), ..self.frame.clone() };
        put(out, &rest);
    }
}

fn put(out: &mut Vec<u8>, message: &impl Message) {
    message.encode(out).expect("a vector takes everything");
}

/// A length as the wire has it: seven bits a byte, the lowest first.
fn length(out: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        out.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}

#[cfg(test)]
mod tests {
    use ironsail_proto::envoy::config::route::v3::{Route, RouteMatch, route_match::PathSpecifier};

    use super::*;

    fn route(prefix: &str) -> Route {
        let path = Some(PathSpecifier::Prefix(prefix.into()));
        let name = prefix.repeat(100);
        Route {
            name,
            r#match: Some(RouteMatch { path_specifier: path, ..Default::default() }),
            ..Default::default()
        }
    }

    fn host(name: &str, routes: Vec<Route>) -> VirtualHost {
        VirtualHost {
            name: name.into(),
            domains: vec![name.into(), format!("{name}:80")],
            routes,
            include_request_attempt_count: true,
            ..Default::default()
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_message() {
        let whole = RouteConfiguration {
            name: "80".into(),
            virtual_hosts: vec![
                host("a", vec![route("/x"), route("/y"), route("/")]),
                host("b", vec![]),
                host("c", vec![route("/")]),
            ],
            ignore_port_in_host_matching: true,
            ..Default::default()
        };
        let hosts = whole.virtual_hosts.iter().map(|host| Host {
            routes: vec![Arc::new(Made::new(host.routes.clone(), false, Vec::new()))],
            frame: VirtualHost { routes: Vec::new(), ..host.clone() },
        });
        let hosts = hosts.collect();
        let frame = RouteConfiguration { virtual_hosts: Vec::new(), ..whole.clone() };
        let (made, _) = Assembly::new(frame, hosts, Vec::new()).encode();
        assert_eq!(made.value, whole.encode_to_vec());
    }

    #[test]
    fn routes_that_take_everything_come_last() {
        let part = |routes| Arc::new(Made::new(routes, false, Vec::new()));
        let routes = vec![part(vec![route("/a"), route("/")]), part(vec![route("/b"), route("/")])];
        let hosts = vec![Host { frame: host("a", vec![]), routes }];
        let made = Assembly::new(RouteConfiguration::default(), hosts, Vec::new()).message();
        let routes = &made.value.virtual_hosts[0].routes;
        assert_eq!(*routes, [route("/a"), route("/b"), route("/"), route("/")]);
    }
}
