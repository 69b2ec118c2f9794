//! Webhook configurations; and admission policies, which are stored only.

use std::collections::HashSet;
use std::time::SystemTime;

use ironsail_schema::FieldError;
use serde_json::{Value, json};

use super::at::{At, Errors, each, object, set_default, there};
use super::table::{AGE, Column, NAME, column, created, name, number};
use super::{BEHAVIOUR, Behaviour, Generation, Kind, STORED, selector};

const ADMISSION: Kind = Kind {
    group: "admissionregistration.k8s.io",
    package: "admissionregistration.v1",
    categories: &["api-extensions"],
    namespaced: false,
    generation: Generation::Content,
    ..STORED
};
const WEBHOOKS: &[Column] = &[NAME, number("Webhooks"), AGE];

pub(super) const KINDS: &[Kind] = &[
    Kind {
        kind: "MutatingWebhookConfiguration",
        plural: "mutatingwebhookconfigurations",
        singular: "mutatingwebhookconfiguration",
        behaviour: Behaviour {
            default: |config| {
                default_webhooks(config);
                for hook in each(config, "webhooks") {
                    set_default(hook, "reinvocationPolicy", "Never");
                }
            },
            validate,
            columns: WEBHOOKS,
            row,
            ..BEHAVIOUR
        },
        ..ADMISSION
    },
    Kind {
        kind: "ValidatingAdmissionPolicy",
        plural: "validatingadmissionpolicies",
        singular: "validatingadmissionpolicy",
        subresources: &["status"],
        behaviour: Behaviour {
            default: |policy| {
                let spec = object(policy, "spec");
                set_default(spec, "failurePolicy", "Fail");
                if let Some(matches) = there(spec, "matchConstraints") {
                    default_match(matches);
                }
            },
            columns: &[NAME, number("Validations"), column("ParamKind"), AGE],
            row: policy_row,
            ..BEHAVIOUR
        },
        ..ADMISSION
    },
    Kind {
        kind: "ValidatingAdmissionPolicyBinding",
        plural: "validatingadmissionpolicybindings",
        singular: "validatingadmissionpolicybinding",
        behaviour: Behaviour {
            default: |binding| {
                if let Some(matches) = there(object(binding, "spec"), "matchResources") {
                    default_match(matches);
                }
            },
            columns: &[NAME, column("PolicyName"), column("ParamRef"), AGE],
            row: binding_row,
            ..BEHAVIOUR
        },
        ..ADMISSION
    },
    Kind {
        kind: "ValidatingWebhookConfiguration",
        plural: "validatingwebhookconfigurations",
        singular: "validatingwebhookconfiguration",
        behaviour: Behaviour {
            default: default_webhooks,
            validate,
            columns: WEBHOOKS,
            row,
            ..BEHAVIOUR
        },
        ..ADMISSION
    },
];

fn default_match(matches: &mut Value) {
    set_default(matches, "matchPolicy", "Equivalent");
    set_default(matches, "namespaceSelector", json!({}));
    set_default(matches, "objectSelector", json!({}));
    for list in ["resourceRules", "excludeResourceRules"] {
        for rule in each(matches, list) {
            set_default(rule, "scope", "*");
        }
    }
}

fn default_webhooks(config: &mut Value) {
    for hook in each(config, "webhooks") {
        set_default(hook, "failurePolicy", "Fail");
        set_default(hook, "matchPolicy", "Equivalent");
        set_default(hook, "namespaceSelector", json!({}));
        set_default(hook, "objectSelector", json!({}));
        set_default(hook, "timeoutSeconds", 10);
        for rule in each(hook, "rules") {
            set_default(rule, "scope", "*");
        }
        if let Some(service) = object(hook, "clientConfig").get_mut("service") {
            set_default(service, "port", 443);
        }
    }
}

fn validate(config: &Value, errors: &mut Errors) {
    let mut names = HashSet::new();
    for hook in At::root(config).get("webhooks").items() {
        webhook(&hook, errors);
        let own = hook.get("name");
        if !own.is_empty() && !names.insert(own.str()) {
            errors.push(own.duplicate());
        }
    }
}

fn webhook(hook: &At<'_>, errors: &mut Errors) {
    let own = hook.get("name");
    if own.need(errors) {
        let wrong = super::name::subdomain(own.str());
        let short = wrong.is_empty() && own.str().split('.').count() < 3;
        errors.extend(wrong.into_iter().map(|w| own.invalid(w)));
        if short {
            errors.push(
                own.invalid("should be a domain with at least three segments separated by dots"),
            );
        }
    }
    hook.get("rules").items().for_each(|rule| validate_rule(&rule, errors));
    hook.get("failurePolicy").one_of_if_set(&["Fail", "Ignore"], errors);
    hook.get("matchPolicy").one_of_if_set(&["Equivalent", "Exact"], errors);
    hook.get("reinvocationPolicy").one_of_if_set(&["IfNeeded", "Never"], errors);
    let effects = hook.get("sideEffects");
    if effects.is_set() {
        effects.one_of_if_set(&["None", "NoneOnDryRun"], errors);
    } else {
        errors.push(effects.required("must specify one of None, NoneOnDryRun"));
    }
    let timeout = hook.get("timeoutSeconds");
    if timeout.is_set() && !(1..=30).contains(&timeout.int()) {
        errors.push(timeout.invalid("the timeout value must be between 1 and 30 seconds"));
    }
    selector::validate(&hook.get("namespaceSelector"), errors);
    selector::validate(&hook.get("objectSelector"), errors);
    review_versions(&hook.get("admissionReviewVersions"), errors);
    client(&hook.get("clientConfig"), errors);
    for condition in hook.get("matchConditions").items() {
        condition.get("expression").need(errors);
        let own = condition.get("name");
        if own.need(errors) {
            errors.extend(super::name::qualified(own.str()).into_iter().map(|w| own.invalid(w)));
        }
    }
}

fn validate_rule(rule: &At<'_>, errors: &mut Errors) {
    let operations = rule.get("operations");
    operations.need(errors);
    let lonely = |at: &At<'_>| at.len() > 1 && at.items().any(|i| i.str() == "*");
    if lonely(&operations) {
        errors.push(operations.invalid("if '*' is present, must not specify other operations"));
    }
    for operation in operations.items() {
        operation.one_of_if_set(&["*", "CONNECT", "CREATE", "DELETE", "UPDATE"], errors);
    }
    let groups = rule.get("apiGroups");
    groups.need(errors);
    if lonely(&groups) {
        errors.push(groups.invalid("if '*' is present, must not specify other API groups"));
    }
    let versions = rule.get("apiVersions");
    versions.need(errors);
    if lonely(&versions) {
        errors.push(versions.invalid("if '*' is present, must not specify other API versions"));
    }
    rule.get("resources").need(errors);
    rule.get("scope").one_of_if_set(&["*", "Cluster", "Namespaced"], errors);
}

fn review_versions(versions: &At<'_>, errors: &mut Errors) {
    if versions.is_empty() {
        errors.push(versions.required("must specify one of v1, v1beta1"));
        return;
    }
    let mut seen = HashSet::new();
    for version in versions.items() {
        if !seen.insert(version.str()) {
            errors.push(version.invalid("duplicate version"));
        }
        errors
            .extend(super::name::label1035(version.str()).into_iter().map(|w| version.invalid(w)));
    }
    if !versions.items().any(|v| matches!(v.str(), "v1" | "v1beta1")) {
        errors.push(versions.invalid("must include at least one of v1, v1beta1"));
    }
}

fn client(config: &At<'_>, errors: &mut Errors) {
    let (url, service) = (config.get("url"), config.get("service"));
    if url.is_set() == service.is_set() {
        errors.push(config.required("exactly one of url or service is required"));
    } else if url.is_set() {
        check_url(&url, errors);
    } else {
        for key in ["name", "namespace"] {
            service.get(key).need(errors);
        }
        let path = service.get("path");
        if !path.is_empty() {
            service_path(&path, errors);
        }
        let port = service.get("port");
        if port.is_set() && super::name::port(port.int()).is_some() {
            errors.push(port.invalid("port is not valid: must be between 1 and 65535, inclusive"));
        }
    }
}

fn check_url(url: &At<'_>, errors: &mut Errors) {
    const FORM: &str = "; desired format: https://host[/path]";
    let bad =
        |detail: &str| FieldError::invalid(url.path.clone(), url.str(), format!("{detail}{FORM}"));
    let Some((scheme, rest)) = url.str().split_once("://") else {
        errors.push(bad("url must be a valid URL"));
        return;
    };
    if scheme != "https" {
        errors.push(FieldError::invalid(
            url.path.clone(),
            scheme,
            format!("'https' is the only allowed URL scheme{FORM}"),
        ));
    }
    if rest.split('/').next().unwrap_or_default().is_empty() {
        errors.push(bad("host must be specified"));
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let query = rest.split_once('?').map_or("", |(_, query)| query);
    for (found, what) in [(fragment, "fragments"), (query, "query parameters")] {
        if !found.is_empty() {
            let detail = format!("{what} are not permitted in the URL");
            errors.push(FieldError::invalid(url.path.clone(), found, detail));
        }
    }
}

fn service_path(path: &At<'_>, errors: &mut Errors) {
    if !path.str().starts_with('/') {
        errors.push(path.invalid("must start with a '/'"));
    }
    let inner = path.str().get(1..).unwrap_or_default();
    if path.str() == "/" {
        return;
    }
    for (index, segment) in inner.strip_suffix('/').unwrap_or(inner).split('/').enumerate() {
        if segment.is_empty() {
            errors.push(path.invalid(format!("segment[{index}] may not be empty")));
        }
    }
}

fn row(config: &Value, now: SystemTime) -> Vec<Value> {
    let hooks = config["webhooks"].as_array().map_or(0, Vec::len);
    vec![name(config), json!(hooks), created(config, now)]
}

fn policy_row(policy: &Value, now: SystemTime) -> Vec<Value> {
    let spec = &policy["spec"];
    let kind = match (spec["paramKind"]["apiVersion"].as_str(), spec["paramKind"]["kind"].as_str())
    {
        (Some(version), Some(kind)) => format!("{version}/{kind}"),
        _ => "<unset>".to_owned(),
    };
    let count = spec["validations"].as_array().map_or(0, Vec::len);
    vec![name(policy), json!(count), json!(kind), created(policy, now)]
}

fn binding_row(binding: &Value, now: SystemTime) -> Vec<Value> {
    let at = At::root(binding).get("spec");
    let reference = at.get("paramRef");
    let parameter = match (reference.get("namespace").str(), reference.get("name").str()) {
        (_, "") => "<unset>".to_owned(),
        ("", name) => format!("*/{name}"),
        (namespace, name) => format!("{namespace}/{name}"),
    };
    vec![name(binding), json!(at.get("policyName").str()), json!(parameter), created(binding, now)]
}
