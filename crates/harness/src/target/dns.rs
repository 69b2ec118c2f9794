//! DNS messages of clients, and of upstream servers.

use std::net::Ipv4Addr;

use arbitrary::Arbitrary;
use ironsail_dns::rdata::{A, CNAME, SOA};
use ironsail_dns::{Answer, Lookup, Name, Outcome, RData, Record, RecordType, Transport, answer};

struct Book;

fn name(text: &str) -> Name {
    Name::from_ascii(text).unwrap()
}

fn address(owner: &Name, last: u8) -> Record {
    Record::from_rdata(owner.clone(), 5, RData::A(A(Ipv4Addr::new(192, 0, 2, last))))
}

impl Lookup for Book {
    fn lookup(&self, asked: &Name, _: RecordType) -> Answer {
        match asked.to_ascii().as_str() {
            "a." => Answer::records(vec![address(asked, 1)]),
            "b." => Answer::records((0..200).map(|n| address(asked, n)).collect()),
            "c." => Answer::records(vec![Record::from_rdata(
                asked.clone(),
                5,
                RData::CNAME(CNAME(name("a."))),
            )]),
            "d." => Answer::records(vec![Record::from_rdata(
                asked.clone(),
                5,
                RData::CNAME(CNAME(name("d."))),
            )]),
            "e." => Answer::NoData,
            "." => Answer::NotMine,
            text if text.ends_with("x.") => Answer::NotMine,
            _ => Answer::NxDomain,
        }
    }

    fn authority(&self, _: &Name) -> Option<Record> {
        let soa = SOA::new(name("ns."), name("root."), 1, 1, 1, 1, 5);
        Some(Record::from_rdata(name("a."), 5, RData::SOA(soa)))
    }
}

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    stream: bool,
    /// A question that can be read, with anything behind it; or any bytes.
    question: Option<(u8, u8)>,
    bytes: &'a [u8],
}

pub(crate) fn target(bytes: &[u8]) {
    let Some(input) = crate::made::<Input>(bytes) else { return };
    let mut packet = Vec::new();
    if let Some((letter, kind)) = input.question {
        packet.extend_from_slice(&[
            1,
            2,
            1,
            0,
            0,
            1,
            0,
            0,
            0,
            0,
            0,
            u8::from(!input.bytes.is_empty()),
        ]);
        packet.extend_from_slice(&[1, b'a' + letter % 26, 0, 0, kind, 0, 1]);
    }
    packet.extend_from_slice(input.bytes);
    let transport = if input.stream { Transport::Tcp } else { Transport::Udp };
    let reply = match answer(&packet, transport, &Book) {
        Outcome::Reply(reply) => Some(reply),
        Outcome::Forward(pending) => pending.failed(),
        Outcome::Ignore => None,
    };
    if let Some(reply) = reply {
        assert!(reply.len() >= 12, "an answer has a head");
        assert_eq!(reply[..2], packet[..2], "an answer has the question's number");
        assert!(reply[2] & 0x80 != 0, "an answer is one");
        assert!(input.stream || reply.len() <= 1232, "an answer fits into a datagram");
    }
}
