//! Keeps every wanted key set fresh: a task for each, a few fetches at the same time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ironsail_model::{Fetched, KeySource};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinHandle;

use crate::fetch::Fetcher;
use crate::trust::Trust;

/// How long a fetch may take, if no rule says.
const WITHIN: Duration = Duration::from_secs(5);
/// No rule may hold a fetch longer.
const LONGEST: Duration = Duration::from_secs(60);
const AT_ONCE: usize = 8;
/// What a mesh has of issuers is far below it; each costs a task and goes to proxies.
const MOST: usize = 512;
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(60);

/// Wanted keys, and how long a fetch of each may take.
pub type Wanted = Arc<BTreeMap<KeySource, Option<Duration>>>;

/// News of one source; none if nobody wants it any more.
pub type Update = (KeySource, Option<Fetched>);

#[derive(Clone, Debug)]
pub struct Settings {
    /// How old keys may get.
    pub refresh: Duration,
    pub trust: Trust,
}

/// Runs until nobody listens any more.
pub async fn run(
    settings: Settings,
    mut wanted: watch::Receiver<Wanted>,
    out: mpsc::Sender<Update>,
) {
    let shared = Shared {
        fetcher: Fetcher::new(&settings.trust),
        turns: Arc::new(Semaphore::new(AT_ONCE)),
        refresh: settings.refresh.max(FIRST_RETRY),
        out,
    };
    let mut tasks: BTreeMap<KeySource, Task> = BTreeMap::new();
    loop {
        let now = wanted.borrow_and_update().clone();
        let gone: Vec<_> = tasks.keys().filter(|s| !now.contains_key(*s)).cloned().collect();
        for source in gone {
            tasks.remove(&source);
            if shared.out.send((source, None)).await.is_err() {
                return;
            }
        }
        for (source, within) in now.iter() {
            let within = within.unwrap_or(WITHIN).min(LONGEST);
            if tasks.get(source).is_some_and(|task| task.within == within) {
                continue;
            }
            if tasks.len() >= MOST && !tasks.contains_key(source) {
                let why = format!("the mesh has more than {MOST} sources of keys");
                let news = (source.clone(), Some(Fetched::Failed(why.into())));
                if shared.out.send(news).await.is_err() {
                    return;
                }
                continue;
            }
            let handle = tokio::spawn(shared.clone().keep(source.clone(), within));
            tasks.insert(source.clone(), Task { within, handle });
        }
        tokio::select! {
            changed = wanted.changed() => if changed.is_err() { return },
            () = shared.out.closed() => return,
        }
    }
}

struct Task {
    within: Duration,
    handle: JoinHandle<()>,
}

impl Drop for Task {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

#[derive(Clone)]
struct Shared {
    fetcher: Fetcher,
    turns: Arc<Semaphore>,
    refresh: Duration,
    out: mpsc::Sender<Update>,
}

impl Shared {
    async fn keep(self, source: KeySource, within: Duration) {
        let (mut known, mut retry) = (false, FIRST_RETRY);
        loop {
            let fetched = match self.turns.acquire().await {
                Ok(_turn) => self.fetcher.keys(&source, within).await,
                Err(_) => return,
            };
            let (news, pause) = match fetched {
                Ok(keys) => {
                    (known, retry) = (true, FIRST_RETRY);
                    (Some(Fetched::Keys(keys.into())), self.refresh)
                }
                Err(error) => {
                    let why = error.line();
                    tracing::warn!("fetching keys of {source}: {why}");
                    let pause = retry.min(self.refresh);
                    retry = (retry * 2).min(LAST_RETRY);
                    // Old keys are better than none.
                    ((!known).then(|| Fetched::Failed(why.into())), pause)
                }
            };
            if let Some(news) = news
                && self.out.send((source.clone(), Some(news))).await.is_err()
            {
                return;
            }
            tokio::time::sleep(pause).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Answers the first time with nothing, then with keys that count up.
    async fn rotating() -> KeySource {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = format!("http://{}/", listener.local_addr().unwrap());
        tokio::spawn(async move {
            for count in 0.. {
                let (mut io, _) = listener.accept().await.unwrap();
                let _ = io.read(&mut [0; 4096]).await;
                let body = format!(r#"{{"keys":[{{"kid":"{count}"}}]}}"#);
                let status = if count == 0 { "500 Oops" } else { "200 OK" };
                let text =
                    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                let _ = io.write_all(text.as_bytes()).await;
            }
        });
        KeySource::Uri(at.into())
    }

    #[tokio::test]
    async fn keys_are_tried_again_refreshed_and_forgotten() {
        let source = rotating().await;
        let trust = Trust::read(Vec::<String>::new());
        let settings = Settings { refresh: Duration::from_secs(1), trust };
        let (sender, wanted) = watch::channel(Wanted::default());
        let (out, mut news) = mpsc::channel(8);
        tokio::spawn(run(settings, wanted, out));
        sender.send_replace(Arc::new([(source.clone(), None)].into()));
        let keys = |kid: u32| Fetched::Keys(format!(r#"{{"keys":[{{"kid":"{kid}"}}]}}"#).into());
        let (from, first) = news.recv().await.unwrap();
        assert_eq!(from, source);
        assert!(matches!(first, Some(Fetched::Failed(_))), "{first:?}");
        assert_eq!(news.recv().await.unwrap(), (source.clone(), Some(keys(1))));
        assert_eq!(news.recv().await.unwrap(), (source.clone(), Some(keys(2))));
        sender.send_replace(Wanted::default());
        loop {
            // A refresh may have been underway.
            let (_, last) = news.recv().await.unwrap();
            if last.is_none() {
                break;
            }
        }
    }
}
