//! Services as pods see them: addresses, names, and podlet's own Services.

use std::net::{IpAddr, SocketAddr};

use ironsail_dns::{Answer, Lookup, Name, RecordType};
use serde_json::json;

use super::{converse, eventually, serve, service, slice, world};
use crate::{DnsServer, PublishedPort, PublishedService, publish};

#[tokio::test]
async fn a_service_and_its_endpoints_become_rules_on_every_node() {
    let w = world(2, "rules").await;
    let nodes = w.network.nodes();
    let server = nodes[1].add_pod("server").await.unwrap();
    let client = nodes[0].add_pod("client").await.unwrap();
    let address = server.addresses[0];
    let _server = serve(&server.netns, SocketAddr::new(address, 8080), "server").await;
    let ports = json!([{ "name": "http", "port": 80, "protocol": "TCP" }]);
    w.api.apply(service("web", json!({ "clusterIP": "10.96.0.50", "ports": ports })));
    w.api.apply(slice("web", 8080, &[(&address.to_string(), "node-1")]));
    let to: SocketAddr = "10.96.0.50:80".parse().unwrap();
    let ask = |from: ironsail_podnet::Netns| async move {
        converse(from.dialer().unwrap().tcp(to).await.ok()?).await.ok()
    };
    let heard = eventually("an answer", || ask(client.netns.clone())).await;
    assert_eq!(heard, "server heard hi");

    // A node that comes later gets the rules as well.
    let late = w.network.add_node("late").await.unwrap();
    let pod = late.add_pod("pod").await.unwrap();
    eventually("an answer on the new node", || ask(pod.netns.clone())).await;

    w.api.delete("services", "web");
    eventually("a refusal", || async { ask(client.netns.clone()).await.is_none().then_some(()) })
        .await;
}

#[tokio::test]
async fn names_follow_the_watch_and_are_served_on_the_backbone() {
    let w = world(1, "dns").await;
    let _dns = DnsServer::start(&w.network, w.names.clone(), &crate::Config::of_instance("dns"))
        .await
        .unwrap();
    let name = Name::from_ascii("web.demo.svc.cluster.local.").unwrap();
    assert_eq!(w.names.lookup(&name, RecordType::A), Answer::NxDomain);
    w.api.apply(service("web", json!({ "clusterIP": "10.96.0.50", "ports": [] })));
    eventually("the name", || async {
        matches!(w.names.lookup(&name, RecordType::A), Answer::Records { .. }).then_some(())
    })
    .await;

    // A pod asks by the Service address, as its resolv.conf says.
    let own = w.network.own_addresses()[0];
    let dns = json!([{ "name": "udp", "port": 53, "protocol": "UDP" }]);
    w.api.apply(service("kube-dns", json!({ "clusterIP": "10.96.0.10", "ports": dns })));
    w.api.apply(slice("kube-dns", 53, &[(&own.to_string(), "")]));
    let pod = w.network.nodes()[0].add_pod("pod").await.unwrap();
    let query = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03web\x04demo\x03svc\x07cluster\x05local\x00\x00\x01\x00\x01";
    let answer = eventually("a DNS answer", || async {
        let dialer = pod.netns.dialer().unwrap();
        let socket = dialer.udp("0.0.0.0:0".parse().unwrap()).await.ok()?;
        socket.connect("10.96.0.10:53").await.ok()?;
        socket.send(query).await.ok()?;
        let mut buffer = vec![0; 512];
        let length = socket.recv(&mut buffer).await.ok()?;
        Some(buffer[..length].to_vec())
    })
    .await;
    assert!(answer.ends_with(&[10, 96, 0, 50]), "{answer:?}");
}

#[tokio::test]
async fn a_published_service_is_applied_with_its_endpoints() {
    let own: Vec<IpAddr> = vec!["10.243.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
    let requests = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
    let seen = std::sync::Arc::clone(&requests);
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let seen = std::sync::Arc::clone(&seen);
        async move {
            let path = request.uri().to_string();
            let body =
                http_body_util::BodyExt::collect(request.into_body()).await.unwrap().to_bytes();
            let text = String::from_utf8_lossy(&body).into_owned();
            seen.lock().push((path, text));
            let body = http_body_util::Full::new(body);
            Ok::<_, std::convert::Infallible>(http::Response::new(body))
        }
    });
    let api_service = PublishedService {
        namespace: "default".to_owned(),
        name: "kubernetes".to_owned(),
        labels: [("component".to_owned(), "apiserver".to_owned())].into(),
        cluster_ips: vec!["10.96.0.1".parse().unwrap(), "fd00:10:96::1".parse().unwrap()],
        addresses: own,
        ports: vec![PublishedPort {
            name: "https".to_owned(),
            protocol: ironsail_podnet::Protocol::Tcp,
            port: 443,
            target_port: 6443,
        }],
    };
    publish(&kube::Client::new(service, "default"), &api_service).await.unwrap();
    let requests = requests.lock();
    let paths: Vec<_> = requests.iter().map(|(p, _)| p.split('?').next().unwrap()).collect();
    assert_eq!(
        paths,
        [
            "/api/v1/namespaces/default/services/kubernetes",
            "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes",
            "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes-ipv6",
        ]
    );
    assert!(requests[1].1.contains("10.243.0.1") && requests[2].1.contains("fd00::1"));
}
