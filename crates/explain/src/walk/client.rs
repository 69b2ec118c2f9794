//! Out of the client: what its URL means, which listener and which chain of its proxy gets it.

use std::net::IpAddr;

use ironsail_proto::envoy::config::core::v3::{TrafficDirection, address};
use ironsail_proto::envoy::config::listener::v3::Listener;

use super::{End, Walk, end};
use crate::answer::{Outcome, Side, Verdict};
use crate::config::Config;
use crate::matching::chain;
use crate::matching::request::{Connection, Transport};
use crate::object::Known;
use crate::upstream::{Tls, port};

impl Walk<'_> {
    pub(super) fn leave(&mut self) -> Outcome {
        self.tell_name();
        if !self.pod.proxied {
            return self.leave_without_proxy();
        }
        let Some(config) = &self.pod.config else {
            self.needs.push(self.pod.id.clone());
            let text = format!("what the proxy of {} has could not be read", self.pod.id);
            return Outcome::new(Verdict::Unknown, text);
        };
        let connection = self.connection();
        let Some(listener) = listener(config, connection.destination, connection.port) else {
            return Outcome::new(
                Verdict::Unknown,
                "its proxy has no listener for outbound traffic",
            );
        };
        let text = match listener.use_original_dst.is_some_and(|on| on.value) {
            true => format!("{}, since no listener is for port {}", listener.name, connection.port),
            false => listener.name.clone(),
        };
        self.step(Side::Client, "listener", text);
        let field = self.named.port(connection.port).map(|(i, _)| format!("spec.ports[{i}]"));
        let from = field.and_then(|field| self.named.origin(&field));
        if !listener.use_original_dst.is_some_and(|on| on.value) {
            self.from(from);
        }
        let Some(chain) = chain::choose(listener, &connection) else {
            let outcome = Outcome::new(Verdict::Failed, "no chain of the listener takes it");
            return outcome.logged("NR", "filter_chain_not_found");
        };
        let end = end(chain);
        self.tell_chain(chain, &end);
        match end {
            End::Http(manager) => self.ask(config, &manager),
            End::Tcp(proxy) => self.pass(config, &proxy, chain.metadata.as_ref()),
            End::Other => Outcome::new(Verdict::Unknown, "the chain ends in an unknown filter"),
        }
    }

    fn tell_name(&mut self) {
        let named = &self.named;
        let at: Vec<String> = named.addresses.iter().map(ToString::to_string).collect();
        let at = if at.is_empty() { String::new() } else { format!(", at {}", at.join(", ")) };
        let text = match named.known {
            Known::Service => format!("{} is service {}{at}", self.question.url.host, named.host),
            Known::Entry => format!("{} is declared by a ServiceEntry{at}", named.host),
            Known::Address => format!("{} is an address of no service", named.host),
            Known::No => format!("{} is known to no object; DNS decides", named.host),
        };
        let from = named.origin(if named.known == Known::Entry { "spec.hosts" } else { "" });
        let clashes = self.world.objects.clashes(&self.named.host, self.named.object);
        self.step(Side::Client, "name", text);
        self.from(from);
        if !clashes.is_empty() && self.named.object.is_some() {
            self.warn("the host is declared more than once; only one of them counts", clashes);
        }
        if self.named.known == Known::Service && self.named.port(self.question.url.port).is_none() {
            let text = format!("the service has no port {}", self.question.url.port);
            let from = self.named.origin("spec.ports");
            self.warn(text, from);
        }
    }

    /// What the application opens.
    pub(super) fn connection(&self) -> Connection {
        let url = &self.question.url;
        let http2 = self.question.http2;
        let alpn =
            if url.scheme == "https" { vec!["h2".into(), "http/1.1".into()] } else { Vec::new() };
        let sni = if url.ip().is_some() { String::new() } else { url.host.clone() };
        Connection {
            destination: self.named.addresses.first().copied(),
            port: url.port,
            source: self.pod.ips.first().copied(),
            transport: match url.is_tls() {
                true => Transport::Tls { sni, alpn },
                false => Transport::Raw,
            },
            plain: match (url.scheme.as_str(), http2) {
                ("http", true) => Some("h2c"),
                ("http", false) => Some("http/1.1"),
                _ => None,
            },
            peer: None,
        }
    }

    fn tell_chain(
        &mut self,
        chain: &ironsail_proto::envoy::config::listener::v3::FilterChain,
        end: &End,
    ) {
        let rule = chain.filter_chain_match.clone().unwrap_or_default();
        let mut parts = Vec::new();
        if !rule.server_names.is_empty() {
            parts.push(format!("server name {}", rule.server_names.join(" or ")));
        }
        if !rule.application_protocols.is_empty() {
            parts.push(rule.application_protocols.join(" or "));
        }
        let sniffed =
            if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
        let what = match end {
            End::Http(_) => "read as HTTP",
            End::Tcp(_) => "passed on as bytes",
            End::Other => "unknown",
        };
        self.step(Side::Client, "chain", format!("{what}{sniffed}"));
        if matches!(end, End::Tcp(_)) && self.question.url.scheme == "http" {
            self.warn_of_bytes();
        }
    }

    /// HTTP that is not read as such: rules of HTTP do not count.
    fn warn_of_bytes(&mut self) {
        let objects = &self.world.objects;
        let unused = objects.virtual_services(&self.named.host);
        let http = unused.iter().filter(|one| one["spec"]["http"].is_array());
        let mut from: Vec<_> = http.map(|one| crate::object::origin(one, "spec.http")).collect();
        let Some((index, port)) = self.named.port(self.question.url.port) else { return };
        let (name, app) = (&port["name"], &port["appProtocol"]);
        let why = match (app.as_str(), name.as_str()) {
            (Some(app), _) => format!("its appProtocol is {app}"),
            (None, Some(name)) if !name.is_empty() => format!("it is named {name}"),
            _ => "it has no name that says what is spoken there".to_owned(),
        };
        let field = format!("spec.ports[{index}].name");
        from.extend(self.named.origin(&field));
        let effect = match from.len() {
            1 => "",
            _ => ", and the rules for HTTP have no effect",
        };
        let port = self.question.url.port;
        self.warn(format!("port {port} is not known to speak HTTP: {why}{effect}"), from);
    }

    /// A pod without a proxy sends what its application wrote, to a pod that Kubernetes chooses.
    fn leave_without_proxy(&mut self) -> Outcome {
        let text = format!("{} has no proxy: it goes out as it is", self.pod.id);
        self.step(Side::Client, "listener", text);
        let url = &self.question.url;
        let backends = match self.named.object.filter(|_| self.named.known == Known::Service) {
            Some(service) => self.world.objects.backends(service, url.port),
            None => self.named.addresses.iter().map(|ip| (*ip, url.port)).collect(),
        };
        let Some((ip, port)) = backends.first().copied() else {
            let outcome = Outcome::new(Verdict::Failed, "nothing is ready behind that port");
            return outcome.by(self.named.origin("spec.selector"));
        };
        self.step(Side::Client, "endpoint", format!("{ip}:{port}"));
        let tls = match self.connection().transport {
            Transport::Raw => Tls::Plain,
            Transport::Tls { sni, alpn } => Tls::Own { sni, alpn },
        };
        let request = url.is_http().then(|| self.request());
        self.arrive(&super::wire::Sent { ip: Some(ip), port, tls, request, rule: None })
    }
}

/// The listener of a destination: of its address, of its port, or the one for everything.
pub(super) fn listener(config: &Config, ip: Option<IpAddr>, wanted: u16) -> Option<&Listener> {
    let outbound = config.listeners.values().filter(|listener| {
        TrafficDirection::try_from(listener.traffic_direction) == Ok(TrafficDirection::Outbound)
    });
    let all: Vec<&Listener> = outbound.collect();
    let is_virtual = |listener: &Listener| listener.use_original_dst.is_some_and(|on| on.value);
    let bound = |listener: &Listener| -> Vec<(Option<IpAddr>, u16)> {
        let more = listener.additional_addresses.iter().filter_map(|one| one.address.as_ref());
        let sockets = listener.address.iter().chain(more).filter_map(|one| match &one.address {
            Some(address::Address::SocketAddress(socket)) => Some(socket),
            _ => None,
        });
        sockets.filter_map(|s| Some((s.address.parse().ok(), port(s)?))).collect()
    };
    let own = all.iter().filter(|listener| !is_virtual(listener));
    let exact = own.clone().find(|one| ip.is_some() && bound(one).contains(&(ip, wanted)));
    let any = own.clone().find(|one| {
        let fits = |(at, port): &(Option<IpAddr>, u16)| {
            *port == wanted && at.is_some_and(|at| at.is_unspecified())
        };
        bound(one).iter().any(fits)
    });
    exact.or(any).or_else(|| all.iter().find(|one| is_virtual(one))).copied()
}
