//! One debug page: its path with the query in, its text out.

use std::collections::BTreeMap;

use ironsail_discovery::{Access, Engine};
use serde_json::Value;

use super::debug;

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) name: String,
    pub(crate) query: BTreeMap<String, String>,
}

pub(crate) struct Page {
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
}

impl Page {
    pub(crate) fn json(value: &Value) -> Self {
        Self { content_type: "application/json", body: format!("{value:#}\n") }
    }
}

impl Asked {
    /// `syncz`, `/debug/config_dump?proxyID=a.b`.
    pub(crate) fn parse(text: &str) -> Self {
        let (path, query) = text.split_once('?').unwrap_or((text, ""));
        let name = path.trim_start_matches('/').trim_start_matches("debug/").trim_matches('/');
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let query = pairs.map(|(k, v)| (k.to_owned(), decoded(v))).collect();
        Self { name: name.to_owned(), query }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.query.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The page, or None if there is none of that name.
    pub(crate) fn answer(&self, engine: &Engine, access: &Access) -> Option<Page> {
        debug::page(self, engine, access)
    }
}

/// `%XX` and `+` of a query.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let hex: Vec<u8> = rest.by_ref().take(2).collect();
                let text = std::str::from_utf8(&hex).unwrap_or_default();
                bytes.push(u8::from_str_radix(text, 16).unwrap_or(b'?'));
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_asked_for_in_every_form() {
        for text in ["syncz", "/debug/syncz", "debug/syncz/"] {
            assert_eq!(Asked::parse(text).name, "syncz");
        }
        let asked = Asked::parse("/debug/config_dump?proxyID=a.b%2Fc&types=");
        assert_eq!((asked.get("proxyID"), asked.get("types")), (Some("a.b/c"), None));
        assert_eq!(decoded("%"), "?");
    }
}
