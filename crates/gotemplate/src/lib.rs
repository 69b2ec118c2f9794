//! Go's template language over JSON data, with the functions of Helm charts and of sidecar injection.
//!
//! Template text and data come in, text or an [`Error`] in Go's words goes out. Nothing here reads
//! files, the clock, the environment or chance: what needs them is a function that the caller adds.
//! Any text and any data end in a result: size, nesting, loops and output are bounded by [`Limits`].
//!
//! ```
//! use ironsail_gotemplate::{Functions, Templates};
//!
//! let mut templates = Templates::new(Functions::sprig());
//! templates.parse("greeting", "hello {{ .name | default \"world\" | upper }}")?;
//! assert_eq!(templates.render("greeting", &serde_json::json!({}))?, "hello WORLD");
//! # Ok::<(), ironsail_gotemplate::Error>(())
//! ```
//!
//! Strings are text, not bytes as in Go: a byte that is no text, from `"\xff"` or from cutting
//! inside a character, becomes U+FFFD.

mod buffer;
mod error;
mod exec;
mod format;
mod functions;
mod json;
mod lex;
mod limit;
mod literal;
mod node;
mod parse;
mod templates;
mod value;
mod yaml;

pub use error::{Error, Fault};
pub use functions::{Functions, Outcome, Param};
pub use limit::Limits;
pub use templates::{MissingKey, Templates};
pub use value::{Elem, List, Map, Numbers, Value};
pub use yaml::to_yaml;
