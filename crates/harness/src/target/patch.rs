//! JSON, merge and strategic merge patches and server-side apply, on objects that are as broken as
//! the patches.

use crate::{json, sample};
use arbitrary::{Result, Unstructured};
use ironsail_patch::{TypeInfo, apply, json_patch, merge_patch, strategic_merge};
use serde_json::Value;

/// Sends a patch on its way in the four forms.
fn try_all(u: &mut Unstructured<'_>) -> Result<()> {
    let live = sample::broken(u)?;
    let patch = match u.int_in_range(0..=2)? {
        0 => sample::broken(u)?,
        1 => json::object(u)?,
        _ => u.arbitrary::<json::Json>()?.0,
    };
    let _ = json_patch(&live, &patch);
    let mut merged = live.clone();
    merge_patch(&mut merged, &patch);
    let mut again = merged.clone();
    merge_patch(&mut again, &patch);
    assert_eq!(merged, again, "a merge patch changes nothing the second time");

    // A server takes the version from the path, so there always is one.
    let api_version = live["apiVersion"].as_str().filter(|v| !v.is_empty()).unwrap_or("v1");
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = live["kind"].as_str().unwrap_or_default();
    let ty = TypeInfo::builtin(group, version, kind).unwrap_or_else(TypeInfo::untyped);
    let _ = strategic_merge(&live, &patch, &ty);
    applied(u, &live, &patch, api_version, &ty)
}

/// Two managers apply one after the other, then somebody updates.
fn applied(
    u: &mut Unstructured<'_>,
    live: &Value,
    patch: &Value,
    api_version: &str,
    ty: &TypeInfo,
) -> Result<()> {
    let writer = |manager| apply::Writer {
        manager,
        api_version,
        subresource: "",
        time: "2026-01-02T03:04:05Z",
        reset: &["status"],
    };
    let Ok(first) = apply::apply(Some(live), patch, &writer("one"), u.arbitrary()?, ty) else {
        return Ok(());
    };
    let same = apply::apply(Some(&first), patch, &writer("one"), false, ty);
    let same =
        same.unwrap_or_else(|e| panic!("what was applied cannot be applied again: {e}\n{first}"));
    assert_eq!(same, first, "applying the same again changes nothing");
    let other = sample::broken(u)?;
    let second = apply::apply(Some(&first), &other, &writer("two"), true, ty).unwrap_or(first);
    let mut updated = second.clone();
    let json::Json(with) = u.arbitrary()?;
    json::graft(u, &mut updated, with)?;
    apply::track_update(Some(&second), &mut updated, &writer("three"), ty);
    Ok(())
}

pub(crate) fn target(bytes: &[u8]) {
    let _ = try_all(&mut Unstructured::new(bytes));
}
