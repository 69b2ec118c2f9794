//! Waiting for what no single object's watch tells, and words typed to kubectl.

use std::io::Write;
use std::process::{Output, Stdio};
use std::time::Duration;

use crate::case::Case;

const PATIENCE: Duration = Duration::from_secs(180);
const PAUSE: Duration = Duration::from_millis(50);

/// Asks again and again until there is an answer; `wanted` says what for in a failure. The last
/// refusal is told.
#[track_caller]
pub fn eventually<T>(
    wanted: &str,
    mut ask: impl AsyncFnMut() -> Result<T, String>,
) -> impl Future<Output = T> {
    // The place of the caller, because a panic inside a future names this file.
    let place = std::panic::Location::caller();
    async move {
        let mut last = "nothing was heard".to_owned();
        let asking = async {
            loop {
                match ask().await {
                    Ok(answer) => return answer,
                    Err(refusal) => last = refusal,
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        match tokio::time::timeout(PATIENCE, asking).await {
            Ok(answer) => answer,
            Err(_) => panic!("{place}: {wanted}: not within {PATIENCE:?}; last: {last}"),
        }
    }
}

/// Whether a refusal says only that a webhook of the control plane could not be asked.
pub(crate) fn webhook_is_away(refusal: &str) -> bool {
    refusal.contains("failed calling webhook") && refusal.contains("istio.io\"")
}

impl Case {
    /// The real kubectl in this namespace, with `input` on its standard input; again where the control
    /// plane's webhook did not answer.
    pub fn kubectl_output(&self, args: &[&str], input: &str) -> Output {
        for _ in 0..20 {
            let output = self.kubectl_once(args, input);
            if !webhook_is_away(&String::from_utf8_lossy(&output.stderr)) {
                return output;
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        self.kubectl_once(args, input)
    }

    fn kubectl_once(&self, args: &[&str], input: &str) -> Output {
        let mut child = self
            .kubectl()
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl can be started");
        let mut stdin = child.stdin.take().expect("asked for a pipe");
        // It may end without reading; its exit tells the rest.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        child.wait_with_output().expect("kubectl can be waited for")
    }

    /// What kubectl printed; it must succeed.
    #[track_caller]
    pub fn kubectl_says(&self, args: &[&str]) -> String {
        let output = self.kubectl_output(args, "");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "kubectl {}: {stdout}{stderr}", args.join(" "));
        stdout
    }

    /// What kubectl complained of; it must fail.
    #[track_caller]
    pub fn kubectl_refuses(&self, args: &[&str]) -> String {
        let output = self.kubectl_output(args, "");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert!(!output.status.success(), "kubectl {} succeeded: {stdout}", args.join(" "));
        stderr
    }
}

#[cfg(test)]
mod tests {
    use super::webhook_is_away;

    #[test]
    fn only_hooks_of_the_control_plane_are_asked_again() {
        let away =
            "Internal error occurred: failed calling webhook \"rev.validation.istio.io\": refused";
        assert!(webhook_is_away(away));
        assert!(!webhook_is_away("failed calling webhook \"hook.example.com\": refused"));
        let denied = "admission webhook \"rev.validation.istio.io\" denied the request: no route";
        assert!(!webhook_is_away(denied));
    }
}
