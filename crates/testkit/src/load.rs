//! Requests that go on while something else happens, and what became of every one of them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::case::Case;
use crate::wait::eventually;

/// Two clients until the first file is gone: one with a new connection for every request, one that
/// keeps its connection for fifty. `F` is the file, `U` the address. A request without an answer counts
/// as code 0.
const CLIENTS: &str = "touch $F $F.codes; for i in $(seq 50); do echo url=$U; echo output=/dev/null; done > $F.urls; \
    (while [ -e $F ]; do curl -s -m 60 -o /dev/null -w '%{http_code}\\n' $U >> $F.codes; done) & \
    (while [ -e $F ]; do curl -s -m 60 -K $F.urls -w '%{http_code}\\n' >> $F.codes; done) & \
    wait; sort $F.codes | uniq -c; rm -f $F.urls $F.codes";

/// Requests under way.
pub struct Load<'a> {
    case: &'a Case,
    from: &'a str,
    file: String,
}

/// How often each code came.
pub type Codes = BTreeMap<u16, u64>;

impl Load<'_> {
    /// How many requests have been answered, or given up, so far.
    pub async fn count(&self) -> u64 {
        let count = format!("wc -l < {}.codes", self.file);
        let seen = self.case.exec(self.from, &["sh", "-c", &count]).await;
        seen.stdout.trim().parse().unwrap_or(0)
    }

    /// Waits until so many more requests have been answered.
    pub async fn goes_on(&self, more: u64) {
        let before = self.count().await;
        eventually("requests go on", async || {
            let now = self.count().await;
            if now >= before + more { Ok(()) } else { Err(format!("{now} after {before}")) }
        })
        .await;
    }
}

impl Case {
    /// Waits until a first request from the pod of `from`, which has curl, is answered well.
    pub async fn answers(&self, from: &str, url: &str) {
        eventually(&format!("{url} answers"), async || {
            let seen = self.exec(from, &["curl", "-sf", "-m", "10", "-o", "/dev/null", url]).await;
            if seen.code == 0 { Ok(()) } else { Err(format!("{seen:?}")) }
        })
        .await;
    }

    /// Requests from the pod of `from`, which has curl, to `url` all the time that `meanwhile` takes.
    pub async fn under_load(
        &self,
        from: &str,
        url: &str,
        meanwhile: impl AsyncFnOnce(&Load<'_>),
    ) -> Codes {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let file = format!("/tmp/load-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let script = format!("F={file}; U={url}; {CLIENTS}");
        let load = Load { case: self, from, file: file.clone() };
        let command = ["sh", "-c", &script];
        let clients = self.exec(from, &command);
        let work = async {
            load.goes_on(1).await;
            meanwhile(&load).await;
            load.goes_on(100).await;
            self.exec(from, &["rm", &file]).await;
        };
        let (seen, ()) = futures::join!(clients, work);
        let codes: Codes = seen.stdout.lines().filter_map(pair).collect();
        assert!(!codes.is_empty(), "the clients counted nothing: {seen:?}");
        codes
    }
}

/// `  12 200` of `uniq -c`.
fn pair(line: &str) -> Option<(u16, u64)> {
    let (count, code) = line.trim().split_once(' ')?;
    Some((code.trim().parse().ok()?, count.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::pair;

    #[test]
    fn counted_codes_are_read() {
        assert_eq!(pair("    112 200"), Some((200, 112)));
        assert_eq!(pair("      1 000"), Some((0, 1)));
        assert_eq!(pair("uniq: error"), None);
    }
}
