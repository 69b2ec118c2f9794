//! `--egress`: pods reach the world, which here is a network namespace of the test's own with nothing
//! behind it. No packet can reach a real network.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::{Child, Stdio};

use ironsail_sys::netns::Netns;
use ironsail_testkit::{Case, Podlet, binary, case_on, eventually};

/// A machine that the test plays: a server of the world is among its own addresses.
const WORLD: &str = "198.51.100.20";

fn on_a_machine_of_its_own(test: impl FnOnce() + Send) {
    let machine = Netns::create().unwrap();
    machine
        .run(|| {
            ip(&["link", "set", "lo", "up"]);
            ip(&["address", "add", WORLD, "dev", "lo"]);
            test();
        })
        .unwrap();
}

fn ip(args: &[&str]) {
    let output = ironsail_sys::exec::command("ip").args(args).output().unwrap();
    assert!(output.status.success(), "ip {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A server of the world, ended with the test.
struct Server(Child);

impl Server {
    fn start() -> Self {
        let mut command = ironsail_sys::exec::command(binary("echo"));
        command.args(["serve", "--http", "80", "--hostname", "world"]);
        Self(command.stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Answers every question for an A record with `WORLD`, and all others with nothing.
fn serve_names(socket: UdpSocket) {
    std::thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((size, from)) = socket.recv_from(&mut buffer) {
            // A header of twelve bytes, then a name that ends with an empty label, type and class.
            let end = 12 + buffer[12..size].iter().position(|b| *b == 0).unwrap() + 5;
            let is_a = buffer[end - 4..end - 2] == [0, 1];
            let mut answer = buffer[..end].to_vec();
            answer[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]);
            if is_a {
                answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 198, 51, 100, 20]);
            }
            let _ = socket.send_to(&answer, from);
        }
    });
}

const CLIENT: &str = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: e, image: echo, args: [serve, --http, '8080']}]}}";

/// Refused by podlet itself, and never answered.
async fn refused(case: &Case, url: &str) {
    eventually(&format!("{url} is refused"), async || {
        let seen = case.call("pod/p", url).await;
        assert!(seen.status.is_none(), "{url}: {seen:?}");
        let told = seen.error.as_ref().is_some_and(|e| e.contains("refused"));
        if told { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await;
}

#[test]
fn pods_reach_the_world_by_address_and_name() {
    on_a_machine_of_its_own(|| {
        let _server = Server::start();
        // The machine asks the name servers in its resolv.conf; here they are the machine itself.
        let resolv_conf = std::fs::read_to_string("/etc/resolv.conf").unwrap();
        let servers =
            resolv_conf.lines().filter_map(|l| l.strip_prefix("nameserver ")?.trim().parse().ok());
        for server in servers.collect::<Vec<IpAddr>>() {
            if !server.is_loopback() {
                ip(&["address", "add", &server.to_string(), "dev", "lo"]);
            }
            serve_names(UdpSocket::bind(SocketAddr::new(server, 53)).unwrap());
        }
        let podlet = Podlet::start("egress", &["--egress"]);
        case_on(&podlet, "world", async |case| {
            case.apply(CLIENT).await;
            case.ready("pod/p").await;
            for url in [format!("http://{WORLD}/"), "http://somewhere.example.net/".to_owned()] {
                let seen = eventually("the world answers", async || {
                    let seen = case.call("pod/p", &url).await;
                    if seen.status == Some(200) { Ok(seen) } else { Err(format!("{seen:?}")) }
                })
                .await;
                assert_eq!(seen.body["hostname"], "world", "{url}: {seen:?}");
            }
            // The machine's own loopback is not the world, and a closed port is closed.
            for url in ["http://127.0.0.1:80/".to_owned(), format!("http://{WORLD}:81/")] {
                let seen = case.call("pod/p", &url).await;
                assert!(seen.error.is_some(), "{url}: {seen:?}");
            }
            // Nor are addresses of the cluster that nobody has.
            refused(case, "http://10.96.77.77/").await;
        });
    });
}

#[test]
fn without_the_flag_the_same_world_is_out_of_reach() {
    on_a_machine_of_its_own(|| {
        let _server = Server::start();
        let podlet = Podlet::start("no-egress", &[]);
        case_on(&podlet, "world", async |case| {
            case.apply(CLIENT).await;
            case.ready("pod/p").await;
            refused(case, &format!("http://{WORLD}/")).await;
        });
    });
}
