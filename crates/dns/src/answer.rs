//! From one DNS message to the answer.
//!
//! In: a packet and a lookup; out: the answer's bytes, or what to ask of upstream. Pure: no IO, no
//! clock. Whatever the bytes are, it answers, asks or ignores, and never panics.

#[cfg(test)]
pub(crate) mod tests;

use hickory_proto::op::{Edns, Message, MessageType, Metadata, OpCode, Query, ResponseCode};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use hickory_proto::serialize::binary::{BinEncodable, BinEncoder};

use crate::{Answer, Lookup};

/// The largest UDP answer, whatever the client offers: fits any path without fragments.
const LARGEST_DATAGRAM: u16 = 1232;
/// How many CNAMEs are followed before we stop.
const LONGEST_CHAIN: usize = 8;
const HEADER: usize = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Udp,
    Tcp,
}

/// What becomes of a packet.
#[derive(Debug)]
pub enum Outcome {
    Reply(Vec<u8>),
    /// The name, or the end of its CNAME chain, is somebody else's.
    Forward(Box<Pending>),
    /// Not a query at all; answering could start a loop.
    Ignore,
}

/// A query whose answer must come from upstream.
#[derive(Debug)]
pub struct Pending {
    request: Message,
    /// The CNAMEs that lead to `query`.
    chain: Vec<Record>,
    /// What to ask upstream.
    pub query: Query,
    transport: Transport,
}

/// Answers one packet.
pub fn answer(packet: &[u8], transport: Transport, lookup: &dyn Lookup) -> Outcome {
    let Some(header) = packet.get(..HEADER) else { return Outcome::Ignore };
    let is_response = header[2] & 0x80 != 0;
    if is_response {
        return Outcome::Ignore;
    }
    let id = u16::from_be_bytes([header[0], header[1]]);
    let request = match Message::from_vec(packet) {
        Ok(request) if request.metadata.message_type == MessageType::Query => request,
        _ => return error(id, OpCode::Query, ResponseCode::FormErr),
    };
    if let Err(code) = acceptable(&request) {
        let mut reply = reply_to(&request);
        reply.metadata.response_code = code;
        return send(reply, limit(&request, transport));
    }
    let query = request.queries[0].clone();
    resolve(request, &query, transport, lookup)
}

/// What is wrong with a query, if anything.
fn acceptable(request: &Message) -> Result<(), ResponseCode> {
    if request.metadata.op_code != OpCode::Query {
        return Err(ResponseCode::NotImp);
    }
    if request.edns.as_ref().is_some_and(|e| e.version() != 0) {
        return Err(ResponseCode::BADVERS);
    }
    let [query] = &request.queries[..] else { return Err(ResponseCode::FormErr) };
    if !matches!(query.query_class, DNSClass::IN | DNSClass::ANY) {
        return Err(ResponseCode::Refused);
    }
    match query.query_type {
        RecordType::AXFR | RecordType::IXFR => Err(ResponseCode::Refused),
        RecordType::OPT | RecordType::ZERO | RecordType::TSIG => Err(ResponseCode::FormErr),
        _ => Ok(()),
    }
}

fn resolve(request: Message, query: &Query, transport: Transport, lookup: &dyn Lookup) -> Outcome {
    let mut reply = reply_to(&request);
    reply.metadata.authoritative = true;
    let mut name = lower(&query.name);
    for _ in 0..=LONGEST_CHAIN {
        match lookup.lookup(&name, query.query_type) {
            Answer::Records { answers, additionals } => {
                let next = alias(&answers, query.query_type);
                // A name is answered in the spelling it was asked in.
                let first = reply.answers.is_empty();
                reply.answers.extend(answers.into_iter().map(|mut record| {
                    if first && record.name == query.name {
                        record.name = query.name.clone();
                    }
                    record
                }));
                reply.additionals.extend(additionals);
                match next {
                    Some(next) => name = lower(&next),
                    None => return send(reply, limit(&request, transport)),
                }
            }
            Answer::NoData | Answer::NxDomain if !reply.answers.is_empty() => {
                // The chain leads nowhere; what there is of it is still the answer.
                return send(reply, limit(&request, transport));
            }
            negative @ (Answer::NoData | Answer::NxDomain) => {
                if negative == Answer::NxDomain {
                    reply.metadata.response_code = ResponseCode::NXDomain;
                }
                reply.authorities.extend(lookup.authority(&name));
                return send(reply, limit(&request, transport));
            }
            Answer::NotMine => {
                let chain = reply.answers;
                let query = Query::query(name, query.query_type);
                return Outcome::Forward(Box::new(Pending { request, chain, query, transport }));
            }
        }
    }
    send(reply, limit(&request, transport))
}

impl Pending {
    /// The answer with what upstream said about `query`.
    pub fn finish(self, upstream: &Message) -> Option<Vec<u8>> {
        let mut reply = reply_to(&self.request);
        reply.metadata.response_code = upstream.metadata.response_code;
        reply.answers = self.chain;
        reply.answers.extend(upstream.answers.iter().cloned());
        reply.authorities.extend(upstream.authorities.iter().cloned());
        encode(reply, limit(&self.request, self.transport))
    }

    /// The answer when there is no upstream to ask: a name that nobody here knows.
    pub fn unknown(self) -> Option<Vec<u8>> {
        let code =
            if self.chain.is_empty() { ResponseCode::NXDomain } else { ResponseCode::NoError };
        self.with_code(code)
    }

    /// The answer when upstream did not.
    pub fn failed(self) -> Option<Vec<u8>> {
        self.with_code(ResponseCode::ServFail)
    }

    fn with_code(self, code: ResponseCode) -> Option<Vec<u8>> {
        let mut reply = reply_to(&self.request);
        reply.metadata.response_code = code;
        reply.answers = self.chain;
        encode(reply, limit(&self.request, self.transport))
    }
}

/// Where a CNAME leads, unless CNAMEs were what was asked for or the rest is there already.
fn alias(answers: &[Record], kind: RecordType) -> Option<Name> {
    if matches!(kind, RecordType::CNAME | RecordType::ANY) {
        return None;
    }
    match answers.last().map(|r| &r.data) {
        Some(RData::CNAME(target)) => Some(target.0.clone()),
        _ => None,
    }
}

fn lower(name: &Name) -> Name {
    let mut name = name.to_lowercase();
    name.set_fqdn(true);
    name
}

fn reply_to(request: &Message) -> Message {
    let mut reply = Message::response(request.metadata.id, request.metadata.op_code);
    reply.metadata = Metadata::response_from_request(&request.metadata);
    reply.metadata.recursion_available = true;
    reply.queries = request.queries.clone();
    if request.edns.is_some() {
        let mut edns = Edns::new();
        edns.set_max_payload(LARGEST_DATAGRAM);
        reply.set_edns(edns);
    }
    reply
}

fn limit(request: &Message, transport: Transport) -> u16 {
    match transport {
        Transport::Udp => request.max_payload().min(LARGEST_DATAGRAM),
        Transport::Tcp => u16::MAX,
    }
}

fn error(id: u16, op_code: OpCode, code: ResponseCode) -> Outcome {
    send(Message::error_msg(id, op_code, code), 512)
}

fn send(reply: Message, limit: u16) -> Outcome {
    encode(reply, limit).map_or(Outcome::Ignore, Outcome::Reply)
}

/// The bytes of a message, shortened to `limit`: first without the extras, then with as many
/// answers as fit and the mark that there are more.
fn encode(mut message: Message, limit: u16) -> Option<Vec<u8>> {
    if let Some(edns) = &mut message.edns {
        edns.set_rcode_high(message.metadata.response_code.high());
    }
    if let Some(bytes) = try_encode(&message, limit) {
        return Some(bytes);
    }
    message.additionals.clear();
    if let Some(bytes) = try_encode(&message, limit) {
        return Some(bytes);
    }
    message.authorities.clear();
    message.metadata.truncation = true;
    // Names compress, so the size is only known by trying; halving keeps that to a few tries.
    let mut fitting = 0..message.answers.len();
    let mut best = None;
    while !fitting.is_empty() {
        let middle = fitting.start.midpoint(fitting.end);
        let mut shorter = message.clone();
        shorter.answers.truncate(middle);
        match try_encode(&shorter, limit) {
            Some(bytes) => (best, fitting.start) = (Some(bytes), middle + 1),
            None => fitting.end = middle,
        }
    }
    best
}

fn try_encode(message: &Message, limit: u16) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(512);
    let mut encoder = BinEncoder::new(&mut bytes);
    message.emit(&mut encoder).ok()?;
    (bytes.len() <= usize::from(limit)).then_some(bytes)
}
