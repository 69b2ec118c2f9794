//! What can go wrong while a network is made or changed.

use std::io;

use ipnet::IpNet;
use ironsail_sys::netns;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "pod, service and backbone ranges must each be one IPv4 range, or one IPv4 and one IPv6 range"
    )]
    Families,
    #[error("the ranges {a} and {b} overlap")]
    Overlap { a: IpNet, b: IpNet },
    #[error("no room for {what} in {range}")]
    NoRoom { what: &'static str, range: IpNet },
    #[error("there is a {what} named {name} already")]
    Exists { what: &'static str, name: String },
    #[error("the address {address} of {name} lies in {range}, which podlet uses itself")]
    AddressInside { name: String, address: std::net::IpAddr, range: IpNet },
    #[error("{what}")]
    Namespace { what: &'static str, source: netns::Error },
    #[error("cannot open a netlink socket")]
    Netlink(#[source] io::Error),
    #[error("cannot {action} {object}")]
    Link { action: &'static str, object: String, source: Box<rtnetlink::Error> },
    #[error("no valid route to {to}")]
    Route { to: IpNet, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("the link {0} is gone")]
    LinkGone(String),
    #[error("cannot listen at {at} inside podlet's network")]
    Listen { at: std::net::SocketAddr, source: io::Error },
    #[error("the program nft is not there: install it (Debian: apt install nftables)")]
    NoNft,
    #[error("cannot run nft")]
    RunNft(#[source] io::Error),
    #[error("nft refused {what}: {message}")]
    Nft { what: &'static str, message: String },
    #[error("cannot forget the tracked flows of removed endpoints")]
    Conntrack(#[source] io::Error),
    #[error("this kernel cannot make {what}, which podlet needs: {hint}")]
    Missing { what: &'static str, hint: &'static str, source: Box<Error> },
}

impl Error {
    pub(crate) fn namespace(what: &'static str) -> impl Fn(netns::Error) -> Self {
        move |source| Self::Namespace { what, source }
    }
}
