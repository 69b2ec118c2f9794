//! Whatever happens in between, the client ends with exactly what it should have.
//!
//! Server and client sessions talk through two queues of encoded messages; sets change, wishes
//! change, messages are late, streams break, responses are refused. At the end everything is
//! delivered and what the client has is compared with what there is.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::client::{ClientSession, Incoming, Outgoing};
use crate::wire::decode;
use crate::{CDS, EDS, LDS, RDS, Resource, SDS};

const TYPES: [&str; 6] = [CDS, EDS, LDS, RDS, SDS, "type.googleapis.com/other"];

#[derive(Clone, Debug)]
enum Step {
    /// Sets the version of a resource of a type; 0 removes it. A version of 9 is refused by the client.
    Put(usize, u8, u8),
    All(usize),
    More(usize, u8),
    Less(usize, u8),
    ToServer,
    ToClient,
    Respond,
    Break,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kind = 0..TYPES.len();
    let step = prop_oneof![
        6 => (kind.clone(), 0..5u8, 0..10u8).prop_map(|(t, n, v)| Step::Put(t, n, v)),
        1 => kind.clone().prop_map(Step::All),
        3 => (kind.clone(), 0..5u8).prop_map(|(t, n)| Step::More(t, n)),
        2 => (kind, 0..5u8).prop_map(|(t, n)| Step::Less(t, n)),
        6 => Just(Step::ToServer),
        6 => Just(Step::ToClient),
        6 => Just(Step::Respond),
        1 => Just(Step::Break),
    ];
    proptest::collection::vec(step, 0..120)
}

struct World {
    variant: Variant,
    server: Session,
    client: ClientSession,
    sets: BTreeMap<TypeUrl, Arc<Set>>,
    to_server: VecDeque<Outgoing>,
    to_client: VecDeque<Response>,
    /// What the client wants, kept apart from its session.
    all: BTreeMap<TypeUrl, bool>,
    names: BTreeMap<TypeUrl, std::collections::BTreeSet<Name>>,
    responses: usize,
}

/// A body whose first field is its name, as Envoy's are.
fn resource(name: &str, version: u8) -> Resource {
    let length = u8::try_from(name.len()).expect("names are short");
    let body = [&[0x0a, length], name.as_bytes(), &[0x10, version]].concat();
    Resource::new(name, body)
}

impl World {
    fn new(variant: Variant) -> Self {
        let mut client = ClientSession::new(variant, Default::default());
        let to_server = client.connect().into();
        Self {
            variant,
            server: Session::new(variant, Arc::default()),
            client,
            sets: BTreeMap::new(),
            to_server,
            to_client: VecDeque::new(),
            all: BTreeMap::new(),
            names: BTreeMap::new(),
            responses: 0,
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Put(t, n, v) => {
                let (type_url, name): (TypeUrl, Name) = (TYPES[t].into(), format!("n{n}").into());
                let set = self.sets.entry(type_url.clone()).or_default();
                *set = match v {
                    0 => Set::with(set, [], &[name]),
                    v => Set::with(set, [resource(&name, v)], &[]),
                };
                self.server.aim(&type_url, set.clone());
            }
            Step::All(t) => {
                let type_url: TypeUrl = TYPES[t].into();
                self.all.insert(type_url.clone(), true);
                let request = self.client.subscribe_all(&type_url);
                self.to_server.extend(request);
            }
            Step::More(t, n) => {
                let (type_url, name): (TypeUrl, Name) = (TYPES[t].into(), format!("n{n}").into());
                self.names.entry(type_url.clone()).or_default().insert(name.clone());
                let request = self.client.subscribe(&type_url, &[name]);
                self.to_server.extend(request);
            }
            Step::Less(t, n) => {
                let (type_url, name): (TypeUrl, Name) = (TYPES[t].into(), format!("n{n}").into());
                if self.names.get_mut(&type_url).is_some_and(|names| names.remove(&name)) {
                    let request = self.client.unsubscribe(&type_url, &[name]);
                    self.to_server.extend(request);
                }
            }
            Step::ToServer => self.deliver_request(),
            Step::ToClient => self.deliver_response(),
            Step::Respond => self.to_client.extend(self.server.next_response()),
            Step::Break => {
                self.client.disconnect();
                self.to_client.clear();
                self.server = Session::new(self.variant, Arc::default());
                self.to_server = self.client.connect().into();
            }
        }
    }

    fn deliver_request(&mut self) {
        let Some(request) = self.to_server.pop_front() else { return };
        let request: Request = match request {
            Outgoing::StateOfTheWorld(r) => r.into(),
            Outgoing::Delta(r) => r.into(),
        };
        let type_url = request.type_url.clone();
        if self.server.request(request).expect("the client speaks well").interest_changed {
            let set = self.sets.entry(type_url.clone()).or_default().clone();
            self.server.aim(&type_url, set);
        }
    }

    fn deliver_response(&mut self) {
        let Some(response) = self.to_client.pop_front() else { return };
        self.responses += 1;
        let incoming = match self.variant {
            Variant::StateOfTheWorld => Incoming::StateOfTheWorld(decode(response)),
            Variant::Delta => Incoming::Delta(decode(response)),
        };
        let update = self.client.receive(incoming);
        let bad = update.put.iter().find(|r| r.body.last() == Some(&9));
        let verdict = match bad {
            None => Ok(()),
            Some(_) => Err("cannot take it".to_owned()),
        };
        let request = self.client.answer(update, verdict);
        self.to_server.push_back(request);
    }

    /// Lets everything arrive, as long as something moves.
    fn settle(&mut self) {
        let before = self.responses;
        loop {
            if !self.to_server.is_empty() {
                self.deliver_request();
            } else if !self.to_client.is_empty() {
                self.deliver_response();
            } else if let Some(response) = self.server.next_response() {
                self.to_client.push_back(response);
            } else {
                break;
            }
            assert!(self.responses - before < 200, "they never stop talking");
        }
        assert!(self.server.is_settled());
    }

    fn check(&self) -> Result<(), TestCaseError> {
        for type_url in TYPES {
            let all = self.all.contains_key(type_url);
            let wanted =
                |name: &str| all || self.names.get(type_url).is_some_and(|n| n.contains(name));
            let set = self.sets.get(type_url).cloned().unwrap_or_default();
            let should: BTreeMap<&str, &[u8]> = set
                .iter()
                .filter(|r| wanted(r.name()))
                .map(|r| (&**r.name(), r.body().as_ref()))
                .collect();
            let has: BTreeMap<&str, &[u8]> = self
                .client
                .have(type_url)
                // The state of the world cannot say that a named resource is gone.
                .filter(|r| {
                    let named = crate::rule::rule(type_url).named;
                    self.variant == Variant::Delta || !named || set.contains(&r.name)
                })
                .map(|r| (&*r.name, r.body.as_ref()))
                .collect();
            // Without names of its own, a type that is not Envoy's cannot be compared by name.
            let nameless = self.variant == Variant::StateOfTheWorld && type_url.ends_with("other");
            if nameless && all {
                prop_assert_eq!(has.len(), should.len(), "{}", type_url);
            } else if !nameless {
                prop_assert_eq!(has, should, "{}", type_url);
            }
        }
        Ok(())
    }
}

fn run(variant: Variant, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut world = World::new(variant);
    for step in steps {
        world.step(step);
    }
    world.settle();
    // What the client cannot take is put right.
    let bad: Vec<(TypeUrl, Name)> = world
        .sets
        .iter()
        .flat_map(|(t, set)| set.iter().map(move |r| (t.clone(), r)))
        .filter(|(_, r)| r.body().last() == Some(&9))
        .map(|(t, r)| (t, r.name().clone()))
        .collect();
    for (type_url, name) in bad {
        let set = world.sets.entry(type_url.clone()).or_default();
        *set = Set::with(set, [resource(&name, 1)], &[]);
        world.server.aim(&type_url, set.clone());
    }
    world.settle();
    world.check()?;
    // Coming back costs nothing when nothing changed.
    if variant == Variant::Delta {
        let before = world.responses;
        world.step(&Step::Break);
        world.settle();
        let owed = world.client_lacks();
        prop_assert!(world.responses - before <= owed, "{} responses", world.responses - before);
        world.check()?;
    }
    Ok(())
}

impl World {
    /// Types of which the client wants something that is not there, and so is told again; and endpoints, if
    /// it says nothing of clusters.
    fn client_lacks(&self) -> usize {
        let wants = |type_url: &str| {
            self.all.contains_key(type_url)
                || self.names.get(type_url).is_some_and(|names| !names.is_empty())
        };
        let of = |type_url: &&str| {
            let names = self.names.get(*type_url).into_iter().flatten();
            let have: Vec<_> = self.client.have(type_url).map(|r| r.name.clone()).collect();
            let empty_all = self.all.contains_key(*type_url) && have.is_empty();
            let waiting = *type_url == EDS && !wants(CDS) && wants(EDS);
            waiting || empty_all || names.into_iter().any(|name| !have.contains(name))
        };
        TYPES.iter().filter(|t| of(t)).count()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    #[test]
    fn a_delta_client_ends_with_what_it_should_have(steps in steps()) {
        run(Variant::Delta, &steps)?;
    }

    #[test]
    fn a_state_of_the_world_client_ends_with_what_it_should_have(steps in steps()) {
        run(Variant::StateOfTheWorld, &steps)?;
    }
}
