//! Scaling outside of a rollout step: a changed number of replicas is spread over the ReplicaSets
//! in proportion to their size, so that a rollout in progress (or paused) keeps its shape. Pure.

use k8s_openapi::api::apps::v1::Deployment;

use super::replicas::{Set, available, born, bounds, desired, is_rolling, size, total, wanted};

/// Whether the wanted number differs from what an active set was last told of.
pub(super) fn is_asked(deployment: &Deployment, sets: &[Set]) -> bool {
    sets.iter()
        .filter(|set| size(set) > 0)
        .filter_map(|set| desired(set))
        .any(|told| told != wanted(deployment))
}

/// The new size of each set that must be told of the wanted number.
pub(super) fn spread(deployment: &Deployment, new: Option<&Set>, old: &[Set]) -> Vec<(Set, i32)> {
    let wanted = wanted(deployment);
    let mut all: Vec<Set> = old.to_vec();
    all.extend(new.cloned());
    let active: Vec<Set> = all.iter().filter(|set| size(set) > 0).cloned().collect();

    if active.len() <= 1 {
        let latest = || old.iter().max_by_key(|set| born(set)).cloned();
        let only = active.first().cloned().or_else(|| new.cloned()).or_else(latest);
        return only.map(|set| vec![(set, wanted)]).unwrap_or_default();
    }
    if let Some(new) = new
        && size(new) == wanted
        && desired(new) == Some(wanted)
        && available(new) == wanted
    {
        return old.iter().filter(|s| size(s) > 0).map(|s| (s.clone(), 0)).collect();
    }
    if !is_rolling(deployment) {
        return Vec::new();
    }
    let limit = if wanted > 0 { wanted + bounds(deployment).0 } else { 0 };
    let now = total(&active, size);
    share(active, limit - now, limit, now)
}

/// Gives every set its share of `change`; what rounding leaves over goes to the largest.
fn share(mut sets: Vec<Set>, change: i32, limit: i32, now: i32) -> Vec<(Set, i32)> {
    // Growing prefers newer sets among equals, shrinking prefers older ones.
    sets.sort_by_cached_key(|set| born(set));
    if change > 0 {
        sets.reverse();
    }
    sets.sort_by_key(|set| std::cmp::Reverse(size(set)));
    let mut left = change;
    let mut sizes: Vec<(Set, i32)> = Vec::new();
    for set in sets {
        let size = size(&set);
        let fair = if now == 0 {
            0
        } else {
            let exact = f64::from(size) * f64::from(limit) / f64::from(now);
            #[expect(clippy::cast_possible_truncation, reason = "bounded by `limit`, an i32")]
            let rounded = exact.round() as i32;
            rounded - size
        };
        let part = if left >= 0 { fair.clamp(0, left) } else { fair.clamp(left, 0) };
        left -= part;
        sizes.push((set, size + part));
    }
    if let Some((_, size)) = sizes.first_mut() {
        *size = (*size + left).max(0);
    }
    sizes
}
