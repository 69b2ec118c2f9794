//! Workloads with IPv6 addresses, alone and beside IPv4.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use ironsail_proto::Message;
use ironsail_proto::istio::networking::nds::v1::{NameTable, name_table::NameInfo};

use crate::stage::{ADMIN, STATUS, Stage, until};

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);
const NAMES: &str = "type.googleapis.com/istio.networking.nds.v1.NameTable";

/// A question for the AAAA record of web.shop.
const QUESTION: &[u8] =
    b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03web\x04shop\x00\x00\x1c\x00\x01";

/// The answer to it by the agent's DNS at `at`, once it has one.
fn lookup(stage: &Stage, at: IpAddr) -> Option<Vec<u8>> {
    let socket = stage.netns.run(|| UdpSocket::bind((at, 0))).unwrap().ok()?;
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    socket.send_to(QUESTION, (at, 15053)).ok()?;
    let mut answer = [0; 512];
    let length = socket.recv(&mut answer).ok()?;
    // One answer, and the address at its end.
    (answer[7] == 1).then(|| answer[..length].to_vec())
}

fn stage() -> Stage {
    let stage = Stage::new();
    let info = NameInfo { ips: vec!["fd00::7".into()], ..NameInfo::default() };
    let table = NameTable { table: [("web.shop".to_owned(), info)].into_iter().collect() };
    stage.control.put(NAMES, "", table.encode_to_vec());
    stage
}

fn answers(stage: &Stage, ip: IpAddr, port: u16, path: &str) -> bool {
    let answer = stage.ask(SocketAddr::new(ip, port), &format!("GET {path}"));
    answer.is_some_and(|(code, _)| code == 200)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workload_with_ipv6_only_has_everything_there() {
    let stage = stage();
    let variables = [("INSTANCE_IP", "fd00::1"), ("ISTIO_META_DNS_CAPTURE", "true")];
    let agent = stage.start("", &variables);
    agent.is_ready_at((V6, STATUS).into()).await;
    assert!(answers(&stage, V6, ADMIN, "/ready") && !answers(&stage, V4, ADMIN, "/ready"));
    assert!(answers(&stage, V6, 15021, "/healthz/ready"));
    assert!(answers(&stage, V6, 15090, "/stats/prometheus"));
    let answer = until("DNS on ::1", || lookup(&stage, V6)).await;
    assert!(answer.ends_with(&"fd00::7".parse::<Ipv6Addr>().unwrap().octets()), "{answer:?}");
    agent.says("--local-address-ip-version\", \"v6\"").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workload_with_both_families_has_everything_on_both() {
    for (ips, first, other) in [("10.9.0.2,fd00::1", V4, V6), ("fd00::1,10.9.0.2", V6, V4)] {
        let stage = stage();
        let variables = [
            ("INSTANCE_IPS", ips),
            ("ISTIO_DUAL_STACK", "true"),
            ("ISTIO_META_DNS_CAPTURE", "true"),
        ];
        let agent = stage.start("", &variables);
        agent.is_ready_at((first, STATUS).into()).await;
        assert!(answers(&stage, first, ADMIN, "/ready"), "{}", agent.log());
        for ip in [first, other] {
            assert!(answers(&stage, ip, STATUS, "/healthz/ready"), "{ip}");
            assert!(answers(&stage, ip, 15021, "/healthz/ready"), "{ip}");
            assert!(answers(&stage, ip, 15090, "/stats/prometheus"), "{ip}");
            until("DNS", || lookup(&stage, ip)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_families_may_be_turned_off() {
    let stage = stage();
    let variables = [("INSTANCE_IPS", "10.9.0.2,fd00::1"), ("ISTIO_DUAL_STACK", "false")];
    let agent = stage.start("", &variables);
    agent.is_ready().await;
    assert!(answers(&stage, V4, 15021, "/healthz/ready"));
    assert!(!answers(&stage, V6, 15021, "/healthz/ready"), "{}", agent.log());
}
