//! Cluster addresses and node ports of Services: given out at create, kept by update, taken back at
//! delete.
//!
//! What is in use is known from the stored Services alone; this only remembers it. A reservation that
//! is not kept (a refused or failed write) gives everything back when it is dropped.

mod pool;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use ipnet::IpNet;
use ironsail_schema::FieldError;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::registry::Names;
use crate::status::Status;
use pool::Pool;

/// The ports that NodePort Services may have.
pub const NODE_PORTS: RangeInclusive<u16> = 30000..=32767;

struct State {
    /// The first is the primary family.
    pools: Vec<Pool>,
    ports: BTreeSet<u16>,
}

/// All addresses and ports that are in use.
#[derive(Clone)]
pub(crate) struct Addresses(Arc<Mutex<State>>);

/// What one Service has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Holding {
    addresses: BTreeSet<IpAddr>,
    ports: BTreeSet<u16>,
}

impl Holding {
    fn of(service: &Value) -> Self {
        let mut holding = Self::default();
        for address in texts(&service["spec"]["clusterIPs"]) {
            holding.addresses.extend(address.parse::<IpAddr>());
        }
        let ports = service["spec"]["ports"].as_array();
        let ports = ports.into_iter().flatten().map(|port| &port["nodePort"]);
        for port in ports.chain([&service["spec"]["healthCheckNodePort"]]) {
            holding.ports.extend(node_port(port));
        }
        holding
    }
}

/// New addresses and ports; given back unless kept.
pub(crate) struct Reserved {
    state: Addresses,
    gained: Holding,
    /// What the Service had and no longer has.
    lost: Holding,
}

impl Reserved {
    /// The Service is stored: what it gained is its own, what it lost is free.
    pub(crate) fn keep(mut self) {
        self.gained = std::mem::take(&mut self.lost);
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.state.free(&self.gained);
    }
}

impl Addresses {
    /// `ranges` are the service CIDRs, the primary family first.
    pub(crate) fn new(ranges: &[IpNet]) -> Self {
        let pools = ranges.iter().copied().map(Pool::new).collect();
        Self(Arc::new(Mutex::new(State { pools, ports: BTreeSet::new() })))
    }

    /// Learns what a stored Service has.
    pub(crate) fn learn(&self, service: &Value) {
        let holding = Holding::of(service);
        let mut state = self.0.lock();
        for address in &holding.addresses {
            for pool in &mut state.pools {
                pool.learn(*address);
            }
        }
        state.ports.extend(&holding.ports);
    }

    /// Takes back what a deleted Service had.
    pub(crate) fn release(&self, names: &Names, object: &Value) {
        if is_service(names) {
            self.free(&Holding::of(object));
        }
    }

    fn free(&self, holding: &Holding) {
        let mut state = self.0.lock();
        for address in &holding.addresses {
            for pool in &mut state.pools {
                pool.free(*address);
            }
        }
        for port in &holding.ports {
            state.ports.remove(port);
        }
    }

    /// Fills in addresses and ports of a Service; does nothing to anything else.
    pub(crate) fn reserve(
        &self,
        names: &Names,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<Reserved, Status> {
        let nothing = Holding::default();
        let mut reserved = Reserved { state: self.clone(), gained: nothing.clone(), lost: nothing };
        if !is_service(names) {
            return Ok(reserved);
        }
        let name = crate::meta::text(object, "name").to_owned();
        let invalid = |error| Status::invalid("", "Service", &name, &[error]);
        if let Some(old) = old {
            carry_over(object, old);
            check_unchanged(object, old).map_err(invalid)?;
        }
        let had = old.map(Holding::of).unwrap_or_default();
        let mut desk = Desk { state: &mut self.0.lock(), had: &had, gained: Holding::default() };
        let done = desk.families(object).and_then(|()| desk.addresses(object));
        let done = done.and_then(|()| desk.ports(object));
        let gained = desk.gained;
        // From here on dropping `reserved` gives back what was taken, also on failure.
        reserved.gained = gained;
        done.map_err(invalid)?;
        let has = Holding::of(object);
        reserved.lost = Holding {
            addresses: had.addresses.difference(&has.addresses).copied().collect(),
            ports: had.ports.difference(&has.ports).copied().collect(),
        };
        Ok(reserved)
    }
}

fn is_service(names: &Names) -> bool {
    names.group.is_empty() && *names.kind == *"Service"
}

fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn node_port(value: &Value) -> Option<u16> {
    value.as_u64().and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0)
}

/// Mutable indexing would leave a null where there are no ports.
fn ports_of(service: &mut Value) -> impl Iterator<Item = &mut Value> {
    service.pointer_mut("/spec/ports").and_then(Value::as_array_mut).into_iter().flatten()
}

fn type_of(service: &Value) -> &str {
    service["spec"]["type"].as_str().unwrap_or("ClusterIP")
}

fn needs_ports(service: &Value) -> bool {
    match type_of(service) {
        "NodePort" => true,
        "LoadBalancer" => service["spec"]["allocateLoadBalancerNodePorts"] != json!(false),
        _ => false,
    }
}

/// Keeps what a client leaves out when it writes back a Service, and drops what a changed type no
/// longer has.
fn carry_over(new: &mut Value, old: &Value) {
    let addressed = |service: &Value| type_of(service) != "ExternalName";
    let empty = |value: &Value| value.as_str().unwrap_or_default().is_empty();
    if addressed(new) && addressed(old) {
        if empty(&new["spec"]["clusterIP"]) && !empty(&old["spec"]["clusterIP"]) {
            new["spec"]["clusterIP"] = old["spec"]["clusterIP"].clone();
        }
        let same = new["spec"]["clusterIP"] == old["spec"]["clusterIP"];
        for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if same && new["spec"][field].is_null() && !old["spec"][field].is_null() {
                new["spec"][field] = old["spec"][field].clone();
            }
        }
    } else if addressed(old) && new["spec"]["clusterIP"] == old["spec"]["clusterIP"] {
        drop_fields(&mut new["spec"], &["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"]);
    }
    let had = |port: &Value| {
        let same =
            |other: &&Value| other["port"] == port["port"] && other["protocol"] == port["protocol"];
        let port = old["spec"]["ports"].as_array().into_iter().flatten().find(same);
        port.and_then(|port| node_port(&port["nodePort"]))
    };
    let (needs, needed) = (needs_ports(new), needs_ports(old));
    for port in ports_of(new) {
        let (now, had) = (node_port(&port["nodePort"]), had(port));
        match had {
            Some(had) if needs && needed && now.is_none() => port["nodePort"] = had.into(),
            Some(_) if !needs && needed && now == had => drop_fields(port, &["nodePort"]),
            _ => {}
        }
    }
    if !wants_health_port(new) && wants_health_port(old) {
        drop_fields(&mut new["spec"], &["healthCheckNodePort"]);
    } else if wants_health_port(new) && node_port(&new["spec"]["healthCheckNodePort"]).is_none() {
        let had = old["spec"]["healthCheckNodePort"].clone();
        if !had.is_null() {
            new["spec"]["healthCheckNodePort"] = had;
        }
    }
}

/// A Service keeps its address as long as it has one.
fn check_unchanged(new: &Value, old: &Value) -> Result<(), FieldError> {
    let (now, before) = (&new["spec"]["clusterIP"], &old["spec"]["clusterIP"]);
    let had = before.as_str().is_some_and(|address| !address.is_empty());
    if had && now != before && type_of(new) != "ExternalName" && type_of(old) != "ExternalName" {
        let detail = "may not change once set";
        return Err(FieldError::invalid("spec.clusterIPs[0]", json!([now]), detail));
    }
    Ok(())
}

fn drop_fields(value: &mut Value, fields: &[&str]) {
    if let Some(map) = value.as_object_mut() {
        for field in fields {
            map.remove(*field);
        }
    }
}

fn wants_health_port(service: &Value) -> bool {
    type_of(service) == "LoadBalancer" && service["spec"]["externalTrafficPolicy"] == "Local"
}

/// Serves one Service under the lock.
struct Desk<'a> {
    state: &'a mut State,
    had: &'a Holding,
    gained: Holding,
}

impl Desk<'_> {
    /// Decides the families and their policy.
    fn families(&mut self, service: &mut Value) -> Result<(), FieldError> {
        if type_of(service) == "ExternalName" {
            return Ok(());
        }
        let spec = &mut service["spec"];
        let available: Vec<_> = self.state.pools.iter().map(Pool::family).collect();
        let policy = spec["ipFamilyPolicy"].as_str().map(str::to_owned);
        let mut families = texts(&spec["ipFamilies"]);
        if families.is_empty() {
            let given = texts(&spec["clusterIPs"]);
            families
                .extend(given.iter().filter_map(|a| a.parse().ok()).map(|a| family(&a).to_owned()));
        }
        let headless = spec["clusterIP"] == "None";
        for (index, wanted) in families.iter().enumerate().filter(|_| !headless) {
            if !available.contains(&wanted.as_str()) {
                let path = format!("spec.ipFamilies[{index}]");
                let detail = "not configured on this cluster";
                return Err(FieldError::invalid(path, wanted.as_str(), detail));
            }
        }
        // Somebody else gives a headless Service without selector its endpoints, of any family.
        let open = spec["clusterIP"] == "None"
            && spec["selector"].as_object().is_none_or(serde_json::Map::is_empty);
        if open && policy.is_none() && families.is_empty() {
            families = available.iter().map(|family| (*family).to_owned()).collect();
            for family in ["IPv4", "IPv6"] {
                if !families.iter().any(|one| one == family) {
                    families.push(family.to_owned());
                }
            }
            spec["ipFamilyPolicy"] = "RequireDualStack".into();
            spec["ipFamilies"] = families.into();
            return Ok(());
        }
        let policy = match policy.as_deref() {
            None if families.len() > 1 => "RequireDualStack",
            None => "SingleStack",
            Some("RequireDualStack") if available.len() < 2 && !headless => {
                let detail = "this cluster is not configured for dual-stack services";
                return Err(FieldError::invalid("spec.ipFamilyPolicy", "RequireDualStack", detail));
            }
            Some(policy) => policy,
        };
        if families.is_empty() {
            families.extend(available.first().map(|family| (*family).to_owned()));
        }
        if policy != "SingleStack" {
            for family in &available {
                if !families.iter().any(|one| one == family) {
                    families.push((*family).to_owned());
                }
            }
        } else if families.len() > 1 {
            families.truncate(1);
        }
        spec["ipFamilyPolicy"] = policy.into();
        spec["ipFamilies"] = families.into();
        Ok(())
    }

    fn addresses(&mut self, service: &mut Value) -> Result<(), FieldError> {
        if type_of(service) == "ExternalName" {
            return Ok(());
        }
        let spec = &mut service["spec"];
        let first = spec["clusterIP"].as_str().unwrap_or_default().to_owned();
        if first == "None" {
            spec["clusterIPs"] = json!(["None"]);
            return Ok(());
        }
        let mut given = texts(&spec["clusterIPs"]);
        if given.is_empty() && !first.is_empty() {
            given.push(first);
        }
        let mut out = Vec::new();
        for wanted in texts(&spec["ipFamilies"]) {
            let fits = |text: &&String| {
                text.parse().is_ok_and(|address: IpAddr| family(&address) == wanted)
            };
            let address = match given.iter().find(fits) {
                Some(text) => self.take(text, &given)?,
                None => self.any(&wanted)?,
            };
            out.push(address.to_string());
        }
        spec["clusterIP"] = out.first().cloned().unwrap_or_default().into();
        spec["clusterIPs"] = out.into();
        Ok(())
    }

    fn take(&mut self, text: &str, all: &[String]) -> Result<IpAddr, FieldError> {
        let refuse = |why: String| {
            let detail = format!("failed to allocate IP {text}: {why}");
            FieldError::invalid("spec.clusterIPs", json!(all), detail)
        };
        let address: IpAddr = text.parse().map_err(|_| refuse("it is no IP address".to_owned()))?;
        if self.had.addresses.contains(&address) {
            return Ok(address);
        }
        let pool = self.state.pools.iter_mut().find(|pool| pool.family() == family(&address));
        let pool = pool.ok_or_else(|| refuse("no such family".to_owned()))?;
        pool.take(address).map_err(refuse)?;
        self.gained.addresses.insert(address);
        Ok(address)
    }

    fn any(&mut self, wanted: &str) -> Result<IpAddr, FieldError> {
        let pool = self.state.pools.iter_mut().find(|pool| pool.family() == wanted);
        let address = pool.and_then(Pool::any).ok_or_else(|| {
            let detail = "failed to allocate a serviceIP: range is full";
            FieldError::new(
                "spec.clusterIPs",
                ironsail_schema::Reason::Internal,
                Value::Null,
                detail,
            )
        })?;
        self.gained.addresses.insert(address);
        Ok(address)
    }

    fn ports(&mut self, service: &mut Value) -> Result<(), FieldError> {
        if needs_ports(service) {
            let mut own = BTreeSet::new();
            let mut same: Vec<(Value, u16)> = Vec::new();
            for (index, port) in ports_of(service).enumerate() {
                let number = match node_port(&port["nodePort"]) {
                    // One port number may serve several protocols of the same Service.
                    Some(given) if own.contains(&given) => given,
                    Some(given) => {
                        self.take_port(given, &format!("spec.ports[{index}].nodePort"))?
                    }
                    None => {
                        let shared = same.iter().find(|(number, _)| *number == port["port"]);
                        match shared {
                            Some((_, shared)) => *shared,
                            None => self.any_port(&format!("spec.ports[{index}].nodePort"))?,
                        }
                    }
                };
                own.insert(number);
                same.push((port["port"].clone(), number));
                port["nodePort"] = number.into();
            }
        }
        if wants_health_port(service) {
            let path = "spec.healthCheckNodePort";
            let number = match node_port(&service["spec"]["healthCheckNodePort"]) {
                Some(given) => self.take_port(given, path)?,
                None => self.any_port(path)?,
            };
            service["spec"]["healthCheckNodePort"] = number.into();
        }
        Ok(())
    }

    fn take_port(&mut self, port: u16, path: &str) -> Result<u16, FieldError> {
        if self.had.ports.contains(&port) || self.gained.ports.contains(&port) {
            return Ok(port);
        }
        if !NODE_PORTS.contains(&port) {
            let (from, to) = (NODE_PORTS.start(), NODE_PORTS.end());
            let detail = format!(
                "provided port is not in the valid range. The range of valid ports is {from}-{to}"
            );
            return Err(FieldError::invalid(path, port, detail));
        }
        if !self.state.ports.insert(port) {
            return Err(FieldError::invalid(path, port, "provided port is already allocated"));
        }
        self.gained.ports.insert(port);
        Ok(port)
    }

    fn any_port(&mut self, path: &str) -> Result<u16, FieldError> {
        use rand::seq::IteratorRandom as _;
        let free = NODE_PORTS.filter(|port| !self.state.ports.contains(port));
        let port = free.choose(&mut rand::rng()).ok_or_else(|| {
            let detail = "failed to allocate a nodePort: range is full";
            FieldError::new(path, ironsail_schema::Reason::Internal, Value::Null, detail)
        })?;
        self.state.ports.insert(port);
        self.gained.ports.insert(port);
        Ok(port)
    }
}

fn family(address: &IpAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}

#[cfg(test)]
mod tests;
