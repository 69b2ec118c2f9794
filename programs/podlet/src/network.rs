//! The network as the command line asks for it.

use anyhow::Context;
use ipnet::IpNet;
use ironsail_podnet::{Network, NetworkConfig};

use crate::args::Run;

/// Makes the backbone; nodes and outside hosts are added by others.
pub(crate) async fn create(args: &Run) -> anyhow::Result<Network> {
    let config = config(args);
    ironsail_podnet::check(&config).await.context("looking for what the network needs")?;
    Network::create(config).await.context("making the network")
}

fn config(args: &Run) -> NetworkConfig {
    let v6 = |cidrs: &[IpNet]| cidrs.iter().any(|c| matches!(c, IpNet::V6(_)));
    let dual = args.dual_stack || v6(&args.pod_cidrs) || v6(&args.service_cidrs);
    let mut config = if dual { NetworkConfig::dual_stack() } else { NetworkConfig::ipv4() };
    replace(&mut config.pod_cidrs, &args.pod_cidrs);
    replace(&mut config.service_cidrs, &args.service_cidrs);
    config.egress = args.egress;
    config
}

/// Each given range takes the place of the usual one of its family.
fn replace(usual: &mut [IpNet], given: &[IpNet]) {
    for cidr in given {
        for range in usual.iter_mut() {
            if matches!(
                (&*range, cidr),
                (IpNet::V4(_), IpNet::V4(_)) | (IpNet::V6(_), IpNet::V6(_))
            ) {
                *range = *cidr;
            }
        }
    }
}

/// Host `number` of a range: the API is 1 and DNS is 10 in the Service range, as in every cluster.
pub(crate) fn host(range: &IpNet, number: u8) -> std::net::IpAddr {
    match range {
        IpNet::V4(net) => (u32::from(net.network()) + u32::from(number)).to_be_bytes().into(),
        IpNet::V6(net) => (u128::from(net.network()) + u128::from(number)).to_be_bytes().into(),
    }
}
