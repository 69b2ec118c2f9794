//! Namespaces, programs and sockets inside them, seen from outside.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::Netns;
use crate::exec;

fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

#[test]
fn the_calling_thread_stays_where_it_was() {
    let before = Netns::of_this_thread().unwrap().inode().unwrap();
    let netns = Netns::create().unwrap();
    let inside = netns.run(|| Netns::of_this_thread().unwrap().inode().unwrap()).unwrap();
    assert_eq!(inside, netns.inode().unwrap());
    assert_ne!(inside, before);
    assert_eq!(Netns::of_this_thread().unwrap().inode().unwrap(), before);
}

#[test]
fn a_program_sees_only_the_namespace_it_was_started_in() {
    let netns = Netns::create().unwrap();
    let output = netns.output(exec::command("cat").arg("/proc/net/dev"), b"").unwrap();
    let links = String::from_utf8(output.stdout).unwrap();
    let names: Vec<_> = links.lines().filter_map(|l| Some(l.split_once(':')?.0.trim())).collect();
    assert_eq!(names, ["lo"]);
}

#[test]
fn a_program_that_prints_while_it_reads_does_not_block() {
    let netns = Netns::create().unwrap();
    let much = vec![b'x'; 1 << 20];
    let output = netns.output(&mut exec::command("cat"), &much).unwrap();
    assert_eq!(output.stdout.len(), much.len());
}

#[test]
fn other_programs_can_open_a_namespace_by_its_path() {
    let netns = Netns::create().unwrap();
    let seen = std::fs::metadata(netns.path()).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::ino(&seen), netns.inode().unwrap());
}

#[tokio::test]
async fn sockets_of_a_dialer_live_in_its_namespace() {
    let netns = Netns::create().unwrap();
    let dialer = netns.dialer().unwrap();
    let listener = dialer.listen(loopback(0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    // The same port is free outside, and nothing answers there.
    drop(TcpListener::bind(loopback(port)));

    let mut client = dialer.tcp(loopback(port)).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    client.write_all(b"hello").await.unwrap();
    client.shutdown().await.unwrap();
    let mut heard = String::new();
    server.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "hello");

    let other = Netns::create().unwrap().dialer().unwrap();
    let refused = other.tcp(loopback(port)).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn a_setting_that_does_not_exist_is_named_in_the_error() {
    let error = Netns::create().unwrap().set_sysctl("net/ipv4/no_such_thing", "1").unwrap_err();
    assert!(error.to_string().contains("net/ipv4/no_such_thing"), "{error}");
}
