//! Packets in, answers out, with a small book of names; and bytes that are no packets at all.

use std::net::Ipv4Addr;

use hickory_proto::rr::rdata::{A, CNAME, SOA};
use proptest::prelude::*;

use super::*;

/// Knows `one.test` (one address), `many.test` (a hundred), aliases, and nothing else under `test`.
pub(crate) struct Book;

pub(crate) fn name(text: &str) -> Name {
    Name::from_ascii(text).unwrap()
}

fn a(owner: &Name, last: u8) -> Record {
    Record::from_rdata(owner.clone(), 5, RData::A(A(Ipv4Addr::new(192, 0, 2, last))))
}

fn cname(owner: &Name, target: &str) -> Answer {
    Answer::records(vec![Record::from_rdata(owner.clone(), 5, RData::CNAME(CNAME(name(target))))])
}

impl Lookup for Book {
    fn lookup(&self, asked: &Name, kind: RecordType) -> Answer {
        match (asked.to_ascii().as_str(), kind) {
            ("one.test.", RecordType::A | RecordType::ANY) => Answer::records(vec![a(asked, 1)]),
            ("many.test.", RecordType::A) => Answer::Records {
                answers: (0..100).map(|i| a(asked, i)).collect(),
                additionals: vec![a(&name("extra.test."), 1)],
            },
            ("extra.test.", RecordType::A) => Answer::Records {
                answers: (0..20).map(|i| a(asked, i)).collect(),
                additionals: (0..20).map(|i| a(&name("a-long-name.test."), i)).collect(),
            },
            ("one.test." | "many.test.", _) => Answer::NoData,
            ("alias.test.", _) => cname(asked, "ONE.test."),
            ("loop.test.", _) => cname(asked, "loop.test."),
            ("away.test.", _) => cname(asked, "www.example.com."),
            (text, _) if text.ends_with("test.") => Answer::NxDomain,
            _ => Answer::NotMine,
        }
    }

    fn authority(&self, _: &Name) -> Option<Record> {
        let soa = SOA::new(name("ns.test."), name("root.test."), 1, 1, 1, 1, 5);
        Some(Record::from_rdata(name("test."), 5, RData::SOA(soa)))
    }
}

pub(crate) fn query(asked: &str, kind: RecordType) -> Message {
    let mut message = Message::query();
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(name(asked), kind));
    message
}

fn reply(message: &Message, transport: Transport) -> Message {
    match answer(&message.to_vec().unwrap(), transport, &Book) {
        Outcome::Reply(bytes) => {
            if transport == Transport::Udp {
                assert!(bytes.len() <= usize::from(message.max_payload()));
            }
            Message::from_vec(&bytes).unwrap()
        }
        other => panic!("no reply: {other:?}"),
    }
}

#[test]
fn an_answer_repeats_the_question_as_it_was_spelled() {
    let asked = query("oNe.TeSt.", RecordType::A);
    let got = reply(&asked, Transport::Udp);
    assert_eq!(got.metadata.id, asked.metadata.id);
    assert!(got.queries[0].name.eq_case(&name("oNe.TeSt.")));
    assert!(got.answers[0].name.eq_case(&name("oNe.TeSt.")));
    assert!(got.metadata.authoritative && got.metadata.recursion_available);
}

#[test]
fn absence_of_a_name_and_of_a_type_differ() {
    let missing = reply(&query("no.test.", RecordType::A), Transport::Udp);
    assert_eq!(missing.metadata.response_code, ResponseCode::NXDomain);
    let other = reply(&query("one.test.", RecordType::AAAA), Transport::Udp);
    assert_eq!(other.metadata.response_code, ResponseCode::NoError);
    for negative in [missing, other] {
        assert!(negative.answers.is_empty());
        assert_eq!(negative.authorities[0].record_type(), RecordType::SOA);
    }
}

#[test]
fn aliases_are_followed_and_loops_end() {
    let got = reply(&query("alias.test.", RecordType::A), Transport::Udp);
    let kinds: Vec<_> = got.answers.iter().map(Record::record_type).collect();
    assert_eq!(kinds, [RecordType::CNAME, RecordType::A]);
    let got = reply(&query("alias.test.", RecordType::CNAME), Transport::Udp);
    assert_eq!(got.answers.len(), 1);
    reply(&query("loop.test.", RecordType::A), Transport::Udp);
}

#[test]
fn an_alias_that_leads_away_is_finished_by_upstream() {
    let packet = query("away.test.", RecordType::A).to_vec().unwrap();
    let Outcome::Forward(pending) = answer(&packet, Transport::Udp, &Book) else { panic!() };
    assert_eq!(pending.query.name, name("www.example.com."));
    let mut upstream = Message::query();
    upstream.add_answer(a(&name("www.example.com."), 9));
    let got = Message::from_vec(&pending.finish(&upstream).unwrap()).unwrap();
    assert_eq!(got.answers.len(), 2);

    let Outcome::Forward(pending) = answer(&packet, Transport::Udp, &Book) else { panic!() };
    let got = Message::from_vec(&pending.unknown().unwrap()).unwrap();
    assert_eq!((got.metadata.response_code, got.answers.len()), (ResponseCode::NoError, 1));
}

#[test]
fn what_does_not_fit_a_datagram_is_cut_and_marked() {
    let small = reply(&query("many.test.", RecordType::A), Transport::Udp);
    assert!(small.metadata.truncation && !small.answers.is_empty());
    let mut roomy = query("many.test.", RecordType::A);
    let mut edns = Edns::new();
    edns.set_max_payload(4096);
    roomy.set_edns(edns);
    let larger = reply(&roomy, Transport::Udp);
    assert!(larger.metadata.truncation && larger.answers.len() > small.answers.len());
    assert!(larger.edns.is_some());
    let whole = reply(&roomy, Transport::Tcp);
    assert_eq!((whole.answers.len(), whole.metadata.truncation), (100, false));
}

#[test]
fn extras_go_first_when_room_is_short() {
    let got = reply(&query("extra.test.", RecordType::A), Transport::Udp);
    assert_eq!((got.answers.len(), got.additionals.len()), (20, 0));
    assert!(!got.metadata.truncation);
}

#[test]
fn odd_requests_get_the_code_they_deserve() {
    let code = |m: &Message| reply(m, Transport::Udp).metadata.response_code;
    let mut two = query("one.test.", RecordType::A);
    two.add_query(Query::query(name("many.test."), RecordType::A));
    assert_eq!(code(&two), ResponseCode::FormErr);
    assert_eq!(code(&query("one.test.", RecordType::AXFR)), ResponseCode::Refused);
    let mut notify = query("one.test.", RecordType::A);
    notify.metadata.op_code = OpCode::Notify;
    assert_eq!(code(&notify), ResponseCode::NotImp);
    let mut future = query("one.test.", RecordType::A);
    let mut edns = Edns::new();
    edns.set_version(7);
    future.set_edns(edns);
    // 16 is also the number of BADSIG, which is how it is read back here.
    assert_eq!(u16::from(code(&future)), u16::from(ResponseCode::BADVERS));
    let mut chaos = query("one.test.", RecordType::A);
    chaos.queries[0].set_query_class(DNSClass::CH);
    assert_eq!(code(&chaos), ResponseCode::Refused);
}

#[test]
fn rubbish_is_a_format_error_and_answers_are_ignored() {
    let mut broken = query("one.test.", RecordType::A).to_vec().unwrap();
    broken.truncate(20);
    let Outcome::Reply(bytes) = answer(&broken, Transport::Udp, &Book) else { panic!() };
    let got = Message::from_vec(&bytes).unwrap();
    assert_eq!(got.metadata.response_code, ResponseCode::FormErr);
    assert_eq!(bytes[..2], broken[..2]);
    broken[2] |= 0x80;
    assert!(matches!(answer(&broken, Transport::Udp, &Book), Outcome::Ignore));
    assert!(matches!(answer(b"short", Transport::Udp, &Book), Outcome::Ignore));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let _ = answer(&bytes, Transport::Udp, &Book);
    }

    #[test]
    fn no_damage_to_a_good_query_makes_it_panic(
        which in 0usize..6,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
    ) {
        let names = ["one.test.", "many.test.", "alias.test.", "away.test.", "no.test.", "."];
        let mut message = query(names[which], RecordType::A);
        message.set_edns(Edns::new());
        let mut bytes = message.to_vec().unwrap();
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Outcome::Reply(reply) = answer(&bytes, Transport::Udp, &Book) {
            prop_assert!(Message::from_vec(&reply).is_ok());
            prop_assert_eq!(&reply[..2], &bytes[..2]);
        }
    }
}
