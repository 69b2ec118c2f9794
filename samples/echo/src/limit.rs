//! Envoy's rate-limit protocol (`envoy.service.ratelimit.v3`): a server that counts without end.
//!
//! A descriptor says its own limit in the entry `limit`; one without it is never too much. The entry
//! `fail` makes the server answer with an error. The messages are small, so they are written here.

use std::collections::BTreeMap;

use axum::extract::Request;
use axum::response::IntoResponse;
use parking_lot::Mutex;
use tonic::Status;
use tonic_prost::ProstCodec;

use crate::grpc::Unary;

pub(crate) const SHOULD_LIMIT: &str =
    "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// How often each descriptor was asked about.
static COUNTS: Mutex<BTreeMap<String, u32>> = Mutex::new(BTreeMap::new());

const OK: i32 = 1;
const OVER_LIMIT: i32 = 2;
const MINUTE: i32 = 2;

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Question {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(message, repeated, tag = "2")]
    descriptors: Vec<Descriptor>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Descriptor {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<Entry>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Entry {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Answer {
    #[prost(int32, tag = "1")]
    overall: i32,
    #[prost(message, repeated, tag = "2")]
    statuses: Vec<DescriptorStatus>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DescriptorStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(message, optional, tag = "2")]
    limit: Option<Limit>,
    #[prost(uint32, tag = "3")]
    remaining: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Limit {
    #[prost(uint32, tag = "1")]
    requests: u32,
    #[prost(int32, tag = "2")]
    unit: i32,
}

pub(crate) async fn should_limit(request: Request) -> impl IntoResponse {
    let mut grpc = tonic::server::Grpc::new(ProstCodec::<Answer, Question>::default());
    grpc.unary(Unary(|request: tonic::Request<Question>| answer(request.get_ref())), request).await
}

fn answer(question: &Question) -> Result<Answer, Status> {
    let mut statuses = Vec::new();
    for descriptor in &question.descriptors {
        if descriptor.entries.iter().any(|entry| entry.key == "fail") {
            return Err(Status::internal("as asked"));
        }
        statuses.push(status(&question.domain, descriptor));
    }
    let over = statuses.iter().any(|status| status.code == OVER_LIMIT);
    Ok(Answer { overall: if over { OVER_LIMIT } else { OK }, statuses })
}

fn status(domain: &str, descriptor: &Descriptor) -> DescriptorStatus {
    let limit = descriptor.entries.iter().find(|entry| entry.key == "limit");
    let Some(limit) = limit.and_then(|entry| entry.value.parse::<u32>().ok()) else {
        return DescriptorStatus { code: OK, ..DescriptorStatus::default() };
    };
    let mut counts = COUNTS.lock();
    let count = counts.entry(format!("{domain} {:?}", descriptor.entries)).or_default();
    *count = count.saturating_add(1);
    DescriptorStatus {
        code: if *count > limit { OVER_LIMIT } else { OK },
        limit: Some(Limit { requests: limit, unit: MINUTE }),
        remaining: limit.saturating_sub(*count),
    }
}
