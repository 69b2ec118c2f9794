//! Translated resources, found by the key of the view they were made from.
//!
//! In: the key of a view and the way to translate it; out: the resource, translated at most once while
//! anybody has it. The cache itself keeps nothing alive: what no set holds any more is forgotten.

use std::sync::{Arc, OnceLock, Weak};

use ironsail_api::Diagnostic;
use ironsail_translate::Translated;
use ironsail_translate::route::{Kept, Memo};
use ironsail_xds::{Resource, Set, Version, WeakResource};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::{Counters, Kind};

/// Shared by all classes of proxies.
pub(crate) struct Cache {
    slots: Mutex<Swept<(Kind, u64), Arc<Slot>>>,
    sets: Mutex<Swept<(Kind, Version), Weak<Set>>>,
    /// Why Envoy refused what, by content.
    refused: Mutex<FxHashMap<(Kind, Version), String>>,
    /// Routes that route configurations in use are made of.
    pub(crate) routes: Memo,
    counters: Arc<Counters>,
}

/// What was made just now, and what is to be held as long as that is in use.
pub(crate) struct Fresh {
    pub(crate) made: Translated<Resource>,
    pub(crate) kept: Kept,
}

impl From<Translated<Resource>> for Fresh {
    fn from(made: Translated<Resource>) -> Self {
        Self { made, kept: Kept::default() }
    }
}

/// Refusals that are remembered; more are from a mesh where something else is wrong.
const MAX_REFUSED: usize = 4096;

#[derive(Default)]
struct Slot(OnceLock<Made>);

struct Made {
    resource: WeakResource,
    diagnostics: Arc<[Diagnostic]>,
    _kept: Kept,
}

impl Slot {
    /// Empty while it is being filled.
    fn is_of_use(&self) -> bool {
        self.0.get().is_none_or(|made| made.resource.is_alive())
    }
}

impl Cache {
    pub(crate) fn new(counters: Arc<Counters>) -> Self {
        let (slots, sets, refused) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { slots, sets, refused, routes: Memo::default(), counters }
    }

    /// Envoy does not take a resource with this content.
    pub(crate) fn refuse(&self, kind: Kind, resource: &Resource, why: &str) {
        let mut refused = self.refused.lock();
        if refused.len() < MAX_REFUSED {
            refused.insert((kind, resource.version()), why.to_owned());
        }
    }

    /// Why Envoy does not take it.
    pub(crate) fn refused(&self, kind: Kind, resource: &Resource) -> Option<String> {
        self.refused.lock().get(&(kind, resource.version())).cloned()
    }

    /// The resource for a view, and what translating said about objects. Whoever comes while it is
    /// translated waits for it.
    pub(crate) fn resource(
        &self,
        kind: Kind,
        key: u64,
        translate: impl Fn() -> Fresh,
    ) -> (Resource, Arc<[Diagnostic]>) {
        loop {
            let slot = self.slot((kind, key));
            let mut own = None;
            let made = slot.0.get_or_init(|| {
                let Fresh { made, kept } = translate();
                self.counters.generated(kind);
                let resource = made.value.downgrade();
                own = Some(made.value);
                Made { resource, diagnostics: made.diagnostics.into(), _kept: kept }
            });
            if let Some(own) = own {
                return (own, made.diagnostics.clone());
            }
            // It may have gone between the two looks.
            if let Some(resource) = made.resource.upgrade() {
                self.counters.hit(kind);
                return (resource, made.diagnostics.clone());
            }
        }
    }

    fn slot(&self, key: (Kind, u64)) -> Arc<Slot> {
        let mut slots = self.slots.lock();
        slots.sweep(|slot| slot.is_of_use());
        let slot = slots.map.entry(key).or_default();
        if !slot.is_of_use() {
            *slot = Arc::default();
        }
        slot.clone()
    }

    /// The set of these resources that follows `earlier`, shared with every class that has the same.
    pub(crate) fn set(
        &self,
        kind: Kind,
        earlier: Option<&Arc<Set>>,
        resources: impl IntoIterator<Item = Resource>,
    ) -> Arc<Set> {
        let set = match earlier {
            Some(earlier) => Set::after(earlier, resources),
            None => Arc::new(resources.into_iter().collect()),
        };
        self.share(kind, set)
    }

    /// The shared one of sets with equal content.
    pub(crate) fn share(&self, kind: Kind, set: Arc<Set>) -> Arc<Set> {
        let mut sets = self.sets.lock();
        sets.sweep(|set| set.strong_count() > 0);
        let shared = sets.map.entry((kind, set.version())).or_default();
        if let Some(found) = shared.upgrade() {
            return found;
        }
        *shared = Arc::downgrade(&set);
        set
    }

    /// Resources and sets that are in use.
    pub(crate) fn len(&self) -> (usize, usize) {
        let mut slots = self.slots.lock();
        slots.force(|slot| slot.is_of_use());
        let mut sets = self.sets.lock();
        sets.force(|set| set.strong_count() > 0);
        (slots.map.len(), sets.map.len())
    }
}

/// A map that is rid of dead entries when it has grown to twice the living.
struct Swept<K, V> {
    map: FxHashMap<K, V>,
    sweep_at: usize,
}

impl<K, V> Default for Swept<K, V> {
    fn default() -> Self {
        Self { map: FxHashMap::default(), sweep_at: 0 }
    }
}

impl<K: Eq + std::hash::Hash, V> Swept<K, V> {
    fn sweep(&mut self, is_alive: impl Fn(&V) -> bool) {
        if self.map.len() >= self.sweep_at {
            self.force(is_alive);
        }
    }

    fn force(&mut self, is_alive: impl Fn(&V) -> bool) {
        self.map.retain(|_, value| is_alive(value));
        self.sweep_at = (self.map.len() * 2).max(256);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> (Cache, Arc<Counters>) {
        let counters = Arc::<Counters>::default();
        (Cache::new(counters.clone()), counters)
    }

    fn make(name: &str) -> impl Fn() -> Fresh {
        let name = name.to_owned();
        move || Translated::new(Resource::new(name.as_str(), name.clone())).into()
    }

    #[test]
    fn a_view_is_translated_once_while_it_is_held() {
        let (cache, counters) = cache();
        let (first, _) = cache.resource(Kind::Cluster, 1, make("a"));
        let (second, _) = cache.resource(Kind::Cluster, 1, make("a"));
        assert_eq!(first.body().as_ptr(), second.body().as_ptr());
        cache.resource(Kind::Endpoint, 1, make("b"));
        let counts = counters.read();
        assert_eq!((counts.of(Kind::Cluster).generations, counts.of(Kind::Cluster).hits), (1, 1));
        assert_eq!(counts.of(Kind::Endpoint).generations, 1);
        drop((first, second));
        cache.resource(Kind::Cluster, 1, make("a"));
        assert_eq!(counters.read().of(Kind::Cluster).generations, 2);
    }

    #[test]
    fn threads_that_want_the_same_wait_for_one() {
        let (cache, counters) = cache();
        let held = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for key in 0..50 {
                        let (one, _) = cache.resource(Kind::Route, key, make(&key.to_string()));
                        held.lock().push(one);
                    }
                });
            }
        });
        assert_eq!(counters.read().of(Kind::Route).generations, 50);
    }

    #[test]
    fn what_nobody_holds_is_forgotten() {
        let (cache, _) = cache();
        for key in 0..10_000 {
            let (one, _) = cache.resource(Kind::Route, key, make("x"));
            cache.set(Kind::Route, None, [one]);
        }
        assert!(cache.slots.lock().map.len() <= 512);
        assert!(cache.sets.lock().map.len() <= 512);
        assert_eq!(cache.len(), (0, 0));
    }

    #[test]
    fn equal_sets_are_one_and_know_their_step() {
        let (cache, _) = cache();
        let one = |name: &str, body: &str| Resource::new(name, body.to_owned());
        let a = cache.set(Kind::Endpoint, None, [one("a", "1"), one("b", "1")]);
        let b = cache.set(Kind::Endpoint, None, [one("a", "1"), one("b", "1")]);
        assert!(Arc::ptr_eq(&a, &b));
        let a2 = cache.set(Kind::Endpoint, Some(&a), [one("a", "2"), one("b", "1")]);
        let b2 = cache.set(Kind::Endpoint, Some(&b), [one("a", "2"), one("b", "1")]);
        assert!(Arc::ptr_eq(&a2, &b2));
        assert!(Arc::ptr_eq(&b2.changes_since(&b), &a2.changes_since(&a)));
    }
}
