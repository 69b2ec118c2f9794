//! Which ports a sidecar serves, from services or from its Sidecar, and in which mTLS mode.

use std::collections::BTreeMap;
use std::sync::Arc;

use ironsail_api::istio::networking::{
    CaptureMode, IstioIngressListener, ServerTlsSettings, Sidecar,
};
use ironsail_api::istio::security::MutualTlsMode;
use ironsail_api::{Code, Diagnostic, Kind, Resource, Severity};
use ironsail_model::config::Target;
use ironsail_model::{Hashed, PeerMode, Protocol, ProxyClass, Scope, Snapshot};

use super::inbound::{self, Inbound, Mode, Port};
use crate::filter::settings::{Interception, Settings};
use crate::policy::Guard;
use crate::{metadata, place, stat};

pub(super) fn inbound(
    snapshot: &Snapshot,
    scope: &Scope,
    class: &ProxyClass,
    settings: &Arc<Hashed<Settings>>,
) -> Vec<Inbound> {
    let peers = &snapshot.config.peer_authentications;
    let peers = peers.effective(snapshot.root_namespace(), Target::from(class));
    let mut told = super::ignored::told(snapshot, scope, class);
    let ports = match scope.sidecar.as_ref().filter(|sidecar| !sidecar.spec.ingress.is_empty()) {
        Some(sidecar) => of_sidecar(sidecar, &peers, settings, &mut told),
        // Without redirection the application has its ports; only a Sidecar can say others.
        None if settings.interception == Interception::None => BTreeMap::new(),
        None => of_services(scope, &peers, settings, &mut told),
    };
    let declared: Vec<u16> = ports.keys().copied().collect();
    let (bound, redirected): (Vec<_>, Vec<_>) = ports.into_values().partition(|(_, bound)| *bound);
    let mut out = Vec::new();
    let guard = Guard::of(snapshot, scope, class);
    let one = |kind, told| Inbound { settings: settings.clone(), kind, guard: guard.clone(), told };
    if settings.interception != Interception::None {
        // Ports that only a policy speaks of have chains of their own.
        let mut passthrough = vec![(0, mode(peers.mode))];
        let others = peers.ports.iter().filter(|(port, _)| !declared.contains(port));
        passthrough.extend(others.map(|(port, own)| (*port, mode(*own))));
        let ports = redirected.into_iter().map(|(port, _)| port).collect();
        out.push(one(inbound::Kind::Virtual { ports, passthrough }, std::mem::take(&mut told)));
    }
    for (port, _) in bound {
        out.push(one(inbound::Kind::Bound(Box::new(port)), Vec::new()));
    }
    out
}

fn mode(mode: MutualTlsMode) -> Mode {
    match mode {
        MutualTlsMode::Disable => Mode::Disable,
        MutualTlsMode::Strict => Mode::Strict,
        MutualTlsMode::Permissive | MutualTlsMode::Unset => Mode::Permissive,
    }
}

type Ports = BTreeMap<u16, (Port, bool)>;

/// Of two services with the same port on the pod the older one says the protocol.
fn of_services(
    scope: &Scope,
    peers: &PeerMode,
    settings: &Settings,
    told: &mut Vec<Diagnostic>,
) -> Ports {
    let mut own: Vec<_> = scope.instances.iter().collect();
    own.sort_by_key(|own| (own.service.created, &own.service.key, own.port));
    let mut ports = Ports::new();
    for own in own {
        let Some(port) = own.service.port(own.port) else { continue };
        if port.protocol == Protocol::Udp || own.target == settings.inbound_port {
            continue;
        }
        let host = own.service.hostname();
        if let Some((first, _)) = ports.get(&own.target) {
            if first.protocol != port.protocol && first.host != host.as_str() {
                told.extend(own.service.sources.first().map(|owner| Diagnostic {
                    code: Code::DOUBTFUL,
                    severity: Severity::Warning,
                    kind: owner.kind,
                    namespace: owner.namespace.to_string(),
                    name: owner.name.to_string(),
                    field: None,
                    message: format!(
                        "port {} of the pods is {} to {}, so it is not {} to {host}",
                        own.target, first.protocol, first.host, port.protocol
                    ),
                }));
            }
            continue;
        }
        let stat_name =
            Some(&settings.inbound_stat_name).filter(|p| !p.is_empty()).map(|pattern| {
                stat::name(
                    pattern,
                    &stat::Parts {
                        host: host.as_str(),
                        name: &own.service.name,
                        namespace: own.service.namespace().as_str(),
                        subset: "",
                        port: port.number,
                        port_name: &port.name,
                    },
                )
            });
        let port = Port {
            target: own.target,
            number: port.number,
            protocol: port.protocol,
            host: host.to_string(),
            binds: settings.family.wildcards().iter().map(|&w| w.to_owned()).collect(),
            mode: mode(peers.of_port(own.target)),
            tls: None,
            config: None,
            stat_name,
        };
        ports.insert(own.target, (port, false));
    }
    ports
}

fn of_sidecar(
    sidecar: &Arc<Resource<Sidecar>>,
    peers: &PeerMode,
    settings: &Settings,
    told: &mut Vec<Diagnostic>,
) -> Ports {
    let mut ports = Ports::new();
    let meta = &sidecar.meta;
    let kind = Kind::Sidecar;
    let config = metadata::config_path(
        kind.group(),
        kind.version(),
        kind.name(),
        &meta.namespace,
        &meta.name,
    );
    for (i, listener) in sidecar.spec.ingress.iter().enumerate() {
        let tell = |message: String| {
            Diagnostic::new(Code::SCHEMA, Severity::Error, kind, meta, message)
                .at(format!("spec.ingress[{i}]"))
        };
        let Some(number) = number(listener) else {
            told.push(tell("it has no port; it is left out".into()));
            continue;
        };
        let bound = match listener.capture_mode {
            CaptureMode::Default => settings.interception == Interception::None,
            CaptureMode::None => true,
            CaptureMode::Iptables => false,
        };
        let taken = bound && settings.unprivileged && number < 1024;
        if taken || place::reserved(number, settings) {
            told.push(tell(format!("port {number} cannot be had; it is left out")));
            continue;
        }
        if ports.contains_key(&number) {
            told.push(tell(format!("port {number} is there already; it is left out")));
            continue;
        }
        let protocol = listener.port.as_ref().map_or("", |port| &port.protocol);
        let protocol = Protocol::parse(protocol).unwrap_or_default();
        let binds = match listener.bind.as_str() {
            "" => settings.family.wildcards().iter().map(|&w| w.to_owned()).collect(),
            bind => vec![bind.to_owned()],
        };
        let tls = listener.tls.as_ref().and_then(own_tls);
        let port = Port {
            target: number,
            number,
            protocol,
            host: format!("{}.{}", meta.name, meta.namespace),
            binds,
            mode: mode(peers.of_port(number)),
            tls,
            config: Some(config.clone()),
            stat_name: None,
        };
        ports.insert(number, (port, bound));
    }
    ports
}

fn number(listener: &IstioIngressListener) -> Option<u16> {
    let number = listener.port.as_ref()?.number;
    u16::try_from(number).ok().filter(|number| *number != 0)
}

fn own_tls(tls: &ServerTlsSettings) -> Option<super::server_tls::ServerTls> {
    super::server_tls::ServerTls::of(tls, &super::server_tls::TlsDefaults::default())
}
