//! A node with real containers, a real pod network and podlet's own API, as root or as an ordinary
//! user.
//!
//! The program forks the zygote first thing, like podlet does, so it brings its own small harness:
//! `cargo test -p ironsail-kubelet --test node [PART-OF-A-NAME]`. It prints what cargo's own
//! harness prints. Tests run side by side, each in a namespace of its own.

mod bench;
mod life;
mod sight;
mod stream;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bench::Bench;
use ironsail_container::ForkedZygote;
use ironsail_sys::userns::enter_if_unprivileged;

type Test = (&'static str, fn(Arc<Bench>) -> Pin<Box<dyn Future<Output = ()> + Send>>);

/// Lists test functions under their own names.
macro_rules! tests {
    ($($module:ident :: $name:ident),* $(,)?) => {
        &[$((concat!(stringify!($module), "::", stringify!($name)), |bench| Box::pin($module::$name(bench)))),*]
    };
}

const TESTS: &[Test] = tests![
    sight::a_pod_sees_its_names_environment_and_volumes,
    sight::files_follow_their_config_map,
    sight::users_groups_and_capabilities_are_as_asked,
    sight::a_pod_on_the_host_network_is_on_the_node,
    life::probes_go_over_the_pod_network,
    life::ends_are_told_with_code_reason_and_last_words,
    life::a_sidecar_outlives_the_main_container_and_is_stopped,
    life::a_deleted_pod_leaves_nothing,
    life::fifty_pods_are_ready_soon,
    stream::logs_are_followed_across_the_life_of_a_container,
    stream::commands_run_with_their_streams_and_codes,
    stream::ports_are_reached_on_loopback,
];

/// Run by itself after all others, for it stops the node.
const LAST: Test = ("life::a_node_that_comes_back_runs_its_pods_anew", |bench| {
    Box::pin(life::a_node_that_comes_back_runs_its_pods_anew(bench))
});

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let filter = arguments.iter().find(|a| !a.starts_with('-')).cloned().unwrap_or_default();
    let all: Vec<&Test> = TESTS.iter().chain([&LAST]).collect();
    let chosen: Vec<&Test> =
        all.iter().copied().filter(|(name, _)| name.contains(&filter)).collect();
    if arguments.iter().any(|a| a == "--list") {
        chosen.iter().for_each(|(name, _)| println!("{name}: test"));
        return;
    }
    if let Err(error) = enter_if_unprivileged() {
        eprintln!("cannot test a node here: {error}");
        std::process::exit(1);
    }
    let zygote = ForkedZygote::fork().expect("zygote");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let failed = runtime.expect("runtime").block_on(run(zygote, &chosen));
    println!(
        "\ntest result: {}. {} passed; {failed} failed; 0 ignored; 0 measured; {} filtered out\n",
        if failed == 0 { "ok" } else { "FAILED" },
        chosen.len() - failed,
        all.len() - chosen.len(),
    );
    std::process::exit(i32::from(failed > 0));
}

async fn run(zygote: ForkedZygote, chosen: &[&Test]) -> usize {
    println!("\nrunning {} tests", chosen.len());
    let bench = Arc::new(Bench::new(zygote).await);
    let (last, others): (Vec<&Test>, Vec<&Test>) =
        chosen.iter().partition(|(name, _)| *name == LAST.0);
    let together = others.iter().map(|test| one(&bench, test));
    let mut failed = futures::future::join_all(together).await.into_iter().filter(|ok| !ok).count();
    for test in last {
        failed += usize::from(!one(&bench, test).await);
    }
    bench.tidy_up().await;
    failed
}

async fn one(bench: &Arc<Bench>, (name, test): &Test) -> bool {
    let task = tokio::spawn(test(bench.clone()));
    let abort = task.abort_handle();
    let passed = match tokio::time::timeout(Duration::from_secs(60), task).await {
        Ok(outcome) => outcome.is_ok(),
        Err(_) => {
            abort.abort();
            eprintln!("{name} hangs");
            false
        }
    };
    if !passed {
        bench.explain(name).await;
    }
    println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
    passed
}
