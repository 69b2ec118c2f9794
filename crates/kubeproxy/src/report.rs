//! Telling users, by Events on their Services, what could not be done and what they can do.
//!
//! In: listeners that could not be opened, ports that are not supported; out: one Event for each,
//! once, until it is mended.

use std::collections::HashSet;
use std::io;

use ironsail_sys::clock::Clock;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::PostParams;
use kube::{Api, Client};

use crate::Error;
use crate::forward::Failure;
use crate::model::Key;

pub(crate) struct Reporter {
    client: Client,
    clock: Clock,
    reported: HashSet<Report>,
}

/// A port of a Service whose protocol is not carried.
#[derive(Clone, Debug)]
pub(crate) struct Unsupported {
    pub(crate) service: Key,
    pub(crate) uid: String,
    pub(crate) port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Report {
    service: Key,
    uid: String,
    reason: &'static str,
    message: String,
}

impl Reporter {
    pub(crate) fn new(client: Client, clock: Clock) -> Self {
        Self { client, clock, reported: HashSet::new() }
    }

    /// Writes an Event for everything that is new since the last call.
    pub(crate) async fn report(
        &mut self,
        failures: &[Failure],
        unsupported: &[Unsupported],
    ) -> Vec<Error> {
        let reports = failures.iter().map(of_failure).chain(unsupported.iter().map(of_unsupported));
        let now: HashSet<Report> = reports.collect();
        // What is mended may be reported again when it breaks again.
        self.reported.retain(|report| now.contains(report));
        let mut errors = Vec::new();
        for report in now {
            if self.reported.contains(&report) {
                continue;
            }
            tracing::warn!(service = %report.service, "{}", report.message);
            match self.write(&report).await {
                Ok(()) => {
                    self.reported.insert(report);
                }
                Err(error) => errors.push(error),
            }
        }
        errors
    }

    async fn write(&self, report: &Report) -> Result<(), Error> {
        let Key { namespace, name } = report.service.clone();
        let time = jiff::Timestamp::try_from(self.clock.now()).ok().map(Time);
        let event = Event {
            metadata: ObjectMeta {
                generate_name: Some(format!("{name}.")),
                namespace: Some(namespace.clone()),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Service".to_owned()),
                namespace: Some(namespace.clone()),
                name: Some(name.clone()),
                uid: Some(report.uid.clone()),
                ..ObjectReference::default()
            },
            reason: Some(report.reason.to_owned()),
            message: Some(report.message.clone()),
            type_: Some("Warning".to_owned()),
            source: Some(EventSource { component: Some("podlet-proxy".to_owned()), host: None }),
            first_timestamp: time.clone(),
            last_timestamp: time,
            count: Some(1),
            ..Event::default()
        };
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        match api.create(&PostParams::default(), &event).await {
            Ok(_) => Ok(()),
            Err(source) => Err(Error::Event { namespace, name, source: Box::new(source) }),
        }
    }
}

fn of_failure(failure: &Failure) -> Report {
    let want = &failure.want;
    let (at, error) = (want.at, &failure.error);
    let node_port = want.target.node_port.filter(|p| *p != at.port());
    let meanwhile = node_port
        .map_or(String::new(), |p| format!(" Meanwhile the Service is reached at 127.0.0.1:{p}."));
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => {
            "Another program uses it: end that, or change the port.".to_owned()
        }
        io::ErrorKind::PermissionDenied => format!(
            "Ports below 1024 are root's: run podlet as root, or sysctl -w net.ipv4.ip_unprivileged_port_start={}, or take a port from 1024 on.",
            at.port()
        ),
        _ => "It is tried again until it works.".to_owned(),
    };
    Report {
        service: want.service.clone(),
        uid: want.uid.clone(),
        reason: "PortNotForwarded",
        message: format!("Cannot listen at {at} on the host: {error}. {advice}{meanwhile}"),
    }
}

fn of_unsupported(port: &Unsupported) -> Report {
    Report {
        service: port.service.clone(),
        uid: port.uid.clone(),
        reason: "ProtocolNotSupported",
        message: format!("Port {} is not served: podlet carries TCP and UDP only.", port.port),
    }
}
