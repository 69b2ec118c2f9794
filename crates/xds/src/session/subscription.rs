//! One client's subscription to one type.
//!
//! What the client has is not a list of its own: it is the set that was sent last, as far as the
//! client wants it and it is not owed. So thousands of clients share one list.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Interest, MAX_NAMES, Refusal, Rejection, TypeStatus, Verdict, split_wildcard};
use crate::rule::Rule;
use crate::set::version_of;
use crate::{Interner, Name, Names, Resource, Response, Set, TypeUrl, Variant, Version};

pub(super) struct Subscription {
    pub(super) rule: Rule,
    pub(super) interest: Interest,
    /// What the client should have; unknown until somebody says.
    pub(super) goal: Option<Arc<Set>>,
    /// What it has, as far as it wants it and it is not owed.
    sent: Arc<Set>,
    /// Names that get an answer even if nothing changed.
    owed: BTreeSet<Name>,
    /// The type gets an answer even if there is nothing.
    owes_first: bool,
    /// Of a response that was refused without saying why: go along with the next one.
    doubtful: BTreeSet<Name>,
    /// Refused and not taken since.
    refused: BTreeSet<Name>,
    /// The client gave names at least once, so that no names means nothing.
    was_named: bool,
    in_flight: Option<InFlight>,
    last: Option<(String, Version)>,
    accepted: Option<Version>,
    rejection: Option<Arc<Rejection>>,
}

struct InFlight {
    resources: Arc<[Resource]>,
    removed: Vec<Name>,
}

/// What must wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    /// Everything but what is owed.
    pub(super) changes: bool,
    pub(super) removals: bool,
}

/// What one response brings.
#[derive(Default)]
struct Part {
    put: Vec<Resource>,
    gone: Vec<Name>,
    /// What the client has afterwards.
    target: Arc<Set>,
    /// What was doubtful is in it.
    settles_doubt: bool,
}

impl Subscription {
    pub(super) fn new(rule: Rule, no_names: Arc<Names>) -> Self {
        Self {
            rule,
            interest: Interest { all: false, names: no_names },
            goal: None,
            sent: Arc::default(),
            owed: BTreeSet::new(),
            owes_first: false,
            doubtful: BTreeSet::new(),
            refused: BTreeSet::new(),
            was_named: false,
            in_flight: None,
            last: None,
            accepted: None,
            rejection: None,
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Whether a state-of-the-world request with `nonce` was written after the last response came.
    pub(super) fn is_current(&self, nonce: &str) -> bool {
        nonce.is_empty() || self.last.as_ref().is_some_and(|(last, _)| last == nonce)
    }

    /// Takes the answer to the response `nonce`, if that is the one that waits for it.
    pub(super) fn answer(&mut self, nonce: &str, error: Option<String>) -> Option<Verdict> {
        let (last, version) = self.last.as_ref().filter(|(last, _)| last == nonce)?;
        let version = *version;
        let flight = self.in_flight.take()?;
        let concerned: BTreeSet<&Name> =
            flight.resources.iter().map(Resource::name).chain(&flight.removed).collect();
        let Some(message) = error else {
            self.accepted = Some(version);
            let goal = self.goal.as_ref();
            self.refused
                .retain(|n| !concerned.contains(n) && goal.is_some_and(|goal| goal.contains(n)));
            if self.refused.is_empty() {
                self.rejection = None;
            }
            return Some(Verdict::Accepted { version });
        };
        let rejection = Arc::new(Rejection::new(last, version, &message, &flight.resources));
        if rejection.is_precise {
            self.refused.extend(rejection.resources.iter().cloned());
        } else {
            self.refused.extend(concerned.iter().map(|n| (*n).clone()));
            self.doubtful.extend(concerned.into_iter().cloned());
            self.retry_doubtful();
        }
        self.rejection = Some(rejection.clone());
        Some(Verdict::Rejected(rejection))
    }

    /// State of the world: the client says everything it wants.
    pub(super) fn replace_names(
        &mut self,
        names: Vec<Name>,
        version: &str,
        first: bool,
        interner: &Interner,
    ) -> Result<(), Refusal> {
        self.was_named |= !names.is_empty();
        let legacy_all = names.is_empty() && !self.was_named && !self.rule.named;
        let (names, wildcard) = split_wildcard(names)?;
        let all = wildcard || legacy_all || self.rule.questions;
        let new: Vec<Name> = names.iter().filter(|n| !self.interest.contains(n)).cloned().collect();
        if first && legacy_all && !version.is_empty() {
            // A client that comes back with everything it wants is not sent it again. Only when it
            // never gave names: of those it may have forgotten some in between.
            self.sent = Arc::new(Set::default());
            self.last = Some((String::new(), Version::parse(version)));
        }
        self.set_interest(all, names, interner);
        if !self.rule.questions {
            self.owed.extend(new);
        }
        Ok(())
    }

    /// Delta: what the client of a new stream already has.
    pub(super) fn start_delta(&mut self, names_given: bool, has: &BTreeMap<String, String>) {
        let held = has.iter().map(|(n, v)| Resource::held(n.as_str().into(), Version::parse(v)));
        self.sent = Arc::new(held.collect());
        let legacy_all = !names_given && !self.rule.named;
        self.interest.all = legacy_all;
        self.owes_first = legacy_all && has.is_empty();
    }

    /// Delta: more and fewer names.
    pub(super) fn change_names(
        &mut self,
        more: &[Name],
        less: &[Name],
        first: bool,
        interner: &Interner,
    ) -> Result<(), Refusal> {
        if more.is_empty() && less.is_empty() {
            return Ok(());
        }
        let (more, more_all) = split_wildcard(more.to_vec())?;
        let (less, less_all) = split_wildcard(less.to_vec())?;
        let all = (self.interest.all || more_all || self.rule.questions) && !less_all;
        let kept: Vec<Name> = more.iter().cloned().collect();
        // Named again: the client may have dropped it in between. Except on a new stream, where it
        // says what it has.
        let dropped = |n: &&Name| !self.rule.questions && (!first || !self.sent.contains(n));
        self.owed.extend(kept.iter().filter(dropped).cloned());
        self.owed.retain(|name| !less.contains(name) || more.contains(name));
        if all {
            // No longer named, but perhaps among all: the client cannot know, so it is told.
            let unsure = less.iter().filter(|n| self.interest.names.contains(n));
            self.owed.extend(unsure.cloned());
        }
        let names = self.interest.names.changed(&kept, &without(&less, &more));
        if names.len() > MAX_NAMES {
            return Err(Refusal::TooManyNames);
        }
        if first && more_all {
            self.owes_first = self.sent.is_empty();
            self.interest.all = true;
        }
        self.set_interest(all, names, interner);
        Ok(())
    }

    fn set_interest(&mut self, all: bool, names: Names, interner: &Interner) {
        if all && !self.interest.all {
            // From here on everything in `sent` counts as had: leave only what the client did want.
            let wanted = self.sent.iter().filter(|r| self.interest.names.contains(r.name()));
            self.sent = Arc::new(wanted.cloned().collect());
            self.owes_first = true;
        }
        if *self.interest.names != names {
            self.interest.names = interner.share(names);
        }
        self.interest.all = all;
        self.owed.retain(|name| self.interest.contains(name));
        self.retry_doubtful();
    }

    /// If the client gave up something of a response that it refused, that may have been the one it
    /// could not take: the others deserve another try.
    fn retry_doubtful(&mut self) {
        if self.doubtful.iter().any(|name| !self.interest.contains(name)) {
            self.doubtful.retain(|name| self.interest.contains(name));
            self.owed.append(&mut self.doubtful);
        }
    }

    /// The client needs these once more, if it wants them.
    pub(super) fn owe_again(&mut self, names: &[Name]) {
        self.owed.extend(names.iter().filter(|n| self.interest.names.contains(n)).cloned());
    }

    /// The client needs whatever it named once more.
    pub(super) fn owe_all_named(&mut self) {
        self.owed.extend(self.interest.names.iter().cloned());
    }

    /// Whether clusters may be taken away as far as this type is concerned.
    pub(super) fn is_calm(&mut self, variant: Variant) -> bool {
        let hold = Hold { changes: false, removals: self.rule.outlives };
        let refused = self.rejection.is_some() && !self.rule.outlives;
        !refused && !self.is_waiting() && !self.has_something(variant, hold)
    }

    /// Whether there is something to send. If the client has it all, says so for good.
    pub(super) fn has_something(&mut self, variant: Variant, hold: Hold) -> bool {
        let Some(goal) = self.goal.clone() else { return false };
        let owes = self.owes_first || !self.owed.is_empty();
        if !owes && (hold.changes || Arc::ptr_eq(&goal, &self.sent)) {
            return false;
        }
        if self.came_back_with(&goal) {
            return false;
        }
        let part = self.part(variant, hold);
        if self.is_worth_sending(variant, &part) {
            return true;
        }
        if !hold.changes {
            // The difference is in what this client does not want, or cannot be told.
            self.owed.clear();
            if Arc::ptr_eq(&part.target, &goal) {
                self.sent = goal;
            }
        }
        false
    }

    /// State of the world: the client of a new stream said that it has exactly this.
    fn came_back_with(&mut self, goal: &Arc<Set>) -> bool {
        let Some((_, version)) = self.last.as_ref().filter(|(nonce, _)| nonce.is_empty()) else {
            return false;
        };
        let same = self.interest.all && self.owed.is_empty() && goal.version() == *version;
        if same {
            self.sent = goal.clone();
            self.owes_first = false;
            self.accepted = Some(*version);
        } else {
            self.last = None;
        }
        same
    }

    fn is_worth_sending(&self, variant: Variant, part: &Part) -> bool {
        let whole = variant == Variant::StateOfTheWorld && !self.rule.named;
        let removals_count = variant == Variant::Delta || whole;
        self.owes_first
            || !part.put.is_empty()
            || (removals_count && !part.gone.is_empty())
            || (whole && !self.owed.is_empty())
    }

    /// What a response would bring now.
    fn part(&self, variant: Variant, hold: Hold) -> Part {
        let Some(goal) = &self.goal else { return Part::default() };
        let whole = variant == Variant::StateOfTheWorld && !self.rule.named;
        if hold.changes && !whole && !self.owes_first {
            return self.owed_part(goal);
        }
        let changes = goal.changes_since(&self.sent);
        let wanted = |name: &Name| self.interest.contains(name);
        let had = |name: &Name| wanted(name) && !self.owed.contains(name);
        let mut put: Vec<Resource> =
            changes.put.iter().filter(|r| wanted(r.name())).cloned().collect();
        let mut gone: Vec<Name> = changes.gone.iter().filter(|n| had(n)).cloned().collect();
        let target = if hold.removals && !gone.is_empty() {
            let kept = gone.drain(..).filter_map(|name| self.sent.get(&name).cloned());
            Arc::new(goal.iter().cloned().chain(kept).collect())
        } else {
            goal.clone()
        };
        let mut again = self.owed.clone();
        let stirs = self.owes_first || !(put.is_empty() && gone.is_empty() && again.is_empty());
        if stirs {
            again.extend(self.doubtful.iter().filter(|n| wanted(n)).cloned());
        }
        add(&mut put, &mut gone, &again, &target);
        Part { put, gone, target, settles_doubt: stirs }
    }

    /// Only what is owed.
    fn owed_part(&self, goal: &Arc<Set>) -> Part {
        let (mut put, mut gone) = (Vec::new(), Vec::new());
        add(&mut put, &mut gone, &self.owed, goal);
        let target = Set::with(&self.sent, put.iter().cloned(), &gone);
        Part { put, gone, target, settles_doubt: false }
    }

    /// Makes the response, after which the client has it. Also gives the names of what changed.
    pub(super) fn send(
        &mut self,
        hold: Hold,
        (variant, type_url, nonce): (Variant, &TypeUrl, String),
    ) -> (Response, Vec<Name>) {
        let part = self.part(variant, hold);
        let renewed = part.put.iter().map(|r| r.name().clone()).collect();
        let whole = variant == Variant::StateOfTheWorld && !self.rule.named;
        let wanted = |r: &&Resource| self.interest.contains(r.name());
        let version = match self.interest.all {
            true => part.target.version(),
            false => version_of(part.target.iter().filter(wanted)),
        };
        let resources: Arc<[Resource]> = match whole {
            true => part.target.iter().filter(wanted).cloned().collect(),
            false => part.put.into(),
        };
        let removed = if variant == Variant::Delta { part.gone } else { Vec::new() };
        self.sent = part.target;
        self.owed.clear();
        self.owes_first = false;
        if part.settles_doubt {
            self.doubtful.clear();
        }
        self.in_flight = Some(InFlight { resources: resources.clone(), removed: removed.clone() });
        self.last = Some((nonce.clone(), version));
        let type_url = type_url.clone();
        (Response { variant, type_url, nonce, version, resources, removed }, renewed)
    }

    pub(super) fn status<'a>(&'a self, type_url: &'a TypeUrl) -> TypeStatus<'a> {
        TypeStatus {
            type_url,
            interest: &self.interest,
            sent: self.last.as_ref().map(|(_, version)| *version),
            accepted: self.accepted,
            rejection: self.rejection.as_ref(),
            waiting: self.is_waiting(),
            resources: &self.sent,
        }
    }
}

/// Adds `names` to a response: what `set` has is put, the rest is gone.
fn add(put: &mut Vec<Resource>, gone: &mut Vec<Name>, names: &BTreeSet<Name>, set: &Set) {
    if names.is_empty() {
        return;
    }
    let there: BTreeSet<Name> = put.iter().map(|r| r.name().clone()).collect();
    for name in names.iter().filter(|n| !there.contains(*n)) {
        match set.get(name) {
            Some(resource) => put.push(resource.clone()),
            None if !gone.contains(name) => gone.push(name.clone()),
            None => {}
        }
    }
    put.sort_by(|a, b| a.name().cmp(b.name()));
    gone.sort_unstable();
}

fn without(names: &Names, others: &Names) -> Names {
    names.iter().filter(|n| !others.contains(n)).cloned().collect()
}
