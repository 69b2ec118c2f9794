//! Requests with all sorts of credentials.

use serde_json::json;

use super::*;
use crate::auth::objects::memory::Memory;
use crate::auth::token::tests::{account, tokens};

fn authenticator(memory: &Arc<Memory>) -> (tempfile::TempDir, Arc<Tokens>, Authenticator) {
    let (directory, tokens) = tokens(memory);
    let authorizer = Arc::new(Authorizer::new(Arc::clone(memory) as Arc<_>));
    (directory, Arc::clone(&tokens), Authenticator::new(tokens, authorizer))
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut out = HeaderMap::new();
    for (key, value) in pairs {
        out.append(*key, value.parse().unwrap());
    }
    out
}

#[test]
fn bearer_tokens_name_service_accounts_and_nobody_is_anonymous() {
    let memory = Memory::with([account("a", "b", "u1")]);
    let (_directory, tokens, authenticator) = authenticator(&memory);
    let answer = tokens.request("a", "b", json!({})).unwrap();
    let token = answer["status"]["token"].as_str().unwrap();
    let ask = |value: &str| {
        authenticator.authenticate(&Peer::Tls(None), &headers(&[("authorization", value)]))
    };
    let user = ask(&format!("Bearer {token}")).unwrap();
    assert_eq!(user.name, "system:serviceaccount:a:b");
    assert_eq!(
        user.groups,
        ["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"]
    );
    for bad in [format!("Bearer {token}x"), format!("Basic {token}"), "Bearer".to_owned()] {
        assert_eq!(ask(&bad), Err(Refusal::unauthorized()), "{bad}");
    }
    let nobody = authenticator.authenticate(&Peer::Tls(None), &HeaderMap::new()).unwrap();
    assert_eq!(nobody, User::anonymous());
}

#[test]
fn impersonation_is_for_those_who_may() {
    let memory = Memory::with([]);
    let (_directory, _tokens, authenticator) = authenticator(&memory);
    let ask = |user: User, pairs: &[(&'static str, &str)]| {
        authenticator.authenticate(&Peer::InProcess(user), &headers(pairs))
    };
    let plain = ask(User::admin(), &[("impersonate-user", "bob")]).unwrap();
    assert_eq!(
        (plain.name.as_str(), plain.groups),
        ("bob", vec!["system:authenticated".to_owned()])
    );
    let account = ask(User::admin(), &[("impersonate-user", "system:serviceaccount:a:b")]).unwrap();
    assert_eq!(account.groups[1], "system:serviceaccounts:a");
    let full = ask(
        User::admin(),
        &[
            ("impersonate-user", "bob"),
            ("impersonate-group", "x"),
            ("impersonate-group", "y"),
            ("impersonate-extra-example.org%2fkey", "v"),
        ],
    )
    .unwrap();
    assert_eq!(full.groups, ["x", "y", "system:authenticated"]);
    assert_eq!(full.extra["example.org/key"], ["v"]);

    let refused = ask(User::known("eve", &[]), &[("impersonate-user", "bob")]).unwrap_err();
    assert_eq!(
        refused.message,
        "users \"bob\" is forbidden: User \"eve\" cannot impersonate resource \"users\" in API \
         group \"\" at the cluster scope"
    );
    let without_user = ask(User::admin(), &[("impersonate-group", "x")]).unwrap_err();
    assert_eq!(without_user.code, 400);
}
