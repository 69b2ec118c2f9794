//! For tests only: a podlet, YAML, conditions and traffic, so that an end-to-end test is ten lines.
//!
//! ```ignore
//! #[test]
//! fn a_service_reaches_its_pods() {
//!     testkit::case("reach", async |case| {
//!         case.sample("echo/echo.yaml").await;
//!         case.sample("curl/curl.yaml").await;
//!         case.ready("deployment/echo").await;
//!         let seen = case.call("deployment/echo", "http://echo/").await;
//!         assert_eq!(seen.status, Some(200));
//!     });
//! }
//! ```
//!
//! One podlet serves all tests of a test binary, each test in a namespace of its own. A test that
//! fails or hangs prints what its pods looked like.

mod api;
mod behaviour;
mod browser;
mod case;
mod certificate;
mod load;
mod mesh;
mod podlet;
mod report;
mod traffic;
mod wait;

pub use api::{Api, Fault};
pub use behaviour::{Ask, Traffic, ask};
pub use browser::Browser;
pub use case::{Case, case, case_on, case_within};
pub use certificate::{Authority, Issued};
pub use load::{Codes, Load};
pub use mesh::{
    Page, SYSTEM, install_control_plane, install_definitions, mesh, mesh_case, mesh_case_within,
    mesh_on,
};
pub use podlet::{Place, Podlet, Shared, binary, is_root, repository, tool};
pub use traffic::{Answer, Executed};
pub use wait::eventually;
