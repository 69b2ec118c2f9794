//! Requests of discovery clients, in both variants, while what there is changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arbitrary::Arbitrary;
use ironsail_proto::Message;
use ironsail_proto::envoy::service::discovery::v3 as discovery;
use ironsail_xds::{
    Ask, CDS, EDS, Frames, LDS, Name, RDS, Request, Resource, Response, SDS, Session, Set, TypeUrl,
    Variant,
};

const TYPES: [&str; 6] = [CDS, EDS, LDS, RDS, SDS, "other"];

#[derive(Arbitrary, Debug)]
enum Step<'a> {
    /// Any bytes as a request.
    Bytes(&'a [u8]),
    Ask {
        kind: u8,
        more: Vec<u8>,
        less: Vec<u8>,
        has: Vec<(u8, u8)>,
        nonce: Nonce,
        refuse: bool,
    },
    Put {
        kind: u8,
        name: u8,
        version: u8,
    },
    Respond,
}

#[derive(Arbitrary, Debug)]
enum Nonce {
    None,
    Last,
    Any(u8),
}

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    delta: bool,
    steps: Vec<Step<'a>>,
}

struct World {
    session: Session,
    sets: BTreeMap<TypeUrl, Arc<Set>>,
    nonces: BTreeMap<TypeUrl, String>,
    unanswered: BTreeSet<TypeUrl>,
}

fn name(n: u8) -> Name {
    if n == 0 { "*".into() } else { format!("n{}", n % 8).into() }
}

fn resource(n: u8, version: u8) -> Resource {
    Resource::new(name(n), vec![version; usize::from(version) * 60])
}

impl World {
    /// False if the stream is over.
    fn hear(&mut self, request: Request) -> bool {
        let type_url = request.type_url.clone();
        if self.nonces.get(&type_url) == Some(&request.nonce) {
            self.unanswered.remove(&type_url);
        }
        let Ok(heard) = self.session.request(request) else { return false };
        if heard.interest_changed {
            let set = self.sets.entry(type_url.clone()).or_default().clone();
            self.session.aim(&type_url, set);
        }
        true
    }

    fn respond(&mut self) {
        let Some(response) = self.session.next_response() else { return };
        assert!(self.unanswered.insert(response.type_url.clone()), "one at a time");
        self.nonces.insert(response.type_url.clone(), response.nonce.clone());
        let interest = self.session.interest(&response.type_url).expect("it was asked for");
        for resource in response.resources.iter() {
            assert!(interest.contains(resource.name()), "only what was asked for");
            assert!(!response.removed.contains(resource.name()), "not both put and removed");
        }
        check_bytes(response);
    }
}

fn check_bytes(response: Response) {
    let (variant, count) = (response.variant, response.resources.len());
    let mut frames = Frames::new(response);
    let mut bytes = Vec::new();
    while let Some(piece) = frames.next_piece().expect("short enough") {
        assert!(!piece.is_empty());
        bytes.extend_from_slice(&piece);
    }
    assert_eq!(bytes.len() - 5, u32::from_be_bytes(bytes[1..5].try_into().unwrap()) as usize);
    let got = match variant {
        Variant::StateOfTheWorld => {
            discovery::DiscoveryResponse::decode(&bytes[5..]).unwrap().resources.len()
        }
        Variant::Delta => {
            discovery::DeltaDiscoveryResponse::decode(&bytes[5..]).unwrap().resources.len()
        }
    };
    assert_eq!(got, count);
}

pub(crate) fn target(bytes: &[u8]) {
    let Some(input) = crate::made::<Input>(bytes) else { return };
    let variant = if input.delta { Variant::Delta } else { Variant::StateOfTheWorld };
    let mut world = World {
        session: Session::new(variant, Arc::default()),
        sets: BTreeMap::new(),
        nonces: BTreeMap::new(),
        unanswered: BTreeSet::new(),
    };
    for step in input.steps {
        match step {
            Step::Bytes(bytes) => {
                let request: Option<Request> = match variant {
                    Variant::StateOfTheWorld => {
                        discovery::DiscoveryRequest::decode(bytes).ok().map(Into::into)
                    }
                    Variant::Delta => {
                        discovery::DeltaDiscoveryRequest::decode(bytes).ok().map(Into::into)
                    }
                };
                if request.is_some_and(|request| !world.hear(request)) {
                    return;
                }
            }
            Step::Ask { kind, more, less, has, nonce, refuse } => {
                let type_url: TypeUrl = TYPES[usize::from(kind) % TYPES.len()].into();
                let nonce = match nonce {
                    Nonce::None => String::new(),
                    Nonce::Last => world.nonces.get(&type_url).cloned().unwrap_or_default(),
                    Nonce::Any(n) => format!("{n:x}"),
                };
                let more: Vec<Name> = more.into_iter().map(name).collect();
                let held = |(n, v)| (name(n).to_string(), resource(n, v).version().to_string());
                let ask = match variant {
                    Variant::StateOfTheWorld => {
                        Ask::StateOfTheWorld { names: more, version: String::new() }
                    }
                    Variant::Delta => Ask::Delta {
                        more,
                        less: less.into_iter().map(name).collect(),
                        has: has.into_iter().map(held).collect(),
                    },
                };
                let error = refuse.then(|| "n3 is wrong".to_owned());
                if !world.hear(Request { type_url, nonce, error, ask }) {
                    return;
                }
            }
            Step::Put { kind, name: n, version } => {
                let type_url: TypeUrl = TYPES[usize::from(kind) % TYPES.len()].into();
                let set = world.sets.entry(type_url.clone()).or_default();
                *set = match version {
                    0 => Set::with(set, [], &[name(n)]),
                    version => Set::with(set, [resource(n, version)], &[]),
                };
                world.session.aim(&type_url, set.clone());
            }
            Step::Respond => world.respond(),
        }
    }
    // Asked often enough, it comes to an end.
    for _ in 0..TYPES.len() + 64 {
        world.respond();
    }
    assert!(world.session.next_response().is_none(), "it never stops talking");
}
