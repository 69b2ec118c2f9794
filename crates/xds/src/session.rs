//! One client's side of the conversation: what it asked for, what it has, what it gets next.
//!
//! In: requests, and for each type the set that the client should have; out: one response after the
//! other, each made when it is about to be sent, so that what changed in between goes along and
//! nothing queues up. No IO, no clock.
//!
//! At most one response of a type is unanswered. Changes go out in the order clusters, endpoints,
//! listeners, routes, each after the client answered the one before; clusters and endpoints that are
//! no longer needed go last.

mod rejection;
mod subscription;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use rejection::Rejection;
use subscription::{Hold, Subscription};

use crate::rule::{CDS, EDS, rule};
use crate::{Ask, Interner, Name, Names, Request, Response, Set, TypeUrl, Variant, Version};

/// More types than a client can mean.
const MAX_TYPES: usize = 64;
/// More names than a client can mean, of one type.
const MAX_NAMES: usize = 200_000;

/// A conversation with one client.
pub struct Session {
    variant: Variant,
    interner: Arc<Interner>,
    types: BTreeMap<TypeUrl, Subscription>,
    /// Clusters that were sent before the client asked for endpoints on this stream.
    early: Vec<Name>,
    last_nonce: u64,
}

/// What a client wants of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interest {
    /// Whatever there is for it.
    pub all: bool,
    /// What it named, whether or not it wants all.
    pub names: Arc<Names>,
}

impl Interest {
    pub fn contains(&self, name: &str) -> bool {
        self.all || self.names.contains(name)
    }
}

/// What a request told us.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// The client wants something else than before: the session needs the set for it (`aim`).
    pub interest_changed: bool,
    pub verdict: Option<Verdict>,
}

/// A client's answer to a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Accepted { version: Version },
    Rejected(Arc<Rejection>),
}

/// Why a conversation cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("a request names no type")]
    NoType,
    #[error("more than {MAX_TYPES} types are asked for")]
    TooManyTypes,
    #[error("more than {MAX_NAMES} names are asked for")]
    TooManyNames,
    #[error("a request of the other variant came on this stream")]
    WrongVariant,
}

/// Where a client stands with one type.
#[derive(Clone, Debug)]
pub struct TypeStatus<'a> {
    pub type_url: &'a TypeUrl,
    pub interest: &'a Interest,
    pub sent: Option<Version>,
    pub accepted: Option<Version>,
    pub rejection: Option<&'a Arc<Rejection>>,
    /// A response is on its way or unanswered.
    pub waiting: bool,
    /// The set that the client has or is being sent.
    pub resources: &'a Arc<Set>,
}

impl Session {
    pub fn new(variant: Variant, interner: Arc<Interner>) -> Self {
        Self { variant, interner, types: BTreeMap::new(), early: Vec::new(), last_nonce: 0 }
    }

    /// Takes a request. After an error the stream is of no use any more.
    pub fn request(&mut self, request: Request) -> Result<Heard, Refusal> {
        if request.type_url.is_empty() {
            return Err(Refusal::NoType);
        }
        let first = !self.types.contains_key(&request.type_url);
        if first && self.types.len() >= MAX_TYPES {
            return Err(Refusal::TooManyTypes);
        }
        let asked_for_clusters = self.types.contains_key(CDS);
        let subscription = self.types.entry(request.type_url.clone()).or_insert_with(|| {
            Subscription::new(rule(&request.type_url), self.interner.share(Names::default()))
        });
        let before = subscription.interest.clone();
        let verdict = match (self.variant, request.ask) {
            (Variant::StateOfTheWorld, Ask::StateOfTheWorld { names, version }) => {
                if !first && !subscription.is_current(&request.nonce) {
                    return Ok(Heard::default());
                }
                let verdict = subscription.answer(&request.nonce, request.error);
                subscription.replace_names(names, &version, first, &self.interner)?;
                verdict
            }
            (Variant::Delta, Ask::Delta { more, less, has }) => {
                let verdict = subscription.answer(&request.nonce, request.error);
                if first {
                    subscription.start_delta(!(more.is_empty() && less.is_empty()), &has);
                }
                subscription.change_names(&more, &less, first, &self.interner)?;
                if first && &*request.type_url == EDS {
                    // It says what it has of them, but its new clusters wait to hear it again.
                    subscription.owe_again(&std::mem::take(&mut self.early));
                    if !asked_for_clusters {
                        // Envoy keeps back what it has to say of clusters while some of them wait for
                        // endpoints. Those came on an earlier stream, which ones is not said.
                        subscription.owe_all_named();
                    }
                }
                verdict
            }
            _ => return Err(Refusal::WrongVariant),
        };
        Ok(Heard { interest_changed: first || subscription.interest != before, verdict })
    }

    /// What the client wants of a type, if it asked at all.
    pub fn interest(&self, type_url: &str) -> Option<&Interest> {
        self.types.get(type_url).map(|s| &s.interest)
    }

    /// The types that the client asked for.
    pub fn types(&self) -> impl Iterator<Item = &TypeUrl> {
        self.types.keys()
    }

    /// Sets what the client should have. The set may have more than the client wants.
    pub fn aim(&mut self, type_url: &str, set: Arc<Set>) {
        if let Some(subscription) = self.types.get_mut(type_url) {
            subscription.goal = Some(set);
        }
    }

    /// The next response that may go out now. Ask again until there is none, and after every request
    /// and every `aim`.
    pub fn next_response(&mut self) -> Option<Response> {
        let (type_url, part) = self.next_part()?;
        self.last_nonce += 1;
        let nonce = format!("{:x}", self.last_nonce);
        let subscription = self.types.get_mut(&type_url)?;
        let (response, renewed) = subscription.send(part, (self.variant, &type_url, nonce));
        if &*type_url == CDS {
            // A cluster that is set up anew waits for its endpoints, though they did not change.
            match self.types.get_mut(EDS) {
                Some(endpoints) => endpoints.owe_again(&renewed),
                None => self.early.extend(renewed),
            }
        }
        Some(response)
    }

    /// Which type goes next, and how much of it.
    fn next_part(&mut self) -> Option<(TypeUrl, Hold)> {
        let variant = self.variant;
        let mut ordered: Vec<(&TypeUrl, &mut Subscription)> =
            self.types.iter_mut().filter(|(_, s)| s.rule.place.is_some()).collect();
        ordered.sort_by_key(|(_, s)| s.rule.place);
        let calm = ordered.iter_mut().all(|(_, s)| s.is_calm(variant));
        let mut earlier_settled = true;
        for (type_url, subscription) in ordered {
            let hold =
                Hold { changes: !earlier_settled, removals: subscription.rule.outlives && !calm };
            if !subscription.is_waiting() && subscription.has_something(variant, hold) {
                return Some((type_url.clone(), hold));
            }
            let removals = subscription.rule.outlives;
            let settled = !subscription.is_waiting()
                && !subscription.has_something(variant, Hold { changes: false, removals });
            earlier_settled &= settled;
        }
        let free = self.types.iter_mut().filter(|(_, s)| s.rule.place.is_none() && !s.is_waiting());
        for (type_url, subscription) in free {
            let hold = Hold { changes: false, removals: subscription.rule.outlives };
            if subscription.has_something(variant, hold) {
                return Some((type_url.clone(), hold));
            }
        }
        None
    }

    /// Whether the client has been sent everything and answered.
    pub fn is_settled(&mut self) -> bool {
        let waiting = self.types.values().any(Subscription::is_waiting);
        !waiting && self.next_part().is_none()
    }

    /// Where the client stands, type by type.
    pub fn status(&self) -> impl Iterator<Item = TypeStatus<'_>> {
        self.types.iter().map(|(type_url, s)| s.status(type_url))
    }
}

/// Names without `*`, sorted, and whether `*` was among them.
fn split_wildcard(names: Vec<Name>) -> Result<(Names, bool), Refusal> {
    if names.len() > MAX_NAMES {
        return Err(Refusal::TooManyNames);
    }
    let all = names.iter().any(|name| &**name == "*");
    Ok((names.into_iter().filter(|name| &**name != "*").collect(), all))
}

#[cfg(test)]
mod property;
#[cfg(test)]
mod tests;
