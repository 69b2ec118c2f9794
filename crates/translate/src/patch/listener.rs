//! Patches of listeners, their listener filters and their filter chains.

use ironsail_api::Diagnostic;
use ironsail_api::istio::networking::{ApplyTo, ListenerMatch, ObjectMatch, Operation};
use ironsail_names::{VIRTUAL_INBOUND, VIRTUAL_OUTBOUND};
use ironsail_proto::envoy::config::core::v3::transport_socket::ConfigType;
use ironsail_proto::envoy::config::core::v3::{TransportSocket, address, socket_address};
use ironsail_proto::envoy::config::listener::v3::{FilterChain, Listener, ListenerFilter};
use ironsail_proto::reflect::DynamicMessage;

use super::merge::{Lists, merged, merged_any};
use super::{Context, Patch, Patches, list, network, value};
use crate::Translated;

impl Patches<'_> {
    /// The listener with every patch that fits; None if one removes it.
    pub fn listener(
        &self,
        context: Context,
        made: Translated<Listener>,
    ) -> Translated<Option<Listener>> {
        let Translated { value: mut listener, diagnostics: mut found } = made;
        if self.is_empty() {
            return Translated { value: Some(listener), diagnostics: found };
        }
        if context == Context::Inbound {
            network::inline_routes(self, &mut listener, &mut found);
        }
        for patch in self.to(ApplyTo::Listener, context) {
            if !fits(&listener, &patch) {
                continue;
            }
            match patch.operation() {
                Operation::Remove => return Translated { value: None, diagnostics: found },
                _ if patch.merges() => {
                    attempt(&mut listener, &patch, &mut found, whole);
                }
                _ => {}
            }
        }
        for patch in self.to(ApplyTo::ListenerFilter, context) {
            if fits(&listener, &patch) {
                attempt(&mut listener, &patch, &mut found, listener_filter);
            }
        }
        let chains = self.to(ApplyTo::FilterChain, context);
        for patch in chains.filter(|patch| patch.operation() != Operation::Add) {
            if fits(&listener, &patch) {
                attempt(&mut listener, &patch, &mut found, chain);
            }
        }
        network::filters(self, context, &mut listener, &mut found);
        let chains = self.to(ApplyTo::FilterChain, context);
        for patch in chains.filter(|patch| patch.operation() == Operation::Add) {
            if fits(&listener, &patch) {
                attempt(&mut listener, &patch, &mut found, add_chain);
            }
        }
        Translated { value: Some(listener), diagnostics: found }
    }

    /// Listeners that patches add, each with its key.
    pub fn added_listeners(&self, context: Context) -> Vec<(u64, Translated<Option<Listener>>)> {
        let patches = self.to(ApplyTo::Listener, context);
        patches.filter(|patch| patch.adds_to(context)).map(|patch| patch.added()).collect()
    }
}

impl Patch<'_> {
    /// What is added as a resource of its own.
    pub(super) fn added<M: ironsail_proto::Name + Default>(&self) -> (u64, Translated<Option<M>>) {
        let key = self.write(crate::Key::new("added")).finish();
        let mut diagnostics = Vec::new();
        let value = match self.element::<M>() {
            Ok(value) => value,
            Err(why) => {
                self.refuse(&mut diagnostics, why);
                None
            }
        };
        (key, Translated { value, diagnostics })
    }

    pub(super) fn lists(&self) -> Lists {
        match self.operation() {
            Operation::MergeAndReplaceList => Lists::Replace,
            _ => Lists::Append,
        }
    }

    pub(super) fn listener_match(&self) -> Option<&ListenerMatch> {
        match self.object_match() {
            Some(ObjectMatch::Listener(rule)) => Some(rule),
            _ => None,
        }
    }
}

/// Does `change` to a copy, and keeps it if it can be kept.
pub(super) fn attempt<T: Clone>(
    target: &mut T,
    patch: &Patch<'_>,
    found: &mut Vec<Diagnostic>,
    change: impl FnOnce(&mut T, &Patch<'_>) -> Result<(), String>,
) {
    let mut copy = target.clone();
    match change(&mut copy, patch) {
        Ok(()) => *target = copy,
        Err(why) => patch.refuse(found, why),
    }
}

fn is_virtual(listener: &Listener) -> bool {
    listener.name == VIRTUAL_INBOUND || listener.name == VIRTUAL_OUTBOUND
}

fn port(listener: &Listener) -> Option<u32> {
    match listener.address.as_ref()?.address.as_ref()? {
        address::Address::SocketAddress(address) => match address.port_specifier.as_ref()? {
            socket_address::PortSpecifier::PortValue(port) => Some(*port),
            socket_address::PortSpecifier::NamedPort(_) => None,
        },
        _ => None,
    }
}

/// Whether the patch is about something in the listener.
pub(super) fn fits(listener: &Listener, patch: &Patch<'_>) -> bool {
    let Some(rule) = patch.listener_match() else { return true };
    if !rule.name.is_empty() && rule.name != listener.name {
        return false;
    }
    // The ports of these are in their filter chains.
    if patch.apply_to() != ApplyTo::Listener && is_virtual(listener) {
        return true;
    }
    rule.port_number == 0 || port(listener) == Some(rule.port_number)
}

/// Whether the patch is about the chain, or something in it.
pub(super) fn fits_chain(listener: &Listener, chain: &FilterChain, patch: &Patch<'_>) -> bool {
    let Some(rule) = patch.listener_match() else { return true };
    let own = chain.filter_chain_match.as_ref();
    let destination = own.and_then(|own| own.destination_port).map(|port| port.value);
    if is_virtual(listener) && rule.port_number != 0 && destination != Some(rule.port_number) {
        return false;
    }
    let Some(rule) = &rule.filter_chain else { return true };
    let socket = chain.transport_socket.as_ref().map(|socket| socket.name.as_str());
    let transport = own.map(|own| own.transport_protocol.as_str());
    let protocols = own.map_or(&[][..], |own| &own.application_protocols);
    (rule.name.is_empty() || rule.name == chain.name)
        && (rule.sni.is_empty() || own.is_some_and(|own| own.server_names.contains(&rule.sni)))
        && (rule.transport_protocol.is_empty() || transport == Some(&rule.transport_protocol))
        && (rule.application_protocols.is_empty()
            || rule.application_protocols.split(',').all(|p| protocols.iter().any(|own| own == p)))
        && (rule.destination_port == 0 || destination == Some(rule.destination_port))
        && (rule.transport_socket.is_empty() || socket == Some(&rule.transport_socket))
}

fn whole(listener: &mut Listener, patch: &Patch<'_>) -> Result<(), String> {
    let message = patch.message()?.ok_or("it has no value")?;
    let merged = merged(listener, &message, patch.lists())?;
    if merged.name != listener.name {
        return Err(format!("it would rename the listener {}", listener.name));
    }
    network::sound(&merged)?;
    *listener = merged;
    Ok(())
}

fn listener_filter(listener: &mut Listener, patch: &Patch<'_>) -> Result<(), String> {
    let named = patch.listener_match().map(|rule| rule.listener_filter.as_str());
    let named = named.filter(|name| !name.is_empty());
    if patch.merges() {
        let message = patch.message()?.ok_or("it has no value")?;
        for filter in &mut listener.listener_filters {
            if named.is_none_or(|name| name == filter.name) {
                *filter = merged(filter, &message, patch.lists())?;
            }
        }
        return Ok(());
    }
    let filter = patch.element::<ListenerFilter>()?;
    let is_it = |one: &ListenerFilter| named.is_some_and(|name| name == one.name);
    let is_it = named.map(|_| &is_it as &dyn Fn(&ListenerFilter) -> bool);
    list::place(&mut listener.listener_filters, patch.operation(), is_it, filter.as_ref());
    Ok(())
}

fn chain(listener: &mut Listener, patch: &Patch<'_>) -> Result<(), String> {
    let frame = Listener { filter_chains: Vec::new(), ..listener.clone() };
    match patch.operation() {
        Operation::Remove => {
            listener.filter_chains.retain(|chain| !fits_chain(&frame, chain, patch));
            let default = listener.default_filter_chain.as_ref();
            if default.is_some_and(|chain| fits_chain(&frame, chain, patch)) {
                listener.default_filter_chain = None;
            }
            if listener.filter_chains.is_empty() && listener.default_filter_chain.is_none() {
                return Err("no filter chain would be left; remove the listener instead".into());
            }
        }
        _ if patch.merges() => {
            let message = patch.message()?.ok_or("it has no value")?;
            let chains = listener.filter_chains.iter_mut();
            for chain in chains.chain(&mut listener.default_filter_chain) {
                if fits_chain(&frame, chain, patch) {
                    *chain = merged_chain(chain, &message, patch.lists())?;
                }
            }
        }
        _ => return Ok(()),
    }
    network::sound(listener)
}

fn add_chain(listener: &mut Listener, patch: &Patch<'_>) -> Result<(), String> {
    listener.filter_chains.extend(patch.element::<FilterChain>()?);
    network::sound(listener)
}

fn merged_chain(
    chain: &FilterChain,
    patch: &DynamicMessage,
    lists: Lists,
) -> Result<FilterChain, String> {
    let said: FilterChain = value::typed(patch)?;
    let socket =
        merged_socket(chain.transport_socket.as_ref(), said.transport_socket.as_ref(), lists)?;
    let mut out = merged(chain, patch, lists)?;
    if let Some(socket) = socket {
        out.transport_socket = Some(socket);
    }
    Ok(out)
}

/// The configuration inside is merged if both are the same socket; None if it is as any message.
pub(super) fn merged_socket(
    own: Option<&TransportSocket>,
    said: Option<&TransportSocket>,
    lists: Lists,
) -> Result<Option<TransportSocket>, String> {
    let (Some(own), Some(said)) = (own, said) else { return Ok(None) };
    if own.name != said.name {
        return Ok(None);
    }
    let (Some(ConfigType::TypedConfig(into)), Some(ConfigType::TypedConfig(from))) =
        (&own.config_type, &said.config_type)
    else {
        return Ok(None);
    };
    let config_type = Some(ConfigType::TypedConfig(merged_any(into, from, lists)?));
    Ok(Some(TransportSocket { name: own.name.clone(), config_type }))
}
