//! Secrets that the control plane itself serves: credentials of gateways.
//!
//! In: the names that a proxy asks for, Secrets and ConfigMaps, and whether the proxy may read Secrets
//! of its namespace, which somebody else has checked. Out: certificates with their keys, or roots. A
//! proxy that may not read gets nothing, and no hint whether the Secret is there.

mod name;

pub use name::{Name, Source};

use std::sync::Arc;

use ironsail_api::{Code, Diagnostic, Kind, Resource, Severity, kube};
use ironsail_model::{ProxyClass, Snapshot};
use ironsail_proto::envoy::config::core::v3::{DataSource, data_source::Specifier};
use ironsail_proto::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, Secret, TlsCertificate, secret::Type,
};

use crate::{Key, Translated};

/// What one secret is made of.
#[derive(Clone, Debug)]
pub struct SecretView<'a> {
    /// As the proxy asked for it.
    pub name: &'a str,
    kind: Wanted,
    object: Object<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Certificate,
    Roots,
}

#[derive(Clone, Debug)]
enum Object<'a> {
    Secret(&'a Arc<Resource<kube::Secret>>),
    ConfigMap(&'a Arc<Resource<kube::ConfigMap>>),
}

/// Views of those of `names` that are there and that the proxy may have. `may_read` says whether its
/// service account may read Secrets of its own namespace.
pub fn views<'a>(
    snapshot: &'a Snapshot,
    class: &ProxyClass,
    names: impl IntoIterator<Item = &'a str>,
    may_read: bool,
) -> Vec<SecretView<'a>> {
    names.into_iter().filter_map(|name| view(snapshot, class, name, may_read)).collect()
}

/// The view of one name.
pub fn view<'a>(
    snapshot: &'a Snapshot,
    class: &ProxyClass,
    name: &'a str,
    may_read: bool,
) -> Option<SecretView<'a>> {
    let parsed = Name::parse(name, &class.namespace)?;
    let kind = if parsed.roots { Wanted::Roots } else { Wanted::Certificate };
    let object = match parsed.source {
        Source::ConfigMap => {
            let namespace = parsed.namespace.as_str();
            Object::ConfigMap(snapshot.config_map(&class.cluster, namespace, &parsed.name)?)
        }
        Source::Secret => {
            if !may_read || parsed.namespace != class.namespace {
                return None;
            }
            let secret =
                |name: &str| snapshot.secret(&class.cluster, parsed.namespace.as_str(), name);
            let own = secret(&parsed.name);
            // Roots may lie in a Secret of their own or beside the certificate.
            let beside = parsed.name.strip_suffix(crate::tls::CA_SUFFIX).filter(|_| parsed.roots);
            let found = own.or_else(|| secret(beside?))?;
            Object::Secret(found)
        }
    };
    let kind = if matches!(object, Object::ConfigMap(_)) { Wanted::Roots } else { kind };
    Some(SecretView { name, kind, object })
}

impl SecretView<'_> {
    pub fn key(&self) -> u64 {
        let digest = match &self.object {
            Object::Secret(secret) => secret.digest,
            Object::ConfigMap(map) => map.digest,
        };
        let roots = self.kind == Wanted::Roots;
        Key::new("secret").text(self.name).flag(roots).digest(digest).finish()
    }

    fn data(&self, keys: &[&str]) -> Option<Vec<u8>> {
        let found = keys.iter().find_map(|&key| match &self.object {
            Object::Secret(secret) => secret.spec.data.get(key).map(|bytes| bytes.0.clone()),
            Object::ConfigMap(map) => map.spec.data.get(key).map(|text| text.clone().into_bytes()),
        });
        found.filter(|bytes| !bytes.is_empty())
    }
}

/// The secret, or nothing and a reason.
pub fn translate(view: &SecretView<'_>) -> Translated<Option<Secret>> {
    let made = match view.kind {
        Wanted::Certificate => certificate(view).ok_or(
            "it has neither tls.crt and tls.key nor cert and key, which a server's credential needs",
        ),
        Wanted::Roots => roots(view).ok_or("it has neither ca.crt nor cacert, which roots need"),
    };
    match made {
        Ok(made) => {
            Translated::new(Some(Secret { name: view.name.to_owned(), r#type: Some(made) }))
        }
        Err(why) => {
            let (kind, meta) = match &view.object {
                Object::Secret(secret) => (Kind::Secret, &secret.meta),
                Object::ConfigMap(map) => (Kind::ConfigMap, &map.meta),
            };
            let said = Diagnostic::new(Code::SCHEMA, Severity::Error, kind, meta, why).at("data");
            Translated { value: None, diagnostics: vec![said] }
        }
    }
}

fn certificate(view: &SecretView<'_>) -> Option<Type> {
    let chain = view.data(&["tls.crt"]).zip(view.data(&["tls.key"]));
    let (chain, key) = chain.or_else(|| view.data(&["cert"]).zip(view.data(&["key"])))?;
    Some(Type::TlsCertificate(TlsCertificate {
        certificate_chain: Some(inline(chain)),
        private_key: Some(inline(key)),
        ocsp_staple: view.data(&["tls.ocsp-staple"]).map(inline),
        ..Default::default()
    }))
}

fn roots(view: &SecretView<'_>) -> Option<Type> {
    Some(Type::ValidationContext(CertificateValidationContext {
        trusted_ca: Some(inline(view.data(&["cacert", "ca.crt"])?)),
        crl: view.data(&["crl", "ca.crl"]).map(inline),
        ..Default::default()
    }))
}

fn inline(bytes: Vec<u8>) -> DataSource {
    DataSource { specifier: Some(Specifier::InlineBytes(bytes)), ..Default::default() }
}
