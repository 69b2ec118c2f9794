//! The way of a request: out of the client's proxy, over the wire, into the server's.
//!
//! Each file is one part of the way: `client` finds listener and chain, `http` and `bytes` find the
//! cluster, `wire` the endpoint and what is said to it, `server` the way in, `guard` its policies.

mod bytes;
mod client;
mod guard;
mod http;
mod server;
mod wire;

use ironsail_proto::envoy::config::listener::v3::{Filter, FilterChain, filter};
use ironsail_proto::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use ironsail_proto::envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;
use ironsail_proto::{Name, unpack};

use crate::answer::{Answer, Origin, Outcome, Side, Step, Verdict, Warning};
use crate::object::Named;
use crate::question::Question;
use crate::world::{Pod, World};

/// What becomes of the request.
pub fn explain(world: &World, question: &Question) -> Answer {
    let Some(pod) = world.pod(&question.source) else {
        let text = format!("no pod {} is known", question.source);
        return finish(question, Vec::new(), Outcome::new(Verdict::Unknown, text));
    };
    let named = world.objects.named(&question.url.host, &pod.namespace);
    let mut walk = Walk {
        world,
        question,
        pod,
        named,
        steps: Vec::new(),
        others: Vec::new(),
        share: None,
        needs: Vec::new(),
        rule: String::new(),
    };
    let outcome = walk.leave();
    let Walk { steps, others, share, needs, .. } = walk;
    let mut answer = finish(question, steps, outcome);
    answer.others = others;
    answer.share = share;
    answer.needs = needs;
    answer
}

fn finish(question: &Question, steps: Vec<Step>, outcome: Outcome) -> Answer {
    Answer {
        request: match question.url.is_http() {
            true => format!("{} {}", question.method, question.url),
            false => question.url.to_string(),
        },
        source: question.source.clone(),
        steps,
        outcome,
        share: None,
        others: Vec::new(),
        needs: Vec::new(),
    }
}

/// A request on its way.
#[derive(Clone)]
struct Walk<'a> {
    world: &'a World,
    question: &'a Question,
    /// The client.
    pod: &'a Pod,
    /// What its URL means.
    named: Named<'a>,
    steps: Vec<Step>,
    others: Vec<Answer>,
    share: Option<u32>,
    /// Pods whose proxies must be asked to know more.
    needs: Vec<String>,
    /// The field of the VirtualService that routes it.
    rule: String,
}

impl Walk<'_> {
    fn step(&mut self, side: Side, what: &'static str, text: impl Into<String>) {
        let text = text.into();
        self.steps.push(Step { side, what, text, from: Vec::new(), warnings: Vec::new() });
    }

    /// Where the last step comes from.
    fn from(&mut self, origins: impl IntoIterator<Item = Origin>) {
        if let Some(step) = self.steps.last_mut() {
            step.from.extend(origins);
        }
    }

    /// Something about the last step that looks wrong.
    fn warn(&mut self, text: impl Into<String>, from: impl IntoIterator<Item = Origin>) {
        if let Some(step) = self.steps.last_mut() {
            let from = from.into_iter().collect();
            step.warnings.push(Warning { text: text.into(), from });
        }
    }
}

/// What a filter chain does in the end.
enum End {
    Http(Box<HttpConnectionManager>),
    Tcp(Box<TcpProxy>),
    /// Nothing that is known here.
    Other,
}

fn end(chain: &FilterChain) -> End {
    for filter in &chain.filters {
        if let Some(manager) = config(filter) {
            return End::Http(Box::new(manager));
        }
        if let Some(proxy) = config(filter) {
            return End::Tcp(Box::new(proxy));
        }
    }
    End::Other
}

/// The configuration of a network filter, if it is of this type.
fn config<M: Name + Default>(filter: &Filter) -> Option<M> {
    match filter.config_type.as_ref()? {
        filter::ConfigType::TypedConfig(any) => unpack(any).ok(),
        filter::ConfigType::ConfigDiscovery(_) => None,
    }
}
