//! How services are named inside the model.

use std::fmt;

use ironsail_names::{Hostname, Namespace};

/// A service: its hostname, and the namespace of the object that declares it. Two namespaces may
/// declare the same hostname; a proxy sees one of them. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceKey {
    pub hostname: Hostname,
    pub namespace: Namespace,
}

impl ServiceKey {
    pub fn new(hostname: Hostname, namespace: Namespace) -> Self {
        Self { hostname, namespace }
    }
}

impl fmt::Display for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.hostname)
    }
}
