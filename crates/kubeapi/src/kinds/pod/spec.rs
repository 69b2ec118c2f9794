//! The rules of a pod spec as a whole, alone or in a template.

use ironsail_schema::FieldError;

use super::super::at::{At, Errors};
use super::super::{meta, name, selector};
use super::{affinity, container, security, volume};

/// Where the spec is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    Pod,
    Template,
}

/// `template` of a workload.
pub(in crate::kinds) fn template(template: &At<'_>, errors: &mut Errors) {
    super::template_meta(template, errors);
    let spec = template.get("spec");
    validate(&spec, Owner::Template, errors);
    if !spec.get("ephemeralContainers").is_empty() {
        errors.push(
            spec.get("ephemeralContainers")
                .forbidden("ephemeral containers not allowed in pod template"),
        );
    }
}

/// The template must carry the labels the workload's selector asks for; no selector asks for
/// something that nothing has.
pub(in crate::kinds) fn selected(template: &At<'_>, choice: &At<'_>, errors: &mut Errors) {
    let labels = template.dig("metadata.labels");
    if !choice.is_set() || !selector::matches(choice.value, labels.value) {
        errors.push(FieldError::invalid(
            labels.path.clone(),
            labels.value.clone(),
            "`selector` does not match template `labels`",
        ));
    }
}

/// A pod spec.
pub(super) fn validate(spec: &At<'_>, owner: Owner, errors: &mut Errors) {
    let volumes = volume::validate(&spec.get("volumes"), errors);
    let claims = spec.get("resourceClaims").items().map(|c| c.get("name").str()).collect();
    let around = container::Around {
        volumes,
        claims,
        grace: spec.get("terminationGracePeriodSeconds").int(),
        in_pod: owner == Owner::Pod,
    };
    container::validate(spec, &around, errors);
    spec.get("restartPolicy").one_of(&["Always", "OnFailure", "Never"], errors);
    spec.get("dnsPolicy")
        .one_of(&["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"], errors);
    meta::labels(&spec.get("nodeSelector"), errors);
    security::pod(spec, errors);
    affinity::validate(&spec.get("affinity"), errors);
    dns(spec, errors);
    for gate in spec.get("readinessGates").items() {
        let at = gate.get("conditionType");
        errors.extend(name::qualified(at.str()).into_iter().map(|w| at.invalid(w)));
    }
    affinity::spread(&spec.get("topologySpreadConstraints"), errors);
    host_users(spec, errors);
    names(spec, errors);
    let deadline = spec.get("activeDeadlineSeconds");
    if deadline.is_set() && !(1..=i64::from(i32::MAX)).contains(&deadline.int()) {
        errors.push(deadline.invalid(format!("must be between 1 and {}, inclusive", i32::MAX)));
    }
    tolerations(&spec.get("tolerations"), errors);
    aliases(&spec.get("hostAliases"), errors);
    spec.get("preemptionPolicy").one_of_if_set(&["PreemptLowerPriority", "Never"], errors);
    let os = spec.get("os");
    if os.is_set() {
        os.get("name").one_of(&["linux", "windows"], errors);
    }
}

fn names(spec: &At<'_>, errors: &mut Errors) {
    type Check = fn(&str) -> Vec<String>;
    const RULES: [(&str, Check); 6] = [
        ("serviceAccountName", name::subdomain),
        ("nodeName", name::subdomain),
        ("hostname", name::label),
        ("subdomain", name::label),
        ("priorityClassName", name::subdomain),
        ("runtimeClassName", name::subdomain),
    ];
    for (key, check) in RULES {
        let at = spec.get(key);
        if !at.is_empty() {
            errors.extend(check(at.str()).into_iter().map(|w| at.invalid(w)));
        }
    }
}

fn dns(spec: &At<'_>, errors: &mut Errors) {
    const SERVERS: usize = 3;
    const SEARCHES: usize = 32;
    let config = spec.get("dnsConfig");
    if spec.get("dnsPolicy").str() == "None" {
        if !config.is_set() {
            errors.push(config.required("must provide `dnsConfig` when `dnsPolicy` is None"));
            return;
        }
        if config.get("nameservers").is_empty() {
            errors.push(
                config
                    .get("nameservers")
                    .required("must provide at least one DNS nameserver when `dnsPolicy` is None"),
            );
            return;
        }
    }
    let servers = config.get("nameservers");
    if servers.len() > SERVERS {
        errors.push(servers.invalid(format!("must not have more than {SERVERS} nameservers")));
    }
    servers.items().for_each(|server| address(&server, errors));
    let searches = config.get("searches");
    if searches.len() > SEARCHES {
        errors.push(searches.invalid(format!("must not have more than {SEARCHES} search paths")));
    }
    for search in searches.items() {
        let text = search.str().strip_suffix('.').unwrap_or(search.str());
        if !text.is_empty() {
            errors.extend(name::search_domain(text).into_iter().map(|w| search.invalid(w)));
        }
    }
    for option in config.get("options").items() {
        if option.get("name").is_empty() {
            errors.push(option.required("must not be empty"));
        }
    }
}

/// An IPv4 or IPv6 address.
pub(super) fn address(at: &At<'_>, errors: &mut Errors) {
    if at.str().parse::<std::net::IpAddr>().is_err() {
        errors.push(at.invalid("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"));
    }
}

fn aliases(list: &At<'_>, errors: &mut Errors) {
    for alias in list.items() {
        address(&alias.get("ip"), errors);
        for host in alias.get("hostnames").items() {
            errors.extend(name::subdomain(host.str()).into_iter().map(|w| host.invalid(w)));
        }
    }
}

fn host_users(spec: &At<'_>, errors: &mut Errors) {
    let users = spec.get("hostUsers");
    if !users.is_set() || users.bool() {
        return;
    }
    for (key, shown) in
        [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")]
    {
        if spec.get(key).bool() {
            errors.push(spec.get(shown).forbidden("when `hostUsers` is false"));
        }
    }
}

/// Tolerations of pods.
pub(in crate::kinds) fn tolerations(list: &At<'_>, errors: &mut Errors) {
    for toleration in list.items() {
        let (key, operator) = (toleration.get("key"), toleration.get("operator"));
        let (value, effect) = (toleration.get("value"), toleration.get("effect"));
        if !key.is_empty() {
            errors.extend(name::label_key(key.str()).into_iter().map(|w| key.invalid(w)));
        } else if operator.str() != "Exists" {
            errors.push(FieldError::invalid(
                operator.path.clone(),
                operator.str(),
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            ));
        }
        if toleration.get("tolerationSeconds").is_set() && effect.str() != "NoExecute" {
            errors.push(FieldError::invalid(
                effect.path.clone(),
                effect.str(),
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            ));
        }
        match operator.str() {
            "" | "Equal" => {
                let wrong = name::label_value(value.str());
                if !wrong.is_empty() {
                    let path = operator.path.clone();
                    errors.push(FieldError::invalid(path, value.str(), wrong.join(";")));
                }
            }
            "Exists" => {
                if !value.is_empty() {
                    let detail = "value must be empty when `operator` is 'Exists'";
                    errors.push(FieldError::invalid(operator.path.clone(), value.str(), detail));
                }
            }
            _ => operator.one_of_if_set(&["Equal", "Exists"], errors),
        }
        if !effect.is_empty() {
            effect.one_of_if_set(&["NoSchedule", "PreferNoSchedule", "NoExecute"], errors);
        }
    }
}
