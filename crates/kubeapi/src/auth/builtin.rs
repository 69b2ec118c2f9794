//! The roles and bindings that every cluster has, as far as podlet serves what they speak of.
//!
//! A table in, objects out. `admin`, `edit` and `view` aggregate, so that CRDs can add to them.

use serde_json::{Value, json};

use super::rbac::rule::Rule;
use super::user::{
    GROUP_AUTHENTICATED, GROUP_MASTERS, GROUP_NODES, GROUP_SERVICE_ACCOUNTS, GROUP_UNAUTHENTICATED,
};

const API_VERSION: &str = "rbac.authorization.k8s.io/v1";
const READ: &str = "get list watch";
const WRITE: &str = "create delete deletecollection patch update";
const AGGREGATE: &str = "rbac.authorization.k8s.io/aggregate-to-";

/// Groups, resources and verbs, each separated by blanks; `core` is the group without a name.
type Row = (&'static str, &'static str, &'static str);

const VIEW: &[Row] = &[
    (
        "core",
        "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods \
         replicationcontrollers replicationcontrollers/scale serviceaccounts services \
         services/status bindings limitranges namespaces namespaces/status pods/log pods/status \
         replicationcontrollers/status resourcequotas resourcequotas/status",
        READ,
    ),
    ("core events.k8s.io", "events", READ),
    ("discovery.k8s.io", "endpointslices", READ),
    (
        "apps",
        "controllerrevisions daemonsets daemonsets/status deployments deployments/scale \
         deployments/status replicasets replicasets/scale replicasets/status statefulsets \
         statefulsets/scale statefulsets/status",
        READ,
    ),
    ("autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status", READ),
    ("batch", "cronjobs cronjobs/status jobs jobs/status", READ),
    ("policy", "poddisruptionbudgets poddisruptionbudgets/status", READ),
    ("networking.k8s.io", "ingresses ingresses/status networkpolicies", READ),
];

const EDIT: &[Row] = &[
    ("core", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy", READ),
    ("core", "serviceaccounts", "impersonate"),
    (
        "core",
        "pods pods/attach pods/exec pods/portforward pods/proxy configmaps \
         persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets \
         serviceaccounts services services/proxy",
        WRITE,
    ),
    ("core", "pods/eviction serviceaccounts/token", "create"),
    ("core events.k8s.io", "events", WRITE),
    (
        "apps",
        "daemonsets deployments deployments/scale replicasets replicasets/scale statefulsets \
         statefulsets/scale",
        WRITE,
    ),
    ("autoscaling", "horizontalpodautoscalers", WRITE),
    ("batch", "cronjobs jobs", WRITE),
    ("policy", "poddisruptionbudgets", WRITE),
    ("networking.k8s.io", "ingresses networkpolicies", WRITE),
    ("coordination.k8s.io", "leases", "create delete deletecollection get list patch update watch"),
];

const ADMIN: &[Row] = &[
    ("authorization.k8s.io", "localsubjectaccessreviews", "create"),
    (
        "rbac.authorization.k8s.io",
        "rolebindings roles",
        "create delete deletecollection get list patch update watch",
    ),
];

/// What a kubelet does, and the Service rules that podlet's nodes keep in the same process.
const NODE: &[Row] = &[
    ("authentication.k8s.io", "tokenreviews", "create"),
    ("authorization.k8s.io", "localsubjectaccessreviews subjectaccessreviews", "create"),
    ("core", "services endpoints configmaps secrets pods namespaces", READ),
    ("discovery.k8s.io", "endpointslices", READ),
    ("core", "nodes", "create get list watch patch update"),
    ("core", "nodes/status pods/status", "patch update"),
    ("core events.k8s.io", "events", "create patch update"),
    ("core", "pods", "create delete"),
    ("core", "pods/eviction serviceaccounts/token", "create"),
    ("core", "persistentvolumeclaims persistentvolumes serviceaccounts", "get"),
    ("coordination.k8s.io", "leases", "create delete get patch update"),
    ("node.k8s.io", "runtimeclasses", READ),
    ("storage.k8s.io", "csidrivers", READ),
];

const BASIC_USER: &[Row] = &[
    ("authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews", "create"),
    ("authentication.k8s.io", "selfsubjectreviews", "create"),
];

const AUTH_DELEGATOR: &[Row] = &[
    ("authentication.k8s.io", "tokenreviews", "create"),
    ("authorization.k8s.io", "subjectaccessreviews", "create"),
];

const DISCOVERY: &str = "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz \
                         /version /version/";
const PUBLIC_INFO: &str = "/healthz /livez /readyz /version /version/";
const OIDC: &str = "/.well-known/openid-configuration /.well-known/openid-configuration/ \
                    /openid/v1/jwks /openid/v1/jwks/";

/// Objects to create at the start where they are missing, in order.
pub fn objects() -> Vec<Value> {
    let everything = vec![
        Rule { groups: words("*"), resources: words("*"), verbs: words("*"), ..Rule::default() },
        Rule { paths: words("*"), verbs: words("*"), ..Rule::default() },
    ];
    vec![
        role("cluster-admin", &[], &everything),
        role("system:discovery", &[], &paths(DISCOVERY)),
        role("system:basic-user", &[], &rules(BASIC_USER)),
        role("system:public-info-viewer", &[], &paths(PUBLIC_INFO)),
        role("system:service-account-issuer-discovery", &[], &paths(OIDC)),
        role("system:auth-delegator", &[], &rules(AUTH_DELEGATOR)),
        role("system:node", &[], &rules(NODE)),
        role("system:aggregate-to-view", &["view"], &rules(VIEW)),
        role("system:aggregate-to-edit", &["edit"], &rules(EDIT)),
        role("system:aggregate-to-admin", &["admin"], &rules(ADMIN)),
        aggregate("view", &["edit"], &rules_of(&[VIEW])),
        aggregate("edit", &["admin"], &rules_of(&[VIEW, EDIT])),
        aggregate("admin", &[], &rules_of(&[VIEW, EDIT, ADMIN])),
        binding("cluster-admin", &[GROUP_MASTERS]),
        binding("system:discovery", &[GROUP_AUTHENTICATED]),
        binding("system:basic-user", &[GROUP_AUTHENTICATED]),
        binding("system:public-info-viewer", &[GROUP_AUTHENTICATED, GROUP_UNAUTHENTICATED]),
        // Unlike a cluster's, open to all: whoever checks tokens offline needs no credentials.
        binding(
            "system:service-account-issuer-discovery",
            &[GROUP_SERVICE_ACCOUNTS, GROUP_AUTHENTICATED, GROUP_UNAUTHENTICATED],
        ),
        binding("system:node", &[GROUP_NODES]),
    ]
}

fn role(name: &str, aggregate_to: &[&str], rules: &[Rule]) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": "ClusterRole",
        "metadata": metadata(name, aggregate_to),
        "rules": rules.iter().map(Rule::to_json).collect::<Vec<_>>(),
    })
}

fn aggregate(name: &str, aggregate_to: &[&str], rules: &[Rule]) -> Value {
    let mut out = role(name, aggregate_to, rules);
    let label = format!("{AGGREGATE}{name}");
    out["aggregationRule"] =
        json!({ "clusterRoleSelectors": [{ "matchLabels": { label: "true" } }] });
    out
}

fn binding(name: &str, groups: &[&str]) -> Value {
    let subject = |group: &&str| json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group });
    json!({
        "apiVersion": API_VERSION,
        "kind": "ClusterRoleBinding",
        "metadata": metadata(name, &[]),
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": name,
        },
        "subjects": groups.iter().map(subject).collect::<Vec<_>>(),
    })
}

fn metadata(name: &str, aggregate_to: &[&str]) -> Value {
    let mut labels = json!({ "kubernetes.io/bootstrapping": "rbac-defaults" });
    for target in aggregate_to {
        labels[format!("{AGGREGATE}{target}")] = json!("true");
    }
    json!({
        "name": name,
        "labels": labels,
        "annotations": { "rbac.authorization.kubernetes.io/autoupdate": "true" },
    })
}

fn rules_of(tables: &[&[Row]]) -> Vec<Rule> {
    tables.iter().flat_map(|rows| rules(rows)).collect()
}

fn rules(rows: &[Row]) -> Vec<Rule> {
    let rule = |(groups, resources, verbs): &Row| Rule {
        groups: groups.split(' ').map(|g| if g == "core" { "" } else { g }.to_owned()).collect(),
        resources: words(resources),
        verbs: words(verbs),
        ..Rule::default()
    };
    rows.iter().map(rule).collect()
}

fn paths(list: &str) -> Vec<Rule> {
    vec![Rule { paths: words(list), verbs: words("get"), ..Rule::default() }]
}

fn words(list: &str) -> Vec<String> {
    list.split_whitespace().map(str::to_owned).collect()
}
