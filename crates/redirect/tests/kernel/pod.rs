//! A pod, a world and a virtual machine as network namespaces, for tests that send real packets.
//!
//! ```text
//! machine (10.8.0.1) ── vm0 (10.8.0.2)  pod  eth0 (10.9.0.2, fd09::2) ── world (10.9.0.1, fd09::1,
//!                                                                       10.20.0.1, 10.30.0.1, fd20::1)
//! ```
//!
//! Every listener answers with its own name, so a connection tells where it ended. The namespaces live
//! as long as the test process.

use std::io::{self, BufRead, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use ironsail_redirect::apply::System;
use ironsail_sys::env::Env;
use ironsail_sys::exec;
use ironsail_sys::netns::Netns;
use nix::unistd::{Gid, Uid, setfsgid, setfsuid};
use socket2::{Domain, Protocol, Socket, Type};

pub(crate) const PROXY: u32 = 1337;
pub(crate) const APP_PORTS: [u16; 5] = [80, 8080, 9000, 15008, 15020];
const WORLD_PORT: u16 = 4444;
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) struct Pod {
    pub(crate) pod: Netns,
    pub(crate) world: Netns,
    pub(crate) machine: Netns,
}

pub(crate) fn programs() -> System {
    System::new(&Env::of_process(), None)
}

/// Runs a program in a namespace; its output is the answer, its failure ends the test.
pub(crate) fn sh(netns: &Netns, line: &str) -> String {
    feed(netns, line, "")
}

pub(crate) fn feed(netns: &Netns, line: &str, stdin: &str) -> String {
    let mut words = line.split_whitespace();
    let mut command = exec::command(words.next().expect("a program"));
    let path = format!("{}:/usr/sbin:/sbin", Env::of_process().var("PATH").unwrap_or_default());
    command.args(words).env("PATH", path);
    let output = netns.output(&mut command, stdin.as_bytes()).expect(line);
    let (out, err) = (&output.stdout, &output.stderr);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(err));
    String::from_utf8_lossy(out).into_owned()
}

/// A namespace with an address that is not loopback, as every pod has.
pub(crate) fn lonely() -> Netns {
    let netns = Netns::create().unwrap();
    sh(&netns, "ip addr add 10.9.0.2/32 dev lo");
    netns
}

impl Pod {
    pub(crate) fn create() -> Self {
        let [pod, world, machine] = [(); 3].map(|()| Netns::create().unwrap());
        let there = |netns: &Netns| netns.path().display().to_string();
        sh(&pod, &format!("ip link add eth0 type veth peer name pod0 netns {}", there(&world)));
        sh(&pod, &format!("ip link add vm0 type veth peer name pod0 netns {}", there(&machine)));
        for line in [
            "ip addr add 10.9.0.2/24 dev eth0",
            "ip addr add fd09::2/64 dev eth0 nodad",
            "ip addr add 10.8.0.2/24 dev vm0",
            "ip link set eth0 up",
            "ip link set vm0 up",
            "ip route add default via 10.9.0.1",
            "ip -6 route add default via fd09::1",
        ] {
            sh(&pod, line);
        }
        pod.set_sysctl("net/ipv4/ip_forward", "1").unwrap();
        for line in [
            "ip addr add 10.9.0.1/24 dev pod0",
            "ip addr add fd09::1/64 dev pod0 nodad",
            "ip addr add 10.20.0.1/32 dev lo",
            "ip addr add 10.30.0.1/32 dev lo",
            "ip addr add fd20::1/128 dev lo nodad",
            "ip link set pod0 up",
            "ip route add 10.8.0.0/24 via 10.9.0.2",
        ] {
            sh(&world, line);
        }
        // Whatever the port, the world answers.
        let catch_all = format!(
            "add table inet world\n\
             add chain inet world in {{ type nat hook prerouting priority -100 ; }}\n\
             add rule inet world in meta l4proto {{ tcp, udp }} redirect to :{WORLD_PORT}\n"
        );
        feed(&world, "nft -f -", &catch_all);
        for line in [
            "ip addr add 10.8.0.1/24 dev pod0",
            "ip link set pod0 up",
            "ip route add default via 10.8.0.2",
        ] {
            sh(&machine, line);
        }
        Self { pod, world, machine }
    }

    /// Starts all listeners: the application's, the proxy's, the agent's and the world's.
    pub(crate) fn listen(&self) {
        for family in ["0.0.0.0", "::"] {
            let at = |port| SocketAddr::new(family.parse().unwrap(), port);
            for port in APP_PORTS {
                serve(&self.pod, at(port), 0);
            }
            for port in [15001, 15006, 15053] {
                serve(&self.pod, at(port), PROXY);
            }
            serve(&self.world, at(WORLD_PORT), 0);
            answer_datagrams(&self.world, at(WORLD_PORT), 0);
        }
        // A datagram socket answers from the address it is bound to, so the agent's is bound to the
        // one that redirected lookups arrive at.
        for agent in ["127.0.0.1:15053", "[::1]:15053"] {
            answer_datagrams(&self.pod, agent.parse().unwrap(), PROXY);
        }
    }
}

/// What a listener at this port calls itself.
fn name(at: SocketAddr) -> String {
    if at.port() == WORLD_PORT { "world".to_owned() } else { at.port().to_string() }
}

fn serve(netns: &Netns, at: SocketAddr, owner: u32) {
    let listener = netns.run(|| as_owner(owner, owner, || listener(at))).unwrap().unwrap();
    std::thread::spawn(move || {
        let name = name(at);
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = stream.write_all(format!("{name}\n").as_bytes());
            // Who closes first remembers the pair of ports. If that were this side, the client could
            // take the same pair again too soon, and its packets would count as those of an old
            // connection.
            let _ = stream.set_read_timeout(Some(PATIENCE));
            let _ = stream.read(&mut [0]);
        }
    });
}

fn listener(at: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if at.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // As the proxy's: accepts what was handed over under another address. The option of IPv4 holds
    // for IPv6 sockets too.
    socket.set_ip_transparent_v4(true)?;
    socket.bind(&at.into())?;
    socket.listen(64)?;
    Ok(socket.into())
}

fn answer_datagrams(netns: &Netns, at: SocketAddr, owner: u32) {
    let bind = || -> io::Result<UdpSocket> {
        let socket = Socket::new(Domain::for_address(at), Type::DGRAM, Some(Protocol::UDP))?;
        if at.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.bind(&at.into())?;
        Ok(socket.into())
    };
    let socket = netns.run(|| as_owner(owner, owner, bind)).unwrap().unwrap();
    std::thread::spawn(move || {
        let name = name(at);
        let mut buffer = [0; 16];
        while let Ok((_, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(name.as_bytes(), from);
        }
    });
}

/// Runs `work` with another owner of the files and sockets it makes. Only for a thread of its own:
/// there may be no way back.
pub(crate) fn as_owner<T>(uid: u32, gid: u32, work: impl FnOnce() -> T) -> T {
    setfsgid(Gid::from_raw(gid));
    setfsuid(Uid::from_raw(uid));
    work()
}

/// Where a connection from `netns` ends: the name of a listener, or the error.
pub(crate) fn connect(
    netns: &Netns,
    owner: (u32, u32),
    from: Option<IpAddr>,
    to: SocketAddr,
) -> String {
    let dial = || -> io::Result<String> {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
        if let Some(from) = from {
            socket.bind(&SocketAddr::new(from, 0).into())?;
        }
        socket.connect_timeout(&to.into(), PATIENCE)?;
        let stream: TcpStream = socket.into();
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut answer = String::new();
        io::BufReader::new(stream).read_line(&mut answer)?;
        Ok(answer.trim_end().to_owned())
    };
    let result = netns.run(|| as_owner(owner.0, owner.1, dial)).unwrap();
    result.unwrap_or_else(|error| format!("error: {error}"))
}

/// The kernel remembers for half a minute where datagrams of a port went, also under rules that are
/// gone by now; so every question comes from a port of its own, outside the kernel's own choice.
fn unused_port() -> u16 {
    static ASKED: AtomicU16 = AtomicU16::new(0);
    20_000 + ASKED.fetch_add(1, Ordering::Relaxed) % 12_000
}

/// Who answers a datagram.
pub(crate) fn ask(netns: &Netns, owner: (u32, u32), to: SocketAddr) -> String {
    let dial = || -> io::Result<String> {
        let any: IpAddr = if to.is_ipv6() { [0u16; 8].into() } else { [0u8; 4].into() };
        let socket = UdpSocket::bind(SocketAddr::new(any, unused_port()))?;
        // Connected: an answer from another address than the asked one would not arrive.
        socket.connect(to)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.send(b"?")?;
        let mut answer = [0; 16];
        let length = socket.recv(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
    };
    let result = netns.run(|| as_owner(owner.0, owner.1, dial)).unwrap();
    result.unwrap_or_else(|error| format!("error: {error}"))
}
