//! What gRPC clients and servers without a proxy need (`GENERATOR=grpc`).
//!
//! In: services in scope, their rules. Out: listeners that a client asks for by the name it dials,
//! routes, clusters, and listeners of servers. gRPC refuses whatever it does not know, so every
//! message holds only what its designs name; endpoints are those of all proxies.

mod message;
