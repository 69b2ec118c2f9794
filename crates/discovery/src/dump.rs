//! What a proxy has, in Envoy's own forms: sync status, client configuration, configuration dump.

use ironsail_proto::envoy::admin::v3 as admin;
use ironsail_proto::envoy::service::status::v3::{
    ClientConfig, ConfigStatus, client_config::GenericXdsConfig,
};
use ironsail_proto::google::protobuf::{Any, Timestamp};
use ironsail_proto::{Message, Name, pack};
use ironsail_xds::{Resource, Set};

use crate::connection::{Connection, SyncStatus};
use crate::kind::Kind;

/// The types that sync status tells of, as Istio does.
const SYNCED: [Kind; 5] =
    [Kind::Listener, Kind::Route, Kind::Endpoint, Kind::Cluster, Kind::Extension];

fn config_status(status: SyncStatus) -> i32 {
    let status = match status {
        SyncStatus::NotSent => ConfigStatus::NotSent,
        SyncStatus::Synced => ConfigStatus::Synced,
        SyncStatus::Stale => ConfigStatus::Stale,
        SyncStatus::Error => ConfigStatus::Error,
    };
    status.into()
}

/// Where a proxy stands with each type.
pub(crate) fn sync_status(connection: &Connection) -> ClientConfig {
    let types = connection.types();
    let one = |kind: Kind| {
        let state = types.get(kind.type_url()).cloned().unwrap_or_default();
        let error_state = state.nack.as_ref().map(|nack| admin::UpdateFailureState {
            details: nack.rejection.message.clone(),
            version_info: nack.rejection.version.to_string(),
            last_update_attempt: Some(time(nack.at)),
            ..Default::default()
        });
        GenericXdsConfig {
            type_url: kind.type_url().to_owned(),
            version_info: state.sent.as_ref().map(|s| s.version.to_string()).unwrap_or_default(),
            last_updated: state.sent.as_ref().map(|s| time(s.at)),
            config_status: config_status(state.status()),
            error_state,
            ..Default::default()
        }
    };
    ClientConfig {
        node: Some(connection.node()),
        generic_xds_configs: SYNCED.into_iter().map(one).collect(),
        ..Default::default()
    }
}

/// The same, resource by resource, with content if asked.
pub(crate) fn client_config(connection: &Connection, with_content: bool) -> ClientConfig {
    let mut config = sync_status(connection);
    let types = std::mem::take(&mut config.generic_xds_configs);
    for (of_type, kind) in types.into_iter().zip(SYNCED) {
        let Some(set) = connection.resources(kind) else { continue };
        config.generic_xds_configs.extend(set.iter().map(|resource| GenericXdsConfig {
            name: resource.name().to_string(),
            version_info: resource.version().to_string(),
            xds_config: with_content.then(|| any(kind, resource)),
            ..of_type.clone()
        }));
    }
    config
}

fn time(at: jiff::Timestamp) -> Timestamp {
    Timestamp { seconds: at.as_second(), nanos: at.subsec_nanosecond() }
}

fn any(kind: Kind, resource: &Resource) -> Any {
    Any { type_url: kind.type_url().to_owned(), value: resource.body().clone() }
}

/// What the proxy should have, as the parts of a configuration dump. Secrets are not in it.
pub(crate) fn of(connection: &Connection) -> Vec<Resource> {
    configs(connection)
        .into_iter()
        .map(|any| Resource::with_content_type(any.type_url.clone(), any.value, any.type_url))
        .collect()
}

/// What the proxy should have, as Envoy's admin port would show it.
pub fn config_dump(connection: &Connection) -> admin::ConfigDump {
    admin::ConfigDump { configs: configs(connection) }
}

fn configs(connection: &Connection) -> Vec<Any> {
    let all = |kind: Kind| connection.resources(kind).unwrap_or_default();
    let (clusters, listeners) = (all(Kind::Cluster), all(Kind::Listener));
    vec![
        packed(&admin::ClustersConfigDump {
            version_info: version(&clusters),
            dynamic_active_clusters: clusters.iter().map(cluster).collect(),
            ..Default::default()
        }),
        packed(&admin::ListenersConfigDump {
            version_info: version(&listeners),
            dynamic_listeners: listeners.iter().map(listener).collect(),
            ..Default::default()
        }),
        packed(&admin::RoutesConfigDump {
            dynamic_route_configs: all(Kind::Route).iter().map(route).collect(),
            ..Default::default()
        }),
        packed(&admin::EndpointsConfigDump {
            dynamic_endpoint_configs: all(Kind::Endpoint).iter().map(endpoint).collect(),
            ..Default::default()
        }),
        packed(&admin::EcdsConfigDump {
            ecds_filters: all(Kind::Extension).iter().map(extension).collect(),
        }),
    ]
}

fn packed<M: Message + Name>(message: &M) -> Any {
    pack(message)
}

fn version(set: &Set) -> String {
    if set.is_empty() { String::new() } else { set.version().to_string() }
}

fn cluster(resource: &Resource) -> admin::clusters_config_dump::DynamicCluster {
    admin::clusters_config_dump::DynamicCluster {
        version_info: resource.version().to_string(),
        cluster: Some(any(Kind::Cluster, resource)),
        ..Default::default()
    }
}

fn listener(resource: &Resource) -> admin::listeners_config_dump::DynamicListener {
    let state = admin::listeners_config_dump::DynamicListenerState {
        version_info: resource.version().to_string(),
        listener: Some(any(Kind::Listener, resource)),
        ..Default::default()
    };
    admin::listeners_config_dump::DynamicListener {
        name: resource.name().to_string(),
        active_state: Some(state),
        ..Default::default()
    }
}

fn route(resource: &Resource) -> admin::routes_config_dump::DynamicRouteConfig {
    admin::routes_config_dump::DynamicRouteConfig {
        version_info: resource.version().to_string(),
        route_config: Some(any(Kind::Route, resource)),
        ..Default::default()
    }
}

fn endpoint(resource: &Resource) -> admin::endpoints_config_dump::DynamicEndpointConfig {
    admin::endpoints_config_dump::DynamicEndpointConfig {
        version_info: resource.version().to_string(),
        endpoint_config: Some(any(Kind::Endpoint, resource)),
        ..Default::default()
    }
}

fn extension(resource: &Resource) -> admin::ecds_config_dump::EcdsFilterConfig {
    admin::ecds_config_dump::EcdsFilterConfig {
        version_info: resource.version().to_string(),
        ecds_filter: Some(any(Kind::Extension, resource)),
        ..Default::default()
    }
}
