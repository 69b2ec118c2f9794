//! From a cluster to an endpoint: which there are, which is used, what is said to it.

use std::net::IpAddr;

use ironsail_names::{BLACK_HOLE_CLUSTER, ClusterName, PASSTHROUGH_CLUSTER};
use ironsail_proto::envoy::config::cluster::v3::Cluster;
use ironsail_proto::envoy::config::cluster::v3::cluster::DiscoveryType;

use super::Walk;
use crate::answer::{Origin, Outcome, Side, Verdict};
use crate::config::Config;
use crate::matching::request::Request;
use crate::object::{self, from_path, origin, spec};
use crate::upstream::{self, Endpoint, Tls, about};

/// What goes over the wire to one address.
pub(super) struct Sent {
    pub(super) ip: Option<IpAddr>,
    pub(super) port: u16,
    pub(super) tls: Tls,
    /// None for bytes.
    pub(super) request: Option<Request>,
    /// The DestinationRule that says how.
    pub(super) rule: Option<Origin>,
}

impl Walk<'_> {
    pub(super) fn forward(
        &mut self,
        config: &Config,
        name: &str,
        request: Option<Request>,
        route: Option<Origin>,
    ) -> Outcome {
        let parsed = name.parse::<ClusterName>().ok();
        let Some(cluster) = config.clusters.get(name) else {
            return self.no_cluster(name, parsed.as_ref(), request.is_some(), route);
        };
        let metadata = cluster.metadata.as_ref();
        let rule = about(metadata, "config").and_then(from_path);
        let subset = about(metadata, "subset").unwrap_or_default();
        let text = match (name, subset) {
            (PASSTHROUGH_CLUSTER, _) => "to the address that the client meant".to_owned(),
            (_, "") => name.to_owned(),
            (_, subset) => format!("{name}, subset {subset}"),
        };
        self.step(Side::Client, "cluster", text);
        let field = if subset.is_empty() {
            "spec".to_owned()
        } else {
            self.subset_field(rule.as_deref(), subset)
        };
        let rule = rule.map(|rule| Origin::new(rule, field));
        self.from(rule.clone());
        if name == BLACK_HOLE_CLUSTER {
            let from = self.world.objects.egress(self.pod);
            return Outcome::new(Verdict::Refused, "it leads nowhere").logged("UH", "").by([from]);
        }
        let tls_rule = rule.clone().map(|rule| Origin::new(rule.object, "spec.trafficPolicy.tls"));
        match upstream::discovery(cluster) {
            Some(DiscoveryType::OriginalDst) => {
                let ip = self.named.addresses.first().copied();
                let port = self.question.url.port;
                let tls = self.offer(cluster, &upstream::usual_tls(cluster), request.is_some());
                let (ip, port) = self.behind(ip, port);
                self.tell_endpoint(
                    ip.map_or_else(
                        || format!("wherever DNS leads, port {port}"),
                        |ip| format!("{ip}:{port}"),
                    ),
                    &tls,
                );
                self.arrive(&Sent { ip, port, tls, request, rule: tls_rule })
            }
            None => {
                self.step(Side::Client, "endpoint", "looked up by name when the request comes");
                Outcome::new(
                    Verdict::Unknown,
                    format!("it goes to wherever {} leads", self.named.host),
                )
            }
            Some(_) => {
                let all = upstream::endpoints(config, cluster);
                let Some(first) = all.iter().find(|one| one.unusable.is_none()) else {
                    return self.no_endpoint(
                        &all,
                        rule.as_ref(),
                        parsed.as_ref(),
                        request.is_some(),
                    );
                };
                let tls = self.offer(cluster, &first.tls, request.is_some());
                self.tell_endpoint(choice(&all, first), &tls);
                self.arrive(&Sent { ip: first.ip, port: first.port, tls, request, rule: tls_rule })
            }
        }
    }

    /// The field of a DestinationRule that declares a subset.
    fn subset_field(&self, rule: Option<&str>, subset: &str) -> String {
        let all = self.world.objects.of("DestinationRule");
        let found = all.filter(|one| Some(object::title(one).as_str()) == rule).find_map(|one| {
            object::each(spec(one), "subsets").find(|(_, own)| own["name"] == subset)
        });
        found.map_or_else(|| "spec.subsets".into(), |(index, _)| format!("spec.subsets[{index}]"))
    }

    fn no_cluster(
        &mut self,
        name: &str,
        parsed: Option<&ClusterName>,
        http: bool,
        route: Option<Origin>,
    ) -> Outcome {
        self.step(Side::Client, "cluster", format!("{name}, which the proxy does not have"));
        let objects = &self.world.objects;
        let mut culprits = Vec::new();
        let mut text = "the route leads to a cluster that does not exist".to_owned();
        if let Some(ClusterName { host: Some(host), subset, port, .. }) = parsed {
            let host = host.as_str();
            for service in objects.virtual_services(&self.named.host) {
                culprits.extend(objects.destination(service, host, subset));
            }
            let rules = objects.destination_rules(host);
            let known = objects.named(host, &self.pod.namespace);
            if known.object.is_none() {
                text = format!("nothing declares the host {host} that the route leads to");
            } else if known.port(*port).is_none() {
                text = format!("{host} has no port {port}, to which the route leads");
                culprits.extend(known.origin("spec.ports"));
            } else if !subset.is_empty() {
                text = match rules.is_empty() {
                    true => format!("no DestinationRule for {host} declares subset {subset}"),
                    false => format!("the DestinationRule for {host} has no subset {subset}"),
                };
                culprits.extend(rules.iter().map(|rule| origin(rule, "spec.subsets")));
            } else {
                let space = known.object.map(object::namespace).unwrap_or_default();
                culprits.extend(objects.hides(self.pod, host, space));
            }
        }
        if culprits.is_empty() {
            culprits.extend(route);
        }
        let outcome = Outcome::new(Verdict::Failed, text).by(culprits);
        match http {
            true => outcome.status(503).logged("NC", "cluster_not_found"),
            false => outcome.logged("NC", ""),
        }
    }

    fn no_endpoint(
        &mut self,
        all: &[Endpoint],
        rule: Option<&Origin>,
        parsed: Option<&ClusterName>,
        http: bool,
    ) -> Outcome {
        let objects = &self.world.objects;
        let mut culprits = Vec::new();
        let host = parsed.and_then(|one| one.host.as_ref()).map(ToString::to_string);
        let known = objects.named(host.as_deref().unwrap_or_default(), &self.pod.namespace);
        let subset = parsed.map(|one| one.subset.to_string()).unwrap_or_default();
        let text = if all.is_empty() {
            self.step(Side::Client, "endpoint", "there is none");
            match (rule, subset.as_str()) {
                (Some(rule), subset) if !subset.is_empty() => {
                    culprits
                        .push(Origin::new(rule.object.clone(), format!("{}.labels", rule.field)));
                    format!("no ready pod has the labels of subset {subset}")
                }
                _ => {
                    culprits.extend(known.origin("spec.selector"));
                    "no ready pod is behind the service".to_owned()
                }
            }
        } else {
            let each = all
                .iter()
                .map(|one| format!("{} ({})", one.address, one.unusable.unwrap_or_default()));
            let each: Vec<String> = each.collect();
            self.step(Side::Client, "endpoint", format!("none is used: {}", each.join(", ")));
            let ejected =
                all.iter().any(|one| one.unusable.is_some_and(|why| why.contains("outlier")));
            match rule.filter(|_| ejected) {
                Some(rule) => culprits
                    .push(Origin::new(rule.object.clone(), "spec.trafficPolicy.outlierDetection")),
                None => culprits.extend(known.origin("spec.selector")),
            }
            "no endpoint is healthy".to_owned()
        };
        let outcome = Outcome::new(Verdict::Failed, text).by(culprits);
        match http {
            true => outcome.status(503).logged("UH", "no_healthy_upstream"),
            false => outcome.logged("UH", ""),
        }
    }

    /// Connections to the address of a Service end at a pod that Kubernetes chooses.
    fn behind(&self, ip: Option<IpAddr>, port: u16) -> (Option<IpAddr>, u16) {
        let service = self.named.object.filter(|_| self.named.known == object::Known::Service);
        let direct = ip.is_some_and(|ip| self.world.pod_at(ip).is_some());
        match service.filter(|_| !direct) {
            Some(service) => match self.world.objects.backends(service, port).first() {
                Some((ip, port)) => (Some(*ip), *port),
                None => (ip, port),
            },
            None => (ip, port),
        }
    }

    /// What the proxy offers in TLS: requests say what is spoken inside, where the cluster lets them.
    fn offer(&self, cluster: &Cluster, tls: &Tls, http: bool) -> Tls {
        let follows = about(cluster.metadata.as_ref(), "alpn") == Some("downstream");
        match tls {
            Tls::Mesh { sni, names, .. } if http && follows => {
                let spoken: &[&str] = match self.question.http2 {
                    true => &["istio-h2", "istio", "h2"],
                    false => &["istio-http/1.1", "istio", "http/1.1"],
                };
                let alpn = spoken.iter().map(|&one| one.to_owned()).collect();
                Tls::Mesh { sni: sni.clone(), alpn, names: names.clone() }
            }
            other => other.clone(),
        }
    }

    fn tell_endpoint(&mut self, text: String, tls: &Tls) {
        self.step(Side::Client, "endpoint", text);
        let text = match tls {
            Tls::Plain => "none: in the clear",
            Tls::Mesh { .. } => "the mesh's mTLS",
            Tls::Own { .. } => "of a DestinationRule's own",
        };
        self.step(Side::Client, "tls", text);
    }
}

/// One of how many.
fn choice(all: &[Endpoint], first: &Endpoint) -> String {
    let usable = all.iter().filter(|one| one.unusable.is_none()).count();
    let out = all.len() - usable;
    let out = if out == 0 { String::new() } else { format!(", {out} more not used") };
    match usable {
        1 => format!("{}{out}", first.address),
        _ => format!("one of {usable}, such as {}{out}", first.address),
    }
}
