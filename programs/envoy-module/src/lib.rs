//! The library that stock Envoy loads to count the mesh's standard metrics and to exchange metadata with
//! peers.
//!
//! Envoy calls the `envoy_dynamic_module_on_…` functions; each is guarded, so that a fault here is a log
//! line and not the end of the proxy. Four parts: `bootstrap` (one for the process: who we are, the
//! metrics), `exchange` (an HTTP filter: headers to and from peers), `logger` (one call for each request
//! and connection: count it), `table` (who has which address). All decisions are in `ironsail-telemetry`.

mod abi;
mod attributes;
mod bootstrap;
mod exchange;
mod handoff;
mod logger;
mod metrics;
mod owner;
mod recall;
mod table;
mod tcp;
