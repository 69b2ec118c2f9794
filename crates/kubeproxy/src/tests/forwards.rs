//! Node ports and load balancers as the host sees them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

use std::sync::atomic::{AtomicU16, Ordering};

use serde_json::{Value, json};
use tokio::net::{TcpStream, UdpSocket};

use super::{World, converse, eventually, serve, service, slice, world};

/// A port of the host's loopback that was free a moment ago, in the range of node ports. No two
/// tests get the same, and test programs that run side by side start in different places.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = (std::process::id() % 2767) as u16;
    loop {
        let port = 30000 + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % 2767;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

async fn server(w: &World) -> (IpAddr, Vec<Box<dyn std::any::Any>>) {
    let pod = w.network.nodes()[0].add_pod("server").await.unwrap();
    let at = SocketAddr::new(pod.addresses[0], 8080);
    let tcp = serve(&pod.netns, at, "server").await;
    let udp = pod.netns.dialer().unwrap().udp(at).await.unwrap();
    let echo = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(async move {
        let mut buffer = [0; 64];
        while let Ok((length, from)) = udp.recv_from(&mut buffer).await {
            let _ = udp.send_to(&buffer[..length], from).await;
        }
    }));
    (pod.addresses[0], vec![Box::new(tcp), Box::new(echo)])
}

async fn ask(at: SocketAddr) -> Option<String> {
    converse(TcpStream::connect(at).await.ok()?).await.ok()
}

#[tokio::test]
async fn a_node_port_answers_on_the_host_while_its_service_lasts() {
    let w = world(1, "node-port").await;
    let (address, _servers) = server(&w).await;
    let node_port = free_port();
    let ports = json!([
        { "name": "http", "port": 80, "protocol": "TCP", "nodePort": node_port },
        { "name": "udp", "port": 80, "protocol": "UDP", "nodePort": node_port },
    ]);
    let spec = json!({ "type": "NodePort", "clusterIP": "10.96.0.50", "ports": ports });
    w.api.apply(service("web", spec));
    w.api.apply(slice("web", 8080, &[(&address.to_string(), "node-0")]));
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, node_port));
    // The client closes its half first and still gets the answer.
    assert_eq!(eventually("an answer", || ask(at)).await, "server heard hi");

    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    socket.send_to(b"datagram", at).await.unwrap();
    let mut buffer = [0; 64];
    let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
    assert_eq!((&buffer[..length], from), (&b"datagram"[..], at));

    w.api.delete("services", "web");
    eventually("a closed port", || async { TcpStream::connect(at).await.err() }).await;
}

fn ingress(w: &World, name: &str) -> Option<Value> {
    w.api.service(name).pointer("/status/loadBalancer/ingress/0").cloned()
}

#[tokio::test]
async fn each_load_balancer_has_an_address_of_its_own_with_its_real_ports() {
    let w = world(1, &format!("balancer-{}", std::process::id())).await;
    let (address, _servers) = server(&w).await;
    for (name, ip) in [("one", "10.96.0.51"), ("two", "10.96.0.52")] {
        let ports = json!([{ "name": "http", "port": 8080, "protocol": "TCP" }]);
        let spec = json!({ "type": "LoadBalancer", "clusterIP": ip, "ports": ports });
        w.api.apply(service(name, spec));
        w.api.apply(slice(name, 8080, &[(&address.to_string(), "node-0")]));
    }
    let mut addresses = Vec::new();
    for name in ["one", "two"] {
        let told = eventually("a status", || async { ingress(&w, name) }).await;
        let ip: Ipv4Addr = told["ip"].as_str().unwrap().parse().unwrap();
        assert!(ip.is_loopback() && ip != Ipv4Addr::LOCALHOST);
        let at = SocketAddr::from((ip, 8080));
        assert_eq!(eventually("an answer", || ask(at)).await, "server heard hi");
        addresses.push(at);
    }
    assert_ne!(addresses[0], addresses[1]);

    // One that stops being a load balancer loses its listener and its status.
    let mut plain = w.api.service("one");
    plain["spec"]["type"] = json!("ClusterIP");
    w.api.apply(plain);
    eventually("a closed port", || async { TcpStream::connect(addresses[0]).await.err() }).await;
    eventually("no status", || async { ingress(&w, "one").is_none().then_some(()) }).await;
    assert_eq!(ask(addresses[1]).await.as_deref(), Some("server heard hi"));
}

#[tokio::test]
async fn an_address_from_before_a_restart_is_kept() {
    let instance = format!("restart-{}", std::process::id());
    let range = crate::Config::of_instance(&instance).balancer_range;
    let before = range.hosts().nth(777).unwrap();
    let w = world(1, &instance).await;
    let ports = json!([{ "name": "http", "port": 8080, "protocol": "TCP" }]);
    let spec = json!({ "type": "LoadBalancer", "clusterIP": "10.96.0.53", "ports": ports });
    let mut object = service("web", spec);
    object["status"] = json!({ "loadBalancer": { "ingress": [{ "ip": before }] } });
    w.api.apply(object);
    eventually("the listener", || async {
        TcpStream::connect(SocketAddr::from((before, 8080))).await.ok()
    })
    .await;
    assert_eq!(ingress(&w, "web").unwrap()["ip"], json!(before));
}

#[tokio::test]
async fn a_port_that_is_taken_is_told_in_an_event_and_opened_once_it_is_free() {
    let w = world(1, "taken").await;
    let (address, _servers) = server(&w).await;
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = taken.local_addr().unwrap();
    let ports = json!([
        { "name": "http", "port": 80, "protocol": "TCP", "nodePort": at.port() },
        { "name": "sctp", "port": 81, "protocol": "SCTP" },
    ]);
    let spec = json!({ "type": "NodePort", "clusterIP": "10.96.0.54", "ports": ports });
    w.api.apply(service("web", spec));
    w.api.apply(slice("web", 8080, &[(&address.to_string(), "node-0")]));
    let events = eventually("two events", || async {
        Some(w.api.events()).filter(|events| events.len() == 2)
    })
    .await;
    let told = |reason: &str| {
        let event = events.iter().find(|e| e["reason"] == json!(reason)).unwrap();
        assert_eq!(event["involvedObject"]["uid"], json!("uid-web"));
        event["message"].as_str().unwrap().to_owned()
    };
    let message = told("PortNotForwarded");
    assert!(message.contains(&at.to_string()) && message.contains("Another program"), "{message}");
    assert!(told("ProtocolNotSupported").contains("Port 81"));

    drop(taken);
    // Any change makes it try at once; otherwise it would after a while.
    w.api.apply(service("other", json!({ "clusterIP": "10.96.0.55", "ports": [] })));
    assert_eq!(eventually("an answer", || ask(at)).await, "server heard hi");
}

#[tokio::test]
async fn without_endpoints_a_connection_from_the_host_ends_at_once() {
    let w = world(1, "empty").await;
    let node_port = free_port();
    let ports = json!([{ "name": "http", "port": 80, "protocol": "TCP", "nodePort": node_port }]);
    let spec = json!({ "type": "NodePort", "clusterIP": "10.96.0.56", "ports": ports });
    w.api.apply(service("web", spec));
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, node_port));
    let stream = eventually("a listener", || async { TcpStream::connect(at).await.ok() }).await;
    assert!(converse(stream).await.is_err());
}

#[tokio::test]
async fn a_forward_goes_around_a_node_that_is_cut_off() {
    let w = world(2, "cut").await;
    let nodes = w.network.nodes();
    let pod = nodes[1].add_pod("server").await.unwrap();
    let address = pod.addresses[0];
    let _server = serve(&pod.netns, SocketAddr::new(address, 8080), "server").await;
    let node_port = free_port();
    let ports = json!([{ "name": "http", "port": 80, "protocol": "TCP", "nodePort": node_port }]);
    let spec = json!({ "type": "NodePort", "clusterIP": "10.96.0.57", "ports": ports });
    w.api.apply(service("web", spec));
    w.api.apply(slice("web", 8080, &[(&address.to_string(), "node-1")]));
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, node_port));
    eventually("an answer", || ask(at)).await;
    nodes[0].cut().await.unwrap();
    assert_eq!(ask(at).await.as_deref(), Some("server heard hi"));
}
