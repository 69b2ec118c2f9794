//! A folder of YAML and JSON files as events.
//!
//! In: a folder, watched. Out: events and findings. Files may be edited in place, replaced by
//! renaming, swapped as a Kubernetes volume does it, or written slowly: after every sign of change
//! the tree is looked at once it is quiet, and only files that changed are read again. A document
//! that is broken costs only itself; objects that its file had before stay as they were.

mod document;
mod folder;
mod scan;
#[cfg(test)]
mod tests;
mod watch;
pub(crate) use watch::Watch;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use ironsail_api::{ClusterId, Event, Kind};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::board::Board;
use crate::selection::Selected;
use crate::table::Table;

use folder::{Folder, State};

/// How long the tree must be quiet before it is read, and how long that is waited for at most.
const QUIET: Duration = Duration::from_millis(30);
const PATIENCE: Duration = Duration::from_secs(1);
/// How often the tree is looked at although nothing was heard: not every file system tells.
const LOOK_EVERY: Duration = Duration::from_secs(15);

#[derive(Clone, Debug)]
pub struct Config {
    /// A folder, or one file.
    pub path: PathBuf,
    pub cluster: ClusterId,
    /// Of objects that name none.
    pub namespace: String,
}

/// Watches until `stop`, or until nobody takes the events.
pub async fn run(
    config: Config,
    events: mpsc::Sender<Event>,
    board: Board,
    stop: CancellationToken,
) {
    let mut watch = Watch::new(config.path.clone());
    let mut source = Source {
        folder: Some(Folder::new(config.path.clone(), config.namespace.clone())),
        tables: BTreeMap::new(),
        config,
        events,
        board,
    };
    let mut first = true;
    loop {
        watch.arm();
        if source.look().await.is_err() {
            return;
        }
        if std::mem::take(&mut first) && source.synced().await.is_err() {
            return;
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = source.events.closed() => return,
            () = watch.stirred() => watch.quiet(QUIET, PATIENCE).await,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

struct Source {
    config: Config,
    /// Away while it is being read.
    folder: Option<Folder>,
    tables: BTreeMap<Kind, Table>,
    events: mpsc::Sender<Event>,
    board: Board,
}

struct Closed;

impl Source {
    async fn send(&self, event: Event) -> Result<(), Closed> {
        self.events.send(event).await.map_err(|_| Closed)
    }

    async fn synced(&self) -> Result<(), Closed> {
        for kind in Kind::ALL {
            let event = Event::Synced { cluster: self.config.cluster.clone(), kind: *kind };
            self.send(event).await?;
        }
        Ok(())
    }

    /// Reads what changed, and tells what it means.
    async fn look(&mut self) -> Result<(), Closed> {
        let mut folder = self.folder.take().expect("put back below, after every read");
        let read = tokio::task::spawn_blocking(move || {
            let changed = folder.read();
            (folder, changed)
        });
        let (folder, changed) = match read.await {
            Ok(read) => read,
            Err(error) => {
                tracing::error!(%error, "reading the folder of configuration");
                return Err(Closed);
            }
        };
        let state = changed.then(|| folder.state(&self.config.cluster));
        self.folder = Some(folder);
        match state {
            Some(state) => self.tell(state).await,
            None => Ok(()),
        }
    }

    async fn tell(&mut self, state: State) -> Result<(), Closed> {
        let prefix = self.config.path.display().to_string();
        self.board.set_places(&prefix, &state.places);
        for table in self.tables.values_mut() {
            table.begin();
        }
        let mut told = Vec::new();
        for (key, object) in state.objects {
            let cluster = &self.config.cluster;
            let table = self.tables.entry(key.kind);
            let table =
                table.or_insert_with(|| Table::new(cluster.clone(), key.kind, Selected::All));
            match object {
                Some(object) => told.extend(table.apply(object)),
                None => table.touch(&key.namespace, &key.name),
            }
        }
        for (key, diagnostics) in state.diagnostics {
            self.board.set(&key, 0, diagnostics);
        }
        for table in self.tables.values_mut() {
            let (gone, events) = table.listed();
            for key in gone {
                self.board.clear(&key);
            }
            told.extend(events);
        }
        for event in told {
            self.send(event).await?;
        }
        Ok(())
    }
}
