//! `pilot-agent request GET PATH`: asks the administration of the proxy beside it.

use anyhow::Context;

use crate::Failure;
use crate::args::Request;
use crate::proxy::Admin;

pub(crate) fn run(args: &Request) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("starting the runtime")?;
    let admin = Admin::new(([127, 0, 0, 1], args.debug_port).into());
    let path = match args.path.starts_with('/') {
        true => args.path.clone(),
        false => format!("/{}", args.path),
    };
    let method = args.method.to_uppercase();
    let answer = match method.as_str() {
        "GET" => runtime.block_on(admin.get(&path)),
        "POST" => runtime.block_on(admin.post(&path)),
        other => return Err(Failure::Settings(vec![format!("{other} is neither GET nor POST")])),
    };
    println!("{}", answer?);
    Ok(())
}
