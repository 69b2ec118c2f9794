//! What is wrong around the program while it runs: a line each, and it goes on.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use tonic::Status;

use crate::stage::{LOOPBACK, Stage, read, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_is_wrong_or_too_old_is_said_and_a_good_one_helps() {
    let stage = Stage::new();
    stage.control.refuse("first", Status::unauthenticated("the token is not ours"));
    stage.control.refuse("second", Status::unauthenticated("the token has expired"));
    let agent = stage.start_alone("", &[]);
    let line = agent.says("no workload certificate").await;
    assert!(line.contains("the token is not ours") && line.contains("trying again in"), "{line}");
    stage.write("var/run/secrets/tokens/istio-token", "second");
    agent.says("the token has expired").await;
    stage.write("var/run/secrets/tokens/istio-token", "third");
    agent.says("generated new workload certificate").await;
    assert!(!agent.log().contains("third"), "a token is a secret");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_is_not_there_is_said() {
    let stage = Stage::new();
    std::fs::remove_file(stage.path("var/run/secrets/tokens/istio-token")).unwrap();
    let agent = stage.start_alone("", &[]);
    let line = agent.says("no workload certificate").await;
    assert!(line.contains("istio-token"), "{line}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_control_plane_that_is_away_is_said_and_found_when_it_comes() {
    let stage = Stage::without_control(Duration::from_secs(3600));
    let agent = stage.start("", &[]);
    let line = agent.says("no workload certificate").await;
    assert!(line.contains("localhost:15012") || line.contains("refused"), "{line}");
    agent.says("failed to connect to upstream localhost:15012").await;
    stage.control.start(stage.listen((LOOPBACK, 15012).into()));
    agent.says("generated new workload certificate").await;
    agent.is_ready().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_that_cannot_be_written_are_said_and_harm_nothing_else() {
    let stage = Stage::new();
    stage.write("taken", "a file");
    let agent = stage.start_alone("", &[("OUTPUT_CERTS", "./taken")]);
    let line = agent.says("writing certificates to ./taken").await;
    assert!(line.contains("os error"), "{line}");
    agent.is_ready().await;
    assert_eq!(read(&stage.path("taken")), "a file");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_for_token_exchange_is_refused_with_a_reason() {
    let stage = Stage::new();
    let mut command = stage.command("", &[]);
    command.arg("--stsPort=15463");
    let mut agent = stage.start_command(command);
    assert_eq!(agent.ended().await, 64);
    agent
        .says("pilot-agent: --stsPort: an exchange of tokens works with Google's services only")
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ports_that_are_taken_are_named() {
    for port in [15004, 15053] {
        let stage = Stage::new();
        let _taken = stage.listen((LOOPBACK, port).into());
        let mut agent = stage.start_alone("", &[("ISTIO_META_DNS_CAPTURE", "true")]);
        assert_eq!(agent.ended().await, 1);
        let line = agent.says("Address already in use").await;
        assert!(line.starts_with("pilot-agent: ") && line.contains(&port.to_string()), "{line}");
    }
}

/// Bytes without sense, always the same.
fn garbage(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..length).map(|_| next()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_on_every_port_and_socket_harms_nothing() {
    let stage = Stage::new();
    let agent = stage.start("", &[("ISTIO_META_DNS_CAPTURE", "true")]);
    agent.is_ready().await;
    let envoy = agent.envoy();
    let starts: [&[u8]; 5] = [
        b"",
        b"GET ",
        b"POST /quitquitquit HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\xff\xff",
    ];
    for (number, start) in starts.iter().enumerate() {
        let bytes = [start, garbage(number as u64, 3000).as_slice()].concat();
        let send = |mut stream: Box<dyn Both>| {
            let _ = stream.write_all(&bytes);
        };
        stage
            .netns
            .run(|| {
                for port in [15000, 15004, 15020, 15021, 15053, 15090] {
                    let stream = TcpStream::connect((LOOPBACK, port)).unwrap();
                    send(Box::new(stream));
                }
                let socket = UdpSocket::bind((LOOPBACK, 0)).unwrap();
                socket.send_to(&bytes[..600.min(bytes.len())], (LOOPBACK, 15053)).unwrap();
                socket.send_to(&bytes[..12], (LOOPBACK, 15053)).unwrap();
            })
            .unwrap();
        for socket in ["etc/istio/proxy/XDS", "var/run/secrets/workload-spiffe-uds/socket"] {
            send(Box::new(UnixStream::connect(stage.path(socket)).unwrap()));
        }
    }
    agent.is_ready().await;
    let metrics = || stage.get(15020, "/stats/prometheus").filter(|(code, _)| *code == 200);
    until("metrics", metrics).await;
    assert_eq!(agent.envoy(), envoy, "{}", agent.log());
    assert!(!agent.log().contains("panicked"), "{}", agent.log());
}

trait Both: Read + Write {}
impl<T: Read + Write> Both for T {}
