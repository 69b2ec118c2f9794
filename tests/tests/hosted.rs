//! The control plane as a program of this machine, on podlet's API: its command line, its log, its
//! other commands.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::process::{Child, Stdio};

use ironsail_testkit::{Case, binary, case, eventually, install_definitions};
use serde_json::Value;

/// `pilot-discovery discovery`; ended when dropped.
struct Hosted {
    child: Child,
    log: PathBuf,
    _folder: tempfile::TempDir,
}

impl Drop for Hosted {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Hosted {
    /// The command line of a deployment, on ports that nobody has.
    fn start(case: &Case) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut command = ironsail_sys::exec::command(binary("pilot-discovery"));
        command
            .args(["discovery", "--monitoringAddr=127.0.0.1:0", "--log_output_level=default:info"])
            .args(["--log_as_json", "--domain", "cluster.local"])
            .args(["--keepaliveMaxServerConnectionAge", "30m"])
            .args(["--httpAddr=127.0.0.1:0", "--httpsAddr=127.0.0.1:0", "--grpcAddr=127.0.0.1:0"])
            .args(["--secureGRPCAddr=127.0.0.1:0", "--ctrlz_port=0"])
            .args(["--clusterRegistriesNamespace", &case.namespace])
            .arg("--kubeconfig")
            .arg(case.podlet().kubeconfig())
            .env("POD_NAMESPACE", &case.namespace)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap());
        ironsail_sys::exec::die_with_thread(&mut command, ironsail_sys::exec::Signal::SIGTERM);
        Self { child: command.spawn().unwrap(), log, _folder: folder }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Where a port of that flag listens.
    async fn address(&self, flag: &str) -> String {
        let wanted = format!("{flag} listens on ");
        eventually("it listens", async || {
            let log = self.log();
            let line = log.lines().find_map(|line| line.split_once(&wanted));
            let (_, rest) = line.ok_or_else(|| log.clone())?;
            Ok(rest.split('"').next().unwrap_or_default().to_owned())
        })
        .await
    }
}

/// `pilot-discovery` with arguments; standard output of a success.
fn run(args: &[&str]) -> Result<String, String> {
    let output =
        ironsail_sys::exec::command(binary("pilot-discovery")).args(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

#[test]
fn the_command_line_of_a_deployment_starts_it_anywhere() {
    case("hosted", async |case| {
        install_definitions(case.podlet());
        case.sample("httpbin/httpbin.yaml").await;
        let hosted = Hosted::start(case);
        let monitoring = hosted.address("monitoringAddr").await;
        let name = format!("httpbin.{}.svc.cluster.local", case.namespace);
        eventually("it knows the services", async || {
            let page = run(&["request", "GET", "/debug/registryz", "--address", &monitoring])?;
            if page.contains(&name) { Ok(()) } else { Err(page) }
        })
        .await;
        let http = hosted.address("httpAddr").await;
        eventually("it is ready", async || {
            run(&["request", "GET", "/ready", "--address", &http]).map(|_| ())
        })
        .await;
        let metrics = run(&["request", "GET", "metrics", "--address", &monitoring]).unwrap();
        assert!(metrics.contains("pilot_services"), "{metrics}");
        assert!(run(&["request", "GET", "/debug/nonsense", "--address", &http]).is_err());
        // One JSON object a line, with the keys that log pipelines know.
        let log = hosted.log();
        // The last line may be half written.
        let (whole, _) = log.rsplit_once('\n').unwrap();
        for line in whole.lines() {
            let line: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"));
            for key in ["level", "time", "scope", "msg"] {
                assert!(line[key].is_string(), "no {key}: {line}");
            }
            assert!(line["time"].as_str().unwrap().ends_with('Z'), "{line}");
        }
    });
}

#[test]
fn its_other_commands_answer() {
    let short = run(&["version", "--short"]).unwrap();
    assert!(short.starts_with(|c: char| c.is_ascii_digit()), "{short}");
    let long: Value = serde_json::from_str(&run(&["version", "-o", "json"]).unwrap()).unwrap();
    assert!(long.to_string().contains(short.trim()), "{long}");
    for shell in ["bash", "zsh", "fish"] {
        assert!(run(&["completion", shell]).unwrap().contains("pilot-discovery"), "{shell}");
    }
    let said = run(&["discovery", "--log_output_level=nonsense:loud"]).unwrap_err();
    assert!(said.contains("log_output_level"), "{said}");
}
