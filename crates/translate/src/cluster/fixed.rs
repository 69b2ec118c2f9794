//! Clusters that every proxy of a kind has: passthrough, black hole, inbound passthrough.
//!
//! In: the mesh's connect timeout, the address families. Out: the clusters.

use ironsail_names::{BLACK_HOLE_CLUSTER, INBOUND_PASSTHROUGH_CLUSTER, PASSTHROUGH_CLUSTER};
use ironsail_proto::envoy::config::cluster::v3::Cluster;
use ironsail_proto::envoy::config::core::v3::{BindConfig, ExtraSourceAddress};
use ironsail_proto::google::protobuf::Duration;

use super::draft::{Discovery, Draft, Family, open_breakers};
use crate::address::socket;

/// The source by which packet rules know what a proxy sends to its own pod.
const SELF_V4: &str = "127.0.0.6";
const SELF_V6: &str = "::6";

/// To where the caller wanted.
pub(crate) fn passthrough(connect_timeout: Duration) -> Cluster {
    to_original(PASSTHROUGH_CLUSTER, connect_timeout).finish()
}

/// To the pod itself, on a port that no Service declares.
pub(crate) fn inbound_passthrough(connect_timeout: Duration, family: Family) -> Cluster {
    let mut draft = to_original(INBOUND_PASSTHROUGH_CLUSTER, connect_timeout);
    draft.cluster.upstream_bind_config = Some(bind_self(family));
    draft.finish()
}

/// To nowhere.
pub(crate) fn black_hole(connect_timeout: Duration) -> Cluster {
    let mut draft = Draft::new(BLACK_HOLE_CLUSTER.into(), Discovery::Static);
    draft.cluster.common_lb_config = None;
    draft.cluster.connect_timeout = Some(connect_timeout);
    draft.finish()
}

/// Envoy picks the source of the family of the destination.
pub(crate) fn bind_self(family: Family) -> BindConfig {
    let (first, extra) = match family {
        Family::V4 => (SELF_V4, None),
        Family::V6 => (SELF_V6, None),
        Family::Both => (SELF_V4, Some(SELF_V6)),
    };
    let extra = extra.map(|address| ExtraSourceAddress {
        address: Some(socket(address, 0)),
        ..Default::default()
    });
    BindConfig {
        source_address: Some(socket(first, 0)),
        extra_source_addresses: extra.into_iter().collect(),
        ..Default::default()
    }
}

fn to_original(name: &str, connect_timeout: Duration) -> Draft {
    let mut draft = Draft::new(name.into(), Discovery::OriginalDestination);
    draft.cluster.common_lb_config = None;
    draft.cluster.connect_timeout = Some(connect_timeout);
    draft.cluster.circuit_breakers = Some(open_breakers());
    draft.use_downstream_protocol();
    draft.common_http().idle_timeout = Some(Duration { seconds: 300, nanos: 0 });
    draft
}
