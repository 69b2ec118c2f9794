//! How a container's end is told: reason and last words.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use ironsail_container::ExitStatus;
use k8s_openapi::api::core::v1::Container;

use crate::log::line::Record;

/// Kubernetes' bounds on what a message may hold.
const MAX_MESSAGE: u64 = 4096;
const MAX_LOG_MESSAGE: u64 = 2048;
const MAX_LOG_LINES: usize = 80;

pub fn reason(exit: ExitStatus) -> &'static str {
    match exit {
        ExitStatus { oom_killed: true, .. } => "OOMKilled",
        ExitStatus { code: 0, .. } => "Completed",
        _ => "Error",
    }
}

/// What the program left in its termination file or, if it failed and the manifest wants that, the
/// end of its log.
pub fn message(container: &Container, exit: ExitStatus, file: &Path, log: &Path) -> Option<String> {
    let words = tail(file, MAX_MESSAGE).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let words = words.filter(|w| !w.is_empty());
    let from_logs =
        container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError");
    if words.is_some() || !from_logs || exit.code == 0 {
        return words;
    }
    // Records carry their time and stream, so more is read than is kept.
    let bytes = tail(log, 4 * MAX_LOG_MESSAGE)?;
    let lines: Vec<&[u8]> = bytes.split(|b| *b == b'\n').collect();
    let mut text = String::new();
    for line in &lines[lines.len().saturating_sub(MAX_LOG_LINES + 1)..] {
        if let Some(record) = Record::parse(line) {
            text.push_str(&String::from_utf8_lossy(record.text));
            if record.whole {
                text.push('\n');
            }
        }
    }
    let start = text.len().saturating_sub(usize::try_from(MAX_LOG_MESSAGE).unwrap_or(usize::MAX));
    let start = (start..=text.len()).find(|i| text.is_char_boundary(*i)).unwrap_or(0);
    let text = text.split_off(start);
    (!text.is_empty()).then_some(text)
}

fn tail(path: &Path, most: u64) -> Option<Vec<u8>> {
    let mut file = File::open(path).ok()?;
    let size = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(most))).ok()?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reasons_follow_the_exit() {
        assert_eq!(reason(ExitStatus::exited(0)), "Completed");
        assert_eq!(reason(ExitStatus::exited(3)), "Error");
        assert_eq!(
            reason(ExitStatus { oom_killed: true, ..ExitStatus::signalled(9) }),
            "OOMKilled"
        );
    }

    #[test]
    fn the_log_speaks_only_for_a_failure_that_asks_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let (file, log) = (dir.path().join("m"), dir.path().join("l"));
        std::fs::write(&file, "").unwrap();
        std::fs::write(&log, "2026-01-02T03:04:05.000000006Z stderr F boom\n").unwrap();
        let container = |policy: &str| -> Container {
            serde_json::from_value(json!({"name": "c", "terminationMessagePolicy": policy}))
                .unwrap()
        };
        let failed = ExitStatus::exited(1);
        assert_eq!(message(&container("File"), failed, &file, &log), None);
        assert_eq!(
            message(&container("FallbackToLogsOnError"), failed, &file, &log).as_deref(),
            Some("boom\n")
        );
        assert_eq!(
            message(&container("FallbackToLogsOnError"), ExitStatus::exited(0), &file, &log),
            None
        );
        std::fs::write(&file, "words").unwrap();
        assert_eq!(
            message(&container("FallbackToLogsOnError"), failed, &file, &log).as_deref(),
            Some("words")
        );
    }
}
