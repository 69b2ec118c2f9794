//! Gives one Service what it asks for: families, addresses and ports, while the lock is held.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ironsail_schema::FieldError;
use serde_json::{Value, json};

use super::pool::Pool;
use super::service::{family, needs_ports, node_port, ports_of, texts, type_of, wants_health_port};
use super::{Holding, NODE_PORTS, State};

/// Serves one Service under the lock.
pub(super) struct Desk<'a> {
    pub(super) state: &'a mut State,
    pub(super) had: &'a Holding,
    pub(super) gained: Holding,
}

impl Desk<'_> {
    /// Decides the families and their policy.
    pub(super) fn families(&mut self, service: &mut Value) -> Result<(), FieldError> {
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

    pub(super) fn addresses(&mut self, service: &mut Value) -> Result<(), FieldError> {
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

    pub(super) fn ports(&mut self, service: &mut Value) -> Result<(), FieldError> {
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
