//! Patches of route configurations, virtual hosts and routes.

use std::collections::BTreeSet;

use ironsail_api::Diagnostic;
use ironsail_api::istio::networking::{
    ApplyTo, ObjectMatch, Operation, RouteAction, RouteConfigurationMatch, RouteMatch,
    VirtualHostMatch,
};
use ironsail_names::RouteName;
use ironsail_proto::envoy::config::route::v3::{
    Route, RouteConfiguration, VirtualHost, route::Action,
};

use super::listener::attempt;
use super::merge::merged;
use super::{Context, Patch, Patches, list};
use crate::Translated;

impl Patches<'_> {
    /// The route configuration with every patch that fits.
    pub fn route(
        &self,
        context: Context,
        made: Translated<RouteConfiguration>,
    ) -> Translated<RouteConfiguration> {
        let Translated { mut value, mut diagnostics } = made;
        self.routes(context, &mut value, &mut diagnostics);
        Translated { value, diagnostics }
    }

    pub(super) fn routes(
        &self,
        context: Context,
        routes: &mut RouteConfiguration,
        found: &mut Vec<Diagnostic>,
    ) {
        let steps: [(ApplyTo, Change); 4] = [
            (ApplyTo::RouteConfiguration, whole),
            (ApplyTo::VirtualHost, hosts),
            (ApplyTo::HttpRoute, in_hosts),
            (ApplyTo::VirtualHost, add_host),
        ];
        for (target, change) in steps {
            for patch in self.to(target, context) {
                if fits(context, routes, &patch) {
                    attempt(routes, &patch, found, change);
                }
            }
        }
    }
}

type Change = fn(&mut RouteConfiguration, &Patch<'_>) -> Result<(), String>;

impl Patch<'_> {
    fn route_match(&self) -> Option<&RouteConfigurationMatch> {
        match self.object_match() {
            Some(ObjectMatch::RouteConfiguration(rule)) => Some(rule),
            _ => None,
        }
    }

    fn host_match(&self) -> Option<&VirtualHostMatch> {
        self.route_match()?.vhost.as_ref()
    }

    fn one_route(&self) -> Option<&RouteMatch> {
        self.host_match()?.route.as_ref()
    }
}

fn fits(context: Context, routes: &RouteConfiguration, patch: &Patch<'_>) -> bool {
    let Some(rule) = patch.route_match() else { return true };
    if !rule.name.is_empty() && rule.name != routes.name {
        return false;
    }
    let name = routes.name.parse::<RouteName>().ok();
    let (port, port_name, gateway) = match &name {
        Some(RouteName::Port(port) | RouteName::GatewayHttp(port)) => (Some(*port), "", None),
        Some(RouteName::Inbound(cluster)) => (Some(cluster.port), "", None),
        Some(RouteName::GatewayHttps { port, port_name, gateway, namespace }) => {
            (Some(*port), port_name.as_str(), Some(format!("{namespace}/{gateway}")))
        }
        Some(RouteName::Service(..)) | None => (None, "", None),
    };
    if rule.port_number != 0 && port.map(u32::from) != Some(rule.port_number) {
        return false;
    }
    context != Context::Gateway
        || ((rule.port_name.is_empty() || rule.port_name == port_name)
            && (rule.gateway.is_empty() || gateway.as_deref() == Some(&rule.gateway)))
}

fn fits_host(host: &VirtualHost, patch: &Patch<'_>) -> bool {
    patch.host_match().is_none_or(|rule| {
        (rule.name.is_empty() || rule.name == host.name)
            && (rule.domain_name.is_empty() || host.domains.contains(&rule.domain_name))
    })
}

fn fits_route(route: &Route, patch: &Patch<'_>) -> bool {
    let Some(rule) = patch.one_route() else { return true };
    let action = match (&route.action, rule.action) {
        (_, RouteAction::Any) => true,
        (Some(Action::Route(_)), wanted) => wanted == RouteAction::Route,
        (Some(Action::Redirect(_)), wanted) => wanted == RouteAction::Redirect,
        (Some(Action::DirectResponse(_)), wanted) => wanted == RouteAction::DirectResponse,
        _ => true,
    };
    (rule.name.is_empty() || rule.name == route.name) && action
}

fn whole(routes: &mut RouteConfiguration, patch: &Patch<'_>) -> Result<(), String> {
    if !patch.merges() {
        return Ok(());
    }
    let message = patch.message()?.ok_or("it has no value")?;
    let merged = merged(routes, &message, patch.lists())?;
    if merged.name != routes.name {
        return Err(format!("it would rename the routes {}", routes.name));
    }
    *routes = merged;
    sound(routes)
}

fn hosts(routes: &mut RouteConfiguration, patch: &Patch<'_>) -> Result<(), String> {
    match patch.operation() {
        Operation::Remove => routes.virtual_hosts.retain(|host| !fits_host(host, patch)),
        Operation::Replace => {
            let value = patch.element::<VirtualHost>()?.ok_or("it has no value")?;
            for host in routes.virtual_hosts.iter_mut().filter(|host| fits_host(host, patch)) {
                *host = value.clone();
            }
        }
        _ if patch.merges() => {
            let message = patch.message()?.ok_or("it has no value")?;
            for host in routes.virtual_hosts.iter_mut().filter(|host| fits_host(host, patch)) {
                *host = merged(host, &message, patch.lists())?;
            }
        }
        _ => return Ok(()),
    }
    sound(routes)
}

fn add_host(routes: &mut RouteConfiguration, patch: &Patch<'_>) -> Result<(), String> {
    if patch.operation() != Operation::Add {
        return Ok(());
    }
    routes.virtual_hosts.extend(patch.element::<VirtualHost>()?);
    sound(routes)
}

fn in_hosts(routes: &mut RouteConfiguration, patch: &Patch<'_>) -> Result<(), String> {
    let named = patch.one_route().is_some();
    let is_it = |route: &Route| fits_route(route, patch);
    let merging = patch.merges();
    let message = if merging { patch.message()? } else { None };
    let value = if merging { None } else { patch.element::<Route>()? };
    for host in routes.virtual_hosts.iter_mut().filter(|host| fits_host(host, patch)) {
        if let Some(message) = &message {
            for route in host.routes.iter_mut().filter(|route| is_it(route)) {
                *route = merged(route, message, patch.lists())?;
            }
            continue;
        }
        match patch.operation() {
            // Without a route all of the host go.
            Operation::Remove => host.routes.retain(|route| !is_it(route)),
            Operation::InsertFirst if named && !host.routes.iter().any(is_it) => {}
            operation => {
                let is_it = named.then_some(&is_it as &dyn Fn(&Route) -> bool);
                list::place(&mut host.routes, operation, is_it, value.as_ref());
            }
        }
    }
    Ok(())
}

/// Two virtual hosts of one name or domain make Envoy refuse them all.
fn sound(routes: &RouteConfiguration) -> Result<(), String> {
    let mut names = BTreeSet::new();
    let mut domains = BTreeSet::new();
    for host in &routes.virtual_hosts {
        if !names.insert(&host.name) {
            return Err(format!("two virtual hosts would be called {:?}", host.name));
        }
        for domain in &host.domains {
            if !domains.insert(domain.to_ascii_lowercase()) {
                return Err(format!("two virtual hosts would have the domain {domain:?}"));
            }
        }
    }
    Ok(())
}
