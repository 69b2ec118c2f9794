//! The image of the proxy: hub, name and tag of the values, with a type such as `distroless` at the end.

use std::collections::BTreeMap;

use ironsail_names::annotation;
use serde_json::Value;

use crate::object::text;
use crate::values::Values;

/// Types that a tag may already end with.
const TYPES: [&str; 2] = ["distroless", "debug"];

pub(crate) fn proxy(
    values: &Values,
    proxy_config: &Value,
    annotations: &BTreeMap<String, String>,
) -> String {
    let mut name = values.text(&["global", "proxy", "image"]);
    if name.is_empty() {
        "proxyv2".clone_into(&mut name);
    }
    let configured = text(proxy_config, &["image", "imageType"]);
    let variant = values.text(&["global", "variant"]);
    let wanted = match annotations.get(annotation::PROXY_IMAGE_TYPE) {
        Some(asked) => asked.as_str(),
        None if !configured.is_empty() => configured,
        None => &variant,
    };
    let tag = tagged(&values.text(&["global", "tag"]), wanted);
    format!("{}/{name}:{tag}", values.text(&["global", "hub"]))
}

fn tagged(tag: &str, wanted: &str) -> String {
    if wanted.is_empty() {
        return tag.to_owned();
    }
    let bare = TYPES.iter().find_map(|known| tag.strip_suffix(known)?.strip_suffix('-'));
    let bare = bare.unwrap_or(tag);
    if wanted == "default" { bare.to_owned() } else { format!("{bare}-{wanted}") }
}

#[cfg(test)]
mod tests {
    use super::tagged;

    #[test]
    fn the_type_is_the_end_of_the_tag() {
        for (tag, wanted, expected) in [
            ("1.2", "", "1.2"),
            ("1.2", "distroless", "1.2-distroless"),
            ("1.2-debug", "distroless", "1.2-distroless"),
            ("1.2-debug", "default", "1.2"),
            ("1.2-debug", "", "1.2-debug"),
        ] {
            assert_eq!(tagged(tag, wanted), expected);
        }
    }
}
