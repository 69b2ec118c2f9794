//! `pilot-discovery version`.

use serde_json::json;

use crate::args::{Output, Version};

/// What this program is.
pub(crate) const NUMBER: &str = env!("CARGO_PKG_VERSION");

pub(crate) fn text(args: &Version) -> String {
    let version = json!({"clientVersion": {
        "version": NUMBER, "revision": "", "golang_version": "", "status": "Clean", "tag": NUMBER,
    }});
    match args.output {
        Some(Output::Json) => format!("{version:#}\n"),
        Some(Output::Yaml) => {
            let fields = version["clientVersion"].as_object().into_iter().flatten();
            let lines = fields.map(|(key, value)| format!("  {key}: {value}\n"));
            format!("clientVersion:\n{}", lines.collect::<String>())
        }
        None if args.short => format!("{NUMBER}\n"),
        None => format!(
            "version.BuildInfo{{Version:{NUMBER:?}, GitRevision:\"\", GolangVersion:\"\", BuildStatus:\"Clean\", GitTag:{NUMBER:?}}}\n"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_has_the_number() {
        for (short, output) in
            [(true, None), (false, None), (false, Some(Output::Json)), (false, Some(Output::Yaml))]
        {
            assert!(text(&Version { short, output }).contains(NUMBER));
        }
    }
}
