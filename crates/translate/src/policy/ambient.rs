//! Policies for the node's proxy, which knows connections but no requests.
//!
//! In: an AuthorizationPolicy or PeerAuthentication. Out: the `Authorization` that ztunnel enforces,
//! or nothing if it has no part in it. A rule that looks at requests allows nothing here, and denies
//! whatever the rest of it fits.

use std::net::IpAddr;

use ironsail_api::Resource;
use ironsail_api::istio::security::{
    Action, AuthorizationPolicy, Condition, MutualTlsMode, PeerAuthentication, RequestOperation,
    Rule, Source,
};
use ironsail_model::config::Selected;
use ironsail_names::Namespace;
use ironsail_proto::google::protobuf::Empty;
use ironsail_proto::istio::security::{
    self as wire, Address, Authorization, Group, Match, Rules, Scope, ServiceAccountMatch,
    StringMatch, string_match::MatchType,
};

use super::attribute::Attribute;
use super::rbac::is_dry_run;

/// PeerAuthentications have no names of their own there.
const CONVERTED: &str = "converted_peer_authentication_";

/// What ztunnel is told of an AuthorizationPolicy.
pub fn authorization(
    policy: &Resource<AuthorizationPolicy>,
    root: &Namespace,
) -> Option<Authorization> {
    let action = match policy.spec.action {
        Action::Allow => wire::Action::Allow,
        Action::Deny => wire::Action::Deny,
        // Nobody but a proxy that knows requests can do these.
        Action::Audit | Action::Custom => return None,
    };
    if !policy.spec.targets().is_empty() {
        // It is for a waypoint.
        return None;
    }
    let selected = policy.spec.selector().is_some_and(|labels| !labels.is_empty());
    let scope = match (selected, policy.meta.namespace == root.as_str()) {
        (true, _) => Scope::WorkloadSelector,
        (false, true) => Scope::Global,
        (false, false) => Scope::Namespace,
    };
    let reading =
        Reading { namespace: &policy.meta.namespace, allows: action == wire::Action::Allow };
    let groups = policy.spec.rules.iter().filter_map(|rule| reading.group(rule));
    Some(Authorization {
        name: policy.meta.name.clone(),
        namespace: policy.meta.namespace.clone(),
        scope: scope.into(),
        action: action.into(),
        groups: groups.collect(),
        dry_run: is_dry_run(policy),
    })
}

/// What ztunnel is told of a PeerAuthentication that says something of single ports; `inherited` is
/// the mode of namespace or mesh. Whole workloads, namespaces and the mesh are told otherwise.
pub fn peer_authentication(
    policy: &Resource<PeerAuthentication>,
    root: &Namespace,
    inherited: MutualTlsMode,
) -> Option<Authorization> {
    let spec = &policy.spec;
    let selected = spec.selector().is_some_and(|labels| !labels.is_empty());
    if policy.meta.namespace == root.as_str() || !selected {
        return None;
    }
    let said = |mode: MutualTlsMode, else_mode| match mode {
        MutualTlsMode::Unset => else_mode,
        mode => mode,
    };
    let own = said(spec.mtls.as_ref().map(|mtls| mtls.mode).unwrap_or_default(), inherited);
    let strict = |mode| mode == MutualTlsMode::Strict;
    let ports: Vec<u32> = spec
        .port_level_mtls
        .iter()
        .filter(|(_, mtls)| strict(said(mtls.mode, own)) != strict(own))
        .map(|(port, _)| *port)
        .collect();
    if ports.is_empty() {
        return None;
    }
    let nobody = Match {
        not_principals: vec![is(MatchType::Presence(Empty::default()))],
        ..Default::default()
    };
    let rules = match strict(own) {
        true => {
            let elsewhere = Match { not_destination_ports: ports, ..Default::default() };
            vec![Rules { matches: vec![nobody] }, Rules { matches: vec![elsewhere] }]
        }
        false => vec![Rules { matches: vec![Match { destination_ports: ports, ..nobody }] }],
    };
    Some(Authorization {
        name: format!("{CONVERTED}{}", policy.meta.name),
        namespace: policy.meta.namespace.clone(),
        scope: Scope::WorkloadSelector.into(),
        action: wire::Action::Deny.into(),
        groups: vec![Group { rules }],
        dry_run: false,
    })
}

struct Reading<'a> {
    namespace: &'a str,
    allows: bool,
}

impl Reading<'_> {
    /// None if it can allow nothing.
    fn group(&self, rule: &Rule) -> Option<Group> {
        let mut rules = Vec::new();
        let operations = rule.to.iter().filter_map(|to| to.operation.as_ref());
        rules.push(operations.map(|o| self.operation(o)).collect::<Option<Vec<_>>>()?);
        let sources = rule.from.iter().filter_map(|from| from.source.as_ref());
        rules.push(sources.map(|s| self.source(s)).collect::<Option<Vec<_>>>()?);
        for condition in &rule.when {
            rules.push(vec![self.condition(condition)?]);
        }
        let rules = rules.into_iter().filter(|matches| !matches.is_empty());
        Some(Group { rules: rules.map(|matches| Rules { matches }).collect() })
    }

    /// What to do about a part that connections do not have.
    fn unless(&self, foreign: bool) -> Option<()> {
        (!(foreign && self.allows)).then_some(())
    }

    fn operation(&self, o: &RequestOperation) -> Option<Match> {
        let requests = [&o.hosts, &o.not_hosts, &o.methods, &o.not_methods, &o.paths, &o.not_paths];
        self.unless(requests.iter().any(|list| !list.is_empty()))?;
        Some(Match {
            destination_ports: self.each(&o.ports, port)?,
            not_destination_ports: self.each(&o.not_ports, port)?,
            ..Default::default()
        })
    }

    fn source(&self, s: &Source) -> Option<Match> {
        let requests = [
            &s.request_principals,
            &s.not_request_principals,
            &s.remote_ip_blocks,
            &s.not_remote_ip_blocks,
            &s.trust_domains,
            &s.not_trust_domains,
        ];
        self.unless(requests.iter().any(|list| !list.is_empty()))?;
        let account = |text: &str| Some(self.account(text));
        let text = |value: &str| Some(text(value));
        Some(Match {
            principals: self.each(&s.principals, text)?,
            not_principals: self.each(&s.not_principals, text)?,
            namespaces: self.each(&s.namespaces, text)?,
            not_namespaces: self.each(&s.not_namespaces, text)?,
            service_accounts: self.each(&s.service_accounts, account)?,
            not_service_accounts: self.each(&s.not_service_accounts, account)?,
            source_ips: self.each(&s.ip_blocks, range)?,
            not_source_ips: self.each(&s.not_ip_blocks, range)?,
            ..Default::default()
        })
    }

    fn condition(&self, condition: &Condition) -> Option<Match> {
        let (yes, no) = (&condition.values, &condition.not_values);
        let account = |text: &str| Some(self.account(text));
        let text = |value: &str| Some(text(value));
        Some(match Attribute::parse(&condition.key) {
            Ok(Attribute::SourceIp) => Match {
                source_ips: self.each(yes, range)?,
                not_source_ips: self.each(no, range)?,
                ..Default::default()
            },
            Ok(Attribute::Namespace) => Match {
                namespaces: self.each(yes, text)?,
                not_namespaces: self.each(no, text)?,
                ..Default::default()
            },
            Ok(Attribute::Principal) => Match {
                principals: self.each(yes, text)?,
                not_principals: self.each(no, text)?,
                ..Default::default()
            },
            Ok(Attribute::ServiceAccount) => Match {
                service_accounts: self.each(yes, account)?,
                not_service_accounts: self.each(no, account)?,
                ..Default::default()
            },
            Ok(Attribute::DestinationIp) => Match {
                destination_ips: self.each(yes, range)?,
                not_destination_ips: self.each(no, range)?,
                ..Default::default()
            },
            Ok(Attribute::Port) => Match {
                destination_ports: self.each(yes, port)?,
                not_destination_ports: self.each(no, port)?,
                ..Default::default()
            },
            _ => {
                self.unless(true)?;
                Match::default()
            }
        })
    }

    /// Values that mean something. A bad one makes an ALLOW rule useless and a DENY rule wider.
    fn each<T>(&self, values: &[String], read: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
        let all: Option<Vec<T>> = values.iter().map(|value| read(value)).collect();
        match (all, self.allows) {
            (Some(all), _) => Some(all),
            (None, true) => None,
            (None, false) => Some(Vec::new()),
        }
    }

    fn account(&self, value: &str) -> ServiceAccountMatch {
        let (namespace, name) = value.split_once('/').unwrap_or((self.namespace, value));
        ServiceAccountMatch { namespace: namespace.into(), service_account: name.into() }
    }
}

fn is(match_type: MatchType) -> StringMatch {
    StringMatch { match_type: Some(match_type) }
}

fn text(value: &str) -> StringMatch {
    is(match (value, value.strip_prefix('*'), value.strip_suffix('*')) {
        ("*", ..) => MatchType::Presence(Empty::default()),
        (_, Some(rest), _) => MatchType::Suffix(rest.to_owned()),
        (_, _, Some(rest)) => MatchType::Prefix(rest.to_owned()),
        _ => MatchType::Exact(value.to_owned()),
    })
}

fn port(value: &str) -> Option<u32> {
    value.parse::<u16>().ok().map(u32::from)
}

fn range(value: &str) -> Option<Address> {
    let range = crate::filter::wire::cidr(value)?;
    let address = match range.address_prefix.parse().ok()? {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    Some(Address { address, length: range.prefix_len?.value })
}
