//! Into the server: which chain of its proxy takes the connection, and whether it ends well.

use ironsail_names::VIRTUAL_INBOUND;
use ironsail_proto::envoy::config::core::v3::TrafficDirection;
use ironsail_proto::envoy::config::listener::v3::{FilterChain, Listener};

use super::wire::Sent;
use super::{End, Walk, end};
use crate::answer::{Origin, Outcome, Side, Verdict};
use crate::config::Config;
use crate::matching::request::{Connection, Transport};
use crate::matching::{chain, text};
use crate::object::Mode;
use crate::upstream::{Tls, port};
use crate::world::Pod;

impl Walk<'_> {
    pub(super) fn arrive(&mut self, sent: &Sent) -> Outcome {
        let Some(pod) = sent.ip.and_then(|ip| self.world.pod_at(ip)) else {
            return Outcome::new(
                Verdict::Unknown,
                "it leaves the mesh; what answers there is not known here",
            );
        };
        if !pod.proxied || pod.bypassed.contains(&sent.port) {
            let why =
                if pod.proxied { "its proxy is passed by on that port" } else { "it has no proxy" };
            self.step(Side::Server, "listener", format!("{}: {why}", pod.id));
            return match sent.tls {
                Tls::Mesh { .. } => self.not_understood(sent, None),
                _ => delivered(pod),
            };
        }
        let Some(config) = &pod.config else {
            self.needs.push(pod.id.clone());
            let text = format!("it reaches {}, whose proxy could not be asked", pod.id);
            return Outcome::new(Verdict::Unknown, text);
        };
        let Some(listener) = inbound(config, sent.port) else {
            return Outcome::new(
                Verdict::Unknown,
                format!("the proxy of {} has no inbound listener", pod.id),
            );
        };
        let mut connection = self.arriving(sent);
        self.step(Side::Server, "listener", format!("{} of {}", listener.name, pod.id));
        let (mode, policy) = self.world.objects.mtls(pod, sent.port);
        let Some(chain) = chain::choose(listener, &connection) else {
            return self.no_chain(sent, mode, policy);
        };
        if let Some(outcome) = self.handshake(sent, pod, chain, &mut connection, policy.as_ref()) {
            return outcome;
        }
        let end = end(chain);
        let what = match (&end, chain.transport_socket.is_some()) {
            (End::Http(_), true) => "mTLS, then HTTP",
            (End::Http(_), false) => "HTTP in the clear",
            (_, true) => "mTLS, then bytes",
            (_, false) => "bytes",
        };
        let modes = match mode {
            Mode::Strict => "STRICT",
            Mode::Permissive => "PERMISSIVE",
            Mode::Disable => "DISABLE",
        };
        self.step(Side::Server, "chain", format!("{}: {what} (mode {modes})", chain.name));
        self.from(policy.clone());
        let sends_tls = matches!(sent.tls, Tls::Mesh { .. } | Tls::Own { .. });
        if chain.transport_socket.is_none() && sends_tls {
            return match (&end, &sent.tls) {
                (End::Tcp(_), Tls::Own { .. }) => {
                    self.guarded(pod, chain, &connection, sent, delivered(pod))
                }
                _ => self.not_understood(sent, policy),
            };
        }
        self.guarded(pod, chain, &connection, sent, delivered(pod))
    }

    fn arriving(&self, sent: &Sent) -> Connection {
        let http2 = self.question.http2;
        let transport = match &sent.tls {
            Tls::Plain => Transport::Raw,
            Tls::Mesh { sni, alpn, .. } | Tls::Own { sni, alpn } => {
                Transport::Tls { sni: sni.clone(), alpn: alpn.clone() }
            }
        };
        let plain = match &sent.tls {
            // A proxy that passes bytes on passes HTTP on too.
            Tls::Plain if self.question.url.scheme == "http" => {
                Some(if http2 { "h2c" } else { "http/1.1" })
            }
            _ => None,
        };
        Connection {
            destination: sent.ip,
            port: sent.port,
            source: self.pod.ips.first().copied(),
            transport,
            plain,
            peer: None,
        }
    }

    /// The handshake where the chain ends TLS: none if all is well.
    fn handshake(
        &mut self,
        sent: &Sent,
        pod: &Pod,
        chain: &FilterChain,
        connection: &mut Connection,
        policy: Option<&Origin>,
    ) -> Option<Outcome> {
        chain.transport_socket.as_ref()?;
        match &sent.tls {
            Tls::Mesh { names, .. } => {
                let own = self.world.principal(pod);
                let fits = |name| text::string(name, &own) != Some(false);
                if !names.is_empty() && !names.iter().any(fits) {
                    self.step(
                        Side::Server,
                        "tls",
                        format!("it is {own}, which the client does not expect"),
                    );
                    let text = "the server's identity is not one that the client takes";
                    return Some(self.broken(sent, text).by(sent.rule.clone()));
                }
                connection.peer = Some(self.world.principal(self.pod));
                let text = format!("the client is {}", self.world.principal(self.pod));
                self.step(Side::Server, "tls", text);
                None
            }
            Tls::Own { .. } => {
                self.step(Side::Server, "tls", "the client shows no certificate of the mesh");
                let text = "the server wants a certificate of the mesh";
                let culprits = sent.rule.iter().chain(policy).cloned();
                Some(self.broken(sent, text).by(culprits))
            }
            Tls::Plain => None,
        }
    }

    fn no_chain(&mut self, sent: &Sent, mode: Mode, policy: Option<Origin>) -> Outcome {
        self.step(Side::Server, "chain", "none takes the connection; it is closed");
        self.from(policy.clone());
        let plain = sent.tls == Tls::Plain;
        let text = match (plain, mode) {
            (true, Mode::Strict) => "the server takes mTLS only, and this is in the clear",
            (true, _) => "the server takes nothing in the clear there",
            (false, _) => "the server has no chain for this TLS",
        };
        let outcome = Outcome::new(Verdict::Refused, text);
        let culprits = policy.into_iter().chain(sent.rule.clone());
        self.reset(outcome, sent).by(culprits)
    }

    /// As the client's proxy tells of a connection that the server closes.
    fn reset(&self, outcome: Outcome, sent: &Sent) -> Outcome {
        match sent.request.is_some() && self.pod.proxied {
            true => outcome
                .status(503)
                .logged("UC", "upstream_reset_before_response_started{connection_termination}"),
            false => outcome,
        }
    }

    /// A handshake that fails.
    fn broken(&self, sent: &Sent, text: &str) -> Outcome {
        let outcome = Outcome::new(Verdict::Failed, text);
        match sent.request.is_some() && self.pod.proxied {
            true => outcome.status(503).logged(
                "UF",
                "upstream_reset_before_response_started{remote_connection_failure|TLS_error",
            ),
            false => outcome.logged("UF", ""),
        }
    }

    /// TLS that arrives where nobody ends it.
    fn not_understood(&mut self, sent: &Sent, policy: Option<Origin>) -> Outcome {
        self.step(Side::Server, "tls", "nobody there ends the TLS that the client begins");
        let culprits = sent.rule.clone().into_iter().chain(policy);
        self.broken(sent, "the client begins mTLS, and the server does not speak it").by(culprits)
    }
}

fn delivered(pod: &Pod) -> Outcome {
    Outcome::new(Verdict::Delivered, format!("it reaches the application in {}", pod.id))
}

/// The listener of a port: one that is bound for real, or the one for all.
fn inbound(config: &Config, wanted: u16) -> Option<&Listener> {
    use ironsail_proto::envoy::config::core::v3::address::Address;
    let own = config.listeners.values().find(|listener| {
        let inbound = TrafficDirection::try_from(listener.traffic_direction);
        let bound = match listener.address.as_ref().and_then(|a| a.address.as_ref()) {
            Some(Address::SocketAddress(socket)) => port(socket),
            _ => None,
        };
        inbound == Ok(TrafficDirection::Inbound)
            && listener.name != VIRTUAL_INBOUND
            && bound == Some(wanted)
    });
    own.or_else(|| config.listeners.get(VIRTUAL_INBOUND))
}
