//! Endpoints, the older form of EndpointSlices.

use std::time::SystemTime;

use serde_json::{Value, json};

use super::at::{At, Errors, each, set_if_zero};
use super::table::{AGE, Column, NAME, column, created, name};
use super::{BEHAVIOUR, Behaviour, Kind, STORED, discovery};

pub(super) const KINDS: &[Kind] = &[Kind {
    kind: "Endpoints",
    plural: "endpoints",
    singular: "endpoints",
    short_names: &["ep"],
    behaviour: Behaviour { default, validate, columns: COLUMNS, row, ..BEHAVIOUR },
    ..STORED
}];

const COLUMNS: &[Column] = &[NAME, column("Endpoints"), AGE];
const SHOWN: usize = 3;

fn default(endpoints: &mut Value) {
    for subset in each(endpoints, "subsets") {
        for port in each(subset, "ports") {
            set_if_zero(port, "protocol", "TCP");
        }
    }
}

fn validate(endpoints: &Value, errors: &mut Errors) {
    for subset in At::root(endpoints).get("subsets").items() {
        let (ready, other) = (subset.get("addresses"), subset.get("notReadyAddresses"));
        if ready.is_empty() && other.is_empty() {
            errors.push(subset.required("must specify `addresses` or `notReadyAddresses`"));
        }
        for list in [ready, other] {
            for address in list.items() {
                let ip = address.get("ip");
                if ip.str().parse::<std::net::IpAddr>().is_err() {
                    let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
                    errors.push(ip.invalid(detail));
                }
                discovery::address(&ip, errors);
            }
        }
        let named = subset.get("ports").len() > 1;
        for port in subset.get("ports").items() {
            let own = port.get("name");
            if named && own.is_empty() {
                errors.push(own.required(""));
            } else if !own.is_empty() {
                errors.extend(super::name::label(own.str()).into_iter().map(|w| own.invalid(w)));
            }
            let number = port.get("port");
            if let Some(wrong) = super::name::port(number.int()) {
                errors.push(number.invalid(wrong));
            }
            port.get("protocol").one_of(&["SCTP", "TCP", "UDP"], errors);
        }
    }
}

fn row(endpoints: &Value, now: SystemTime) -> Vec<Value> {
    vec![name(endpoints), json!(addresses(&At::root(endpoints))), created(endpoints, now)]
}

fn addresses(endpoints: &At<'_>) -> String {
    let subsets = endpoints.get("subsets");
    if subsets.is_empty() {
        return "<none>".to_owned();
    }
    let mut all = Vec::new();
    for subset in subsets.items() {
        let ips: Vec<_> = subset.get("addresses").items().map(|a| a.get("ip").str()).collect();
        if subset.get("ports").is_empty() {
            all.extend(ips.iter().map(|ip| (*ip).to_owned()));
        }
        for port in subset.get("ports").items() {
            let port = port.get("port").int();
            all.extend(ips.iter().map(|ip| match ip.contains(':') {
                true => format!("[{ip}]:{port}"),
                false => format!("{ip}:{port}"),
            }));
        }
    }
    shortened(&all, SHOWN)
}

/// The first few, and how many more.
pub(super) fn shortened(all: &[String], shown: usize) -> String {
    let first = all.iter().take(shown).cloned().collect::<Vec<_>>().join(",");
    match all.len().checked_sub(shown) {
        Some(more) if more > 0 => format!("{first} + {more} more..."),
        _ => first,
    }
}
