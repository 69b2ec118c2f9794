//! Routes that are made already: of a VirtualService on a port, or of a service that has none.
//!
//! In: the key of everything they are made of, and the way to make them. Out: the routes, encoded, made
//! once while anybody holds them. A change of one VirtualService among a thousand on the same port costs
//! the translation of one; the others are copied. Never changes what comes out.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use ironsail_api::Diagnostic;
use ironsail_proto::Message;
use ironsail_proto::envoy::config::route::v3::{Route, VirtualHost, route::Action};
use parking_lot::Mutex;

use super::virtual_service::matching;
use crate::listener::digest;

/// Routes as they stand in a virtual host.
#[derive(Debug, Default)]
pub(crate) struct Made {
    /// Encoded, without the last if that takes everything.
    pub(super) first: Vec<u8>,
    /// Encoded: the route that takes everything. Nothing stands behind it.
    pub(super) last: Vec<u8>,
    pub(super) diagnostics: Vec<Diagnostic>,
}

impl Made {
    /// `forwarded`: requests that go on say which host was asked for.
    pub(super) fn new(
        mut routes: Vec<Route>,
        forwarded: bool,
        diagnostics: Vec<Diagnostic>,
    ) -> Self {
        for route in &mut routes {
            if let Some(Action::Route(action)) = &mut route.action {
                action.append_x_forwarded_host |= forwarded;
            }
        }
        let last = routes.pop_if(|route| takes_all(route)).map(|last| encode(vec![last]));
        Self { first: encode(routes), last: last.unwrap_or_default(), diagnostics }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_empty() && self.last.is_empty()
    }

    pub(super) fn takes_all(&self) -> bool {
        !self.last.is_empty()
    }
}

fn takes_all(route: &Route) -> bool {
    route.r#match.as_ref().is_some_and(matching::is_catch_all)
}

/// The routes as the only field of a virtual host.
fn encode(routes: Vec<Route>) -> Vec<u8> {
    VirtualHost { routes, ..Default::default() }.encode_to_vec()
}

/// Whoever uses made routes holds them; the memo itself keeps nothing alive.
#[derive(Debug, Default)]
pub struct Memo {
    known: Mutex<Known>,
    made: AtomicU64,
    found: AtomicU64,
}

#[derive(Debug, Default)]
struct Known {
    by_key: HashMap<u64, Weak<Made>>,
    sweep_at: usize,
}

/// Below this many the dead are not looked for.
const SWEEP: usize = 1024;

impl Memo {
    /// The routes made of `inputs`. Two who want the same at the same time may both make them.
    pub(super) fn get(&self, inputs: &impl Hash, make: impl FnOnce() -> Made) -> Arc<Made> {
        let key = digest(inputs);
        if let Some(found) = self.known.lock().by_key.get(&key).and_then(Weak::upgrade) {
            self.found.fetch_add(1, Ordering::Relaxed);
            return found;
        }
        let made = Arc::new(make());
        self.made.fetch_add(1, Ordering::Relaxed);
        let mut known = self.known.lock();
        if known.by_key.len() >= known.sweep_at {
            known.by_key.retain(|_, one| one.strong_count() > 0);
            known.sweep_at = (known.by_key.len() * 2).max(SWEEP);
        }
        known.by_key.insert(key, Arc::downgrade(&made));
        made
    }

    /// How often routes were made, and how often they were there.
    pub fn counts(&self) -> (u64, u64) {
        (self.made.load(Ordering::Relaxed), self.found.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_made_once_and_what_nobody_holds_is_forgotten() {
        let memo = Memo::default();
        let held = memo.get(&1, Made::default);
        assert!(Arc::ptr_eq(&held, &memo.get(&1, Made::default)));
        assert_eq!(memo.counts(), (1, 1));
        for number in 2..10_000 {
            memo.get(&number, Made::default);
        }
        assert!(memo.known.lock().by_key.len() <= 2 * SWEEP);
        assert!(Arc::ptr_eq(&held, &memo.get(&1, Made::default)));
    }
}
