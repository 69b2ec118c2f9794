//! The kernel's routing tables over a netlink socket: changes that it answers, and lists.
//!
//! In: messages without their header; out: the kernel's word, or the messages of a list. Only what is
//! common to all of them is known here; what a message says is the caller's.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send,
    socket,
};

/// Makes something that must not be there yet.
pub const CREATE: u16 = 0x400 | 0x200;

const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
const DUMP: u16 = 0x300;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const HEADER: usize = 16;
/// The kernel never puts more into one piece.
const PIECE: usize = 64 << 10;
/// More messages than a list of rules can have.
const MOST: usize = 100_000;

/// A socket in the network namespace of the thread that opened it.
pub struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Netlink {
    pub fn open() -> io::Result<Self> {
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkRoute,
        )?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Asks for a change of the given kind and waits for the kernel's word.
    pub fn change(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        self.send(kind, REQUEST | ACKNOWLEDGE | flags, body)?;
        self.receive(|_| {})
    }

    /// Everything that the kernel lists for a question.
    pub fn list(&mut self, kind: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        self.send(kind, REQUEST | DUMP, body)?;
        let mut found = Vec::new();
        self.receive(|message| {
            if found.len() < MOST {
                found.push(message.to_vec());
            }
        })?;
        Ok(found)
    }

    fn send(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        self.sequence += 1;
        let length = u32::try_from(HEADER + body.len()).map_err(io::Error::other)?;
        let mut message = Vec::with_capacity(HEADER + body.len());
        message.extend(length.to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend(flags.to_ne_bytes());
        message.extend(self.sequence.to_ne_bytes());
        message.extend(0_u32.to_ne_bytes());
        message.extend(body);
        send(self.socket.as_raw_fd(), &message, MsgFlags::empty())?;
        Ok(())
    }

    /// Reads until the kernel has said its last word about the newest question.
    fn receive(&mut self, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        let mut piece = vec![0; PIECE];
        loop {
            let length = recv(self.socket.as_raw_fd(), &mut piece, MsgFlags::empty())?;
            let mut rest = &piece[..length];
            while let Some((kind, sequence, body, more)) = split(rest) {
                rest = more;
                match kind {
                    _ if sequence != self.sequence => {}
                    DONE => return Ok(()),
                    ERROR => {
                        let code = body.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
                        return match code {
                            0 => Ok(()),
                            code => Err(io::Error::from_raw_os_error(-code)),
                        };
                    }
                    _ => each(body),
                }
            }
        }
    }
}

/// The first message: its kind, its number and what it says; and the others.
fn split(bytes: &[u8]) -> Option<(u16, u32, &[u8], &[u8])> {
    let (header, _) = bytes.split_first_chunk::<HEADER>()?;
    let [l0, l1, l2, l3, k0, k1, _, _, s0, s1, s2, s3, ..] = *header;
    let length = usize::try_from(u32::from_ne_bytes([l0, l1, l2, l3])).ok()?;
    let body = bytes.get(HEADER..length)?;
    let more = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((u16::from_ne_bytes([k0, k1]), u32::from_ne_bytes([s0, s1, s2, s3]), body, more))
}

/// Adds an attribute to a message.
pub fn attribute(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    message.extend(length.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(value);
    message.resize(message.len().next_multiple_of(4), 0);
}

/// The value of a message's attribute, after the `fixed` bytes it begins with.
pub fn find_attribute(message: &[u8], fixed: usize, kind: u16) -> Option<&[u8]> {
    let mut rest = message.get(fixed..)?;
    loop {
        let (&[l0, l1, k0, k1], _) = rest.split_first_chunk::<4>()?;
        let length = usize::from(u16::from_ne_bytes([l0, l1]));
        let value = rest.get(4..length)?;
        if u16::from_ne_bytes([k0, k1]) == kind {
            return Some(value);
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_again() {
        let mut message = vec![9; 12];
        attribute(&mut message, 5, &[1, 2, 3]);
        attribute(&mut message, 15, &7_u32.to_ne_bytes());
        assert_eq!(message.len(), 12 + 8 + 8);
        assert_eq!(find_attribute(&message, 12, 5), Some([1, 2, 3].as_slice()));
        assert_eq!(find_attribute(&message, 12, 15), Some(7_u32.to_ne_bytes().as_slice()));
        assert_eq!(find_attribute(&message, 12, 6), None);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_taken(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let mut rest = bytes.as_slice();
            while let Some((_, _, _, more)) = split(rest) {
                proptest::prop_assert!(more.len() < rest.len());
                rest = more;
            }
            for kind in 0..20 {
                let _ = find_attribute(&bytes, 12, kind);
            }
        }
    }
}
