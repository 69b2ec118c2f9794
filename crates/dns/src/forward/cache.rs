//! Upstream answers, remembered as long as they are good.
//!
//! In: answers with the time they came; out: the same with their time to live counted down. Bounded.

use std::collections::HashMap;
use std::time::Duration;

use hickory_proto::op::{Message, Query, ResponseCode};
use hickory_proto::rr::{Name, RData, RecordType};
use parking_lot::Mutex;
use tokio::time::Instant;

const MOST_ANSWERS: usize = 10_000;
const LONGEST: u32 = 3600;
/// Absence is not remembered longer than this, whatever the zone says.
const LONGEST_ABSENCE: u32 = 30;

#[derive(Default)]
pub(super) struct Cache(Mutex<HashMap<(Name, RecordType), Kept>>);

struct Kept {
    answer: Message,
    since: Instant,
    until: Instant,
}

impl Cache {
    pub(super) fn find(&self, query: &Query, now: Instant) -> Option<Message> {
        let kept = self.0.lock();
        let kept = kept.get(&key(query)).filter(|k| k.until > now)?;
        let age = u32::try_from(now.duration_since(kept.since).as_secs()).unwrap_or(u32::MAX);
        let mut answer = kept.answer.clone();
        for record in answer.answers.iter_mut().chain(&mut answer.authorities) {
            record.decrement_ttl(age);
        }
        Some(answer)
    }

    pub(super) fn keep(&self, query: &Query, answer: &Message, now: Instant) {
        let Some(seconds) = lifetime(answer).filter(|s| *s > 0) else { return };
        let until = now + Duration::from_secs(seconds.into());
        let mut kept = self.0.lock();
        if kept.len() >= MOST_ANSWERS {
            kept.retain(|_, k| k.until > now);
        }
        if kept.len() >= MOST_ANSWERS
            && let Some(any) = kept.keys().next().cloned()
        {
            kept.remove(&any);
        }
        kept.insert(key(query), Kept { answer: answer.clone(), since: now, until });
    }
}

fn key(query: &Query) -> (Name, RecordType) {
    (query.name.to_lowercase(), query.query_type)
}

/// How long an answer may be remembered: its shortest record, or what the zone says of absence.
fn lifetime(answer: &Message) -> Option<u32> {
    if answer.metadata.response_code == ResponseCode::NoError && !answer.answers.is_empty() {
        return answer.answers.iter().map(|r| r.ttl).min().map(|ttl| ttl.min(LONGEST));
    }
    answer.authorities.iter().find_map(|record| match &record.data {
        RData::SOA(soa) => Some(record.ttl.min(soa.minimum).min(LONGEST_ABSENCE)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use hickory_proto::rr::{Record, rdata::A};

    use super::*;

    fn query() -> Query {
        Query::query(Name::from_ascii("example.com.").unwrap(), RecordType::A)
    }

    fn answer(ttl: u32) -> Message {
        let mut message = Message::query();
        let a = RData::A(A(Ipv4Addr::new(192, 0, 2, 1)));
        message.add_answer(Record::from_rdata(query().name, ttl, a));
        message
    }

    #[test]
    fn an_answer_ages_and_is_forgotten() {
        let cache = Cache::default();
        let start = Instant::now();
        cache.keep(&query(), &answer(30), start);
        let later = cache.find(&query(), start + Duration::from_secs(10)).unwrap();
        assert_eq!(later.answers[0].ttl, 20);
        assert!(cache.find(&query(), start + Duration::from_secs(30)).is_none());
    }

    #[test]
    fn what_must_not_be_kept_is_not() {
        let cache = Cache::default();
        cache.keep(&query(), &answer(0), Instant::now());
        cache.keep(&query(), &Message::query(), Instant::now());
        assert!(cache.find(&query(), Instant::now()).is_none());
    }

    #[test]
    fn the_memory_is_bounded() {
        let cache = Cache::default();
        for i in 0..MOST_ANSWERS + 10 {
            let name = Name::from_ascii(format!("n{i}.example.com.")).unwrap();
            cache.keep(&Query::query(name, RecordType::A), &answer(30), Instant::now());
        }
        assert_eq!(cache.0.lock().len(), MOST_ANSWERS);
    }
}
