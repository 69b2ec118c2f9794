//! The agent's ports as they are asked in a pod.

use ironsail_proto::Message;
use ironsail_proto::istio::networking::nds::v1::{NameTable, name_table::NameInfo};

use crate::stage::{ADMIN, STATUS, Stage, until};

const NAMES: &str = "type.googleapis.com/istio.networking.nds.v1.NameTable";
/// An address of the pod that is not loopback.
const POD: &str = "10.9.0.2";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ports_answer_what_people_ask_and_refuse_others() {
    let stage = Stage::new();
    let mut ip = ironsail_sys::exec::command("ip");
    ip.args(["addr", "add", &format!("{POD}/32"), "dev", "lo"]).env("PATH", crate::stage::path());
    assert!(stage.netns.output(&mut ip, b"").unwrap().status.success());
    let info = NameInfo { ips: vec!["10.0.0.1".into()], ..NameInfo::default() };
    let table = NameTable { table: [("web.shop".to_owned(), info)].into_iter().collect() };
    stage.control.put(NAMES, "", table.encode_to_vec());
    stage.control.put("istio.io/debug", "syncz", "all is well");
    let variables = [("ISTIO_META_DNS_CAPTURE", "true"), ("INSTANCE_IP", POD)];
    let mut agent = stage.start("", &variables);
    agent.is_ready().await;
    let status = |request: &str| stage.ask_port(STATUS, request).unwrap();

    let (code, metrics) = status("GET /stats/prometheus");
    assert_eq!(code, 200);
    for name in ["process_resident_memory_bytes", "envoy_server_live"] {
        assert!(metrics.contains(name), "{name} is not in {metrics}");
    }
    let names = || Some(status("GET /debug/ndsz").1).filter(|text| text.contains("web.shop"));
    let names: serde_json::Value = serde_json::from_str(&until("names", names).await).unwrap();
    assert_eq!(names["web.shop"][0], "10.0.0.1");
    assert_eq!(stage.get(15004, "/debug/syncz").unwrap(), (200, "all is well".to_owned()));

    assert_eq!(status("GET /debug/pprof/").0, 200);
    let (code, _) = status("GET /debug/pprof/profile?seconds=1");
    assert_eq!(code, 200);
    assert_eq!(status("GET /drain").0, 405);
    assert_eq!(status("POST /drain"), (200, "OK\n".to_owned()));
    assert_eq!(status("GET /nothing").0, 404);
    assert_eq!(stage.get(15021, "/healthz/ready").unwrap().0, 200);
    assert_eq!(stage.get(15090, "/stats/prometheus").unwrap().0, 200);

    // Whoever reaches the pod's address may look, but not end it.
    let outside = |request: &str| {
        let address = format!("{POD}:{STATUS}").parse().unwrap();
        stage.ask(address, request).unwrap().0
    };
    assert_eq!(outside("GET /healthz/ready"), 200);
    assert_eq!(outside("GET /stats/prometheus"), 200);
    for request in
        ["POST /quitquitquit", "POST /drain", "GET /debug/ndsz", "GET /debug/pprof/profile"]
    {
        assert_eq!(outside(request), 403, "{request}");
    }
    assert!(stage.get(ADMIN, "/ready").is_some_and(|(code, _)| code == 200));
    assert_eq!(status("GET /quitquitquit").0, 405);
    assert_eq!(status("POST /quitquitquit"), (200, "OK".to_owned()));
    assert_eq!(agent.ended().await, 0, "{}", agent.log());
}

/// A listener for the inbound side with a plain TCP proxy to nowhere in particular.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_may_end_when_its_last_connection_does() {
    use ironsail_sys::exec::Signal;
    let stage = Stage::new();
    let over = "static_resources: {listeners: [{name: inbound, address: {socket_address: {address: \
                127.0.0.1, port_value: 8080}}, filter_chains: [{filters: [{name: echo, typed_config: \
                {\"@type\": type.googleapis.com/envoy.extensions.filters.network.echo.v3.Echo}}]}]}]}\n";
    stage.write("over.yaml", over);
    let variables = [
        ("EXIT_ON_ZERO_ACTIVE_CONNECTIONS", "true"),
        ("MINIMUM_DRAIN_DURATION", "100ms"),
        ("ISTIO_BOOTSTRAP_OVERRIDE", "over.yaml"),
    ];
    let mut agent = stage.start("", &variables);
    agent.is_ready().await;
    let mut held = until("a connection", || {
        let to = ([127, 0, 0, 1], 8080).into();
        stage.netns.run(|| std::net::TcpStream::connect::<std::net::SocketAddr>(to)).unwrap().ok()
    })
    .await;
    std::io::Write::write_all(&mut held, b"x").unwrap();
    std::io::Read::read_exact(&mut held, &mut [0]).unwrap();
    agent.signal(Signal::SIGTERM);
    agent.says("there are still 1 active connections").await;
    std::io::Write::write_all(&mut held, b"y").unwrap();
    std::io::Read::read_exact(&mut held, &mut [0]).unwrap();
    drop(held);
    assert_eq!(agent.ended().await, 0);
    agent.says("there are no more active connections").await;
}
