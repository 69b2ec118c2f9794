//! Group `policy.ironsail.io`: how much a workload takes, by whom and for what.
//!
//! Our own API beside Istio's, in the style of its policies: a selector or targets, rules, and nothing
//! of Envoy's own words.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::istio::networking::StringMatch;
use crate::istio::{PolicyTargetReference, WorkloadSelector};
use crate::wire::{choice, message};

message! {
    /// Limits of the rate of requests to workloads or gateways. All policies that are for a workload
    /// apply, and a request must pass every rule that matches it.
    pub struct RateLimitPolicy
        => rule("only one of targetRefs or selector can be set",
            "(has(self.selector) ? 1 : 0) + (has(self.targetRefs) ? 1 : 0) <= 1")
        .rule("a rule with global needs server",
            "has(self.server) || !has(self.rules) || !self.rules.exists(r, has(r.global))")
    {
        /// Workloads that it is for; all of the namespace if left out, or of the mesh if it is in the
        /// root namespace.
        pub selector: Option<WorkloadSelector>,
        /// Gateways that it is attached to.
        pub target_refs: Vec<PolicyTargetReference> => max_items(16),
        /// The limits. Each counts for itself.
        pub rules: Vec<RateLimitRule> => required().min_items(1).max_items(32).keyed_by("name"),
        /// The service that decides about rules with `global`.
        pub server: Option<RateLimitServer>,
        /// What a client gets that asks too often.
        pub response: Option<RateLimitResponse>,
    }

    /// One limit.
    pub struct RateLimitRule => rule(
        "exactly one of local or global must be set", "has(self.local) != has(self.global)",
    ) {
        /// Name of the rule, unique in the policy; statistics and descriptors have it.
        pub name: String => required().min_len(1).max_len(63)
            .pattern("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"),
        /// Requests that count; all if left out.
        pub r#match: Option<RateLimitMatch>,
        /// What requests are told apart by: each combination of values has a count of its own. One
        /// count for all if left out.
        pub by: Vec<RateLimitKey> => max_items(8),
        /// Counted by each proxy for itself.
        pub local: Option<LocalRateLimit>,
        /// Counted by the server for all proxies together.
        pub global: Option<GlobalRateLimit>,
        /// Counts and reports, and refuses nothing.
        pub dry_run: bool,
    }

    /// Which requests; every part that is set must match.
    pub struct RateLimitMatch {
        /// Hosts, of which one must be asked for; without a port.
        pub hosts: Vec<String> => max_items(64).each(|host| host.min_len(1).max_len(253)),
        /// Methods, of which one must be used.
        pub methods: Vec<String> => max_items(16).each(|method| method.min_len(1).max_len(32)),
        /// Paths without the query, of which one must match.
        pub paths: Vec<StringMatch> => max_items(64),
        /// Headers, all of which must match.
        pub headers: BTreeMap<String, StringMatch> => max_keys(32),
        /// Identities of clients by mutual TLS, of which one must match: TRUSTDOMAIN/ns/NAMESPACE/sa/ACCOUNT.
        pub principals: Vec<String> => max_items(64).each(|name| name.min_len(1).max_len(512)),
        /// Ports of the workload, of which one must be asked.
        pub ports: Vec<u32> => max_items(64).each(|port| port.min(1).max(65535)),
    }

    /// What requests are told apart by.
    pub struct RateLimitKey => rule(
        "exactly one of header or attribute must be set", "has(self.header) != has(self.attribute)",
    ) {
        /// Value of this header; requests without it share one count.
        pub header: String => min_len(1).max_len(256),
        /// Something of the request or the client.
        pub attribute: RateLimitAttribute,
        /// Name of the entry in the descriptor that a server gets; else that of the header or attribute.
        pub name: String => max_len(256),
    }

    /// A bucket of tokens: a request takes one.
    pub struct LocalRateLimit {
        /// Requests in each interval.
        pub requests: u32 => required().min(1).max(1_000_000_000),
        /// The interval, 50 milliseconds at least.
        pub interval: Option<Duration> => required(),
        /// Requests that may come at once after a quiet time; else as many as in an interval.
        pub burst: u32 => min(1).max(1_000_000_000),
    }

    /// A question to the server, which knows how much is too much.
    pub struct GlobalRateLimit {
        /// Entries of the descriptor that come before those of `by`; else `rule` with the rule's name.
        pub entries: BTreeMap<String, String> => max_keys(8),
    }

    /// A server that speaks Envoy's rate-limit protocol (`envoy.service.ratelimit.v3`).
    pub struct RateLimitServer {
        /// HOST:PORT of a service of the mesh or a ServiceEntry whose port is named grpc or http2.
        pub address: String => required().min_len(3).max_len(320)
            .pattern("^[a-zA-Z0-9.-]+:[0-9]+$"),
        /// The domain in the server's configuration.
        pub domain: String => required().min_len(1).max_len(253),
        /// How long an answer may take; 100 milliseconds if left out.
        pub timeout: Option<Duration>,
        /// What happens without an answer.
        pub failure_mode: RateLimitFailureMode,
    }

    /// What a client gets that asks too often.
    pub struct RateLimitResponse {
        /// Status code; 429 if left out.
        pub status: u32 => min(400).max(599),
        /// Headers that are added.
        pub headers: BTreeMap<String, String> => max_keys(10),
    }
}

choice! {
    /// Something of a request or its client.
    pub enum RateLimitAttribute {
        Unspecified = "UNSPECIFIED",
        Identity = "IDENTITY",
        RemoteAddress = "REMOTE_ADDRESS",
        Path = "PATH",
        Method = "METHOD",
        Host = "HOST",
    }

    /// What happens to requests when the server does not answer.
    pub enum RateLimitFailureMode {
        Allow = "ALLOW",
        Deny = "DENY",
    }
}
