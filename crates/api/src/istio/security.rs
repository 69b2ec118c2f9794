//! Group `security.istio.io`: who may talk to whom, and how they prove who they are.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{PolicyTargetReference, WorkloadSelector};
use crate::wire::{choice, message};

pub(crate) const ONE_TARGET: (&str, &str) = (
    "only one of targetRefs or selector can be set",
    "(has(self.selector) ? 1 : 0) + (has(self.targetRef) ? 1 : 0) + (has(self.targetRefs) ? 1 : 0) <= 1",
);

message! {
    /// Who may do what at a workload.
    pub struct AuthorizationPolicy => rule(ONE_TARGET.0, ONE_TARGET.1).one_of(&["provider"]) {
        /// Workloads that it is for; all of the namespace if left out.
        pub selector: Option<WorkloadSelector>,
        /// Older form of `targetRefs`.
        pub target_ref: Option<PolicyTargetReference>,
        /// Objects that it is attached to.
        pub target_refs: Vec<PolicyTargetReference> => max_items(16),
        /// Rules, of which one must match.
        pub rules: Vec<Rule> => max_items(512),
        /// What happens when a rule matches.
        pub action: Action,
        /// Who decides, for action CUSTOM.
        pub provider: Option<PolicyExtensionProvider>,
    }

    /// Who decides, by name in the mesh config.
    pub struct PolicyExtensionProvider {
        /// Name of the provider.
        pub name: String,
    }

    /// Matches when each of its parts does; no part matches all.
    pub struct Rule {
        /// Sources, of which one must match.
        pub from: Vec<From> => max_items(512),
        /// Operations, of which one must match.
        pub to: Vec<To>,
        /// Conditions, all of which must hold.
        pub when: Vec<Condition>,
    }

    /// A source.
    pub struct From {
        /// The source.
        pub source: Option<Source>,
    }

    /// An operation.
    pub struct To {
        /// The operation.
        pub operation: Option<RequestOperation>,
    }

    /// Who asks; all fields must match.
    pub struct Source => rule(
        "Cannot set serviceAccounts with namespaces or principals",
        "(has(self.serviceAccounts) || has(self.notServiceAccounts)) ? (!has(self.principals) &&\n!has(self.notPrincipals) && !has(self.namespaces) && !has(self.notNamespaces)) : true",
    ) {
        /// Identities of peers.
        pub principals: Vec<String>,
        /// Identities that must not match.
        pub not_principals: Vec<String>,
        /// Identities of tokens: issuer/subject.
        pub request_principals: Vec<String>,
        /// Identities of tokens that must not match.
        pub not_request_principals: Vec<String>,
        /// Namespaces of peers.
        pub namespaces: Vec<String>,
        /// Namespaces that must not match.
        pub not_namespaces: Vec<String>,
        /// Service accounts of peers: namespace/name or name.
        pub service_accounts: Vec<String> => max_items(16).each(|name| name.max_len(320)),
        /// Service accounts that must not match.
        pub not_service_accounts: Vec<String> => max_items(16).each(|name| name.max_len(320)),
        /// Trust domains of peers.
        pub trust_domains: Vec<String>,
        /// Trust domains that must not match.
        pub not_trust_domains: Vec<String>,
        /// Addresses that packets come from.
        pub ip_blocks: Vec<String>,
        /// Addresses that must not match.
        pub not_ip_blocks: Vec<String>,
        /// Addresses of clients by X-Forwarded-For or the PROXY protocol.
        pub remote_ip_blocks: Vec<String>,
        /// Addresses of clients that must not match.
        pub not_remote_ip_blocks: Vec<String>,
    }

    /// What is asked; all fields must match.
    pub struct RequestOperation {
        /// Hosts.
        pub hosts: Vec<String>,
        /// Hosts that must not match.
        pub not_hosts: Vec<String>,
        /// Ports.
        pub ports: Vec<String>,
        /// Ports that must not match.
        pub not_ports: Vec<String>,
        /// Methods.
        pub methods: Vec<String>,
        /// Methods that must not match.
        pub not_methods: Vec<String>,
        /// Paths.
        pub paths: Vec<String>,
        /// Paths that must not match.
        pub not_paths: Vec<String>,
    }

    /// A condition on an attribute.
    pub struct Condition {
        /// Name of the attribute.
        pub key: String => required(),
        /// Values, of which one must match.
        pub values: Vec<String>,
        /// Values that must not match.
        pub not_values: Vec<String>,
    }

    /// How peers prove who they are.
    pub struct PeerAuthentication => rule(
        "portLevelMtls requires selector",
        "has(self.portLevelMtls) ? (((has(self.selector) && has(self.selector.matchLabels)) ? self.selector.matchLabels : {}).size() > 0) : true",
    ) {
        /// Workloads that it is for; all of the namespace if left out.
        pub selector: Option<WorkloadSelector>,
        /// Mutual TLS of the workload.
        pub mtls: Option<MutualTls>,
        /// Mutual TLS of single ports of the workload.
        pub port_level_mtls: BTreeMap<u32, MutualTls> => min_keys(1)
            .rule("port must be between 1-65535",
                "self.all(key, 0 < int(key) && int(key) <= 65535)"),
    }

    /// Mutual TLS.
    pub struct MutualTls {
        /// Whether it is needed.
        pub mode: MutualTlsMode,
    }

    /// Tokens that requests may carry.
    pub struct RequestAuthentication => rule(ONE_TARGET.0, ONE_TARGET.1) {
        /// Workloads that it is for; all of the namespace if left out.
        pub selector: Option<WorkloadSelector>,
        /// Older form of `targetRefs`.
        pub target_ref: Option<PolicyTargetReference>,
        /// Objects that it is attached to.
        pub target_refs: Vec<PolicyTargetReference> => max_items(16),
        /// Issuers of tokens.
        pub jwt_rules: Vec<JwtRule> => max_items(4096),
    }

    /// An issuer of tokens.
    pub struct JwtRule => rule(
        "only one of jwks or jwksUri can be set",
        "(has(self.jwksUri) ? 1 : 0) + (has(self.jwks_uri) ? 1 : 0) + (has(self.jwks) ? 1 : 0) <= 1",
    ) {
        /// Its name.
        pub issuer: String => min_len(1),
        /// Audiences that are accepted.
        pub audiences: Vec<String> => each(|audience| audience.min_len(1)),
        /// Where its keys are.
        pub jwks_uri: String => min_len(1).max_len(2048)
            .rule("url must have scheme http:// or https://",
                r#"url(self).getScheme() in ["http", "https"]"#)
            .also("jwks_uri"),
        /// Its keys.
        pub jwks: String,
        /// Headers that the token may be in.
        pub from_headers: Vec<JwtHeader>,
        /// Parameters of the query that the token may be in.
        pub from_params: Vec<String> => each(|name| name.min_len(1)),
        /// Cookies that the token may be in.
        pub from_cookies: Vec<String> => each(|name| name.min_len(1)),
        /// Header that the verified content is put in.
        pub output_payload_to_header: String,
        /// Passes the token on.
        pub forward_original_token: bool,
        /// Headers that single claims are put in.
        pub output_claim_to_headers: Vec<ClaimToHeader>,
        /// How long fetching of keys may take.
        pub timeout: Option<Duration> => positive(),
        /// Claims that hold several values separated by spaces.
        pub space_delimited_claims: Vec<String> => max_items(64).each(|claim| claim.min_len(1)),
        /// Whether a token must be there.
        pub presence: JwtPresence,
    }

    /// A header that a token may be in.
    pub struct JwtHeader {
        /// Name of the header.
        pub name: String => required().min_len(1),
        /// What stands before the token.
        pub prefix: String,
    }

    /// A header that a claim is put in.
    pub struct ClaimToHeader {
        /// Name of the header.
        pub header: String => required().min_len(1).pattern("^[-_A-Za-z0-9]+$"),
        /// Name of the claim.
        pub claim: String => required().min_len(1),
    }
}

choice! {
    /// What happens when a rule matches.
    pub enum Action {
        Allow = "ALLOW",
        Deny = "DENY",
        Audit = "AUDIT",
        Custom = "CUSTOM",
    }

    /// Whether mutual TLS is needed.
    pub enum MutualTlsMode {
        Unset = "UNSET",
        Disable = "DISABLE",
        Permissive = "PERMISSIVE",
        Strict = "STRICT",
    }

    /// Whether a token must be there.
    pub enum JwtPresence {
        Optional = "OPTIONAL",
        Required = "REQUIRED",
    }
}
