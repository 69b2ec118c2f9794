//! SPDY/3.1 sessions of exec, attach and port-forward, plain and tunnelled in a WebSocket: frames
//! that make sense, frames that do not, and bytes that are no frames.

use crate::session::{run, spdy_head, websocket_frame, websocket_head};
use arbitrary::Arbitrary;
use flate2::{Compress, Compression, FlushCompress};

#[derive(Arbitrary, Debug)]
struct Input {
    session: Session,
    steps: Vec<Step>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Session {
    Exec,
    Terminal,
    Forward,
    Tunnel,
}

#[derive(Arbitrary, Debug)]
enum Step {
    /// A stream with headers of the protocol.
    Open {
        fin: bool,
        kind: Kind,
        port: Port,
        request: u8,
    },
    /// A stream with any headers.
    OpenOther {
        id: u8,
        flags: u8,
        headers: Vec<(String, String)>,
    },
    Data {
        id: u8,
        flags: u8,
        bytes: Vec<u8>,
    },
    Control {
        kind: u8,
        flags: u8,
        payload: Vec<u8>,
    },
    Raw(Vec<u8>),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Kind {
    Stdin,
    Stdout,
    Stderr,
    Error,
    Resize,
    Data,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Port {
    Echo,
    HangUp,
    Closed,
    Wrong,
}

/// Header blocks of one direction share one stream of zlib, without the dictionary: the
/// specification lets a client leave it out.
struct Blocks(Compress);

impl Blocks {
    fn encode(&mut self, headers: &[(&str, &str)]) -> Vec<u8> {
        let mut plain = u32::try_from(headers.len()).unwrap().to_be_bytes().to_vec();
        for text in headers.iter().flat_map(|(name, value)| [name, value]) {
            plain.extend_from_slice(&u32::try_from(text.len()).unwrap().to_be_bytes());
            plain.extend_from_slice(text.as_bytes());
        }
        let mut out = Vec::with_capacity(plain.len() + 256);
        self.0.compress_vec(&plain, &mut out, FlushCompress::Sync).unwrap();
        out
    }
}

fn frame(head: [u8; 4], flags: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut out = head.to_vec();
    out.extend_from_slice(&[flags, length[1], length[2], length[3]]);
    out.extend_from_slice(payload);
    out
}

fn syn(id: u32, flags: u8, block: &[u8]) -> Vec<u8> {
    let mut payload = id.to_be_bytes().to_vec();
    payload.extend_from_slice(&[0; 6]);
    payload.extend_from_slice(block);
    frame([0x80, 3, 0, 1], flags, &payload)
}

fn bytes(steps: &[Step]) -> Vec<u8> {
    let mut blocks = Blocks(Compress::new(Compression::fast(), true));
    let mut next = 1;
    let mut out = Vec::new();
    for step in steps {
        match step {
            Step::Open { fin, kind, port, request } => {
                let kind = match kind {
                    Kind::Stdin => "stdin",
                    Kind::Stdout => "stdout",
                    Kind::Stderr => "stderr",
                    Kind::Error => "error",
                    Kind::Resize => "resize",
                    Kind::Data => "data",
                };
                let port = match port {
                    Port::Echo => "7",
                    Port::HangUp => "13",
                    Port::Closed => "9",
                    Port::Wrong => "x",
                };
                let request = (request % 3).to_string();
                let headers = [("streamtype", kind), ("port", port), ("requestid", &request)];
                out.extend(syn(next, u8::from(*fin), &blocks.encode(&headers)));
                next += 2;
            }
            Step::OpenOther { id, flags, headers } => {
                let headers: Vec<_> =
                    headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
                out.extend(syn(u32::from(*id), *flags, &blocks.encode(&headers)));
            }
            Step::Data { id, flags, bytes } => {
                out.extend(frame(u32::from(*id).to_be_bytes(), *flags, bytes));
            }
            Step::Control { kind, flags, payload } => {
                out.extend(frame([0x80, 3, 0, kind % 10], *flags, payload));
            }
            Step::Raw(bytes) => out.extend_from_slice(bytes),
        }
    }
    out
}

pub(crate) fn target(data: &[u8]) {
    let Some(input) = crate::made::<Input>(data) else { return };
    let bytes = bytes(&input.steps);
    match input.session {
        Session::Exec => run(&spdy_head("/exec", "v4.channel.k8s.io"), &bytes),
        Session::Terminal => run(&spdy_head("/tty", "v4.channel.k8s.io"), &bytes),
        Session::Forward => run(&spdy_head("/portforward", "portforward.k8s.io"), &bytes),
        Session::Tunnel => {
            let head = websocket_head("/portforward", "SPDY/3.1+portforward.k8s.io");
            let framed: Vec<u8> =
                bytes.chunks(100).flat_map(|chunk| websocket_frame(0x82, chunk)).collect();
            run(&head, &framed);
        }
    }
}
