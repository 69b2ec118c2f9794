//! Issuers whose tokens are checked here, by their public keys: what the settings say of them, checked.
//!
//! `JWT_RULE` names one with all its particulars, as Istio reads it; `TOKEN_ISSUER` with `AUDIENCE` names
//! one that answers OIDC discovery, for a control plane outside of a cluster.

use std::path::Path;

use anyhow::Context;
use ironsail_api::istio::security::JwtRule;
use ironsail_api::wire::{Reader, What, Wire};
use ironsail_ca::KeySource;
use ironsail_identity::{Certificate, RootBundle};
use serde_json::Value;

use crate::env::Variables;

/// Where systems keep the roots of the web.
const SYSTEM_ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// Roots that are trusted besides: of the cluster itself, and what an administrator mounts.
const MORE_ROOTS: [&str; 2] =
    ["/var/run/secrets/kubernetes.io/serviceaccount/ca.crt", "/cacerts/extra.pem"];

/// One issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Issuer {
    pub(crate) name: String,
    pub(crate) audiences: Vec<String>,
    pub(crate) keys: Keys,
}

/// Where its keys are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    Text(String),
    Url(String),
    /// The issuer says it itself.
    Discovery,
}

/// All issuers that the settings name.
pub(crate) fn of(variables: &Variables, faults: &mut Vec<String>) -> Vec<Issuer> {
    let mut issuers = Vec::new();
    if !variables.jwt_rule.is_empty() {
        match rule(&variables.jwt_rule, &variables.token_audiences) {
            Ok(issuer) => issuers.push(issuer),
            Err(why) => faults.push(format!("JWT_RULE {why}")),
        }
    }
    // Inside of a cluster the API server is asked, which also knows whether the pod is still there.
    if !variables.token_issuer.is_empty() && !variables.in_cluster {
        let name = variables.token_issuer.clone();
        if !name.starts_with("https://") {
            faults.push(format!("TOKEN_ISSUER {name:?}: must begin with https://"));
        }
        let audiences = match &*variables.audience {
            "" => variables.token_audiences.clone(),
            audience => vec![audience.to_owned()],
        };
        issuers.push(Issuer { name, audiences, keys: Keys::Discovery });
    }
    issuers
}

fn rule(text: &str, audiences: &[String]) -> Result<Issuer, String> {
    let value: Value =
        serde_json::from_str(text).map_err(|error| format!("is no JSON: {error}"))?;
    let mut reader = Reader::new();
    let rule = JwtRule::read(&value, &mut reader);
    if let Some(problem) = reader.into_problems().first() {
        let what = match &problem.what {
            What::Unknown => "nobody knows this field",
            What::Invalid(reason) => reason,
        };
        return Err(format!("{}: {what}", problem.field));
    }
    let known = JwtRule {
        issuer: rule.issuer.clone(),
        audiences: rule.audiences.clone(),
        jwks: rule.jwks.clone(),
        jwks_uri: rule.jwks_uri.clone(),
        ..JwtRule::default()
    };
    if rule != known {
        return Err(
            "may hold issuer, audiences, jwksUri and jwks: the rest has no meaning here".into()
        );
    }
    if rule.issuer.is_empty() {
        return Err("names no issuer".to_owned());
    }
    let keys = match (&*rule.jwks, &*rule.jwks_uri) {
        ("", "") if !rule.issuer.starts_with("https://") => {
            return Err("has neither jwksUri nor jwks, and its issuer is no https address".into());
        }
        ("", "") => Keys::Discovery,
        ("", url) if !url.starts_with("https://") => {
            return Err(format!("jwksUri {url:?}: keys are fetched by https only"));
        }
        ("", url) => Keys::Url(url.to_owned()),
        (text, "") => Keys::Text(text.to_owned()),
        _ => return Err("has both jwksUri and jwks".to_owned()),
    };
    let audiences = match rule.audiences.is_empty() {
        true => audiences.to_vec(),
        false => rule.audiences,
    };
    Ok(Issuer { name: rule.issuer, audiences, keys })
}

impl Issuer {
    pub(crate) fn source(&self, roots: &RootBundle) -> KeySource {
        let roots = roots.clone();
        match &self.keys {
            Keys::Text(text) => KeySource::Text(text.clone()),
            Keys::Url(url) => KeySource::Url { url: url.clone(), roots },
            Keys::Discovery => KeySource::Issuer { url: self.name.clone(), roots },
        }
    }
}

/// The roots that issuers are trusted by. A file that was named must be there, the usual ones may not.
pub(crate) fn roots(named: &str) -> anyhow::Result<RootBundle> {
    let mut all: Vec<Certificate> = Vec::new();
    if !named.is_empty() {
        all.extend(read(Path::new(named))?);
    } else if let Some(system) = SYSTEM_ROOTS.into_iter().find(|path| Path::new(path).exists()) {
        all.extend(read(Path::new(system))?);
    }
    for more in MORE_ROOTS.into_iter().map(Path::new).filter(|path| path.exists()) {
        all.extend(read(more)?);
    }
    Ok(RootBundle::new(all))
}

fn read(path: &Path) -> anyhow::Result<Vec<Certificate>> {
    let doing = || format!("reading the roots in {}", path.display());
    let text = std::fs::read(path).with_context(doing)?;
    Certificate::read_pem(&text).with_context(doing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_env(pairs: &[(&str, &str)]) -> Result<Vec<Issuer>, Vec<String>> {
        let env = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let mut faults = Vec::new();
        let issuers = of(&Variables::read(&env).unwrap(), &mut faults);
        if faults.is_empty() { Ok(issuers) } else { Err(faults) }
    }

    #[test]
    fn a_rule_is_read_as_istio_reads_it() {
        let text =
            r#"{"issuer": "foo", "jwks_uri": "https://keys", "audiences": ["aud1", "aud2"]}"#;
        let issuers = of_env(&[("JWT_RULE", text)]).unwrap();
        let audiences = vec!["aud1".to_owned(), "aud2".to_owned()];
        let keys = Keys::Url("https://keys".to_owned());
        assert_eq!(issuers, [Issuer { name: "foo".to_owned(), audiences, keys }]);
        let text = r#"{"issuer": "https://foo"}"#;
        let issuers = of_env(&[("JWT_RULE", text), ("TOKEN_AUDIENCES", "a, b")]).unwrap();
        assert_eq!((issuers[0].audiences.len(), &issuers[0].keys), (2, &Keys::Discovery));
    }

    #[test]
    fn a_rule_that_cannot_be_followed_is_refused_with_the_reason() {
        for (text, reason) in [
            ("{", "no JSON"),
            ("{}", "no issuer"),
            (r#"{"issuer": "foo"}"#, "jwksUri"),
            (r#"{"issuer": "foo", "jwksUri": "http://keys"}"#, "https only"),
            (r#"{"issuer": "foo", "jwks": "{}", "jwksUri": "https://keys"}"#, "both"),
            (r#"{"issuer": "https://foo", "fromParams": ["x"]}"#, "no meaning"),
            (r#"{"issuer": "https://foo", "isuer": "x"}"#, "isuer"),
        ] {
            let faults = of_env(&[("JWT_RULE", text)]).unwrap_err();
            assert!(faults[0].contains(reason), "{text}: {faults:?}");
        }
    }

    #[test]
    fn an_issuer_by_name_counts_outside_of_clusters() {
        let named = [("TOKEN_ISSUER", "https://foo"), ("AUDIENCE", "bar")];
        let issuers = of_env(&named).unwrap();
        assert_eq!((&*issuers[0].name, &*issuers[0].audiences[0]), ("https://foo", "bar"));
        let inside = [named[0], named[1], ("KUBERNETES_SERVICE_HOST", "10.0.0.1")];
        assert_eq!(of_env(&inside).unwrap(), []);
        assert!(of_env(&[("TOKEN_ISSUER", "foo")]).is_err());
    }
}
