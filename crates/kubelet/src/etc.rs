//! /etc/hosts, /etc/resolv.conf and the names of a pod.
//!
//! Values in, file texts out; writes nothing.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Pod, PodSpec};

/// What kubelets and resolvers accept at most.
const MAX_NAMESERVERS: usize = 3;
const MAX_SEARCH: usize = 32;

/// The DNS of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterDns {
    pub servers: Vec<IpAddr>,
    pub domain: String,
}

fn spec(pod: &Pod) -> PodSpec {
    pod.spec.clone().unwrap_or_default()
}

/// The host name inside the pod, without a domain.
pub fn hostname(pod: &Pod, node: &str) -> String {
    let spec = pod.spec.as_ref();
    if let Some(name) = spec.and_then(|s| s.hostname_override.as_deref()) {
        return name.to_owned();
    }
    if spec.is_some_and(|s| s.host_network == Some(true)) {
        return node.to_owned();
    }
    let name = spec
        .and_then(|s| s.hostname.as_deref())
        .filter(|n| !n.is_empty())
        .or(pod.metadata.name.as_deref())
        .unwrap_or_default();
    // Linux takes 63 characters; Kubernetes cuts and never ends on a dash or dot.
    let cut: String = name.chars().take(63).collect();
    cut.trim_end_matches(['-', '.']).to_owned()
}

/// `hostname.subdomain.namespace.svc.domain`, if the pod has a subdomain.
pub fn fqdn(pod: &Pod, node: &str, domain: &str) -> Option<String> {
    let subdomain = pod.spec.as_ref()?.subdomain.as_deref().filter(|s| !s.is_empty())?;
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    Some(format!("{}.{subdomain}.{namespace}.svc.{domain}", hostname(pod, node)))
}

/// What `gethostname` says in the pod: the full name only if the pod asks for it.
pub fn uts_name(pod: &Pod, node: &str, domain: &str) -> String {
    let full = pod.spec.as_ref().is_some_and(|s| s.set_hostname_as_fqdn == Some(true));
    full.then(|| fqdn(pod, node, domain)).flatten().unwrap_or_else(|| hostname(pod, node))
}

/// The hosts file of a pod. `node_hosts` is the node's own, for pods on the node's network.
pub fn hosts(pod: &Pod, ips: &[IpAddr], node: &str, domain: &str, node_hosts: &str) -> String {
    let spec = spec(pod);
    let mut out = String::new();
    if spec.host_network == Some(true) {
        out.push_str("# Kubernetes-managed hosts file (host network).\n");
        out.push_str(node_hosts);
        if !node_hosts.is_empty() && !node_hosts.ends_with('\n') {
            out.push('\n');
        }
    } else {
        out.push_str("# Kubernetes-managed hosts file.\n");
        out.push_str("127.0.0.1\tlocalhost\n");
        out.push_str("::1\tlocalhost ip6-localhost ip6-loopback\n");
        out.push_str("fe00::\tip6-localnet\nfe00::\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n");
        let host = hostname(pod, node);
        for ip in ips {
            match fqdn(pod, node, domain) {
                Some(full) => out.push_str(&format!("{ip}\t{full}\t{host}\n")),
                None => out.push_str(&format!("{ip}\t{host}\n")),
            }
        }
    }
    let aliases = spec.host_aliases.unwrap_or_default();
    if !aliases.is_empty() {
        out.push_str("\n# Entries added by HostAliases.\n");
        for alias in aliases {
            out.push_str(&format!(
                "{}\t{}\n",
                alias.ip,
                alias.hostnames.unwrap_or_default().join("\t")
            ));
        }
    }
    out
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Resolver {
    servers: Vec<String>,
    search: Vec<String>,
    options: Vec<String>,
}

/// The resolv.conf of a pod. `node_file` is the node's own resolv.conf.
pub fn resolv_conf(pod: &Pod, dns: &ClusterDns, node_file: &str) -> String {
    let spec = spec(pod);
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    let host_network = spec.host_network == Some(true);
    let node = parse(node_file);
    let mut resolver = match spec.dns_policy.as_deref().unwrap_or("ClusterFirst") {
        "None" => Resolver::default(),
        "Default" => node,
        "ClusterFirst" if host_network => node,
        _ => {
            let domain = &dns.domain;
            let mut search =
                vec![format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.clone()];
            search.extend(node.search);
            Resolver {
                servers: dns.servers.iter().map(IpAddr::to_string).collect(),
                search,
                options: vec!["ndots:5".to_owned()],
            }
        }
    };
    if let Some(own) = spec.dns_config {
        resolver.servers.extend(own.nameservers.unwrap_or_default());
        resolver.search.extend(own.searches.unwrap_or_default());
        for option in own.options.unwrap_or_default() {
            let Some(name) = option.name else { continue };
            resolver.options.retain(|o| o.split(':').next() != Some(&name));
            resolver.options.push(match option.value {
                Some(value) => format!("{name}:{value}"),
                None => name,
            });
        }
    }
    dedup(&mut resolver.servers, MAX_NAMESERVERS);
    dedup(&mut resolver.search, MAX_SEARCH);
    render(&resolver)
}

fn dedup(list: &mut Vec<String>, most: usize) {
    let mut seen = std::collections::BTreeSet::new();
    list.retain(|item| seen.insert(item.clone()));
    list.truncate(most);
}

fn parse(file: &str) -> Resolver {
    let mut out = Resolver::default();
    for line in file.lines().take(1000) {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("nameserver") => out.servers.extend(words.next().map(str::to_owned)),
            Some("search") => {
                out.search = words.map(|w| w.trim_end_matches('.').to_owned()).collect();
            }
            Some("options") => out.options = words.map(str::to_owned).collect(),
            _ => {}
        }
    }
    out
}

fn render(resolver: &Resolver) -> String {
    let mut out = String::new();
    if !resolver.search.is_empty() {
        out.push_str(&format!("search {}\n", resolver.search.join(" ")));
    }
    for server in &resolver.servers {
        out.push_str(&format!("nameserver {server}\n"));
    }
    if !resolver.options.is_empty() {
        out.push_str(&format!("options {}\n", resolver.options.join(" ")));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(spec: Value) -> Pod {
        let mut spec = spec;
        spec["containers"] = json!([]);
        serde_json::from_value(
            json!({"metadata": {"name": "web-0", "namespace": "shop"}, "spec": spec}),
        )
        .unwrap()
    }

    fn dns() -> ClusterDns {
        ClusterDns { servers: vec!["10.96.0.10".parse().unwrap()], domain: "cluster.local".into() }
    }

    const NODE: &str = "# x\nsearch corp.example\nnameserver 192.0.2.1\noptions edns0\n";

    #[test]
    fn resolv_conf_follows_the_dns_policy() {
        let cluster = "search shop.svc.cluster.local svc.cluster.local cluster.local corp.example\nnameserver 10.96.0.10\noptions ndots:5\n";
        let node = "search corp.example\nnameserver 192.0.2.1\noptions edns0\n";
        let table = [
            (json!({}), cluster),
            (json!({"dnsPolicy": "ClusterFirst"}), cluster),
            (json!({"dnsPolicy": "ClusterFirst", "hostNetwork": true}), node),
            (json!({"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": true}), cluster),
            (json!({"dnsPolicy": "Default"}), node),
            (
                json!({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["192.0.2.9"], "searches": ["a.b"], "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}]}}),
                "search a.b\nnameserver 192.0.2.9\noptions ndots:2 edns0\n",
            ),
        ];
        for (spec, want) in table {
            assert_eq!(resolv_conf(&pod(spec.clone()), &dns(), NODE), want, "{spec}");
        }
        let merged = resolv_conf(
            &pod(json!({"dnsConfig": {"options": [{"name": "ndots", "value": "1"}]}})),
            &dns(),
            "",
        );
        assert!(merged.ends_with("options ndots:1\n"), "{merged}");
    }

    #[test]
    fn hosts_names_the_pod_and_its_aliases() {
        let spec = json!({"hostname": "h", "subdomain": "sub", "hostAliases": [{"ip": "192.0.2.5", "hostnames": ["a", "b"]}]});
        let text =
            hosts(&pod(spec), &["10.244.0.5".parse().unwrap()], "node0", "cluster.local", "");
        assert!(text.contains("10.244.0.5\th.sub.shop.svc.cluster.local\th\n"), "{text}");
        assert!(text.contains("192.0.2.5\ta\tb\n"), "{text}");
        let host =
            hosts(&pod(json!({"hostNetwork": true})), &[], "node0", "cluster.local", "1.2.3.4 me");
        assert!(host.contains("1.2.3.4 me\n") && !host.contains("ip6-localnet"), "{host}");
    }

    #[test]
    fn names_are_cut_to_what_linux_takes() {
        let long = format!("{}-x", "a".repeat(62));
        let mut p = pod(json!({}));
        p.metadata.name = Some(long);
        assert_eq!(hostname(&p, "n"), "a".repeat(62));
        assert_eq!(hostname(&pod(json!({"hostNetwork": true})), "node0"), "node0");
        assert_eq!(
            uts_name(&pod(json!({"subdomain": "s", "setHostnameAsFQDN": true})), "n", "d"),
            "web-0.s.shop.svc.d"
        );
    }
}
