//! Addresses of load balancers: each such Service gets one of its own in 127.0.0.0/8.
//!
//! In: the model; out: an address per Service, kept as long as the Service wants one (over restarts
//! too, because it is read back from the status), and the status in the API that tells it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};

use ipnet::Ipv4Net;
use ironsail_podnet::Protocol;
use k8s_openapi::api::core::v1::Service as KubeService;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use parking_lot::RwLock;
use serde_json::{Value, json};

use crate::Error;
use crate::forward::Failure;
use crate::model::{Key, Model, Service};

/// How far the search for a free address goes.
const MOST_TRIED: usize = 4096;

pub(crate) struct Balancers {
    client: Client,
    range: Ipv4Net,
    assigned: HashMap<Key, Ipv4Addr>,
    /// What each status was last made to say.
    written: BTreeMap<Key, Value>,
}

impl Balancers {
    pub(crate) fn new(client: Client, range: Ipv4Net) -> Self {
        Self { client, range, assigned: HashMap::new(), written: BTreeMap::new() }
    }

    pub(crate) fn assigned(&self) -> &HashMap<Key, Ipv4Addr> {
        &self.assigned
    }

    /// Gives every Service that wants one an address, and takes back those of the others.
    pub(crate) fn assign(&mut self, model: &Model) {
        self.assigned.retain(|key, _| model.service(key).is_some_and(|s| s.balanced));
        let mut taken: HashSet<Ipv4Addr> = self.assigned.values().copied().collect();
        let missing = |assigned: &HashMap<Key, Ipv4Addr>| -> Vec<(Key, Service)> {
            let wanting = model.services().filter(|(k, s)| s.balanced && !assigned.contains_key(k));
            wanting.map(|(k, s)| (k.clone(), s.clone())).collect()
        };
        // First those that had one before we started, then the new ones.
        for (key, service) in missing(&self.assigned) {
            let before = service.ingress.iter().find_map(|ip| match ip {
                IpAddr::V4(ip) if self.range.contains(ip) => Some(*ip),
                _ => None,
            });
            if let Some(ip) = before.filter(|ip| taken.insert(*ip)) {
                self.assigned.insert(key, ip);
            }
        }
        for (key, service) in missing(&self.assigned) {
            let free = self.range.hosts().take(MOST_TRIED);
            let found = free.filter(|ip| !taken.contains(ip)).find(|ip| is_free(*ip, &service));
            match found {
                Some(ip) => {
                    taken.insert(ip);
                    self.assigned.insert(key, ip);
                }
                None => {
                    let range = self.range;
                    tracing::warn!(service = %key, %range, "no address is left for a load balancer");
                }
            }
        }
    }

    /// Tells the API the addresses, and which ports do not answer.
    pub(crate) async fn write_statuses(
        &mut self,
        model: &RwLock<Model>,
        failures: &[Failure],
    ) -> Vec<Error> {
        self.written.retain(|key, _| self.assigned.contains_key(key));
        let mut errors = Vec::new();
        let due = self.due(&model.read(), failures);
        for (key, status) in due {
            let api: Api<KubeService> = Api::namespaced(self.client.clone(), &key.namespace);
            let patch = json!({ "status": { "loadBalancer": { "ingress": status } } });
            let params =
                PatchParams { field_manager: Some("podlet".to_owned()), ..PatchParams::default() };
            match api.patch_status(&key.name, &params, &Patch::Merge(patch)).await {
                Ok(_) => {
                    self.written.insert(key, status);
                }
                // Deleted meanwhile; the watch will tell.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(source) => {
                    let Key { namespace, name } = key;
                    errors.push(Error::Status { namespace, name, source: Box::new(source) });
                }
            }
        }
        errors
    }

    /// The statuses that do not say what they should.
    fn due(&self, model: &Model, failures: &[Failure]) -> Vec<(Key, Value)> {
        let mut due = Vec::new();
        for (key, service) in model.services() {
            match self.assigned.get(key) {
                Some(ip) => {
                    let status = status(*ip, key, failures);
                    let told = service.ingress == [IpAddr::V4(*ip)];
                    if !told || self.written.get(key).is_some_and(|w| *w != status) {
                        due.push((key.clone(), status));
                    }
                }
                // It was a load balancer of ours and is none any more.
                None if service
                    .ingress
                    .iter()
                    .any(|ip| matches!(ip, IpAddr::V4(ip) if self.range.contains(ip))) =>
                {
                    due.push((key.clone(), Value::Null));
                }
                None => {}
            }
        }
        due
    }
}

fn status(ip: Ipv4Addr, key: &Key, failures: &[Failure]) -> Value {
    let failed = failures.iter().filter(|f| f.want.service == *key && f.want.at.ip() == ip);
    let ports: Vec<Value> = failed
        .map(|f| {
            let error = match f.error.kind() {
                io::ErrorKind::PermissionDenied => "PortNotPermitted",
                io::ErrorKind::AddrInUse => "PortInUse",
                _ => "PortNotOpened",
            };
            json!({ "port": f.want.at.port(), "protocol": f.want.protocol.name().to_uppercase(), "error": error })
        })
        .collect();
    if ports.is_empty() {
        json!([{ "ip": ip, "ipMode": "Proxy" }])
    } else {
        json!([{ "ip": ip, "ipMode": "Proxy", "ports": ports }])
    }
}

/// Whether nobody on this host uses a port of the Service at `ip`. A port that may not be opened at
/// all is no worse here than elsewhere.
fn is_free(ip: Ipv4Addr, service: &Service) -> bool {
    service.ports.iter().all(|port| {
        let at = SocketAddr::new(ip.into(), port.port);
        let error = match port.protocol {
            Some(Protocol::Tcp) => TcpListener::bind(at).err(),
            Some(Protocol::Udp) => UdpSocket::bind(at).err(),
            None => None,
        };
        error.is_none_or(|e| e.kind() != io::ErrorKind::AddrInUse)
    })
}
