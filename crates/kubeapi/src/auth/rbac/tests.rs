//! Tables of who may do what, texts compared with a real kube-apiserver's, and properties.
#![expect(clippy::needless_pass_by_value, reason = "cases read better as literals")]

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::rule::not_covered;
use super::*;
use crate::auth::builtin;
use crate::auth::objects::memory::Memory;

fn role(namespace: &str, name: &str, rules: Value) -> Value {
    let kind = if namespace.is_empty() { "ClusterRole" } else { "Role" };
    let mut out = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
        "metadata": { "name": name }, "rules": rules });
    if !namespace.is_empty() {
        out["metadata"]["namespace"] = json!(namespace);
    }
    out
}

fn binding(namespace: &str, role_kind: &str, role: &str, subject: Value) -> Value {
    let kind = if namespace.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" };
    let mut out = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
        "metadata": { "name": format!("{role}-binding") },
        "roleRef": { "kind": role_kind, "name": role }, "subjects": [subject] });
    if !namespace.is_empty() {
        out["metadata"]["namespace"] = json!(namespace);
    }
    out
}

fn bob() -> Value {
    json!({ "kind": "User", "name": "bob" })
}

fn resource<'a>(verb: &'a str, group: &'a str, what: &'a str, namespace: &'a str) -> Access<'a> {
    named(verb, group, what, namespace, "")
}

fn named<'a>(
    verb: &'a str,
    group: &'a str,
    what: &'a str,
    ns: &'a str,
    name: &'a str,
) -> Access<'a> {
    let (resource, subresource) = what.split_once('/').unwrap_or((what, ""));
    let target =
        Target::Resource { group, version: "v1", resource, subresource, namespace: ns, name };
    Access { verb, target }
}

fn authorizer(objects: impl IntoIterator<Item = Value>) -> (Arc<Memory>, Authorizer) {
    let memory = Memory::with(objects);
    (Arc::clone(&memory), Authorizer::new(memory))
}

#[test]
fn rules_match_verbs_groups_resources_subresources_and_names() {
    let cases = [
        (json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"] }), "pods", "", true),
        (json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }), "pods/log", "", true),
        (
            json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"] }),
            "pods/log",
            "",
            false,
        ),
        (
            json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["pods/log"] }),
            "pods/log",
            "x",
            true,
        ),
        (
            json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["*/log"] }),
            "pods/log",
            "",
            true,
        ),
        (json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["*/log"] }), "pods", "", false),
        (json!({ "verbs": ["list"], "apiGroups": [""], "resources": ["pods"] }), "pods", "", false),
        (
            json!({ "verbs": ["get"], "apiGroups": ["apps"], "resources": ["pods"] }),
            "pods",
            "",
            false,
        ),
        (
            json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"] }),
            "pods",
            "a",
            true,
        ),
        (
            json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"] }),
            "pods",
            "b",
            false,
        ),
        (
            json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"] }),
            "pods",
            "",
            false,
        ),
        (json!({ "verbs": "get", "apiGroups": [7], "resources": null }), "pods", "", false),
    ];
    for (rule, what, name, expected) in cases {
        let allowed = Rule::parse(&rule).allows(&named("get", "", what, "ns", name));
        assert_eq!(allowed, expected, "{rule} on {what} {name:?}");
    }
}

#[test]
fn paths_match_exactly_or_by_prefix() {
    for (rule, path, expected) in [
        ("/healthz", "/healthz", true),
        ("/healthz", "/healthz/x", false),
        ("/apis/*", "/apis/apps/v1", true),
        ("/apis/*", "/apis", false),
        ("*", "/anything", true),
    ] {
        let rule = Rule::parse(&json!({ "verbs": ["get"], "nonResourceURLs": [rule] }));
        let access = Access { verb: "get", target: Target::Path(path) };
        assert_eq!(rule.allows(&access), expected, "{rule} on {path}");
    }
}

#[test]
fn bindings_reach_users_groups_and_service_accounts_where_they_are() {
    let read = json!([{ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"] }]);
    let (memory, authorizer) = authorizer([
        role("a", "reader", read.clone()),
        role("", "everywhere", read),
        binding("a", "Role", "reader", bob()),
        binding(
            "a",
            "ClusterRole",
            "everywhere",
            json!({ "kind": "ServiceAccount", "name": "sa" }),
        ),
        binding("", "ClusterRole", "everywhere", json!({ "kind": "Group", "name": "ops" })),
    ]);
    let user = |name: &str, groups: &[&str]| User::known(name, groups);
    let account = User::service_account("a", "sa", "1");
    let decide = |user: &User, ns: &str| authorizer.decide(user, &resource("get", "", "pods", ns));

    let yes = decide(&user("bob", &[]), "a");
    assert_eq!(
        yes.reason,
        "RBAC: allowed by RoleBinding \"reader-binding/a\" of Role \"reader\" to User \"bob\""
    );
    assert!(!decide(&user("bob", &[]), "b").allowed);
    assert!(!decide(&user("bob", &[]), "").allowed, "a Role does not reach all namespaces");
    assert!(decide(&user("eve", &["ops"]), "").allowed);
    assert_eq!(
        decide(&account, "a").reason,
        "RBAC: allowed by RoleBinding \"everywhere-binding/a\" of ClusterRole \"everywhere\" to \
         ServiceAccount \"sa/a\""
    );
    assert!(!decide(&account, "b").allowed);
    assert!(!decide(&User::service_account("b", "sa", "1"), "a").allowed);

    memory.remove("rolebindings", "reader-binding");
    assert!(!decide(&user("bob", &[]), "a").allowed, "a change is seen at once");
}

#[test]
fn refusals_read_as_those_of_kubernetes() {
    let (_, authorizer) =
        authorizer([binding("a", "Role", "nope", json!({ "kind": "User", "name": "lost" }))]);
    let account = User::service_account("a", "b", "1");
    let text = |user: &User, access: Access<'_>| {
        authorizer.check(user, &access).expect_err("nothing is allowed").message
    };
    for (access, expected) in [
        (
            resource("list", "", "pods", "a"),
            "pods is forbidden: User \"system:serviceaccount:a:b\" cannot list resource \"pods\" \
             in API group \"\" in the namespace \"a\"",
        ),
        (
            named("get", "apps", "deployments", "a", "x"),
            "deployments.apps \"x\" is forbidden: User \"system:serviceaccount:a:b\" cannot get \
             resource \"deployments\" in API group \"apps\" in the namespace \"a\"",
        ),
        (
            resource("list", "", "nodes", ""),
            "nodes is forbidden: User \"system:serviceaccount:a:b\" cannot list resource \
             \"nodes\" in API group \"\" at the cluster scope",
        ),
        (
            named("create", "", "serviceaccounts/token", "a", "b"),
            "serviceaccounts \"b\" is forbidden: User \"system:serviceaccount:a:b\" cannot create \
             resource \"serviceaccounts/token\" in API group \"\" in the namespace \"a\"",
        ),
        (
            Access { verb: "get", target: Target::Path("/metrics") },
            "forbidden: User \"system:serviceaccount:a:b\" cannot get path \"/metrics\"",
        ),
    ] {
        assert_eq!(text(&account, access), expected);
    }
    assert_eq!(
        text(&User::known("lost", &[]), resource("list", "", "pods", "a")),
        "pods is forbidden: User \"lost\" cannot list resource \"pods\" in API group \"\" in the \
         namespace \"a\": RBAC: role.rbac.authorization.k8s.io \"nope\" not found"
    );
    assert_eq!(authorizer.check(&User::admin(), &resource("list", "", "pods", "")), Ok(()));
}

#[test]
fn nobody_gives_away_more_than_they_have() {
    let writer = json!([{ "verbs": ["create", "update"], "apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["roles", "clusterroles", "rolebindings"] },
        { "verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"] }]);
    let secrets = json!([{ "verbs": ["get", "list"], "apiGroups": ["", "apps"],
        "resources": ["secrets", "pods"], "resourceNames": ["q"] },
        { "verbs": ["get", "post"], "nonResourceURLs": ["/x"] }]);
    let (memory, authorizer) = authorizer([
        role("", "writer", writer),
        role("", "secrets", secrets.clone()),
        binding("", "ClusterRole", "writer", bob()),
    ]);
    let user = User::known("bob", &[]);
    let check = |resource: &str, object: &Value, old: Option<&Value>| {
        authorizer.check_escalation(&user, resource, "a", object, old)
    };
    let wanted = role("", "new", secrets);
    let refusal = check("clusterroles", &wanted, None).expect_err("more than bob has");
    assert_eq!(
        refusal.message,
        "clusterroles.rbac.authorization.k8s.io \"new\" is forbidden: user \"bob\" \
         (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently \
         held:\n{APIGroups:[\"\"], Resources:[\"secrets\"], ResourceNames:[\"q\"], \
         Verbs:[\"get\" \"list\"]}\n{APIGroups:[\"apps\"], Resources:[\"pods\"], \
         ResourceNames:[\"q\"], Verbs:[\"get\" \"list\"]}\n{APIGroups:[\"apps\"], \
         Resources:[\"secrets\"], ResourceNames:[\"q\"], Verbs:[\"get\" \"list\"]}\n\
         {NonResourceURLs:[\"/x\"], Verbs:[\"get\"]}\n{NonResourceURLs:[\"/x\"], Verbs:[\"post\"]}"
    );
    let mut relabelled = wanted.clone();
    relabelled["metadata"]["labels"] = json!({ "a": "b" });
    assert_eq!(check("clusterroles", &relabelled, Some(&wanted)), Ok(()), "same rules as before");

    let mut aggregating = role("", "agg", json!(null));
    aggregating["aggregationRule"] = json!({ "clusterRoleSelectors": [] });
    assert_eq!(
        check("clusterroles", &aggregating, None).expect_err("not an administrator").message,
        "clusterroles.rbac.authorization.k8s.io \"agg\" is forbidden: must have cluster-admin \
         privileges to use the aggregationRule"
    );
    let bound = binding("a", "ClusterRole", "secrets", json!({ "kind": "User", "name": "x" }));
    assert_eq!(check("rolebindings", &bound, None).expect_err("not held").code, 403);
    let lost = binding("a", "Role", "nope", bob());
    assert_eq!(
        check("rolebindings", &lost, None).expect_err("no such role").message,
        "rolebindings.rbac.authorization.k8s.io \"nope\" not found"
    );
    memory.put(role(
        "",
        "binder",
        json!([{ "verbs": ["bind"], "apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["clusterroles"], "resourceNames": ["secrets"] }]),
    ));
    memory.put(binding("", "ClusterRole", "binder", bob()));
    assert_eq!(check("rolebindings", &bound, None), Ok(()), "the bind verb allows it");
}

#[test]
fn built_in_roles_let_users_edit_their_namespace_and_nodes_do_their_work() {
    let mut objects = builtin::objects();
    objects.push(binding("a", "ClusterRole", "edit", bob()));
    objects.push(role("", "more", json!([{ "verbs": ["get"], "apiGroups": ["networking.istio.io"], "resources": ["gateways"] }])));
    objects.last_mut().expect("just pushed")["metadata"]["labels"] =
        json!({ "rbac.authorization.k8s.io/aggregate-to-view": "true" });
    let (_, authorizer) = authorizer(objects);
    let user = User::known("bob", &[]);
    let node = User::node("n1");
    for (who, access, expected) in [
        (&user, resource("create", "apps", "deployments", "a"), true),
        (&user, resource("get", "networking.istio.io", "gateways", "a"), true),
        (&user, resource("create", "", "pods/exec", "a"), true),
        (&user, resource("create", "rbac.authorization.k8s.io", "roles", "a"), false),
        (&user, resource("get", "", "pods", "b"), false),
        (&user, resource("create", "authorization.k8s.io", "selfsubjectaccessreviews", ""), true),
        (&user, Access { verb: "get", target: Target::Path("/apis/apps/v1") }, true),
        (&node, resource("patch", "", "pods/status", "a"), true),
        (&node, resource("create", "", "serviceaccounts/token", "a"), true),
        (&node, resource("delete", "apps", "deployments", "a"), false),
    ] {
        assert_eq!(authorizer.decide(who, &access).allowed, expected, "{} {access:?}", who.name);
    }
    let anonymous = User::anonymous();
    for (path, expected) in
        [("/healthz", true), ("/version", true), ("/openid/v1/jwks", true), ("/api", false)]
    {
        let access = Access { verb: "get", target: Target::Path(path) };
        assert_eq!(authorizer.decide(&anonymous, &access).allowed, expected, "{path}");
    }
}

#[test]
fn aggregated_roles_are_filled_from_those_they_select() {
    let (memory, authorizer) = authorizer(builtin::objects());
    let admin = memory.get(GROUP, "clusterroles", None, "admin").expect("built in");
    assert_eq!(authorizer.aggregate(&admin), None, "the built-in roles are filled already");
    let mut empty = (*admin).clone();
    empty["rules"] = json!(null);
    let filled = authorizer.aggregate(&empty).expect("something to fill");
    assert_eq!(filled["rules"].as_array().map(Vec::len), admin["rules"].as_array().map(Vec::len));
}

fn word() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "a/s", "*/s", "*"]).prop_map(str::to_owned)
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let list = || prop::collection::vec(word(), 0..3);
    (list(), list(), list(), list(), list()).prop_map(|(verbs, groups, resources, names, paths)| {
        Rule { verbs, groups, resources, names, paths }
    })
}

proptest! {
    /// Replacing any part of a rule by `*` never takes an access away.
    #[test]
    fn a_star_allows_all_that_was_allowed(rule in any_rule(), part in 0..4, verb in word(), group in word(), what in word(), name in word()) {
        let mut wide = rule.clone();
        let star = vec!["*".to_owned()];
        match part {
            0 => wide.verbs = star,
            1 => wide.groups = star,
            2 => wide.resources = star,
            _ => wide.names.clear(),
        }
        let access = named(&verb, &group, &what, "ns", &name);
        prop_assert!(!rule.allows(&access) || wide.allows(&access));
        let narrow = Rule { paths: vec![], ..rule };
        prop_assert!(not_covered(&[wide], &[narrow]).is_empty());
    }

    /// What a covered rule allows, the covering one allows.
    #[test]
    fn covering_means_allowing(held in any_rule(), wanted in any_rule(), verb in word(), group in word(), what in word(), name in word()) {
        let access = named(&verb, &group, &what, "ns", &name);
        let wanted_allows = wanted.allows(&access);
        if not_covered(std::slice::from_ref(&held), &[wanted]).is_empty() {
            prop_assert!(!wanted_allows || held.allows(&access));
        }
    }
}
