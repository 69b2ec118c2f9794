//! Names of secrets: `kubernetes://NAME`, `kubernetes://NAMESPACE/NAME`, `kubernetes-gateway://…`,
//! `configmap://NAMESPACE/NAME`, each with `-cacert` for the roots alone.

use ironsail_names::Namespace;

use crate::tls::CA_SUFFIX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Secret,
    ConfigMap,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    pub source: Source,
    pub namespace: Namespace,
    /// Of the object, as written: with its suffix.
    pub name: String,
    /// Only the roots are wanted.
    pub roots: bool,
}

impl Name {
    /// None for names that somebody else serves. `own` is the proxy's namespace.
    pub fn parse(text: &str, own: &Namespace) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let source = match scheme {
            "kubernetes" | "kubernetes-gateway" => Source::Secret,
            "configmap" => Source::ConfigMap,
            _ => return None,
        };
        let (namespace, name) = match rest.split_once('/') {
            Some((namespace, name)) => (namespace.parse().ok()?, name),
            None => (own.clone(), rest),
        };
        // A ConfigMap holds roots, with or without the suffix.
        let roots = source == Source::ConfigMap || name.ends_with(CA_SUFFIX);
        let name = match source {
            Source::ConfigMap => name.strip_suffix(CA_SUFFIX).unwrap_or(name),
            Source::Secret => name,
        };
        (!name.is_empty()).then(|| Self { source, namespace, name: name.to_owned(), roots })
    }
}

#[cfg(test)]
mod tests {
    use super::{Name, Source};

    #[test]
    fn names_say_where_a_secret_lies() {
        let own = "own".parse().unwrap();
        for (text, expected) in [
            ("kubernetes://web", Some((Source::Secret, "own", "web", false))),
            ("kubernetes://web-cacert", Some((Source::Secret, "own", "web-cacert", true))),
            ("kubernetes-gateway://other/web", Some((Source::Secret, "other", "web", false))),
            ("configmap://other/roots", Some((Source::ConfigMap, "other", "roots", true))),
            ("default", None),
            ("file-root:/etc/ca.pem", None),
            ("kubernetes://", None),
        ] {
            let found = Name::parse(text, &own);
            let shown = found.as_ref();
            let shown = shown.map(|n| (n.source, n.namespace.as_str(), n.name.as_str(), n.roots));
            assert_eq!(shown, expected, "{text}");
        }
    }
}
