//! `/debug/trustz`: who signs, whom the mesh trusts, and which root and leaf every proxy has.
//!
//! Of a proxy only what its agent said is shown; who has said nothing is shown as such.

use std::collections::BTreeMap;
use std::time::SystemTime;

use ironsail_ca::Authority;
use ironsail_discovery::{Access, Connection, Engine};
use ironsail_identity::{Certificate, RootBundle};
use ironsail_names::TrustDomain;
use serde_json::{Value, json};

use super::federation::Found;

fn seconds(at: SystemTime) -> u64 {
    at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn certificate(certificate: &Certificate) -> Value {
    json!({
        "fingerprint": certificate.fingerprint(),
        "subject": certificate.subject(),
        "notAfter": seconds(certificate.not_after()),
    })
}

fn bundle(roots: &RootBundle) -> Value {
    roots.certificates().iter().map(certificate).collect()
}

/// What does not depend on proxies.
pub(super) fn facts(
    authority: Option<&Authority>,
    own: &RootBundle,
    others: &BTreeMap<TrustDomain, RootBundle>,
    found: &Found,
    problems: &[String],
) -> Value {
    let signing = authority.map(|authority| {
        let signing = authority.signing();
        json!({
            "origin": signing.origin().to_string(),
            "certificate": certificate(signing.certificate()),
            "root": signing.anchor().fingerprint(),
            "nextRoot": authority.next_root(),
        })
    });
    let others: serde_json::Map<String, Value> =
        others.iter().map(|(domain, roots)| (domain.to_string(), bundle(roots))).collect();
    let endpoints: serde_json::Map<String, Value> = found
        .iter()
        .map(|(url, fetched)| {
            let row = json!({
                "fetchedAt": fetched.at.map(seconds),
                "roots": fetched.roots.as_ref().map(|roots| roots.certificates().len()),
                "error": fetched.error,
            });
            (url.clone(), row)
        })
        .collect();
    json!({
        "signing": signing,
        "roots": bundle(own),
        "otherDomains": others,
        "bundleEndpoints": endpoints,
        "problems": problems,
    })
}

fn proxy(connection: &Connection) -> Value {
    let trust = connection.trust();
    let shown = connection.shown.as_ref().map(certificate);
    json!({
        "proxy": connection.proxy.id,
        "namespace": connection.proxy.namespace.as_str(),
        "identity": connection.identity.as_ref().map(|identity| identity.0.to_string()),
        "connectedAt": connection.since.to_string(),
        "shownAtConnect": shown,
        "reported": trust.as_ref().map(|(report, _)| report),
        "reportedAt": trust.as_ref().map(|(_, at)| at.to_string()),
    })
}

/// The page; facts about the whole mesh are for the control plane's own namespace.
pub(crate) fn page(engine: &Engine, access: &Access) -> Value {
    let seen = engine.connections().into_iter().filter(|connection| access.sees(connection));
    let proxies: Vec<Value> = seen.map(|connection| proxy(&connection)).collect();
    let mut page = match access {
        Access::Everything => engine.trust_facts(),
        _ => json!({}),
    };
    if let Some(page) = page.as_object_mut() {
        page.insert("proxies".to_owned(), proxies.into());
        return page.clone().into();
    }
    json!({"proxies": proxies})
}
