//! `Impersonate-User` and its kin: becoming somebody else, for those who may.

use std::collections::BTreeMap;

use http::HeaderMap;

use crate::auth::user::{ANONYMOUS, GROUP_UNAUTHENTICATED};
use crate::auth::{Access, Authorizer, Refusal, Target, User};

const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA: &str = "impersonate-extra-";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// What the headers ask for.
struct Wanted {
    user: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

/// The user whom `user` wants to be: itself without headers, else after a check of each part.
pub(super) fn apply(
    authorizer: &Authorizer,
    user: User,
    headers: &HeaderMap,
) -> Result<User, Refusal> {
    let Some(wanted) = read(headers)? else { return Ok(user) };
    let check = |group: &str, what: (&str, &str), namespace: &str, name: &str| {
        let (resource, subresource) = what;
        let target =
            Target::Resource { group, version: "v1", resource, subresource, namespace, name };
        authorizer.check(&user, &Access { verb: "impersonate", target })
    };
    let account = service_account(&wanted.user);
    match account {
        Some((namespace, name)) => check("", ("serviceaccounts", ""), namespace, name)?,
        None => check("", ("users", ""), "", &wanted.user)?,
    }
    if !wanted.uid.is_empty() {
        check(AUTHENTICATION, ("uids", ""), "", &wanted.uid)?;
    }
    for group in &wanted.groups {
        check("", ("groups", ""), "", group)?;
    }
    for (key, values) in &wanted.extra {
        for value in values {
            check(AUTHENTICATION, ("userextras", key), "", value)?;
        }
    }
    Ok(become_them(&wanted, account))
}

fn become_them(wanted: &Wanted, account: Option<(&str, &str)>) -> User {
    let mut out = match account {
        Some((namespace, name)) if wanted.groups.is_empty() => {
            User::service_account(namespace, name, "")
        }
        _ => User { name: wanted.user.clone(), groups: wanted.groups.clone(), ..User::default() },
    };
    out.uid.clone_from(&wanted.uid);
    out.extra.clone_from(&wanted.extra);
    if wanted.user != ANONYMOUS {
        return out.authenticated();
    }
    if !out.is_in(GROUP_UNAUTHENTICATED) {
        out.groups.push(GROUP_UNAUTHENTICATED.to_owned());
    }
    out
}

fn read(headers: &HeaderMap) -> Result<Option<Wanted>, Refusal> {
    let text = |value: &http::HeaderValue| {
        let bad = || Refusal::bad_request("an Impersonate header is not plain text");
        value.to_str().map(str::to_owned).map_err(|_| bad())
    };
    let one = |name: &str| headers.get(name).map_or(Ok(String::new()), text);
    let mut wanted = Wanted {
        user: one(USER)?,
        uid: one(UID)?,
        groups: headers.get_all(GROUP).iter().map(text).collect::<Result<_, _>>()?,
        extra: BTreeMap::new(),
    };
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            let key = percent_decoded(key);
            wanted.extra.entry(key).or_default().push(text(value)?);
        }
    }
    if !wanted.user.is_empty() {
        return Ok(Some(wanted));
    }
    if wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty() {
        return Ok(None);
    }
    Err(Refusal::bad_request(format!(
        "requested {:?} without impersonating a user",
        wanted.groups.first().or(wanted.extra.keys().next()).unwrap_or(&wanted.uid)
    )))
}

/// Extra keys are percent-encoded, for they may hold `/`; what is malformed stays as it is.
fn percent_decoded(key: &str) -> String {
    let bytes = key.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = key.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match hex.and_then(|h| u8::from_str_radix(h, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| key.to_owned())
}

fn service_account(user: &str) -> Option<(&str, &str)> {
    user.strip_prefix("system:serviceaccount:")?.split_once(':')
}
