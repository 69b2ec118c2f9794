//! Putting the parts together, and taking them down again in the right order.

use anyhow::Context;
use ironsail_container::{ForkedZygote, ZygoteOptions};

use crate::api::Api;
use crate::args::Run;
use crate::data::{self, Data};
use crate::network;

pub(crate) async fn run(args: &Run, zygote: ForkedZygote) -> anyhow::Result<()> {
    let stop = ironsail_daemon::signal::stop_on_signals().context("watching for signals")?;
    let data = Data::open(&args.data)?;
    let instance = data.remembered("instance", || format!("podlet-{}", std::process::id()))?;
    let stage = data.folder("stage")?;
    let zygote =
        zygote.connect(&ZygoteOptions { stage, instance }).context("reaching the zygote")?;
    let network = network::create(args).await?;
    let mut api = Api::open(args, &data, &network).await?;
    let served = api.serve(&stop)?;
    data::write_whole(&args.kubeconfig, &api.kubeconfig())?;
    tokio::select! {
        () = zygote.lost() => anyhow::bail!("zygote lost"),
        () = served => {}
    }
    Ok(())
}
