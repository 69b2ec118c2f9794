//! A source that is told what to say: for tests, and for whoever has objects already.
//!
//! In: objects as YAML or JSON. Out: events, and findings on the board. It behaves as the others do:
//! what did not change is not told, what cannot be read keeps its last good state.

use std::collections::BTreeMap;

use ironsail_api::{ClusterId, Event, Kind, Object, ObjectKey, decode_any};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::board::Board;
use crate::selection::Selected;
use crate::table::Table;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("reading YAML")]
    Yaml(#[from] ironsail_yaml::Error),
    #[error("{api_version} {kind} is no kind that a mesh uses")]
    Kind { api_version: String, kind: String },
    #[error("nobody takes events any more")]
    Closed,
}

pub struct Memory {
    cluster: ClusterId,
    events: mpsc::Sender<Event>,
    board: Board,
    tables: BTreeMap<Kind, Table>,
}

impl Memory {
    pub fn new(cluster: ClusterId, events: mpsc::Sender<Event>, board: Board) -> Self {
        Self { cluster, events, board, tables: BTreeMap::new() }
    }

    /// What is wrong with what was applied.
    pub fn board(&self) -> &Board {
        &self.board
    }

    fn table(&mut self, kind: Kind) -> &mut Table {
        let cluster = &self.cluster;
        let new = || Table::new(cluster.clone(), kind, Selected::All);
        self.tables.entry(kind).or_insert_with(new)
    }

    async fn send(&self, event: Option<Event>) -> Result<(), Error> {
        match event {
            Some(event) => self.events.send(event).await.map_err(|_| Error::Closed),
            None => Ok(()),
        }
    }

    pub async fn apply(&mut self, object: Object) -> Result<(), Error> {
        let event = self.table(object.kind()).apply(object);
        self.send(event).await
    }

    /// Every object of a YAML text.
    pub async fn apply_yaml(&mut self, text: &str) -> Result<(), Error> {
        for document in ironsail_yaml::documents(text)? {
            self.apply_value(&document).await?;
        }
        Ok(())
    }

    /// An object that cannot be used goes to the board, and is no error.
    pub async fn apply_value(&mut self, value: &Value) -> Result<(), Error> {
        let Some(decoded) = decode_any(value) else {
            let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
            return Err(Error::Kind { api_version: text("apiVersion"), kind: text("kind") });
        };
        match decoded.object {
            Ok(object) => {
                let generation = object.meta().generation;
                self.board.set(&object.key(&self.cluster), generation, decoded.diagnostics);
                self.apply(object).await
            }
            Err(error) => {
                let key = self.table(error.kind).key(&error.namespace, &error.name);
                let generation = value["metadata"]["generation"].as_i64().unwrap_or(0);
                self.board.set(&key, generation, decoded.diagnostics);
                Ok(())
            }
        }
    }

    pub async fn delete(&mut self, key: &ObjectKey) -> Result<(), Error> {
        let event = self.table(key.kind).delete(&key.namespace, &key.name);
        self.board.clear(key);
        self.send(event).await
    }

    /// Says of every kind that all there is has been told.
    pub async fn synced(&self) -> Result<(), Error> {
        for kind in Kind::ALL {
            let event = Event::Synced { cluster: self.cluster.clone(), kind: *kind };
            self.send(Some(event)).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_bad_object_keeps_its_last_good_state_and_is_on_the_board() {
        let (sender, mut events) = crate::channel();
        let board = Board::default();
        let mut memory = Memory::new("c".into(), sender, board.clone());
        let text = |hosts: &str| {
            format!(
                "{{apiVersion: networking.istio.io/v1, kind: VirtualService, \
                 metadata: {{name: v, namespace: shop}}, spec: {{hosts: {hosts}}}}}"
            )
        };
        memory.apply_yaml(&text("[a]")).await.unwrap();
        memory.apply_yaml(&text("5")).await.unwrap();
        assert_eq!(board.findings().objects.len(), 1);
        memory.apply_yaml(&text("[b]")).await.unwrap();
        assert_eq!(board.findings().objects.len(), 0);
        let mut told = Vec::new();
        while let Ok(event) = events.try_recv() {
            told.push(event);
        }
        assert_eq!(told.len(), 2, "{told:?}");
        let error = memory.apply_yaml("{apiVersion: apps/v1, kind: Deployment}").await.unwrap_err();
        assert!(error.to_string().contains("Deployment"));
    }
}
