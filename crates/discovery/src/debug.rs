//! Debug data over discovery itself: the types `istio.io/debug…` that istioctl asks for.
//!
//! In: the type, the names asked for and who asks; out: a set of answers. A caller sees proxies of its
//! own namespace only, unless it is of the control plane's.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use ironsail_names::Namespace;
use ironsail_proto::envoy::service::status::v3::ClientConfig;
use ironsail_proto::{Message, Name as _};
use ironsail_xds::server::{Dirty, Feed, Report};
use ironsail_xds::{Interest, Resource, Set, TypeUrl};

use crate::auth::Identity;
use crate::connection::Connection;
use crate::kind::{DEBUG, DEBUG_CONFIG_DUMP, DEBUG_SYNCZ};
use crate::{Engine, dump};

/// Debug pages as HTTP has them: the path with its query in, the page out. Set by the program.
pub type Pages = Box<dyn Fn(&str, &Access) -> Option<Bytes> + Send + Sync>;

/// What a caller may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    Nothing,
    /// What concerns proxies of this namespace.
    Namespace(Namespace),
    Everything,
}

impl Access {
    pub fn of(identity: Option<&Identity>, root: &Namespace, open: bool) -> Self {
        match identity {
            None if open => Self::Everything,
            None => Self::Nothing,
            Some(identity) if identity.0.namespace == *root => Self::Everything,
            Some(identity) => Self::Namespace(identity.0.namespace.clone()),
        }
    }

    pub fn sees(&self, connection: &Connection) -> bool {
        match self {
            Self::Nothing => false,
            Self::Namespace(namespace) => connection.proxy.namespace == *namespace,
            Self::Everything => true,
        }
    }
}

impl Engine {
    /// Who answers for debug pages. Counts once.
    pub fn set_pages(&self, pages: Pages) {
        let _ = self.pages.set(pages);
    }

    pub(crate) fn access(&self, identity: Option<&Identity>) -> Access {
        Access::of(identity, &self.settings.root_namespace, self.settings.open_debug)
    }
}

/// The answers to a debug request; nothing for types that nobody knows.
pub(crate) fn set(
    engine: &Engine,
    access: &Access,
    type_url: &str,
    interest: &Interest,
) -> Arc<Set> {
    let resources: Vec<Resource> = match type_url {
        DEBUG_SYNCZ => syncz(engine, access),
        DEBUG_CONFIG_DUMP => interest
            .names
            .iter()
            .take(1)
            .filter_map(|name| engine.connection(name))
            .filter(|connection| access.sees(connection))
            .flat_map(|connection| dump::of(&connection))
            .collect(),
        DEBUG => pages(engine, access, interest),
        _ => Vec::new(),
    };
    Arc::new(resources.into_iter().collect())
}

fn syncz(engine: &Engine, access: &Access) -> Vec<Resource> {
    let connections = engine.connections.all();
    let seen = connections.iter().filter(|c| access.sees(c) && is_proxy(c));
    seen.map(|connection| {
        let body = dump::sync_status(connection).encode_to_vec();
        Resource::with_content_type(&*connection.proxy.id, body, ClientConfig::type_url())
    })
    .collect()
}

/// Not somebody who only asks for debug data.
fn is_proxy(connection: &Connection) -> bool {
    connection.proxy.metadata.proxy_config.is_some() || !connection.types().is_empty()
}

fn pages(engine: &Engine, access: &Access, interest: &Interest) -> Vec<Resource> {
    let Some(pages) = engine.pages.get() else { return Vec::new() };
    let asked = interest.names.iter().take(16);
    asked.filter_map(|path| Some(Resource::new(path.clone(), pages(path, access)?))).collect()
}

/// The stream of somebody who is no proxy and only asks for debug data.
pub(crate) struct DebugFeed {
    pub(crate) engine: Arc<Engine>,
    pub(crate) access: Access,
}

impl Feed for DebugFeed {
    fn set<'a>(
        &'a mut self,
        type_url: &'a TypeUrl,
        interest: &'a Interest,
    ) -> BoxFuture<'a, Arc<Set>> {
        let set = set(&self.engine, &self.access, type_url, interest);
        Box::pin(std::future::ready(set))
    }

    fn changed(&mut self) -> BoxFuture<'_, Option<Dirty>> {
        Box::pin(std::future::pending())
    }

    fn report(&mut self, _: Report<'_>) {}
}
