//! Packets with file descriptors between related processes.
//!
//! A [`Channel`] keeps message boundaries (`SOCK_SEQPACKET`), tells when the other side is gone, and
//! never hands out a descriptor that would survive an exec.

use std::io::{self, IoSlice, IoSliceMut, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg,
    sendmsg, socketpair,
};

/// The longest packet; longer things travel in a [memory file](memory_file).
pub const MAX_PACKET: usize = 16 << 10;
/// The most descriptors in one packet.
pub const MAX_FDS: usize = 32;

/// One end of a packet connection.
#[derive(Debug)]
pub struct Channel(OwnedFd);

/// A packet and the descriptors that came with it.
#[derive(Debug)]
pub struct Packet {
    pub bytes: Vec<u8>,
    pub fds: Vec<OwnedFd>,
}

impl Channel {
    /// Two connected ends, closed on exec.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (a, b) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
        Ok((Self(a), Self(b)))
    }

    /// Sends one packet. Fails with `BrokenPipe` when the other end is gone.
    pub fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let raw: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
        let rights = [ControlMessage::ScmRights(&raw)];
        let control: &[ControlMessage<'_>] = if raw.is_empty() { &[] } else { &rights };
        let iov = [IoSlice::new(bytes)];
        loop {
            let sent =
                sendmsg::<()>(self.0.as_raw_fd(), &iov, control, MsgFlags::MSG_NOSIGNAL, None);
            match sent {
                Err(nix::Error::EINTR) => {}
                Err(e) => return Err(e.into()),
                Ok(_) => return Ok(()),
            }
        }
    }

    /// The next packet; `None` when the other end is gone and nothing is left to read.
    pub fn recv(&self) -> io::Result<Option<Packet>> {
        let mut bytes = vec![0; MAX_PACKET];
        let mut control = nix::cmsg_space!([RawFd; MAX_FDS]);
        let (len, fds) = {
            let mut iov = [IoSliceMut::new(&mut bytes)];
            let message = loop {
                let got = recvmsg::<()>(
                    self.0.as_raw_fd(),
                    &mut iov,
                    Some(&mut control),
                    MsgFlags::MSG_CMSG_CLOEXEC,
                );
                match got {
                    Err(nix::Error::EINTR) => {}
                    other => break other?,
                }
            };
            let mut fds = Vec::new();
            for item in message.cmsgs()? {
                if let ControlMessageOwned::ScmRights(raw) = item {
                    // SAFETY: the kernel has just installed these descriptors in this process for
                    // us, and nobody else knows their numbers.
                    fds.extend(raw.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
                }
            }
            if message.flags.intersects(MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC) {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "packet too long"));
            }
            (message.bytes, fds)
        };
        if len == 0 && fds.is_empty() {
            return Ok(None);
        }
        bytes.truncate(len);
        Ok(Some(Packet { bytes, fds }))
    }

    /// Makes `recv` and `send` return `WouldBlock` in place of waiting.
    pub fn set_nonblocking(&self) -> io::Result<()> {
        crate::process::set_nonblocking(self.0.as_fd())
    }

    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Channel {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl From<OwnedFd> for Channel {
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

impl From<Channel> for OwnedFd {
    fn from(channel: Channel) -> Self {
        channel.0
    }
}

/// A file in memory that holds `bytes`, to be passed as a descriptor.
pub fn memory_file(bytes: &[u8]) -> io::Result<OwnedFd> {
    let fd = memfd_create(c"ironsail", MFdFlags::MFD_CLOEXEC)?;
    let mut file = std::fs::File::from(fd);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

/// The content of a file made by [`memory_file`].
pub fn read_memory_file(fd: OwnedFd) -> io::Result<Vec<u8>> {
    let mut file = std::fs::File::from(fd);
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_arrives_whole_with_its_descriptors() {
        let (a, b) = Channel::pair().expect("pair");
        let file = memory_file(b"content").expect("memory file");
        a.send(b"hello", &[file.as_fd()]).expect("send");
        a.send(b"again", &[]).expect("send");
        let mut first = b.recv().expect("recv").expect("packet");
        assert_eq!(first.bytes, b"hello");
        let fd = first.fds.pop().expect("descriptor");
        assert_eq!(read_memory_file(fd).expect("read"), b"content");
        assert_eq!(b.recv().expect("recv").expect("packet").bytes, b"again");
    }

    #[test]
    fn the_end_of_the_other_side_is_seen_from_both_directions() {
        let (a, b) = Channel::pair().expect("pair");
        drop(a);
        assert!(b.recv().expect("recv").is_none());
        assert_eq!(b.send(b"x", &[]).expect_err("send").kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_packet_longer_than_the_bound_is_refused_not_cut() {
        let (a, b) = Channel::pair().expect("pair");
        a.send(&vec![1; MAX_PACKET + 1], &[]).expect("send");
        assert_eq!(b.recv().expect_err("recv").kind(), io::ErrorKind::InvalidData);
    }
}
