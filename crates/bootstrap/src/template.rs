//! Bootstrap files that a user writes as a Go template.
//!
//! In: the template's text, and the same settings that our own file is made of, under the names that
//! such templates know; out: the file's text, or where the template is wrong. The template's functions
//! are those of the language, sprig's, and `toJSON`; none of them reads anything outside.

mod data;

use ironsail_gotemplate::{Functions, Param, Templates, Value as Data};
use serde_json::Value;

use crate::Settings;

/// What a template sees beside the settings.
#[derive(Clone, Copy, Debug)]
pub struct Template<'a> {
    pub settings: &'a Settings,
    /// The proxy's configuration, with defaults.
    pub config: &'a Value,
    pub discovery_address: &'a str,
    /// The names one of which the control plane's certificate must have.
    pub pilot_names: &'a [String],
    /// File of the roots that the control plane is checked by.
    pub xds_root: &'a str,
}

/// A template that gives no file; says where it is wrong.
#[derive(Debug, thiserror::Error)]
#[error("the bootstrap template: {0}")]
pub struct TemplateError(#[from] ironsail_gotemplate::Error);

const NAME: &str = "bootstrap";
/// Parts of a value that `toJSON` writes at most.
const MOST_PARTS: usize = 100_000;

impl Template<'_> {
    /// The file that the template `text` makes.
    pub fn render(&self, text: &str) -> Result<String, TemplateError> {
        let mut functions = Functions::sprig();
        functions.add("toJSON", &[Param::Any], None, |args| {
            let value = args.first().cloned().unwrap_or_default();
            let json = match value {
                Data::Nil => "{}".to_owned(),
                value => value.to_json(MOST_PARTS).unwrap_or_default().to_string(),
            };
            Ok(json.as_str().into())
        });
        let mut templates = Templates::new(functions);
        templates.parse(NAME, text)?;
        Ok(templates.render_value(NAME, data::of(self)?)?)
    }
}

#[cfg(test)]
mod tests;
