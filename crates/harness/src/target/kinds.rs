//! Built-in kinds: what any JSON becomes on its way to the store and into a table.

use std::time::{Duration, SystemTime};

use crate::{json, sample};
use arbitrary::{Result, Unstructured};
use ironsail_kubeapi::kinds;

fn try_one(u: &mut Unstructured<'_>) -> Result<()> {
    let object = if u.ratio(7, 8)? { sample::broken(u)? } else { json::object(u)? };
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = kinds::by_kind(group, version, object["kind"].as_str().unwrap_or_default());
    let kind = match kind {
        Some(kind) => kind,
        None => u.choose(kinds::all())?,
    };
    let Ok(decoded) = kind.decode(object) else { return Ok(()) };
    let mut new = decoded.value;
    let once = kind.decode(new.clone()).expect("what was decoded can be decoded").value;
    assert_eq!(new, once, "decoding what was decoded changes nothing");
    kind.default(&mut new);
    let mut again = new.clone();
    kind.default(&mut again);
    assert_eq!(new, again, "defaults are filled in once");
    kind.prepare_create(&mut new);
    let _ = kind.validate_create(&new);
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    assert_eq!(kind.cells(&new, now).len(), kind.columns().len(), "a cell for each column");
    for path in kind.selectable() {
        assert!(kind.field(&new, path).is_some(), "{path} can be selected by");
    }
    let json::Json(with) = u.arbitrary()?;
    json::graft(u, &mut again, with)?;
    let Ok(changed) = kind.decode(again) else { return Ok(()) };
    let mut changed = changed.value;
    kind.default(&mut changed);
    kind.prepare_update(
        &mut changed,
        &new,
        u.choose(&[None, Some("status"), Some("scale")])?.as_deref(),
    );
    let _ = kind.validate_update(&changed, &new);
    Ok(())
}

pub(crate) fn target(bytes: &[u8]) {
    let _ = try_one(&mut Unstructured::new(bytes));
}
