//! EndpointSlices.

use std::net::IpAddr;
use std::time::SystemTime;

use ironsail_schema::{FieldError, Reason};
use serde_json::{Value, json};

use super::at::{At, Errors, each, set_default};
use super::endpoints::shortened;
use super::meta::immutable;
use super::table::{AGE, Column, NAME, column, created, name};
use super::{BEHAVIOUR, Behaviour, Generation, Kind, STORED};

pub(super) const KINDS: &[Kind] = &[Kind {
    group: "discovery.k8s.io",
    kind: "EndpointSlice",
    plural: "endpointslices",
    singular: "endpointslice",
    package: "discovery.v1",
    generation: Generation::Content,
    behaviour: Behaviour {
        default,
        validate,
        validate_update: |new, old, errors| {
            immutable(&At::root(new).get("addressType"), &At::root(old).get("addressType"), errors);
        },
        columns: COLUMNS,
        row,
        ..BEHAVIOUR
    },
    ..STORED
}];

const COLUMNS: &[Column] =
    &[NAME, column("AddressType"), column("Ports"), column("Endpoints"), AGE];
const MAX_ENDPOINTS: usize = 1000;
const MAX_ADDRESSES: usize = 100;
const MAX_PORTS: usize = 20_000;
const SHOWN: usize = 3;

fn default(slice: &mut Value) {
    for port in each(slice, "ports") {
        set_default(port, "name", "");
        set_default(port, "protocol", "TCP");
    }
}

fn validate(slice: &Value, errors: &mut Errors) {
    let at = At::root(slice);
    let kind = at.get("addressType");
    kind.one_of(&["FQDN", "IPv4", "IPv6"], errors);
    let endpoints = at.get("endpoints");
    too_many(&endpoints, MAX_ENDPOINTS, errors);
    for endpoint in endpoints.items() {
        let addresses = endpoint.get("addresses");
        if addresses.is_empty() {
            errors.push(addresses.required("must contain at least 1 address"));
        }
        too_many(&addresses, MAX_ADDRESSES, errors);
        for address in addresses.items() {
            match kind.str() {
                "IPv4" | "IPv6" => of_family(&addresses.path, &address, kind.str(), errors),
                "FQDN" => errors.extend(
                    super::name::subdomain(address.str()).into_iter().map(|w| address.invalid(w)),
                ),
                _ => {}
            }
        }
        let node = endpoint.get("nodeName");
        if node.is_set() {
            errors.extend(super::name::subdomain(node.str()).into_iter().map(|w| node.invalid(w)));
        }
    }
    ports(&at.get("ports"), errors);
}

fn ports(list: &At<'_>, errors: &mut Errors) {
    too_many(list, MAX_PORTS, errors);
    let mut names = std::collections::HashSet::new();
    for port in list.items() {
        let own = port.get("name");
        if !own.is_empty() {
            errors.extend(super::name::label(own.str()).into_iter().map(|w| own.invalid(w)));
        }
        if !names.insert(own.str()) {
            errors.push(own.duplicate());
        }
        port.get("protocol").one_of(&["SCTP", "TCP", "UDP"], errors);
    }
}

fn too_many(at: &At<'_>, limit: usize, errors: &mut Errors) {
    if at.len() > limit {
        errors.push(FieldError::new(
            at.path.clone(),
            Reason::TooMany,
            Value::Null,
            format!("must have at most {limit} items"),
        ));
    }
}

fn of_family(list: &str, at: &At<'_>, family: &str, errors: &mut Errors) {
    match at.str().parse::<IpAddr>() {
        Err(_) => {
            let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            errors.push(at.invalid(detail));
        }

        Ok(ip) if ip.is_ipv4() != (family == "IPv4") => {
            let detail = format!("must be an {family} address");
            errors.push(FieldError::invalid(list, at.str(), detail));
        }
        Ok(_) => {}
    }
    if at.str().parse::<IpAddr>().is_ok() {
        address(at, errors);
    }
}

/// An address of an endpoint: any but those that mean this machine or no machine.
pub(super) fn address(at: &At<'_>, errors: &mut Errors) {
    let detail = match at.str().parse::<IpAddr>() {
        Err(_) => "must be a valid IP address",
        Ok(IpAddr::V4(ip)) if ip.is_unspecified() => "may not be unspecified (0.0.0.0)",
        Ok(IpAddr::V6(ip)) if ip.is_unspecified() => "may not be unspecified (::)",
        Ok(ip) if ip.is_loopback() => "may not be in the loopback range (127.0.0.0/8, ::1/128)",
        Ok(IpAddr::V4(ip)) if ip.is_link_local() => {
            "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
        }
        Ok(_) => return,
    };
    errors.push(at.invalid(detail));
}

fn row(slice: &Value, now: SystemTime) -> Vec<Value> {
    let at = At::root(slice);
    let ports: Vec<String> = at
        .get("ports")
        .items()
        .map(|port| match (port.get("port").value.as_i64(), port.get("name").value.as_str()) {
            (Some(number), _) => number.to_string(),
            (None, Some(name)) => name.to_owned(),
            (None, None) => "*".to_owned(),
        })
        .collect();
    let addresses: Vec<String> = at
        .get("endpoints")
        .items()
        .flat_map(|e| e.get("addresses").items().map(|a| a.str().to_owned()).collect::<Vec<_>>())
        .collect();
    let text = |all: &[String]| match shortened(all, SHOWN) {
        text if text.is_empty() => "<unset>".to_owned(),
        text => text,
    };
    vec![
        name(slice),
        json!(at.get("addressType").str()),
        json!(text(&ports)),
        json!(text(&addresses)),
        created(slice, now),
    ]
}
