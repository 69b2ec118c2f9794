//! Listeners of clients, by the name they dial, and of servers, by the address they serve on.

use std::net::SocketAddr;
use std::sync::Arc;

use ironsail_api::Resource;
use ironsail_api::istio::security::AuthorizationPolicy;
use ironsail_model::config::Target;
use ironsail_model::{ProxyClass, Scope, Service, Snapshot, TlsMode};
use ironsail_names::{ClusterName, Hostname, TrustDomains};
use ironsail_proto::envoy::config::listener::v3::Listener;

use super::message;
use crate::mtls::{self, Mode};
use crate::{Key, Translated, policy};

/// Servers ask for this and their address.
pub const SERVER_PREFIX: &str = "xds.istio.io/grpc/lds/inbound/";

/// What one listener is made of.
#[derive(Clone, Debug)]
pub struct ListenerView<'a> {
    /// As it was asked for.
    pub name: &'a str,
    role: Role<'a>,
}

#[derive(Clone, Debug)]
enum Role<'a> {
    Client {
        service: &'a Arc<Service>,
        port: u16,
    },
    Server {
        address: SocketAddr,
        mtls: bool,
        policies: Vec<&'a Arc<Resource<AuthorizationPolicy>>>,
        trust: &'a TrustDomains,
    },
}

/// The view of the listener that is called `name`; None if there is no such service or port.
pub fn view<'a>(
    snapshot: &'a Snapshot,
    scope: &'a Scope,
    class: &ProxyClass,
    name: &'a str,
) -> Option<ListenerView<'a>> {
    let role = match name.strip_prefix(SERVER_PREFIX) {
        Some(address) => server(snapshot, class, address)?,
        None => {
            let (service, port) = dialled(scope, class, name)?;
            Role::Client { service, port }
        }
    };
    Some(ListenerView { name, role })
}

fn server<'a>(snapshot: &'a Snapshot, class: &ProxyClass, address: &str) -> Option<Role<'a>> {
    let address: SocketAddr = address.parse().ok()?;
    if !class.instances.iter().any(|i| i.target == address.port()) {
        return None;
    }
    let mode = mtls::policies(snapshot, &class.namespace).mode(&class.labels, address.port());
    // gRPC cannot tell TLS from plaintext on one port; clients are told to use mTLS if the label
    // says so.
    let labelled = TlsMode::of(&class.labels) == TlsMode::Istio;
    let mtls = mode == Mode::Strict || (mode == Mode::Permissive && labelled);
    let root = snapshot.root_namespace();
    let policies = snapshot.config.authorization_policies.for_workload(root, Target::from(class));
    let trust = &snapshot.mesh.trust;
    Some(Role::Server { address, mtls, policies, trust })
}

/// `HOST:PORT`, where the host may be short of the client's own namespace and domain.
fn dialled<'a>(
    scope: &'a Scope,
    class: &ProxyClass,
    name: &str,
) -> Option<(&'a Arc<Service>, u16)> {
    let (host, port) = name.rsplit_once(':')?;
    let port: u16 = port.parse().ok()?;
    let find = |host: &str| {
        let host: Hostname = host.parse().ok()?;
        scope.service(&host).filter(|service| service.port(port).is_some())
    };
    let domain = &*class.domain;
    let longer = || {
        // `NAME`, `NAME.NAMESPACE` and `NAME.NAMESPACE.svc` end where the domain begins.
        let (first, rest) = host.split_once('.').unwrap_or((host, ""));
        let fits = rest.is_empty() || domain.strip_prefix(rest).is_some_and(|d| d.starts_with('.'));
        fits.then(|| find(&format!("{first}.{domain}"))).flatten()
    };
    find(host).or_else(longer).map(|service| (service, port))
}

impl ListenerView<'_> {
    pub fn key(&self) -> u64 {
        let key = Key::new("grpc-listener").text(self.name);
        match &self.role {
            Role::Client { service, port } => {
                key.flag(true).digest(service.digest).number((*port).into())
            }
            Role::Server { address, mtls, policies, trust } => key
                .flag(false)
                .display(address)
                .flag(*mtls)
                .each(policies, |k, p| k.digest(p.digest))
                .each(trust.iter().collect::<Vec<_>>(), Key::display),
        }
        .finish()
    }
}

pub fn translate(view: &ListenerView<'_>) -> Translated<Listener> {
    match &view.role {
        Role::Client { service, port } => {
            let route = ClusterName::outbound(*port, "", service.hostname().clone()).to_string();
            let ip = service.addresses.first().or(service.auto_addresses.first());
            let host = ip.map_or_else(|| "0.0.0.0".to_owned(), ToString::to_string);
            message::client_listener(view.name.to_owned(), &host, *port, route).into()
        }
        Role::Server { address, mtls, policies, trust } => {
            let (filters, diagnostics) = policy::grpc::filters(policies, trust);
            let filters = filters.iter().map(|(name, rules)| message::http_filter(name, rules));
            let listener = message::server_listener(
                view.name.to_owned(),
                &address.ip().to_string(),
                address.port(),
                *mtls,
                filters.collect(),
            );
            Translated { value: listener, diagnostics }
        }
    }
}
