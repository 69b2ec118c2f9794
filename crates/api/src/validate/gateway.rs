//! `Gateway`, and the TLS settings of ports.

use std::collections::BTreeSet;

use super::check::Check;
use super::name::{self, Protocol, head};
use crate::istio::networking::{Gateway, Server, ServerTlsMode, ServerTlsSettings, TlsProtocol};

/// Ciphers that Envoy knows.
const CIPHERS: [&str; 15] = [
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-CHACHA20-POLY1305",
    "ECDHE-ECDSA-AES128-SHA",
    "ECDHE-RSA-AES128-SHA",
    "ECDHE-ECDSA-AES256-SHA",
    "ECDHE-RSA-AES256-SHA",
    "AES128-GCM-SHA256",
    "AES256-GCM-SHA384",
    "AES128-SHA",
    "AES256-SHA",
    "DES-CBC3-SHA",
];

pub(super) fn check(check: &mut Check<'_>, gateway: &Gateway) {
    let own = &check.meta().name;
    check.require(name::is_label(own), || format!("invalid gateway name: {:?}", head(own)));
    check.require(!gateway.servers.is_empty(), || "gateway must have at least one server");
    let mut names = BTreeSet::new();
    check.each("servers", &gateway.servers, |check, one| {
        server(check, one);
        let Some(port) = &one.port else { return };
        check.require(names.insert(port.name.clone()), || {
            format!("port names in servers must be unique: duplicate name {}", head(&port.name))
        });
        let redirects = one.tls.as_ref().is_some_and(|tls| tls.https_redirect);
        if redirects && name::protocol(&port.protocol) != Some(Protocol::Http) {
            check.warn("tls.httpsRedirect should only be used with http servers");
        }
    });
}

fn server(check: &mut Check<'_>, server: &Server) {
    check.require(!server.hosts.is_empty(), || "server config must contain at least one host");
    check.each("hosts", &server.hosts, |check, entry| host(check, entry, true));
    let before = check_port(check, server);
    bind(check, server);
    check.some("tls", server.tls.as_ref(), tls);
    let (Some(protocol), Some(tls)) = (before, &server.tls) else {
        if before == Some(Protocol::Tls) {
            check.error("server must have TLS settings for HTTPS/TLS protocols");
        }
        return;
    };
    match protocol {
        Protocol::Tls => {}
        Protocol::Http => {
            // Only a redirect makes sense on a plain port.
            let passes =
                matches!(tls.mode, ServerTlsMode::Passthrough | ServerTlsMode::AutoPassthrough);
            let files = [&tls.ca_certificates, &tls.private_key, &tls.server_certificate];
            check.require(
                passes && files.iter().all(|file| file.is_empty()),
                || "server cannot have TLS settings for plain text HTTP ports",
            );
        }
        Protocol::Tcp | Protocol::Udp => {
            check.error("server cannot have TLS settings for non HTTPS/TLS ports");
        }
    }
}

/// The protocol, if the port is good.
fn check_port(check: &mut Check<'_>, server: &Server) -> Option<Protocol> {
    let Some(port) = &server.port else {
        check.error("port is required");
        return None;
    };
    check.within("port", |check| {
        let protocol = name::protocol(&port.protocol);
        check.require(protocol.is_some(), || {
            format!(
                "invalid protocol {:?}, supported protocols are HTTP, HTTP2, GRPC, GRPC-WEB, MONGO, REDIS, MYSQL, TCP",
                head(&port.protocol)
            )
        });
        let mut good = protocol;
        if port.number > 0 || !server.bind.starts_with("unix://") {
            let result = name::port(port.number);
            good = good.filter(|_| result.is_ok());
            check.take_at("number", result);
        }
        check.require(port.target_port == 0, || "targetPort has no impact on Gateways");
        check.require(!port.name.is_empty(), || "port name must be set");
        good
    })
}

fn bind(check: &mut Check<'_>, server: &Server) {
    if let Some(path) = server.bind.strip_prefix("unix://") {
        check.take_at("bind", name::unix(path));
        let number = server.port.as_ref().map_or(0, |port| port.number);
        check.require(number == 0, || "port number must be 0 for unix domain socket");
    } else if !server.bind.is_empty() {
        check.take_at("bind", name::ip(&server.bind));
    }
}

/// `host` or `namespace/host`; a Sidecar must name the namespace, a Gateway need not.
pub(super) fn host(check: &mut Check<'_>, entry: &str, gateway: bool) {
    let (namespace, host) = match entry.split_once('/') {
        Some((namespace, host)) => (Some(namespace), host),
        None => (None, entry),
    };
    match namespace {
        None if !gateway => return check.error("host must be of form namespace/dnsName"),
        None => {}
        Some(namespace) => {
            check.require(
                !namespace.is_empty() && !host.is_empty(),
                || "config namespace and dnsName in host entry cannot be empty",
            );
            let reserved = ["*", "."].contains(&namespace) || (namespace == "~" && !gateway);
            check.require(reserved || name::is_label(namespace), || {
                let place = if gateway { "gateway" } else { "sidecar" };
                format!("invalid namespace value {:?} in {place}", head(namespace))
            });
        }
    }
    check.require(
        host == "*" || host.contains(['.', ':']),
        || "short names (non FQDN) are not allowed",
    );
    if !(gateway && name::is_ip(host)) {
        check.take(name::wildcard_domain(host));
    }
    check.take(name::partial_wildcard(host));
}

pub(super) fn tls(check: &mut Check<'_>, tls: &ServerTlsSettings) {
    ciphers(check, tls);
    let has_files = |files: &[&String]| files.iter().any(|file| !file.is_empty());
    let certificates =
        [&tls.server_certificate, &tls.private_key, &tls.ca_certificates, &tls.credential_name];
    match tls.mode {
        ServerTlsMode::IstioMutual => {
            let parts = ["server certificate", "private key", "CA bundle", "credentialName"];
            for (part, _) in parts.iter().zip(certificates).filter(|(_, file)| !file.is_empty()) {
                check.error(format!("ISTIO_MUTUAL TLS cannot have associated {part}"));
            }
            check.require(
                tls.credential_names.is_empty(),
                || "ISTIO_MUTUAL TLS cannot have associated credentialNames",
            );
            return;
        }
        ServerTlsMode::Passthrough | ServerTlsMode::AutoPassthrough => {
            if has_files(&certificates)
                || !tls.ca_crl.is_empty()
                || !tls.credential_names.is_empty()
            {
                check.warn(format!(
                    "{} mode does not use certificates, they will be ignored",
                    tls.mode
                ));
            }
            return;
        }
        ServerTlsMode::Simple | ServerTlsMode::Mutual | ServerTlsMode::OptionalMutual => {}
    }
    exclusive(check, tls);
    // Secrets hold all of it; files are not needed then.
    if !tls.credential_name.is_empty() || !tls.credential_names.is_empty() {
        check.require(tls.ca_crl.is_empty(), || {
            "CRL is not supported with credentialName. CRL has to be specified in the credential"
        });
        return;
    }
    let mode = if tls.mode == ServerTlsMode::Simple { "SIMPLE" } else { "MUTUAL" };
    if tls.tls_certificates.is_empty() {
        check.require(!tls.server_certificate.is_empty(), || {
            format!("{mode} TLS requires a server certificate")
        });
        check.require(!tls.private_key.is_empty(), || format!("{mode} TLS requires a private key"));
    }
    check.each("tlsCertificates", &tls.tls_certificates, |check, pair| {
        check.require(!pair.server_certificate.is_empty(), || {
            format!("{mode} TLS requires a server certificate")
        });
        check
            .require(!pair.private_key.is_empty(), || format!("{mode} TLS requires a private key"));
    });
    if mode == "MUTUAL" {
        check.require(
            !tls.ca_certificates.is_empty() || !tls.ca_cert_credential_name.is_empty(),
            || "MUTUAL TLS requires a client CA bundle",
        );
    } else {
        check.require(tls.ca_crl.is_empty(), || "CRL is not supported with SIMPLE TLS");
    }
}

/// Certificates come from one place only.
fn exclusive(check: &mut Check<'_>, tls: &ServerTlsSettings) {
    let places = [
        ("credentialName", !tls.credential_name.is_empty()),
        ("credentialNames", !tls.credential_names.is_empty()),
        ("tlsCertificates", !tls.tls_certificates.is_empty()),
    ];
    let set: Vec<_> = places.iter().filter(|(_, set)| *set).map(|(name, _)| *name).collect();
    if let [first, second, ..] = set[..] {
        check.error(format!("only one of {first} or {second} can be set"));
    }
}

fn ciphers(check: &mut Check<'_>, tls: &ServerTlsSettings) {
    let old = matches!(tls.min_protocol_version, TlsProtocol::V1_0 | TlsProtocol::V1_1);
    if old && tls.cipher_suites.is_empty() {
        check.warn(
            "TLS version below TLSV1_2 require setting compatible ciphers as by default they no longer include compatible ciphers.",
        );
    }
    let invalid: BTreeSet<_> =
        tls.cipher_suites.iter().filter(|one| !CIPHERS.contains(&one.as_str())).collect();
    if !invalid.is_empty() {
        check.warn(format!("ignoring invalid cipher suites: {invalid:?}"));
    }
    let mut seen = BTreeSet::new();
    let twice: BTreeSet<_> = tls.cipher_suites.iter().filter(|one| !seen.insert(*one)).collect();
    if !twice.is_empty() {
        check.warn(format!("ignoring duplicate cipher suites: {twice:?}"));
    }
}
