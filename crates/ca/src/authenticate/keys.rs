//! The public keys of those who sign tokens: fetched, kept for a while, fetched again when a token names
//! one that is not there.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use ironsail_identity::RootBundle;
use ironsail_identity::TrustBundles;
use ironsail_identity::tls::{self, Shown, Trusted};
use jsonwebtoken::jwk::{Jwk, JwkSet};
use serde::Deserialize;
use tokio::sync::Mutex;

use crate::authority::chain;

/// Longer key sets are not read.
const MAX_SET: usize = 1 << 20;
const TIMEOUT: Duration = Duration::from_secs(10);
/// Keys are fetched again after this time.
const FRESH: Duration = Duration::from_secs(5 * 60);
/// An unknown key is not looked for more often than this.
const PAUSE: Duration = Duration::from_secs(10);

/// Where keys come from.
#[derive(Clone)]
pub enum KeySource {
    /// The key set itself.
    Text(String),
    /// A file that holds a key set.
    File(PathBuf),
    /// The API server's own key set, `/openid/v1/jwks`.
    ApiServer(kube::Client),
    /// An issuer on the web, by OIDC discovery, trusted by these roots.
    Issuer { url: String, roots: RootBundle },
    /// A key set at this address, trusted by these roots.
    Url { url: String, roots: RootBundle },
}

/// Keys that were fetched.
pub(super) struct Keys {
    source: KeySource,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    set: Option<JwkSet>,
    /// Of the last attempt, good or not.
    at: Option<SystemTime>,
}

impl Keys {
    pub(super) fn new(source: KeySource) -> Self {
        Self { source, kept: Mutex::default() }
    }

    /// The keys that may have signed: those of that name, or all when the token names none.
    pub(super) async fn candidates(
        &self,
        id: Option<&str>,
        now: SystemTime,
    ) -> Result<Vec<Jwk>, String> {
        // Held while fetching, so that many tokens fetch once.
        let mut kept = self.kept.lock().await;
        let age = kept.at.map(|at| now.duration_since(at).unwrap_or_default());
        let matching = |set: &JwkSet| -> Vec<Jwk> {
            let fits = |key: &&Jwk| id.is_none() || key.common.key_id.as_deref() == id;
            set.keys.iter().filter(fits).cloned().collect()
        };
        if let Some(set) = &kept.set {
            let found = matching(set);
            let fresh = age.is_some_and(|age| age < FRESH);
            let tried = age.is_some_and(|age| age < PAUSE);
            if (fresh && !found.is_empty()) || tried {
                return Ok(found);
            }
        }
        kept.at = Some(now);
        match self.fetch().await {
            Ok(set) => {
                let found = matching(&set);
                kept.set = Some(set);
                Ok(found)
            }
            // Old keys are better than none: the issuer may be away for a moment.
            Err(why) => match &kept.set {
                Some(set) if !matching(set).is_empty() => Ok(matching(set)),
                _ => Err(why),
            },
        }
    }

    async fn fetch(&self) -> Result<JwkSet, String> {
        let text = match &self.source {
            KeySource::Text(text) => text.clone().into_bytes(),
            KeySource::File(path) => std::fs::read(path)
                .map_err(|error| format!("reading the keys in {}: {error}", path.display()))?,
            KeySource::ApiServer(client) => {
                let request = http::Request::get("/openid/v1/jwks").body(Vec::new());
                let request = request.map_err(|error| error.to_string())?;
                let answer = tokio::time::timeout(TIMEOUT, client.request_text(request)).await;
                let answer = answer.map_err(|_| "the API server took too long".to_owned())?;
                let failed =
                    |error| format!("asking the API server for its keys: {}", chain(&error));
                answer.map_err(failed)?.into_bytes()
            }
            KeySource::Issuer { url, roots } => {
                #[derive(Deserialize)]
                struct Discovery {
                    jwks_uri: String,
                }
                let base = url.trim_end_matches('/');
                let document =
                    get(&format!("{base}/.well-known/openid-configuration"), roots).await?;
                let discovery: Discovery = serde_json::from_slice(&document)
                    .map_err(|error| format!("the discovery document of {url}: {error}"))?;
                get(&discovery.jwks_uri, roots).await?
            }
            KeySource::Url { url, roots } => get(url, roots).await?,
        };
        if text.len() > MAX_SET {
            return Err("the key set is too long".to_owned());
        }
        serde_json::from_slice(&text).map_err(|error| format!("the key set: {error}"))
    }
}

async fn get(url: &str, roots: &RootBundle) -> Result<Vec<u8>, String> {
    let fault = |what: String| format!("GET {url}: {what}");
    let uri: http::Uri = url.parse().map_err(|_| fault("no address".to_owned()))?;
    if uri.scheme_str() != Some("https") {
        return Err(fault("keys are fetched by https only".to_owned()));
    }
    let trusted = Trusted::new(TrustBundles::of(roots.clone()));
    let tls =
        tls::to_dns_name(&trusted, &Shown::default(), &[]).map_err(|error| fault(chain(&error)))?;
    let connector = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_only()
        .enable_http1()
        .build();
    let client: Client<_, Empty<&[u8]>> = Client::builder(TokioExecutor::new()).build(connector);
    let answer = async {
        let response = client.get(uri).await.map_err(|error| fault(chain(&error)))?;
        if !response.status().is_success() {
            return Err(fault(response.status().to_string()));
        }
        let body = Limited::new(response.into_body(), MAX_SET).collect().await;
        Ok(body.map_err(|error| fault(error.to_string()))?.to_bytes().to_vec())
    };
    tokio::time::timeout(TIMEOUT, answer).await.map_err(|_| fault("it took too long".to_owned()))?
}
