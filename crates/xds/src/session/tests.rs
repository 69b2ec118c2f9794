//! The protocol as a table: what is said, and what comes back.
//!
//! A conversation is written line by line. `>` is a request: a type, then `+name`, `-name`, `*`,
//! `has:name=body` (delta) or the names (state of the world), and `ack`, `nack:reason`, `stale`,
//! `version`. `=` sets what there is. `<` is what must come out now: types with `+name`, `-name`,
//! separated by `;`, in order.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::{CDS, EDS, LDS, RDS, Resource, SDS};

struct Peer {
    session: Session,
    variant: Variant,
    nonces: BTreeMap<TypeUrl, String>,
    sets: BTreeMap<TypeUrl, Arc<Set>>,
    verdicts: Vec<Verdict>,
}

fn type_url(short: &str) -> TypeUrl {
    match short {
        "cds" => CDS.into(),
        "eds" => EDS.into(),
        "lds" => LDS.into(),
        "rds" => RDS.into(),
        "sds" => SDS.into(),
        other => other.into(),
    }
}

fn short(url: &str) -> &str {
    let known = [("cds", CDS), ("eds", EDS), ("lds", LDS), ("rds", RDS), ("sds", SDS)];
    known.iter().find(|(_, long)| *long == url).map_or(url, |(short, _)| short)
}

fn resource(word: &str) -> Resource {
    let (name, body) = word.split_once('=').unwrap_or((word, "1"));
    Resource::new(name, body.to_owned())
}

impl Peer {
    fn new(variant: Variant) -> Self {
        Self {
            session: Session::new(variant, Arc::default()),
            variant,
            nonces: BTreeMap::new(),
            sets: BTreeMap::new(),
            verdicts: Vec::new(),
        }
    }

    fn play(variant: Variant, script: &str) -> Self {
        let mut peer = Self::new(variant);
        for (number, line) in script.lines().enumerate() {
            let line = line.trim();
            let (kind, rest) = line.split_at(line.len().min(1));
            match kind {
                ">" => peer.say(rest.trim()),
                "=" => peer.set(rest.trim()),
                "<" => assert_eq!(peer.hear(), rest.trim(), "line {number}: {line}"),
                "" | "#" => {}
                other => panic!("{other}"),
            }
        }
        peer
    }

    fn say(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        let type_url = type_url(words.next().unwrap());
        let mut nonce = String::new();
        let mut error = None;
        let mut version = String::new();
        let (mut names, mut less) = (Vec::new(), Vec::new());
        let mut has = BTreeMap::new();
        for word in words {
            let current = self.nonces.get(&type_url).cloned().unwrap_or_default();
            if word == "ack" {
                nonce = current;
            } else if let Some(reason) = word.strip_prefix("nack:") {
                nonce = current;
                error = Some(reason.to_owned());
            } else if word == "stale" {
                nonce = "beef".into();
            } else if word == "version" {
                version = self.sets[&type_url].version().to_string();
            } else if let Some(held) = word.strip_prefix("has:") {
                let held = resource(held);
                has.insert(held.name().to_string(), held.version().to_string());
            } else if let Some(name) = word.strip_prefix('-') {
                less.push(name.into());
            } else {
                names.push(word.strip_prefix('+').unwrap_or(word).into());
            }
        }
        let ask = match self.variant {
            Variant::StateOfTheWorld => Ask::StateOfTheWorld { names, version },
            Variant::Delta => Ask::Delta { more: names, less, has },
        };
        let request = Request { type_url: type_url.clone(), nonce, error, ask };
        let heard = self.session.request(request).unwrap();
        self.verdicts.extend(heard.verdict);
        if heard.interest_changed {
            let set = self.sets.entry(type_url.clone()).or_default().clone();
            self.session.aim(&type_url, set);
        }
    }

    fn set(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        let type_url = type_url(words.next().unwrap());
        let before = self.sets.entry(type_url.clone()).or_default();
        *before = Set::after(before, words.map(resource));
        self.session.aim(&type_url, before.clone());
    }

    fn hear(&mut self) -> String {
        let mut all = Vec::new();
        while let Some(response) = self.session.next_response() {
            self.nonces.insert(response.type_url.clone(), response.nonce.clone());
            let put = response.resources.iter().map(|r| format!(" +{}", r.name()));
            let gone = response.removed.iter().map(|n| format!(" -{n}"));
            let words: String = put.chain(gone).collect();
            all.push(format!("{}{words}", short(&response.type_url)));
        }
        all.join("; ")
    }
}

fn delta(script: &str) -> Peer {
    Peer::play(Variant::Delta, script)
}

fn sotw(script: &str) -> Peer {
    Peer::play(Variant::StateOfTheWorld, script)
}

#[test]
fn delta_sends_what_changed_after_the_answer() {
    delta(
        "= cds a b
         > cds
         < cds +a +b
         = cds a=2 b
         <
         > cds ack
         < cds +a
         = cds b c
         > cds ack
         < cds +c
         > cds ack
         < cds -a
         > cds ack
         <",
    );
}

#[test]
fn sotw_sends_everything_of_a_type_without_names() {
    sotw(
        "= cds a b
         > cds
         < cds +a +b
         > cds ack
         <
         = cds a=2 b
         < cds +a +b
         > cds ack
         <",
    );
}

#[test]
fn sotw_sends_only_what_changed_of_a_type_with_names() {
    sotw(
        "= eds a b c
         > eds a b
         < eds +a +b
         > eds a b ack
         <
         = eds a=2 b c=2
         < eds +a
         > eds a b ack
         = eds b c=2
         <
         > eds a b c ack
         < eds +c",
    );
}

#[test]
fn one_push_is_pending_and_holds_the_newest() {
    delta(
        "= lds a
         > lds
         < lds +a
         = lds a=2
         = lds a=3 b
         = lds a=4
         <
         > lds ack
         < lds +a",
    );
}

#[test]
fn a_name_that_does_not_exist_is_said_to_be_gone_in_delta_only() {
    delta("> eds +a\n< eds -a\n> eds ack\n= eds a\n< eds +a");
    sotw("> eds a\n<\n= eds a\n< eds +a");
}

#[test]
fn an_empty_type_is_answered_once() {
    delta("> cds\n< cds\n> cds ack\n<");
    sotw("> cds\n< cds\n> cds ack\n<");
    // Without names there is nothing to answer.
    delta("= eds a\n> eds\n<");
    sotw("= eds a\n> eds\n<");
}

#[test]
fn a_refused_response_is_not_sent_again_until_something_changes() {
    let peer = delta(
        "= lds a b
         > lds
         < lds +a +b
         > lds nack:listener(a)_is_bad
         <
         = lds a=2 b
         < lds +a
         > lds ack
         <",
    );
    let Verdict::Rejected(rejection) = &peer.verdicts[0] else { panic!("{:?}", peer.verdicts) };
    assert!(rejection.message.contains("is_bad"));
}

#[test]
fn what_was_refused_without_saying_which_goes_along_with_the_next() {
    delta(
        "= sds a b c
         > sds +a +b
         < sds +a +b
         > sds nack:no
         <
         = sds a=2 b c
         < sds +a +b
         > sds ack
         = sds a=3 b c
         < sds +a",
    );
}

#[test]
fn giving_up_a_refused_name_gives_the_others_another_try() {
    delta("= lds a b\n> lds +a +b\n< lds +a +b\n> lds nack:no\n<\n> lds -b\n< lds +a");
    delta("= lds a b\n> lds +a +b\n< lds +a +b\n> lds -b\n<\n> lds nack:no\n< lds +a");
    delta("= x a b\n> x +a +b\n< x +a +b\n> x +*\n> x nack:no\n< x +a +b");
}

#[test]
fn a_rejection_stays_until_its_resource_is_taken() {
    let peer = delta(
        "= rds a b
         > rds +a +b
         < rds +a +b
         > rds nack:a
         = rds a b=2
         < rds +b
         > rds ack
         <",
    );
    let status = peer.session.status().next().unwrap();
    assert_eq!(status.rejection.unwrap().resources, ["a".into()]);
    let peer =
        delta("= rds a\n> rds +a\n< rds +a\n> rds nack:a\n= rds a=2\n< rds +a\n> rds ack\n<");
    assert!(peer.session.status().next().unwrap().rejection.is_none());
}

#[test]
fn a_stale_nonce_is_no_answer() {
    // State of the world: the request is older than the response; the answer to that one follows.
    sotw(
        "= eds a b
         > eds a
         < eds +a
         > eds a b stale
         <
         > eds a b ack
         < eds +b",
    );
    // Delta: what it asks for counts all the same.
    delta(
        "= eds a b
         > eds +a
         < eds +a
         > eds +b stale
         <
         > eds ack
         < eds +b",
    );
}

#[test]
fn names_change_before_the_first_response() {
    sotw("= eds a b\n> eds a\n> eds a b\n< eds +a +b");
    delta("= eds a b\n> eds +a\n> eds +b -a\n< eds +b");
}

#[test]
fn unsubscribing_ends_updates() {
    delta("= eds a b\n> eds +a +b\n< eds +a +b\n> eds ack\n> eds -a\n<\n= eds a=2 b=2\n< eds +b");
    sotw("= eds a b\n> eds a b\n< eds +a +b\n> eds b ack\n<\n= eds a=2 b=2\n< eds +b");
}

#[test]
fn subscribing_again_sends_again() {
    delta("= eds a b\n> eds +a\n< eds +a\n> eds ack\n> eds +a\n< eds +a");
    delta("= eds a\n> eds +a\n< eds +a\n> eds ack\n> eds -a\n> eds +a\n< eds +a");
    sotw("= eds a b\n> eds a b\n< eds +a +b\n> eds a ack\n<\n> eds a b ack\n< eds +b");
}

#[test]
fn the_explicit_wildcard_comes_and_goes() {
    delta(
        "= x a b
         > x +a
         < x +a
         > x ack
         > x +*
         < x +b
         > x ack
         = x a=2 b=2
         < x +a +b
         > x ack
         > x -*
         <
         = x a=3 b=3
         < x +a",
    );
    sotw(
        "= lds a b
         > lds a
         < lds +a
         > lds a * ack
         < lds +a +b
         > lds a ack
         <
         = lds a=2 b=2
         < lds +a",
    );
}

#[test]
fn a_name_given_up_under_a_wildcard_is_told_once_more() {
    delta("= x a\n> x +* +a +z\n< x +a -z\n> x ack\n> x -a -z\n< x +a -z");
}

#[test]
fn no_names_means_all_only_before_names_were_given() {
    sotw("= lds a b\n> lds a\n< lds +a\n> lds ack\n<\n= lds a=2 b=2\n<");
    sotw("= lds a b\n> lds\n< lds +a +b\n> lds a ack\n<\n= lds a=2 b=2\n< lds +a");
    delta(
        "= lds a b\n> lds\n< lds +a +b\n> lds ack\n> lds +a\n< lds +a\n> lds ack\n= lds a b=2\n< lds +b",
    );
}

#[test]
fn a_client_that_comes_back_gets_only_what_it_lacks() {
    delta(
        "= cds a b=2 d
         > cds has:a has:b=1 has:c
         < cds +b +d
         > cds ack
         < cds -c
         > cds ack
         <",
    );
    delta("= cds a b\n> cds has:a has:b\n<\n= cds a b=2\n< cds +b");
    delta("= cds a b\n> cds +* has:a has:b\n<\n= cds a=2 b\n< cds +a");
    delta("= rds a b c\n> rds +a +b +z has:a has:b=0 has:c=0\n< rds +b -z");
    // Versions of another control plane say nothing.
    delta("= cds a\n> cds has:b\n< cds +a\n> cds ack\n< cds -b");
    sotw("= cds a b\n> cds version\n<\n= cds a b=2\n< cds +a +b");
    sotw("= cds a b\n= cds a b\n> cds version\n= cds a\n< cds +a");
}

#[test]
fn clusters_go_before_the_routes_that_name_them_and_leave_after() {
    let script = "= cds a
         = eds a
         = lds l
         = rds r
         > cds
         < cds +a
         > cds ack
         > eds +a
         < eds +a
         > eds ack
         > lds
         < lds +l
         > lds ack
         > rds +r
         < rds +r
         > rds ack
         <
         # Everything moves from a to b at once.
         = cds b
         = eds b
         = lds l=2
         = rds r=2
         < cds +b
         > eds +b
         < eds +b
         > cds ack
         <
         > eds ack
         < lds +l
         > lds ack
         < rds +r
         # Only now nothing names a.
         > rds ack
         < cds -a
         > eds -a
         > cds ack
         <";
    delta(script);
}

#[test]
fn sotw_keeps_old_clusters_in_the_set_until_routes_have_changed() {
    sotw(
        "= cds a
         = rds r
         > cds
         < cds +a
         > cds ack
         > rds r
         < rds +r
         > rds r ack
         = cds b
         = rds r=2
         < cds +a +b
         > cds ack
         < rds +r
         > rds r ack
         < cds +b
         > cds ack
         <",
    );
}

#[test]
fn a_refused_route_keeps_the_old_clusters() {
    delta(
        "= cds a
         = rds r
         > cds
         > rds +r
         < cds +a; rds +r
         > cds ack
         > rds ack
         = cds b
         = rds r=2
         < cds +b
         > cds ack
         < rds +r
         > rds nack:r
         <
         = rds r=3
         < rds +r
         > rds ack
         < cds -a",
    );
}

#[test]
fn a_new_subscription_is_answered_while_changes_wait() {
    delta(
        "= cds a
         = rds r s
         > cds
         > rds +r
         < cds +a; rds +r
         > rds ack
         = rds r=2 s=2
         > rds +s
         < rds +s
         > rds ack
         <
         > cds ack
         < rds +r",
    );
}

#[test]
fn a_client_that_comes_back_to_other_clusters_gets_their_endpoints_again() {
    // Clusters go out before it asks for endpoints, of which it has all; it would wait for ever.
    Peer::play(
        Variant::Delta,
        "= cds a=2 b=1
         = eds a=1 b=1
         > cds has:a=1 has:b=1
         < cds +a
         > eds +a +b has:a=1 has:b=1
         < eds +a
         > eds ack
         > cds ack
         <",
    );
}

#[test]
fn a_client_that_comes_back_while_clusters_wait_for_endpoints_gets_them() {
    // The stream broke between a new cluster and its endpoints. Envoy says nothing of clusters until
    // they have come, and has endpoints of the old cluster by that name.
    delta(
        "= cds a=2 b
         = eds a b
         > eds +a +b has:a has:b
         < eds +a +b
         > eds ack
         > cds has:a=2 has:b
         <",
    );
    delta("= cds a\n= eds a\n> cds has:a\n> eds +a has:a\n<");
}

#[test]
fn a_cluster_set_up_anew_gets_its_endpoints_again() {
    delta(
        "= cds a b
         = eds a b
         > cds
         > eds +a +b
         < cds +a +b; eds +a +b
         > cds ack
         > eds ack
         = cds a=2 b
         < cds +a; eds +a",
    );
    sotw(
        "= cds a b
         = eds a b
         > cds
         > eds a b
         < cds +a +b; eds +a +b
         > cds ack
         > eds a b ack
         = cds a=2 b
         < cds +a +b; eds +a",
    );
}

#[test]
fn other_types_wait_for_nobody() {
    delta("= cds a\n= sds s\n> cds\n> sds +s\n< cds +a; sds +s\n> sds ack\n= sds s=2\n< sds +s");
}

#[test]
fn the_answer_to_a_question_is_wanted_whatever_its_names() {
    let url = "istio.io/debug/config_dump";
    delta(&format!("= {url} a b\n> {url} +pod\n< {url} +a +b"));
    sotw(&format!("= {url} a b\n> {url} pod\n< {url} +a +b"));
}

#[test]
fn nothing_is_sent_before_somebody_says_what_there_is() {
    let mut session = Session::new(Variant::Delta, Arc::default());
    let ask = Ask::Delta { more: vec![], less: vec![], has: BTreeMap::new() };
    let request = Request { type_url: CDS.into(), nonce: String::new(), error: None, ask };
    assert!(session.request(request).unwrap().interest_changed);
    assert!(session.next_response().is_none());
}

#[test]
fn a_client_cannot_ask_without_bounds() {
    let mut session = Session::new(Variant::Delta, Arc::default());
    let mut ask = |type_url: &str, more: Vec<Name>| {
        let ask = Ask::Delta { more, less: vec![], has: BTreeMap::new() };
        let request = Request { type_url: type_url.into(), nonce: String::new(), error: None, ask };
        session.request(request).err()
    };
    assert_eq!(ask("", vec![]), Some(Refusal::NoType));
    assert_eq!(ask("n", vec!["a".into(); 200_001]), Some(Refusal::TooManyNames));
    for i in 0..63 {
        assert_eq!(ask(&format!("t{i}"), vec![]), None);
    }
    assert_eq!(ask("one more", vec![]), Some(Refusal::TooManyTypes));
}

#[test]
fn equal_subscriptions_share_their_names() {
    let interner = Arc::new(Interner::default());
    let mut sessions: Vec<Session> =
        (0..100).map(|_| Session::new(Variant::Delta, interner.clone())).collect();
    for session in &mut sessions {
        let more = (0..50).map(|i| format!("name{i}").into()).collect();
        let ask = Ask::Delta { more, less: vec![], has: BTreeMap::new() };
        let request = Request { type_url: EDS.into(), nonce: String::new(), error: None, ask };
        session.request(request).unwrap();
    }
    assert_eq!(interner.len(), 1);
    drop(sessions);
    assert_eq!(interner.len(), 0);
}
