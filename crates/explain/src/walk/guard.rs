//! Policies of the server: filters for connections, then filters for requests, in their order.

use ironsail_proto::envoy::config::listener::v3::FilterChain;
use ironsail_proto::envoy::config::rbac::v3::Rbac as Rules;
use ironsail_proto::envoy::extensions::filters::http::ext_authz::v3::ExtAuthz;
use ironsail_proto::envoy::extensions::filters::http::jwt_authn::v3::JwtAuthentication;
use ironsail_proto::envoy::extensions::filters::http::local_ratelimit::v3::LocalRateLimit;
use ironsail_proto::envoy::extensions::filters::http::ratelimit::v3::RateLimit;
use ironsail_proto::envoy::extensions::filters::http::rbac::v3::Rbac as HttpRbac;
use ironsail_proto::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpFilter, http_filter::ConfigType,
};
use ironsail_proto::envoy::extensions::filters::network::rbac::v3::Rbac as NetworkRbac;
use ironsail_proto::{Name, unpack};

use super::wire::Sent;
use super::{End, Walk, config, end};
use crate::answer::{Origin, Outcome, Side, Verdict};
use crate::matching::policy::{Asked, Decision, decide};
use crate::matching::request::{Connection, Request};
use crate::matching::token;
use crate::object::from_rule;
use crate::world::Pod;

impl Walk<'_> {
    /// The outcome, unless a policy of the chain says otherwise.
    pub(super) fn guarded(
        &mut self,
        pod: &Pod,
        chain: &FilterChain,
        connection: &Connection,
        sent: &Sent,
        good: Outcome,
    ) -> Outcome {
        for filter in &chain.filters {
            let Some(rbac) = config::<NetworkRbac>(filter) else { continue };
            let asked = Asked { connection, request: None };
            if let Some(rules) = &rbac.rules
                && let Some(outcome) = self.judge(pod, rules, asked, sent)
            {
                return outcome;
            }
        }
        let End::Http(manager) = end(chain) else { return good };
        let Some(mut request) = sent.request.clone().or_else(|| self.bytes_as_request()) else {
            return Outcome::new(
                Verdict::Unknown,
                "the server reads HTTP, and this is not known to be",
            );
        };
        for filter in &manager.http_filters {
            if let Some(outcome) = self.filter(pod, filter, connection, &mut request, sent) {
                return outcome;
            }
        }
        good
    }

    /// HTTP that the client's proxy passed on without reading it.
    fn bytes_as_request(&self) -> Option<Request> {
        (self.question.url.scheme == "http").then(|| self.request())
    }

    fn filter(
        &mut self,
        pod: &Pod,
        filter: &HttpFilter,
        connection: &Connection,
        request: &mut Request,
        sent: &Sent,
    ) -> Option<Outcome> {
        if let Some(rbac) = http_config::<HttpRbac>(filter) {
            let rules = rbac.rules?;
            let asked = Asked { connection, request: Some(request) };
            return self.judge(pod, &rules, asked, sent);
        }
        if let Some(tokens) = http_config::<JwtAuthentication>(filter) {
            return self.tokens(pod, &tokens, request);
        }
        if http_config::<ExtAuthz>(filter).is_some() {
            self.step(
                Side::Server,
                "policy",
                "an external authorizer is asked, where its policy says so",
            );
            let from = self.world.objects.policies(pod, "CUSTOM");
            self.from(from);
        }
        if http_config::<LocalRateLimit>(filter).is_some()
            || http_config::<RateLimit>(filter).is_some()
        {
            self.step(
                Side::Server,
                "policy",
                "requests are counted; beyond the limit they get 429",
            );
            let from = self.world.objects.rate_limit(&filter.name);
            self.from(from);
        }
        None
    }

    fn judge(
        &mut self,
        pod: &Pod,
        rules: &Rules,
        asked: Asked<'_>,
        sent: &Sent,
    ) -> Option<Outcome> {
        let http = asked.request.is_some();
        match decide(rules, asked) {
            Decision::Allow(by) => {
                let text = match &by {
                    Some(_) => "allowed by a rule",
                    None => "no rule denies it",
                };
                self.step(Side::Server, "policy", text);
                self.from(by.as_deref().and_then(from_rule));
                None
            }
            Decision::Unknown(names) => {
                self.step(Side::Server, "policy", "rules depend on what is not known here");
                let from: Vec<Origin> = names.iter().filter_map(|name| from_rule(name)).collect();
                self.from(from.clone());
                let text = "whether it is allowed depends on what is not known here";
                Some(Outcome::new(Verdict::Unknown, text).by(from))
            }
            Decision::Deny(by) => {
                let culprits: Vec<Origin> = match &by {
                    Some(name) => from_rule(name).into_iter().collect(),
                    None => self.world.objects.policies(pod, "ALLOW"),
                };
                let text = match &by {
                    Some(_) => "denied by a rule",
                    None => "there are rules that allow, and none of them fits",
                };
                self.step(Side::Server, "policy", text);
                self.from(culprits.clone());
                if asked.connection.peer.is_none() && self.pod.proxied {
                    self.warn("without mTLS the server does not know who asks", sent.rule.clone());
                }
                let name = by.as_deref().unwrap_or("none");
                let outcome = Outcome::new(Verdict::Refused, text).by(culprits);
                Some(match http {
                    true => {
                        let details = format!("rbac_access_denied_matched_policy[{name}]");
                        outcome.status(403).logged("-", details)
                    }
                    false => self.closed(outcome, sent),
                })
            }
        }
    }

    /// As the client sees a connection that a policy closes.
    fn closed(&self, outcome: Outcome, sent: &Sent) -> Outcome {
        match sent.request.is_some() && self.pod.proxied {
            true => outcome
                .status(503)
                .logged("UC", "upstream_reset_before_response_started{connection_termination}"),
            false => outcome,
        }
    }

    fn tokens(
        &mut self,
        pod: &Pod,
        tokens: &JwtAuthentication,
        request: &mut Request,
    ) -> Option<Outcome> {
        match token::decide(tokens, request, self.question.now) {
            token::Decision::Pass(claims) => {
                let text = match &claims {
                    Some(claims) => {
                        let who = claims["sub"].as_str().unwrap_or("nobody");
                        let issuer = claims["iss"].as_str().unwrap_or_default();
                        format!("a token of {issuer} for {who}; its signature is not checked here")
                    }
                    None => "there is none, which is allowed".to_owned(),
                };
                self.step(Side::Server, "token", text);
                let issuers = tokens.providers.values();
                let from: Vec<Origin> = issuers
                    .filter_map(|one| self.world.objects.token_rule(pod, &one.issuer))
                    .collect();
                self.from(from);
                request.claims = claims;
                None
            }
            token::Decision::Refuse { issuer, why, status } => {
                let from = self.world.objects.token_rule(pod, &issuer);
                self.step(Side::Server, "token", why.replace('_', " "));
                self.from(from.clone());
                let outcome = Outcome::new(Verdict::Refused, why.replace('_', " "));
                let details = format!("jwt_authn_access_denied{{{why}}}");
                Some(outcome.status(status).logged("-", details).by(from))
            }
        }
    }
}

fn http_config<M: Name + Default>(filter: &HttpFilter) -> Option<M> {
    match filter.config_type.as_ref()? {
        ConfigType::TypedConfig(any) => unpack(any).ok(),
        ConfigType::ConfigDiscovery(_) => None,
    }
}
