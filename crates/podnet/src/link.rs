//! Links, addresses and routes of one namespace, through a netlink socket made inside it.
//!
//! In: names and addresses; out: kernel state. Knows nothing of nodes and pods.

use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};

use futures::TryStreamExt;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use ironsail_sys::netns::Netns;
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags};
use rtnetlink::packet_route::link::{InfoData, InfoKind, InfoVeth, LinkMessage};
use rtnetlink::packet_route::route::{RouteMessage, RouteScope};
use rtnetlink::{
    Handle, LinkBridge, LinkBridgePort, LinkMessageBuilder, LinkUnspec, LinkVeth,
    RouteMessageBuilder,
};

use crate::Error;

/// The links of one namespace. The socket closes with the last clone.
#[derive(Clone)]
pub(crate) struct Links(Handle);

/// One end of a virtual cable.
pub(crate) struct End<'a> {
    pub(crate) name: &'a str,
    pub(crate) mac: Option<[u8; 6]>,
    /// The bridge it is plugged into.
    pub(crate) bridge: Option<u32>,
}

impl<'a> End<'a> {
    pub(crate) fn named(name: &'a str) -> Self {
        Self { name, mac: None, bridge: None }
    }
}

impl Links {
    pub(crate) fn open(netns: &Netns) -> Result<Self, Error> {
        let runtime = tokio::runtime::Handle::current();
        let (connection, handle, _) = netns
            .run(|| {
                let _context = runtime.enter();
                rtnetlink::new_connection()
            })
            .map_err(Error::namespace("cannot open a netlink socket"))?
            .map_err(Error::Netlink)?;
        tokio::spawn(connection);
        Ok(Self(handle))
    }

    /// The number of a link, or an error if it is gone.
    pub(crate) async fn index(&self, name: &str) -> Result<u32, Error> {
        let link = self.0.link().get().match_name(name.to_owned()).execute().try_next().await;
        match link.map_err(failed("find the link", name))? {
            Some(link) => Ok(link.header.index),
            None => Err(Error::LinkGone(name.to_owned())),
        }
    }

    /// Makes a bridge that is up and keeps its hardware address whatever is plugged in.
    pub(crate) async fn add_bridge(&self, name: &str, mac: [u8; 6]) -> Result<u32, Error> {
        let bridge = LinkBridge::new(name).address(mac.to_vec()).mcast_snooping(false).up().build();
        self.0.link().add(bridge).execute().await.map_err(failed("create the bridge", name))?;
        self.index(name).await
    }

    /// Makes a cable from this namespace into `peer_netns`. This end is up; the kernel lets the other
    /// one be set up only once both are there.
    pub(crate) async fn add_veth(
        &self,
        here: End<'_>,
        there: End<'_>,
        peer_netns: &Netns,
    ) -> Result<(), Error> {
        let peer = end(LinkMessageBuilder::<LinkUnspec>::new(), &there)
            .setns_by_fd(peer_netns.as_fd().as_raw_fd())
            .build();
        let builder = LinkMessageBuilder::<LinkVeth>::new_with_info_kind(InfoKind::Veth)
            .set_info_data(InfoData::Veth(InfoVeth::Peer(peer)));
        let message = end(builder, &here).up().build();
        self.0.link().add(message).execute().await.map_err(failed("create the link", here.name))
    }

    /// Lets a bridge port talk to the bridge itself but to no other isolated port.
    pub(crate) async fn isolate_port(&self, name: &str) -> Result<(), Error> {
        let index = self.index(name).await?;
        let message = LinkBridgePort::new(index).isolated(true).build();
        self.0.link().set_port(message).execute().await.map_err(failed("isolate the link", name))
    }

    pub(crate) async fn set_up(&self, name: &str, up: bool) -> Result<(), Error> {
        let link = LinkUnspec::new_with_name(name);
        let message: LinkMessage = if up { link.up() } else { link.down() }.build();
        let action = if up { "set up" } else { "set down" };
        self.0.link().set(message).execute().await.map_err(failed(action, name))
    }

    /// Removes a link; one that is gone already is fine.
    pub(crate) async fn delete(&self, name: &str) -> Result<(), Error> {
        let message = LinkUnspec::new_with_name(name).build();
        match self.0.link().del_with_message(message).execute().await {
            Err(e) if is_code(&e, ENODEV) => Ok(()),
            other => other.map_err(failed("delete the link", name)),
        }
    }

    /// Gives a link an address, without the route to its range that the kernel would add and without
    /// the wait for duplicates that IPv6 would do.
    pub(crate) async fn add_address(&self, link: u32, address: IpNet) -> Result<(), Error> {
        let mut request = self.0.address().add(link, address.addr(), address.prefix_len());
        let mut flags = AddressFlags::Noprefixroute;
        if matches!(address, IpNet::V6(_)) {
            flags |= AddressFlags::Nodad;
        }
        request.message_mut().attributes.push(AddressAttribute::Flags(flags));
        request.execute().await.map_err(failed("add the address", &address))
    }

    /// Adds a route, replacing an equal one.
    pub(crate) async fn add_route(&self, route: Route) -> Result<(), Error> {
        let message = route.message().map_err(|source| Error::Route { to: route.to, source })?;
        let added = self.0.route().add(message).replace().execute().await;
        added.map_err(failed("add the route to", &route.to))
    }

    /// Removes a route; one that is gone already is fine.
    pub(crate) async fn delete_route(&self, route: Route) -> Result<(), Error> {
        let message = route.message().map_err(|source| Error::Route { to: route.to, source })?;
        match self.0.route().del(message).execute().await {
            Err(e) if is_code(&e, ESRCH) => Ok(()),
            other => other.map_err(failed("delete the route to", &route.to)),
        }
    }
}

/// A way to a range of addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub(crate) to: IpNet,
    pub(crate) link: u32,
    /// Without one the range is on the link itself.
    pub(crate) gateway: Option<IpAddr>,
    /// The address that this namespace's own packets carry as their source.
    pub(crate) source: Option<IpAddr>,
}

impl Route {
    pub(crate) fn on_link(to: IpNet, link: u32) -> Self {
        Self { to, link, gateway: None, source: None }
    }

    pub(crate) fn via(to: IpNet, link: u32, gateway: IpAddr) -> Self {
        Self { to, link, gateway: Some(gateway), source: None }
    }

    /// The way to everything, in the family of `gateway`.
    pub(crate) fn default_via(link: u32, gateway: IpAddr) -> Self {
        Self::via(everything(gateway), link, gateway)
    }

    fn message(&self) -> Result<RouteMessage, Box<dyn std::error::Error + Send + Sync>> {
        let mut message = RouteMessageBuilder::<IpAddr>::new()
            .destination_prefix(self.to.network(), self.to.prefix_len())?
            .output_interface(self.link);
        message = match self.gateway {
            // The gateway's own address need not be in a range on the link.
            Some(gateway) => message.gateway(gateway)?.onlink(),
            None => message.scope(RouteScope::Link),
        };
        if let Some(source) = self.source {
            message = message.pref_source(source)?;
        }
        Ok(message.build())
    }
}

/// The range of all addresses of a family.
pub(crate) fn everything(family_of: IpAddr) -> IpNet {
    match family_of {
        IpAddr::V4(_) => IpNet::V4(Ipv4Net::default()),
        IpAddr::V6(_) => IpNet::V6(Ipv6Net::default()),
    }
}

fn end<T>(mut builder: LinkMessageBuilder<T>, end: &End<'_>) -> LinkMessageBuilder<T> {
    builder = builder.name(end.name);
    if let Some(mac) = end.mac {
        builder = builder.address(mac.to_vec());
    }
    if let Some(bridge) = end.bridge {
        builder = builder.controller(bridge);
    }
    builder
}

const ESRCH: i32 = 3;
const ENODEV: i32 = 19;

fn is_code(error: &rtnetlink::Error, code: i32) -> bool {
    matches!(error, rtnetlink::Error::NetlinkError(e) if e.raw_code() == -code)
}

fn failed(
    action: &'static str,
    object: &(impl ToString + ?Sized),
) -> impl FnOnce(rtnetlink::Error) -> Error {
    let object = object.to_string();
    move |source| Error::Link { action, object, source: Box::new(source) }
}
