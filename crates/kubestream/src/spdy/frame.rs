//! Frames of SPDY/3: eight bytes of head, then control data or the bytes of a stream.

use super::Error;

pub(crate) const HEAD: usize = 8;
pub(crate) const FLAG_FIN: u8 = 1;
/// Control frames carry a header block at most.
const MAX_CONTROL: u32 = 64 << 10;

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Head {
    Data { stream: u32, fin: bool, length: u32 },
    Control { kind: Kind, fin: bool, length: u32 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    SynStream,
    SynReply,
    RstStream,
    Ping,
    GoAway,
    Headers,
    /// Settings, window updates and what else may come: of no use here.
    Other,
}

impl Kind {
    fn number(self) -> u8 {
        match self {
            Self::SynStream => 1,
            Self::SynReply => 2,
            Self::RstStream => 3,
            Self::Ping => 6,
            Self::GoAway => 7,
            Self::Headers => 8,
            Self::Other => 0,
        }
    }

    fn of(number: u16) -> Self {
        let all = [
            Self::SynStream,
            Self::SynReply,
            Self::RstStream,
            Self::Ping,
            Self::GoAway,
            Self::Headers,
        ];
        all.into_iter().find(|k| u16::from(k.number()) == number).unwrap_or(Self::Other)
    }
}

impl Head {
    pub(crate) fn parse(bytes: [u8; HEAD]) -> Result<Self, Error> {
        let word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let flags = bytes[4];
        let length = u32::from_be_bytes([0, bytes[5], bytes[6], bytes[7]]);
        let fin = flags & FLAG_FIN != 0;
        if word >> 31 == 0 {
            return Ok(Self::Data { stream: word, fin, length });
        }
        if (word >> 16) & 0x7fff != 3 {
            return Err(Error::Protocol("a frame that is not of SPDY/3"));
        }
        if length > MAX_CONTROL {
            return Err(Error::Protocol("a control frame that is too long"));
        }
        let kind = Kind::of(u16::from_be_bytes([bytes[2], bytes[3]]));
        Ok(Self::Control { kind, fin, length })
    }
}

/// A whole control frame.
pub(crate) fn control(kind: Kind, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0x80, 3, 0, kind.number()];
    head_tail(&mut out, flags, payload);
    out
}

/// A whole data frame; `payload` is one of our chunks.
pub(crate) fn data(stream: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEAD + payload.len());
    out.extend_from_slice(&stream.to_be_bytes());
    head_tail(&mut out, flags, payload);
    out
}

fn head_tail(out: &mut Vec<u8>, flags: u8, payload: &[u8]) {
    let length = u32::try_from(payload.len()).expect("what we send is short");
    let length = length.to_be_bytes();
    out.extend_from_slice(&[flags, length[1], length[2], length[3]]);
    out.extend_from_slice(payload);
}

/// The number at the start of a control frame, and what comes behind it.
pub(crate) fn number(payload: &[u8]) -> Result<(u32, &[u8]), Error> {
    let (head, rest) = payload
        .split_first_chunk::<4>()
        .ok_or(Error::Protocol("a control frame that is too short"))?;
    Ok((u32::from_be_bytes(*head) & 0x7fff_ffff, rest))
}
