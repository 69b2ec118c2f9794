//! The server over real sockets on loopback.

use std::net::{Ipv4Addr, SocketAddr};

use hickory_proto::op::{Message, Query, ResponseCode};
use hickory_proto::rr::RecordType;

use super::*;
use crate::answer::tests::{Book, name, query};

/// A server on loopback, both transports at one port.
async fn start(forwarder: Option<Forwarder>) -> SocketAddr {
    let server = Server::new(Arc::new(Book), forwarder);
    loop {
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let at = udp.local_addr().unwrap();
        // The same port may be taken for TCP; then another is tried.
        let Ok(tcp) = TcpListener::bind(at).await else { continue };
        let (one, two) = (server.clone(), server.clone());
        tokio::spawn(async move { one.serve_udp(udp).await });
        tokio::spawn(async move { two.serve_tcp(tcp).await });
        return at;
    }
}

async fn ask_udp(at: SocketAddr, packet: &[u8]) -> Message {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    socket.send_to(packet, at).await.unwrap();
    let mut buffer = vec![0; 4096];
    let length = timeout(Duration::from_secs(5), socket.recv(&mut buffer)).await.unwrap().unwrap();
    Message::from_vec(&buffer[..length]).unwrap()
}

#[tokio::test]
async fn it_answers_over_both_transports() {
    let at = start(None).await;
    let packet = query("one.test.", RecordType::A).to_vec().unwrap();
    assert_eq!(ask_udp(at, &packet).await.answers.len(), 1);

    let mut stream = TcpStream::connect(at).await.unwrap();
    for _ in 0..3 {
        let packet = query("many.test.", RecordType::A).to_vec().unwrap();
        stream.write_u16(packet.len().try_into().unwrap()).await.unwrap();
        stream.write_all(&packet).await.unwrap();
        let mut reply = vec![0; stream.read_u16().await.unwrap().into()];
        stream.read_exact(&mut reply).await.unwrap();
        assert_eq!(Message::from_vec(&reply).unwrap().answers.len(), 100);
    }
}

#[tokio::test]
async fn without_a_forwarder_other_names_do_not_exist() {
    let at = start(None).await;
    let packet = query("www.example.com.", RecordType::A).to_vec().unwrap();
    assert_eq!(ask_udp(at, &packet).await.metadata.response_code, ResponseCode::NXDomain);
}

#[tokio::test]
async fn other_names_are_asked_of_the_first_upstream_that_answers() {
    // `start(None)` says NXDOMAIN for what it does not know, but knows `many.test`.
    let upstream = start(None).await;
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let upstreams = vec![silent.local_addr().unwrap(), upstream];
    let forwarder = Forwarder::with_patience(upstreams, Duration::from_millis(200));
    // A truncated answer over UDP is asked again over TCP.
    let asked = Query::query(name("many.test."), RecordType::A);
    assert_eq!(forwarder.resolve(&asked).await.unwrap().answers.len(), 100);
    // The second time it is remembered: no server needs to be there.
    drop(silent);
    assert_eq!(forwarder.resolve(&asked).await.unwrap().answers.len(), 100);
}

#[tokio::test]
async fn a_silent_upstream_is_a_server_failure() {
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let forwarder =
        Forwarder::with_patience(vec![silent.local_addr().unwrap()], Duration::from_millis(50));
    let at = start(Some(forwarder)).await;
    let packet = query("www.example.com.", RecordType::A).to_vec().unwrap();
    assert_eq!(ask_udp(at, &packet).await.metadata.response_code, ResponseCode::ServFail);
}

#[tokio::test]
async fn rubbish_does_not_stop_it() {
    let at = start(None).await;
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    for length in [0, 1, 11, 12, 40, 4000] {
        socket.send_to(&vec![0xff; length], at).await.unwrap();
    }
    let mut stream = TcpStream::connect(at).await.unwrap();
    stream.write_all(&[0, 3, 1, 2, 3]).await.unwrap();
    let packet = query("one.test.", RecordType::A).to_vec().unwrap();
    assert_eq!(ask_udp(at, &packet).await.answers.len(), 1);
}
