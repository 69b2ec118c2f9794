//! `connectionPool`: how many connections, requests and retries, and how long they live.
//!
//! In: the settings of a DestinationRule or a Sidecar, the mesh's defaults. Out: the draft with
//! circuit breakers, keepalive, timeouts and the protocol to the upstream.

use ironsail_api::istio::networking::{
    ConnectionPoolSettings, H2UpgradePolicy, HttpSettings, TcpKeepalive, TcpSettings,
};
use ironsail_proto::envoy::config::cluster::v3::UpstreamConnectionOptions;
use ironsail_proto::envoy::config::core::v3 as core;
use ironsail_proto::google::protobuf::UInt32Value;

use super::defaults::Defaults;
use super::draft::Draft;

/// Applies `settings`, or the defaults where there are none.
pub(crate) fn apply(
    draft: &mut Draft,
    settings: Option<&ConnectionPoolSettings>,
    mesh: &Defaults<'_>,
) {
    let tcp = settings.and_then(|s| s.tcp.as_ref());
    let http = settings.and_then(|s| s.http.as_ref());
    let timeout = tcp.and_then(|t| t.connect_timeout).unwrap_or(mesh.connect_timeout);
    draft.cluster.connect_timeout = Some(timeout.into());
    keepalive(draft, tcp.and_then(|t| t.tcp_keepalive.as_ref()).or(mesh.keepalive));
    limits(draft, tcp, http);
    lifetimes(draft, tcp, http);
    if http.is_some_and(|h| h.use_client_protocol) {
        draft.use_downstream_protocol();
    }
}

/// Whether HTTP/1.1 is to be sent as HTTP/2.
pub(crate) fn upgrades(
    settings: Option<&ConnectionPoolSettings>,
    is_http: bool,
    mesh: &Defaults<'_>,
) -> bool {
    let http = settings.and_then(|s| s.http.as_ref());
    match http.map(|h| h.h2_upgrade_policy) {
        Some(H2UpgradePolicy::Upgrade) => true,
        Some(H2UpgradePolicy::DoNotUpgrade) => false,
        _ => is_http && mesh.h2_upgrade,
    }
}

/// Pings and streams of HTTP/2, where it is spoken: so this comes after the protocol is chosen.
pub(crate) fn http2(draft: &mut Draft, settings: Option<&ConnectionPoolSettings>) {
    let Some(settings) = settings.and_then(|s| s.http.as_ref()) else { return };
    let Some(http2) = draft.http2() else { return };
    if let Ok(value @ 1..) = u32::try_from(settings.max_concurrent_streams) {
        http2.max_concurrent_streams = Some(UInt32Value { value });
    }
    if let Some(pings) = &settings.http2_keep_alive {
        http2.connection_keepalive = Some(core::KeepaliveSettings {
            interval: pings.interval.map(Into::into),
            timeout: pings.timeout.map(Into::into),
            ..Default::default()
        });
    }
}

fn limits(draft: &mut Draft, tcp: Option<&TcpSettings>, http: Option<&HttpSettings>) {
    let thresholds = draft.thresholds();
    // Zero cannot be told from "not set", so it leaves the default, as in Istio.
    let set = |to: &mut Option<UInt32Value>, value: Option<i32>| {
        if let Some(value) = value.and_then(|v| u32::try_from(v).ok()).filter(|v| *v > 0) {
            *to = Some(UInt32Value { value });
        }
    };
    set(&mut thresholds.max_connections, tcp.map(|t| t.max_connections));
    set(&mut thresholds.max_requests, http.map(|h| h.http2_max_requests));
    set(&mut thresholds.max_pending_requests, http.map(|h| h.http1_max_pending_requests));
    set(&mut thresholds.max_retries, http.map(|h| h.max_retries));
}

fn lifetimes(draft: &mut Draft, tcp: Option<&TcpSettings>, http: Option<&HttpSettings>) {
    let idle = http.and_then(|h| h.idle_timeout).or_else(|| tcp.and_then(|t| t.idle_timeout));
    if let Some(idle) = idle {
        draft.common_http().idle_timeout = Some(idle.into());
    }
    if let Some(longest) = tcp.and_then(|t| t.max_connection_duration) {
        draft.common_http().max_connection_duration = Some(longest.into());
    }
    let positive =
        |value: Option<i32>| value.and_then(|v| u32::try_from(v).ok()).filter(|v| *v > 0);
    if let Some(value) = positive(http.map(|h| h.max_requests_per_connection)) {
        draft.common_http().max_requests_per_connection = Some(UInt32Value { value });
    }
}

fn keepalive(draft: &mut Draft, settings: Option<&TcpKeepalive>) {
    let Some(settings) = settings else { return };
    let seconds = |d: Option<std::time::Duration>| {
        let value = u32::try_from(d?.as_secs()).unwrap_or(u32::MAX);
        Some(UInt32Value { value })
    };
    draft.cluster.upstream_connection_options = Some(UpstreamConnectionOptions {
        tcp_keepalive: Some(core::TcpKeepalive {
            keepalive_probes: (settings.probes > 0)
                .then_some(UInt32Value { value: settings.probes }),
            keepalive_time: seconds(settings.time),
            keepalive_interval: seconds(settings.interval),
        }),
        ..Default::default()
    });
}
