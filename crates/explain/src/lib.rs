//! What becomes of a request in a mesh, and which object says so.
//!
//! In: a `World` (the configuration of proxies, live or translated from files, and the objects behind
//! it) and a `Question` (who asks for what). Out: an `Answer`: the steps that the request takes, each
//! with the object and field it comes from, and the outcome. Many questions may be asked of one world.
//! Matching follows Envoy's rules. Nothing here does IO or reads a clock.

mod answer;
mod config;
mod log;
mod matching;
mod object;
pub mod offline;
mod question;
mod refusal;
mod upstream;
mod walk;
mod world;

pub use answer::{Answer, Origin, Outcome, Side, Step, Verdict, Warning};
pub use config::{Config, Error as ConfigError, Health};
pub use log::Line;
pub use object::Objects;
pub use question::{Error as QuestionError, Question, Url};
pub use refusal::{Meaning, meaning};
pub use walk::explain;
pub use world::{Pod, World};
