//! Filters that stock Envoy has: one that it has not makes it refuse the listener.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use ironsail_proto::reflect::{DynamicMessage, ReflectMessage};

use super::value::bare;

static KNOWN: LazyLock<BTreeSet<(&str, &str)>> = LazyLock::new(|| {
    let lines = include_str!("stock.txt").lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(' ')).collect()
});

/// Whether a message that is a filter has a configuration that Envoy knows in that place.
pub(super) fn check(message: &DynamicMessage) -> Result<(), String> {
    let descriptor = message.descriptor();
    let place = match descriptor.full_name() {
        "envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter" => "http",
        "envoy.config.listener.v3.Filter" => "network",
        "envoy.config.listener.v3.ListenerFilter" => "listener",
        _ => return Ok(()),
    };
    if !message.has_field_by_name("typed_config") {
        return Ok(());
    }
    let any = message.get_field_by_name("typed_config");
    let url = any.as_ref().and_then(|v| v.as_message()?.get_field_by_name("type_url"));
    let url = url.as_ref().and_then(|v| v.as_str()).unwrap_or_default();
    let name = bare(url);
    // JSON with the name of its type; what is inside is looked at as the type itself.
    if name.ends_with(".TypedStruct") || is_known(place, name) {
        return Ok(());
    }
    Err(format!("Envoy has no {place} filter {name:?}"))
}

fn is_known(place: &str, name: &str) -> bool {
    KNOWN.contains(&(place, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_known_in_their_place() {
        assert!(is_known("http", "envoy.extensions.filters.http.lua.v3.Lua"));
        assert!(!is_known("network", "envoy.extensions.filters.http.lua.v3.Lua"));
        assert!(!is_known("http", "istio.envoy.config.filter.http.alpn.v2alpha1.FilterConfig"));
    }
}
