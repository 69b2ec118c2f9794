//! Modules in images of a registry, by the OCI distribution protocol.
//!
//! In: the name of an image; out: its module. Anonymous, by password or by token, as the registry asks.
//! The checksum, if there is one, is that of the manifest.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;

use super::fetch::{self, Error, Fetcher};
use super::{Wanted, unpack};

const MANIFESTS: &str = "application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.v2+json, \
    application/vnd.oci.image.index.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json";
/// Images that an index may lead through.
const MAX_DEPTH: usize = 3;

/// Where an image lies.
#[derive(Debug, PartialEq, Eq)]
struct Image {
    registry: String,
    repository: String,
    /// A tag or a digest.
    reference: String,
}

impl Image {
    fn parse(text: &str) -> Result<Self, Error> {
        let bad = || Error::Address(text.to_owned());
        let (name, reference) = match text.split_once('@') {
            Some((name, digest)) => (name, digest),
            None => match text.rsplit_once(':') {
                Some((name, tag)) if !tag.contains('/') => (name, tag),
                _ => (text, "latest"),
            },
        };
        let (first, rest) = name.split_once('/').unwrap_or(("", name));
        let is_host = first.contains(['.', ':']) || first == "localhost";
        let (registry, repository) = match is_host {
            true => (first, rest.to_owned()),
            false if first.is_empty() => ("registry-1.docker.io", format!("library/{rest}")),
            false => ("registry-1.docker.io", name.to_owned()),
        };
        let registry = if registry == "docker.io" { "registry-1.docker.io" } else { registry };
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-/:".contains(c);
        let good = !repository.is_empty()
            && !repository.ends_with('/')
            && !reference.is_empty()
            && [registry, &repository, reference].iter().all(|part| part.chars().all(plain));
        if !good {
            return Err(bad());
        }
        Ok(Self { registry: registry.to_owned(), repository, reference: reference.to_owned() })
    }
}

pub(super) async fn fetch(fetcher: &Fetcher, image: &str, wanted: &Wanted) -> Result<Bytes, Error> {
    let image = Image::parse(image)?;
    let host = image.registry.rsplit_once(':').map_or(image.registry.as_str(), |(host, _)| host);
    let plain =
        fetcher.insecure.iter().any(|one| one == "*" || *one == image.registry || one == host);
    let scheme = if plain { "http" } else { "https" };
    let base = format!("{scheme}://{}/v2/{}", image.registry, image.repository);
    let mut registry = Registry { fetcher, base, image, proof: None, wanted };
    let mut reference = registry.image.reference.clone();
    let mut expected = wanted.sha256.clone();
    for _ in 0..MAX_DEPTH {
        let bytes = registry.get(&format!("manifests/{reference}")).await?;
        fetch::check(&bytes, &expected)?;
        if let Some(digest) = reference.strip_prefix("sha256:") {
            fetch::check(&bytes, digest)?;
        }
        let manifest: Value = serde_json::from_slice(&bytes)
            .map_err(|error| Error::Image(format!("its manifest is no JSON: {error}")))?;
        if let Some(first) = manifest["manifests"].as_array().and_then(|all| all.first()) {
            let digest = first["digest"].as_str().unwrap_or_default();
            reference = digest.to_owned();
            expected = String::new();
            continue;
        }
        return registry.module(&manifest).await;
    }
    Err(Error::Image("its index leads in circles".to_owned()))
}

struct Registry<'a> {
    fetcher: &'a Fetcher,
    base: String,
    image: Image,
    proof: Option<String>,
    wanted: &'a Wanted,
}

impl Registry<'_> {
    /// The module of an image: its last layer, plain or packed.
    async fn module(&mut self, manifest: &Value) -> Result<Bytes, Error> {
        let layers = manifest["layers"].as_array().map_or(&[][..], Vec::as_slice);
        let is_module = |layer: &&Value| {
            let kind = layer["mediaType"].as_str().unwrap_or_default();
            kind.ends_with("+wasm") || kind == "application/wasm"
        };
        let layer = layers.iter().find(is_module).or(layers.last());
        let digest = layer.and_then(|layer| layer["digest"].as_str());
        let digest = digest.ok_or_else(|| Error::Image("it has no layers".to_owned()))?;
        let bytes = self.get(&format!("blobs/{digest}")).await?;
        fetch::check(&bytes, digest.strip_prefix("sha256:").unwrap_or_default())?;
        unpack::module(bytes)
    }

    async fn get(&mut self, path: &str) -> Result<Bytes, Error> {
        let url = format!("{}/{path}", self.base);
        let response = self.fetcher.ask(&url, self.proof.as_deref(), MANIFESTS).await?;
        if response.status() != StatusCode::UNAUTHORIZED || self.proof.is_some() {
            let status = response.status();
            return match status.is_success() {
                true => fetch::body(&url, response).await,
                false => Err(Error::Status { uri: url, status }),
            };
        }
        let challenge = fetch::challenge(&response).unwrap_or_default();
        self.proof = Some(self.prove(&challenge).await?);
        self.fetcher.get(&url, self.proof.as_deref(), MANIFESTS).await
    }

    /// What the registry wants to see.
    async fn prove(&self, challenge: &str) -> Result<String, Error> {
        let basic = self.password().map(|password| format!("Basic {password}"));
        let (kind, rest) = challenge.split_once(' ').unwrap_or((challenge, ""));
        if kind.eq_ignore_ascii_case("basic") {
            return basic.ok_or_else(|| Error::Image("the registry wants a password".to_owned()));
        }
        let realm = parameter(rest, "realm")
            .ok_or_else(|| Error::Image("the registry does not say how to ask".to_owned()))?;
        let service = parameter(rest, "service").unwrap_or_default();
        let scope = parameter(rest, "scope")
            .unwrap_or_else(|| format!("repository:{}:pull", self.image.repository));
        let url = format!("{realm}?service={}&scope={}", escaped(&service), escaped(&scope));
        let bytes = self.fetcher.get(&url, basic.as_deref(), "application/json").await?;
        let answer: Value = serde_json::from_slice(&bytes)
            .map_err(|error| Error::Image(format!("the token is no JSON: {error}")))?;
        let token = answer["token"].as_str().or(answer["access_token"].as_str());
        let token = token.ok_or_else(|| Error::Image("the registry gave no token".to_owned()))?;
        Ok(format!("Bearer {token}"))
    }

    /// User and password for the registry, as the Docker configuration has them, encoded.
    fn password(&self) -> Option<String> {
        let config: Value = serde_json::from_str(&self.wanted.secret).ok()?;
        let auths = config["auths"].as_object()?;
        let bare = |name: &str| {
            let name = name.trim_start_matches("https://").trim_start_matches("http://");
            name.split('/').next().unwrap_or_default().to_owned()
        };
        let registry = match self.image.registry.as_str() {
            "registry-1.docker.io" => "index.docker.io",
            other => other,
        };
        let (_, entry) = auths.iter().find(|(name, _)| bare(name) == registry)?;
        if let Some(auth) = entry["auth"].as_str().filter(|auth| !auth.is_empty()) {
            return Some(auth.to_owned());
        }
        let (user, password) = (entry["username"].as_str()?, entry["password"].as_str()?);
        Some(BASE64.encode(format!("{user}:{password}")))
    }
}

/// `name="value"` among others.
fn parameter(text: &str, name: &str) -> Option<String> {
    let start = text.find(&format!("{name}=\""))? + name.len() + 2;
    let end = start + text[start..].find('"')?;
    Some(text[start..end].to_owned())
}

fn escaped(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(byte.into());
            }
            other => {
                use std::fmt::Write;
                let _ = write!(out, "%{other:02X}");
            }
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(text: &str) -> (String, String, String) {
        let image = Image::parse(text).unwrap();
        (image.registry, image.repository, image.reference)
    }

    #[test]
    fn names_of_images_are_read_as_docker_does() {
        let is = |text: &str, wanted: (&str, &str, &str)| {
            let found = image(text);
            assert_eq!((&*found.0, &*found.1, &*found.2), wanted, "{text}");
        };
        is("ghcr.io/a/b:1", ("ghcr.io", "a/b", "1"));
        is("localhost:5000/a", ("localhost:5000", "a", "latest"));
        is("a", ("registry-1.docker.io", "library/a", "latest"));
        is("a/b:2", ("registry-1.docker.io", "a/b", "2"));
        is("r.io/a@sha256:00ff", ("r.io", "a", "sha256:00ff"));
        for bad in ["", "r.io/", "r.io/a b", "r.io/a?x=1", "r.io/a:"] {
            assert!(Image::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_challenge_says_where_tokens_are() {
        let text = r#"realm="https://a/token",service="b",scope="c:d:pull""#;
        assert_eq!(parameter(text, "realm").as_deref(), Some("https://a/token"));
        assert_eq!(parameter(text, "scope").as_deref(), Some("c:d:pull"));
        assert_eq!(parameter(text, "nothing"), None);
        assert_eq!(escaped("a:b/c d"), "a%3Ab%2Fc%20d");
    }
}
