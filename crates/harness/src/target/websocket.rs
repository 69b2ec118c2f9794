//! WebSocket sessions of exec, attach and port-forward: messages on channels, frames of every kind,
//! and bytes that are no frames.

use crate::session::{run, websocket_frame, websocket_head};
use arbitrary::Arbitrary;

#[derive(Arbitrary, Debug)]
struct Input {
    session: Session,
    steps: Vec<Step>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Session {
    V5,
    V4,
    Terminal,
    Forward,
    Tunnel,
}

#[derive(Arbitrary, Debug)]
enum Step {
    Channel {
        channel: u8,
        bytes: Vec<u8>,
    },
    Resize {
        width: u32,
        height: i32,
    },
    /// The end of one channel, as v5 has it.
    Close {
        channel: u8,
    },
    Frame {
        first: u8,
        payload: Vec<u8>,
    },
    Raw(Vec<u8>),
}

pub(crate) fn target(bytes: &[u8]) {
    let Some(input) = crate::made::<Input>(bytes) else { return };
    let (path, protocol) = match input.session {
        Session::V5 => ("/exec", "v5.channel.k8s.io"),
        Session::V4 => ("/exec", "v4.channel.k8s.io"),
        Session::Terminal => ("/tty", "v5.channel.k8s.io"),
        Session::Forward => ("/portforward", "v4.channel.k8s.io"),
        Session::Tunnel => ("/portforward", "SPDY/3.1+portforward.k8s.io"),
    };
    let mut bytes = Vec::new();
    for step in &input.steps {
        match step {
            Step::Channel { channel, bytes: data } => {
                let message: Vec<u8> =
                    std::iter::once(channel % 8).chain(data.iter().copied()).collect();
                bytes.extend(websocket_frame(0x82, &message));
            }
            Step::Resize { width, height } => {
                let message = format!("\u{4}{{\"Width\":{width},\"Height\":{height}}}");
                bytes.extend(websocket_frame(0x82, message.as_bytes()));
            }
            Step::Close { channel } => bytes.extend(websocket_frame(0x82, &[255, *channel])),
            Step::Frame { first, payload } => bytes.extend(websocket_frame(*first, payload)),
            Step::Raw(raw) => bytes.extend_from_slice(raw),
        }
    }
    run(&websocket_head(path, protocol), &bytes);
}
