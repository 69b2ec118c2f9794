//! Forgetting tracked UDP flows whose endpoint is gone.
//!
//! In: endpoints that no longer serve; out: the kernel's flow table without flows that a Service
//! rule once sent to them, so that the next datagram picks a new endpoint. TCP needs none of it: a
//! connection to a dead endpoint ends by itself.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ironsail_sys::netns::Netns;
use rtnetlink::sys::{Socket, SocketAddr as NetlinkAddr};

use crate::Error;

const NETLINK_NETFILTER: isize = 12;
const CT_GET: u16 = 0x101;
const CT_DELETE: u16 = 0x102;
const CT_NEW: u16 = 0x100;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const REQUEST: u16 = 1;
const ACK: u16 = 4;
const DUMP: u16 = 0x300;
const UDP: u8 = 17;
const ENOENT: i32 = 2;

/// Forgets the flows of `netns` that lead to `endpoints`.
pub(crate) async fn forget(netns: &Netns, endpoints: BTreeSet<SocketAddr>) -> Result<(), Error> {
    let netns = netns.clone();
    let done = tokio::task::spawn_blocking(move || netns.run(|| forget_here(&endpoints))).await;
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
        .map_err(Error::namespace("cannot read a node's tracked flows"))?
        .map_err(Error::Conntrack)
}

fn forget_here(endpoints: &BTreeSet<SocketAddr>) -> io::Result<()> {
    let mut stale = Vec::new();
    for family in [libc_family::INET, libc_family::INET6] {
        let mut socket = open()?;
        socket.send(&message(CT_GET, REQUEST | DUMP, family, &[]), 0)?;
        read_answers(&mut socket, |kind, body| {
            if let Some(flow) = (kind == CT_NEW).then(|| Flow::parse(body)).flatten()
                && flow.leads_to(endpoints)
            {
                stale.push((family, flow.original));
            }
        })?;
    }
    let mut socket = open()?;
    for (family, original) in stale {
        socket.send(&message(CT_DELETE, REQUEST | ACK, family, &original), 0)?;
        read_answers(&mut socket, |_, _| ())?;
    }
    Ok(())
}

mod libc_family {
    pub(super) const INET: u8 = 2;
    pub(super) const INET6: u8 = 10;
}

fn open() -> io::Result<Socket> {
    let socket = Socket::new(NETLINK_NETFILTER)?;
    socket.connect(&NetlinkAddr::new(0, 0))?;
    Ok(socket)
}

/// A netlink message: its header, netfilter's own header, and attributes.
fn message(kind: u16, flags: u16, family: u8, attributes: &[u8]) -> Vec<u8> {
    let length = 20 + attributes.len();
    let mut bytes = Vec::with_capacity(length);
    bytes.extend(u32::try_from(length).unwrap_or(u32::MAX).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([family, 0, 0, 0]);
    bytes.extend(attributes);
    bytes
}

/// Reads until the kernel says done or acknowledges; gives each message's body to `take`.
fn read_answers(socket: &mut Socket, mut take: impl FnMut(u16, &[u8])) -> io::Result<()> {
    loop {
        let (datagram, _) = socket.recv_from_full()?;
        let mut rest = &datagram[..];
        while let Some((header, _)) = rest.split_at_checked(16) {
            let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
            let kind = u16::from_ne_bytes([header[4], header[5]]);
            let Some(whole) = rest.get(..length).filter(|_| length >= 16) else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            let body = &whole[16..];
            match kind {
                NLMSG_DONE => return Ok(()),
                NLMSG_ERROR => {
                    let code = body.first_chunk().map_or(0, |c| i32::from_ne_bytes(*c));
                    // A flow that ended meanwhile is what we wanted.
                    return if code == 0 || code == -ENOENT {
                        Ok(())
                    } else {
                        Err(io::Error::from_raw_os_error(-code))
                    };
                }
                _ => take(kind, body),
            }
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
    }
}

/// A tracked flow, as far as we need it.
struct Flow {
    /// The attribute that names the flow to the kernel.
    original: Vec<u8>,
    protocol: u8,
    called: SocketAddr,
    answered_by: SocketAddr,
}

impl Flow {
    fn parse(body: &[u8]) -> Option<Self> {
        let attributes = body.get(4..)?;
        let (original, whole) = find(attributes, 1)?;
        let (reply, _) = find(attributes, 2)?;
        let protocol = *find(find(original, 2)?.0, 1)?.0.first()?;
        let called = SocketAddr::new(address(original, 2, 4)?, port(original, 3)?);
        let answered_by = SocketAddr::new(address(reply, 1, 3)?, port(reply, 2)?);
        Some(Self { original: whole.to_vec(), protocol, called, answered_by })
    }

    fn leads_to(&self, endpoints: &BTreeSet<SocketAddr>) -> bool {
        self.protocol == UDP
            && self.called != self.answered_by
            && endpoints.contains(&self.answered_by)
    }
}

/// The value of the attribute `wanted`, and the attribute whole with its padding.
fn find(mut attributes: &[u8], wanted: u16) -> Option<(&[u8], &[u8])> {
    loop {
        let header = attributes.get(..4)?;
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        // The two highest bits say "nested" and "network order".
        let kind = u16::from_ne_bytes([header[2], header[3]]) & 0x3fff;
        let value = attributes.get(4..length)?;
        let padded = length.next_multiple_of(4).min(attributes.len());
        if kind == wanted {
            return Some((value, &attributes[..padded]));
        }
        attributes = &attributes[padded..];
    }
}

fn address(tuple: &[u8], v4: u16, v6: u16) -> Option<IpAddr> {
    let (ips, _) = find(tuple, 1)?;
    if let Some((bytes, _)) = find(ips, v4) {
        return Some(Ipv4Addr::from(*bytes.first_chunk::<4>()?).into());
    }
    Some(Ipv6Addr::from(*find(ips, v6)?.0.first_chunk::<16>()?).into())
}

fn port(tuple: &[u8], kind: u16) -> Option<u16> {
    let (value, _) = find(find(tuple, 2)?.0, kind)?;
    Some(u16::from_be_bytes(*value.first_chunk()?))
}
