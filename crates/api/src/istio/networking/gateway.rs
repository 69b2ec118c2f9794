//! `Gateway`: ports that a proxy at the edge of the mesh opens.

use std::collections::BTreeMap;

use crate::wire::{choice, message};

message! {
    /// Ports that proxies at the edge of the mesh open.
    pub struct Gateway {
        /// The ports.
        pub servers: Vec<Server>,
        /// Labels of the pods that open them.
        pub selector: BTreeMap<String, String>,
    }

    /// One port and the hosts behind it.
    pub struct Server {
        /// The port.
        pub port: Option<Port> => required(),
        /// Address to listen on.
        pub bind: String,
        /// Hosts, with the namespaces whose routes may serve them: namespace/host.
        pub hosts: Vec<String> => required(),
        /// TLS of the port.
        pub tls: Option<ServerTlsSettings>,
        /// Not used.
        pub default_endpoint: String,
        /// Name of the server, for reference only.
        pub name: String,
    }

    /// A port of a gateway.
    pub struct Port {
        /// Number of the port.
        pub number: u32 => required(),
        /// HTTP, HTTPS, GRPC, GRPC-WEB, HTTP2, MONGO, TCP or TLS.
        pub protocol: String => required(),
        /// Name of the port.
        pub name: String => required(),
        /// Not used.
        pub target_port: u32,
    }

    /// TLS of a port.
    pub struct ServerTlsSettings
        => rule("only one of credentialNames or tlsCertificates can be set",
            "(has(self.tlsCertificates) ? 1 : 0) + (has(self.credentialNames) ? 1 : 0) <= 1")
        .rule("only one of credentialName or credentialNames can be set",
            "(has(self.credentialName) ? 1 : 0) + (has(self.credentialNames) ? 1 : 0) <= 1")
        .rule("only one of credentialName or tlsCertificates can be set",
            "(has(self.credentialNames) ? 1 : 0) + (has(self.tlsCertificates) ? 1 : 0) <= 1")
    {
        /// Answers plain HTTP with a redirect to HTTPS.
        pub https_redirect: bool,
        /// Kind of TLS.
        pub mode: ServerTlsMode,
        /// File with the server's certificate.
        pub server_certificate: String,
        /// File with the server's key.
        pub private_key: String,
        /// File with the authorities of clients.
        pub ca_certificates: String,
        /// File with revoked certificates.
        pub ca_crl: String,
        /// Secret with key and certificates.
        pub credential_name: String,
        /// Secrets with key and certificates, of different kinds of key.
        pub credential_names: Vec<String> => min_items(1).max_items(2),
        /// Secret with the authorities of clients.
        pub ca_cert_credential_name: String,
        /// Files with keys and certificates, of different kinds of key.
        pub tls_certificates: Vec<TlsCertificate> => min_items(1).max_items(2),
        /// Names that a client's certificate may have.
        pub subject_alt_names: Vec<String>,
        /// SHA-256 of keys that a client may have, base64.
        pub verify_certificate_spki: Vec<String>,
        /// SHA-256 of certificates that a client may have, hexadecimal.
        pub verify_certificate_hash: Vec<String>,
        /// Least version of TLS.
        pub min_protocol_version: TlsProtocol,
        /// Greatest version of TLS.
        pub max_protocol_version: TlsProtocol,
        /// Ciphers that are allowed.
        pub cipher_suites: Vec<String>,
        /// Curves that are allowed.
        pub ecdh_curves: Vec<String>,
        /// Does not verify the client.
        pub insecure_skip_verify: Option<bool>,
    }

    /// Files with a key and a certificate.
    pub struct TlsCertificate {
        /// File with the certificate.
        pub server_certificate: String,
        /// File with the key.
        pub private_key: String,
        /// Not used.
        pub ca_certificates: String,
    }
}

choice! {
    /// Kind of TLS of a port.
    pub enum ServerTlsMode {
        Passthrough = "PASSTHROUGH",
        Simple = "SIMPLE",
        Mutual = "MUTUAL",
        AutoPassthrough = "AUTO_PASSTHROUGH",
        IstioMutual = "ISTIO_MUTUAL",
        OptionalMutual = "OPTIONAL_MUTUAL",
    }

    /// Version of TLS.
    pub enum TlsProtocol {
        Auto = "TLS_AUTO",
        V1_0 = "TLSV1_0",
        V1_1 = "TLSV1_1",
        V1_2 = "TLSV1_2",
        V1_3 = "TLSV1_3",
    }
}
