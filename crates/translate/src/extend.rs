//! What users put into the path of traffic: rate limits, WebAssembly modules and scripts.
//!
//! In: a translated listener and the objects that are about its proxy. Out: the listener with their
//! filters among the others, by phase and priority; and by name, the configurations that proxies ask
//! for by ECDS. It runs after listeners are made and before EnvoyFilters, which may change what it adds.

mod limit;
mod place;
mod plugin;
mod resource;

use ironsail_model::{ProxyClass, Scope, Snapshot};
use ironsail_proto::envoy::config::listener::v3::{FilterChain, Listener};

use crate::patch::{Context, in_manager};
use crate::{Key, Translated};

pub(crate) use limit::Limits;
pub(crate) use plugin::Plugins;

/// All that is put into the listeners of one class of proxies.
#[derive(Debug, Default)]
pub struct Extensions<'a> {
    limits: Limits<'a>,
    plugins: Plugins<'a>,
}

impl<'a> Extensions<'a> {
    pub fn of(snapshot: &'a Snapshot, scope: &Scope, class: &ProxyClass) -> Self {
        if crate::patch::contexts(class.kind).is_empty() {
            return Self::default();
        }
        Self { limits: Limits::of(snapshot, scope, class), plugins: Plugins::of(snapshot, class) }
    }

    /// The key of a listener with what is put into it.
    pub fn key(&self, key: u64, context: Context) -> u64 {
        let limits = context != Context::Outbound && !self.limits.is_empty();
        if !limits && self.plugins.is_empty() {
            return key;
        }
        let mut out = Key::new("extended").digest(key).flag(limits);
        if limits {
            out = self.limits.write(out);
        }
        self.plugins.write(out).finish()
    }

    /// The listener with the filters that are meant for it.
    pub fn listener(&self, context: Context, made: Translated<Listener>) -> Translated<Listener> {
        let Translated { value: mut listener, mut diagnostics } = made;
        let limits = context != Context::Outbound && !self.limits.is_empty();
        if !limits && self.plugins.is_empty() {
            return Translated { value: listener, diagnostics };
        }
        let port = place::port_of(&listener);
        let chains = listener.filter_chains.iter_mut();
        for chain in chains.chain(&mut listener.default_filter_chain) {
            let port = own_port(chain).or(port);
            for filter in &mut chain.filters {
                let done = in_manager(filter, |manager| {
                    let filters = &mut manager.http_filters;
                    self.plugins.http(context, port, filters);
                    if limits {
                        self.limits.http(port, filters, &mut diagnostics);
                    }
                    Ok(())
                });
                debug_assert_eq!(done, Ok(()), "a manager of our own can be read");
            }
            self.plugins.network(context, port, &mut chain.filters);
        }
        Translated { value: listener, diagnostics }
    }
}

fn own_port(chain: &FilterChain) -> Option<u32> {
    chain.filter_chain_match.as_ref()?.destination_port.map(|port| port.value)
}
