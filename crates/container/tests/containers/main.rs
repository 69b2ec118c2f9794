//! Containers in real namespaces, as root and as an ordinary user.
//!
//! The program forks the zygote first thing, like podlet does, so it brings its own small harness:
//! `cargo test -p ironsail-container --test containers [PART-OF-A-NAME]`. It prints what cargo's own
//! harness prints. Called with `--podlet DIR ID` it plays a program that is
//! going to be killed, with `--rights` one that only asks for its rights.

mod bench;
mod command;
mod isolation;
mod life;
mod limit;
mod root;
mod start;
mod user;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bench::Bench;
use ironsail_container::ForkedZygote;
use ironsail_sys::userns::{Privilege, enter_if_unprivileged};

type Test = (&'static str, fn(Arc<Bench>) -> Pin<Box<dyn Future<Output = ()> + Send>>);

/// Lists test functions under their own names.
macro_rules! tests {
    ($($module:ident :: $name:ident),* $(,)?) => {
        &[$((concat!(stringify!($module), "::", stringify!($name)), |bench| Box::pin($module::$name(bench)))),*]
    };
}

const TESTS: &[Test] = tests![
    start::exit_codes_and_streams_arrive,
    start::standard_input_is_passed_and_its_end_seen,
    start::environment_directory_and_host_name_are_as_given,
    start::unknown_and_unfit_programs_are_told_apart_from_exit_codes,
    start::senseless_specs_are_refused_in_words,
    start::large_environments_pass,
    start::a_container_with_a_terminal_has_one,
    life::signals_reach_the_program_and_show_in_its_status,
    life::a_killed_container_leaves_no_process,
    life::a_dropped_container_is_killed,
    life::a_start_that_nobody_waits_for_is_undone,
    life::orphans_are_reaped,
    life::what_a_program_leaves_behind_ends_with_it,
    life::containers_of_a_pod_can_share_process_ids,
    life::fifty_containers_start_at_once,
    life::killing_the_program_kills_every_container_of_its_own_only,
    command::a_command_runs_in_the_container_with_its_environment_and_user,
    command::a_command_with_a_terminal_sees_its_size,
    command::a_dropped_session_kills_its_command,
    command::a_command_in_an_ended_container_is_refused,
    command::a_command_that_is_not_there_is_told,
    root::the_host_root_is_seen_but_not_changed,
    root::a_directory_can_be_the_root,
    root::file_systems_mounted_below_are_seen,
    root::a_read_only_root_leaves_volumes_as_asked,
    root::volumes_files_and_programs_are_put_in_place,
    root::mount_points_are_made_anywhere,
    root::masked_paths_are_empty,
    root::the_mount_table_of_the_program_stays_as_it_was,
    isolation::processes_and_kernel_files_are_the_containers_own,
    isolation::the_network_namespace_is_the_given_one,
    isolation::sysctls_are_set_in_the_network_namespace,
    user::the_process_runs_as_the_given_user_and_groups,
    user::low_ports_take_a_capability,
    user::packet_rules_take_net_admin,
    user::new_privileges_can_be_refused,
    user::an_ordinary_user_is_told_what_is_missing,
    limit::too_much_memory_is_told_as_such_or_limits_are_refused,
    limit::process_limits_hold_or_are_refused,
    limit::memory_of_twenty_containers_is_small,
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|a| a == "--podlet") {
        return life::play_podlet(&arguments[1..]);
    }
    if arguments.first().is_some_and(|a| a == "--rights") {
        return user::try_rights();
    }
    let filter = arguments.iter().find(|a| !a.starts_with('-')).cloned().unwrap_or_default();
    let chosen: Vec<&Test> = TESTS.iter().filter(|(name, _)| name.contains(&filter)).collect();
    if arguments.iter().any(|a| a == "--list") {
        chosen.iter().for_each(|(name, _)| println!("{name}: test"));
        return;
    }
    let privilege = enter_if_unprivileged().unwrap_or_else(|e| {
        eprintln!("cannot test containers here: {e}");
        std::process::exit(1);
    });
    let zygote = ForkedZygote::fork().expect("zygote");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("runtime");
    let failed = runtime.block_on(run(zygote, privilege, &chosen));
    println!(
        "\ntest result: {}. {} passed; {failed} failed; 0 ignored; 0 measured; {} filtered out\n",
        if failed == 0 { "ok" } else { "FAILED" },
        chosen.len() - failed,
        TESTS.len() - chosen.len(),
    );
    // The runtime goes with the process, and every container with it.
    std::process::exit(i32::from(failed > 0));
}

async fn run(zygote: ForkedZygote, privilege: Privilege, chosen: &[&Test]) -> usize {
    println!("\nrunning {} tests as {privilege:?}", chosen.len());
    let bench = Arc::new(Bench::new(zygote, privilege));
    let mut failed = 0;
    for (name, test) in chosen {
        let task = tokio::spawn(test(Arc::clone(&bench)));
        let abort = task.abort_handle();
        let passed = match tokio::time::timeout(Duration::from_secs(60), task).await {
            // Its handles are dropped now, so everything it started has to go away.
            Ok(outcome) => bench.is_quiet().await && outcome.is_ok(),
            Err(_) => {
                abort.abort();
                eprintln!("{name} hangs");
                false
            }
        };
        println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
        failed += usize::from(!passed);
    }
    bench.tidy_up().await;
    failed
}
