//! echo: a server that reports everything it sees as JSON, and a client that speaks to it in every
//! protocol a mesh carries.
//!
//! `echo serve` is the far end of tests; `echo call URL` runs inside a pod and prints, one JSON
//! object a line, what came back; `echo load URL` sends many and prints how they ended.

mod call;
mod connect;
mod grpc;
mod http;
mod limit;
mod report;
mod serve;
mod tcp;
mod tls;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(version, about = "Reports everything it sees as JSON; and the client for it")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Listen and report.
    Serve(serve::Args),
    /// Send requests and print what came back.
    Call(call::Args),
    /// Send many requests and print how they ended.
    Load(call::load::Args),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let result = match Args::parse().command {
        Command::Serve(args) => serve::run(args).await.map(|()| true),
        Command::Call(args) => call::run(args).await,
        Command::Load(args) => call::load::run(args).await,
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("echo: {error:#}");
            ExitCode::from(2)
        }
    }
}
