//! How much of everything there is, for metrics and debug pages.

use super::Snapshot;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub services: usize,
    pub endpoints: usize,
    pub workloads: usize,
    pub virtual_services: usize,
    pub destination_rules: usize,
    pub gateways: usize,
    pub service_entries: usize,
    pub workload_entries: usize,
    pub sidecars: usize,
    pub envoy_filters: usize,
    pub authorization_policies: usize,
    pub peer_authentications: usize,
    pub request_authentications: usize,
    pub telemetries: usize,
    pub secrets: usize,
    pub diagnostics: usize,
}

impl Snapshot {
    /// Costs no walk over the mesh.
    pub fn counts(&self) -> Counts {
        let config = &self.config;
        Counts {
            services: self.services.len(),
            endpoints: self.endpoint_count,
            workloads: self.workloads.len(),
            virtual_services: config.virtual_services.len(),
            destination_rules: config.destination_rules.len(),
            gateways: config.gateways.len(),
            service_entries: config.service_entries.len(),
            workload_entries: config.workload_entries.len(),
            sidecars: config.sidecars.len(),
            envoy_filters: config.envoy_filters.len(),
            authorization_policies: config.authorization_policies.len(),
            peer_authentications: config.peer_authentications.len(),
            request_authentications: config.request_authentications.len(),
            telemetries: config.telemetries.len(),
            secrets: self.secrets.len(),
            diagnostics: self.notes.len(),
        }
    }
}
