//! Changes of headers.

use ironsail_api::istio::networking::{HeaderOperations, Headers};
use ironsail_proto::envoy::config::core::v3::{
    HeaderValue, HeaderValueOption, header_value_option::HeaderAppendAction,
};

use crate::route::check;

/// What a route or a destination does to headers.
#[derive(Default)]
pub(super) struct Changes {
    pub(super) request_add: Vec<HeaderValueOption>,
    pub(super) request_remove: Vec<String>,
    pub(super) response_add: Vec<HeaderValueOption>,
    pub(super) response_remove: Vec<String>,
    /// `Host` cannot be changed as a header is; it is rewritten.
    pub(super) authority: Option<String>,
}

/// Bad names and values are left out and told.
pub(super) fn changes(headers: Option<&Headers>, mut bad: impl FnMut(String)) -> Changes {
    let mut out = Changes::default();
    let Some(headers) = headers else { return out };
    if let Some(request) = &headers.request {
        out.request_add = additions(request, &mut bad);
        out.request_remove = removals(request, &mut bad);
        let host = |map: &std::collections::BTreeMap<String, String>| {
            map.iter().rev().find(|(k, _)| is_authority(k)).map(|(_, v)| v.clone())
        };
        out.authority = host(&request.set).or_else(|| host(&request.add)).filter(|h| !h.is_empty());
    }
    if let Some(response) = &headers.response {
        out.response_add = additions(response, &mut bad);
        out.response_remove = removals(response, &mut bad);
    }
    out
}

fn additions(
    operations: &HeaderOperations,
    bad: &mut impl FnMut(String),
) -> Vec<HeaderValueOption> {
    let set = operations.set.iter().map(|h| (h, HeaderAppendAction::OverwriteIfExistsOrAdd));
    let add = operations.add.iter().map(|h| (h, HeaderAppendAction::AppendIfExistsOrAdd));
    let mut out = Vec::new();
    for ((key, value), action) in set.chain(add) {
        if is_internal(key) {
            continue;
        }
        if let Err(why) = check::header_name(key).and_then(|()| check::header_value(value)) {
            bad(why);
            continue;
        }
        out.push(HeaderValueOption {
            header: Some(HeaderValue {
                key: key.clone(),
                value: value.clone(),
                ..Default::default()
            }),
            append_action: action.into(),
            ..Default::default()
        });
    }
    out
}

fn removals(operations: &HeaderOperations, bad: &mut impl FnMut(String)) -> Vec<String> {
    let mut out = Vec::new();
    for key in operations.remove.iter().filter(|key| !is_internal(key)) {
        match check::header_name(key) {
            Ok(()) => out.push(key.clone()),
            Err(why) => bad(why),
        }
    }
    out
}

/// Envoy does not let these be changed.
fn is_internal(key: &str) -> bool {
    key.starts_with(':') || key.eq_ignore_ascii_case("host")
}

fn is_authority(key: &str) -> bool {
    key.eq_ignore_ascii_case(":authority") || key.eq_ignore_ascii_case("host")
}
