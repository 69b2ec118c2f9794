//! How a Kubernetes API behaves, asked of podlet, or of any API server whose kubeconfig the
//! variable `IRONSAIL_API_KUBECONFIG` names.
//!
//! Nothing here needs controllers or nodes. Where podlet differs on purpose, docs/podlet.md says so and
//! no test here asks for it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "api/admission.rs"]
mod admission;
#[path = "api/apply.rs"]
mod apply;
#[path = "api/auth.rs"]
mod auth;
#[path = "api/crd.rs"]
mod crd;
#[path = "api/discovery.rs"]
mod discovery;
#[path = "api/malformed.rs"]
mod malformed;
#[path = "api/patch.rs"]
mod patch;
#[path = "api/server.rs"]
mod server;
#[path = "api/verbs.rs"]
mod verbs;
#[path = "api/watch.rs"]
mod watch;
