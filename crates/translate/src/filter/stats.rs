//! The Envoy module in a listener: the filter that exchanges metadata, the loggers that count.
//!
//! Only proxies that say that they have the module get it; all of it follows from `Settings`.

use ironsail_proto::envoy::config::accesslog::v3::AccessLog;
use ironsail_proto::envoy::extensions::access_loggers::dynamic_modules::v3::DynamicModuleAccessLog;
use ironsail_proto::envoy::extensions::dynamic_modules::v3::DynamicModuleConfig;
use ironsail_proto::envoy::extensions::filters::http::dynamic_modules::v3::DynamicModuleFilter;
use ironsail_proto::envoy::extensions::filters::network::http_connection_manager::v3::HttpFilter;
use ironsail_proto::google::protobuf::{Any, StringValue};
use ironsail_proto::pack;
use ironsail_telemetry::Service;
use ironsail_telemetry::config::{self, Direction, Filter, Logger, Reporter, Traffic};

use super::settings::{Settings, Side};
use super::{access, http};

/// Istio's names for what the module does.
pub const FILTER: &str = "istio.metadata_exchange";
pub const LOGGER: &str = "istio.stats";

fn module() -> Option<DynamicModuleConfig> {
    Some(DynamicModuleConfig {
        name: config::MODULE.into(),
        do_not_close: true,
        metrics_namespace: config::STAT_NAMESPACE.into(),
        ..Default::default()
    })
}

fn told(config: serde_json::Result<String>) -> Option<Any> {
    let value = config.expect("plain structs are JSON");
    Some(pack(&StringValue { value }))
}

/// The filters of a manager with the exchange of metadata in its place: before all others for a server,
/// so that what is refused has a peer too; last before the router for a client, when it is known where a
/// request goes.
pub fn around(mut filters: Vec<HttpFilter>, settings: &Settings, side: Side) -> Vec<HttpFilter> {
    if settings.metrics.is_none() {
        return filters;
    }
    let direction = match side {
        Side::Client => Direction::Outbound,
        Side::Server => Direction::Inbound,
    };
    let config = DynamicModuleFilter {
        dynamic_module_config: module(),
        filter_name: "peer".into(),
        filter_config: told(serde_json::to_string(&Filter { direction })),
        ..Default::default()
    };
    let place = match side {
        Side::Client => filters.len().saturating_sub(1),
        Side::Server => 0,
    };
    filters.insert(place, http::filter(FILTER, &config));
    filters
}

/// Counts the requests of a manager.
pub fn http_logger(settings: &Settings, side: Side) -> Option<AccessLog> {
    logger(settings, side, Traffic::Http, None)
}

/// Counts the connections of a TCP proxy.
pub fn tcp_logger(settings: &Settings, side: Side, service: Option<&Service>) -> Option<AccessLog> {
    logger(settings, side, Traffic::Tcp, service)
}

fn logger(
    settings: &Settings,
    side: Side,
    traffic: Traffic,
    service: Option<&Service>,
) -> Option<AccessLog> {
    let metrics = settings.metrics.as_ref()?;
    let overrides = metrics.overrides.of(side).iter();
    let logger = Logger {
        reporter: match side {
            Side::Client => Reporter::Source,
            Side::Server => Reporter::Destination,
        },
        traffic,
        service: service.cloned(),
        overrides: overrides
            .filter(|(metric, _)| metric.traffic() == traffic)
            .map(|(metric, change)| (*metric, change.clone()))
            .collect(),
    };
    let config = DynamicModuleAccessLog {
        dynamic_module_config: module(),
        logger_name: "stats".into(),
        logger_config: told(serde_json::to_string(&logger)),
    };
    Some(access::log(LOGGER, &config))
}

/// What the name of a host says about its service.
pub fn service(host: &str) -> Option<Service> {
    Service::of_cluster(&format!("outbound|||{host}"))
}

#[cfg(test)]
mod tests {
    use super::super::settings::Metrics;
    use super::*;

    fn names(side: Side, metrics: Option<Metrics>) -> Vec<String> {
        let settings = Settings { metrics, ..Settings::default() };
        let filters = vec![http::router(false)];
        around(filters, &settings, side).into_iter().map(|filter| filter.name).collect()
    }

    #[test]
    fn only_who_counts_exchanges_metadata_first_as_a_server_and_last_as_a_client() {
        let some = || Some(Metrics::default());
        assert_eq!(names(Side::Server, None), [http::ROUTER]);
        assert_eq!(names(Side::Server, some()), [FILTER, http::ROUTER]);
        assert_eq!(names(Side::Client, some()), [FILTER, http::ROUTER]);
        assert!(http_logger(&Settings::default(), Side::Client).is_none());
    }
}
