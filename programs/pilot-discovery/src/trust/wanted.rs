//! `caCertificates` of the mesh configuration, sorted by whom they speak for.

use std::collections::BTreeMap;

use ironsail_api::mesh::{CertificateData, CertificateSource};
use ironsail_identity::RootBundle;
use ironsail_names::{TrustDomain, TrustDomains};

use super::federation::Found;

/// What the mesh configuration adds.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    own: Vec<Source>,
    others: Vec<(TrustDomain, Source)>,
    /// What cannot be used, in words.
    pub(super) problems: Vec<String>,
}

#[derive(Clone, Debug)]
enum Source {
    Roots(RootBundle),
    Url(String),
}

impl Source {
    fn roots(&self, found: &Found) -> Option<RootBundle> {
        match self {
            Self::Roots(roots) => Some(roots.clone()),
            Self::Url(url) => found.get(url)?.roots.clone(),
        }
    }
}

impl Wanted {
    /// Without trust domains an entry is about the mesh's own, as in Istio. Which signers an entry names
    /// does not matter here: whoever signs, its leaves must be known by everybody.
    pub(super) fn of(entries: &[CertificateData], domains: &TrustDomains) -> Self {
        let mut wanted = Self::default();
        for (index, entry) in entries.iter().enumerate() {
            let mut problem = |what: String| {
                wanted.problems.push(format!("caCertificates[{index}]: {what}"));
            };
            let source = match &entry.data {
                CertificateSource::Pem(pem) => match RootBundle::from_pem(pem.as_bytes()) {
                    Ok(roots) => Source::Roots(roots),
                    Err(error) => {
                        problem(format!("pem: {error}"));
                        continue;
                    }
                },
                CertificateSource::SpiffeBundleUrl(url) if url.starts_with("https://") => {
                    Source::Url(url.clone())
                }
                CertificateSource::SpiffeBundleUrl(url) => {
                    problem(format!("spiffeBundleUrl {url:?}: must begin with https://"));
                    continue;
                }
                CertificateSource::Unset => {
                    problem("has neither pem nor spiffeBundleUrl".to_owned());
                    continue;
                }
            };
            let mut own = entry.trust_domains.is_empty();
            for name in &entry.trust_domains {
                match name.parse::<TrustDomain>() {
                    Ok(domain) if domain == *domains.own() => own = true,
                    Ok(domain) => wanted.others.push((domain, source.clone())),
                    Err(error) => {
                        wanted.problems.push(format!("caCertificates[{index}]: {error}"));
                    }
                }
            }
            if own {
                wanted.own.push(source);
            }
        }
        wanted
    }

    /// The bundle endpoints to ask.
    pub(super) fn urls(&self) -> impl Iterator<Item = String> {
        let all = self.own.iter().chain(self.others.iter().map(|(_, source)| source));
        all.filter_map(|source| match source {
            Source::Url(url) => Some(url.clone()),
            Source::Roots(_) => None,
        })
    }

    pub(super) fn of_own(&self, found: &Found) -> Vec<RootBundle> {
        self.own.iter().filter_map(|source| source.roots(found)).collect()
    }

    /// Aliases of the own domain among them.
    pub(super) fn of_others(&self, found: &Found) -> BTreeMap<TrustDomain, RootBundle> {
        let mut all: BTreeMap<TrustDomain, RootBundle> = BTreeMap::new();
        for (domain, source) in &self.others {
            let Some(roots) = source.roots(found) else { continue };
            let joined = all.get(domain).map_or_else(|| roots.clone(), |one| one.and(&roots));
            all.insert(domain.clone(), joined);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use ironsail_api::mesh::MeshConfig;
    use serde_json::json;

    use super::super::Fetched;
    use super::*;

    fn root(name: &str) -> RootBundle {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        RootBundle::from_pem(params.self_signed(&key).unwrap().pem().as_bytes()).unwrap()
    }

    #[test]
    fn roots_go_to_those_whom_they_speak_for() {
        let (own, both, far) = (root("own"), root("both"), root("far"));
        let config = MeshConfig::parse(&json!({"caCertificates": [
            {"pem": own.pem()},
            {"pem": both.pem(), "trustDomains": ["alias", "foreign"], "certSigners": ["a/b"]},
            {"spiffeBundleUrl": "https://far/", "trustDomains": ["foreign"]},
            {"pem": "x"}, {"spiffeBundleUrl": "http://far/"}, {},
            {"pem": own.pem(), "trustDomains": ["Bad Name"]},
        ]}));
        let domain = |name: &str| name.parse::<TrustDomain>().unwrap();
        let domains = TrustDomains::new(domain("td"), [domain("alias")]);
        let wanted = Wanted::of(&config.value.ca_certificates, &domains);
        assert_eq!(wanted.urls().collect::<Vec<_>>(), ["https://far/"]);
        assert_eq!(wanted.problems.len(), 4, "{:?}", wanted.problems);
        let mut found = Found::new();
        assert_eq!(wanted.of_own(&found), [own], "an alias does not speak for the own domain");
        assert_eq!(wanted.of_others(&found)[&domain("alias")], both);
        assert_eq!(wanted.of_others(&found)[&domain("foreign")], both);
        let fetched = Fetched { roots: Some(far.clone()), ..Fetched::default() };
        found.insert("https://far/".to_owned(), fetched);
        assert_eq!(wanted.of_others(&found)[&domain("foreign")], both.and(&far));
    }
}
