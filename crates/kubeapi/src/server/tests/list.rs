//! Lists: selectors, pages, revisions and shapes.

use http::Method;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::{Bench, MAPS, map};

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

async fn filled() -> Bench {
    let bench = Bench::new().await;
    for name in ["a", "b", "c", "d", "e"] {
        let mut object = map(name);
        object["metadata"]["labels"] = json!({"odd": (name != "b" && name != "d").to_string()});
        bench.post(MAPS, &object).await;
    }
    bench
}

#[tokio::test]
async fn selectors_choose() {
    let bench = filled().await;
    let maps = bench.config_maps();
    let count = async |params: ListParams| maps.list(&params).await.unwrap().items.len();
    assert_eq!(count(ListParams::default()).await, 5);
    assert_eq!(count(ListParams::default().labels("odd=true")).await, 3);
    assert_eq!(count(ListParams::default().labels("odd notin (true)")).await, 2);
    assert_eq!(count(ListParams::default().fields("metadata.name=c")).await, 1);
    assert_eq!(count(ListParams::default().labels("odd").fields("metadata.name!=c")).await, 4);
}

#[tokio::test]
async fn pages_together_show_one_state() {
    let bench = filled().await;
    let (_, first) = bench.get(&format!("{MAPS}?limit=2")).await;
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    bench.post(MAPS, &map("bb")).await;
    bench.delete(&format!("{MAPS}/d"), &Value::Null).await;
    let mut seen = Vec::new();
    let mut page = first.clone();
    while let Some(next) = page["metadata"]["continue"].as_str() {
        page = bench.get(&format!("{MAPS}?limit=2&continue={next}")).await.1;
        assert_eq!(page["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
        seen.extend(names(&page).into_iter().map(str::to_owned));
    }
    assert_eq!(seen, ["c", "d", "e"], "as it was when the first page was made");
}

#[tokio::test]
async fn an_exact_revision_shows_the_past_and_a_future_one_is_refused() {
    let bench = filled().await;
    let (_, list) = bench.get(MAPS).await;
    let revision = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    bench.delete(&format!("{MAPS}/a"), &Value::Null).await;
    let path = format!("{MAPS}?resourceVersion={revision}");
    let (_, past) = bench.get(&format!("{path}&resourceVersionMatch=Exact")).await;
    assert_eq!(names(&past).len(), 5);
    let (_, now) = bench.get(&format!("{path}&resourceVersionMatch=NotOlderThan")).await;
    assert_eq!(names(&now).len(), 4);
    let (code, refused) = bench.get(&format!("{MAPS}?resourceVersion=999999")).await;
    assert_eq!((code, &refused["reason"]), (504, &json!("Timeout")));
}

#[tokio::test]
async fn tables_and_metadata_are_made_on_request() {
    let bench = filled().await;
    let ask = async |path: &str, kind: &str| {
        let accept = format!("application/json;as={kind};v=v1;g=meta.k8s.io");
        bench.ask(Method::GET, path, &[("accept", &accept)], "").await.2
    };
    let table = ask(MAPS, "Table").await;
    assert_eq!(table["kind"], "Table");
    assert_eq!(table["columnDefinitions"][0]["name"], "Name");
    assert_eq!(table["rows"][0]["cells"][0], "a");
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let one = ask(&format!("{MAPS}/b"), "Table").await;
    assert_eq!(one["rows"].as_array().unwrap().len(), 1);
    let list = ask(MAPS, "PartialObjectMetadataList").await;
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert!(list["items"][0]["data"].is_null());
    assert_eq!(names(&list).len(), 5);
    let metadata = bench.config_maps().list_metadata(&ListParams::default()).await.unwrap();
    assert_eq!(metadata.items.len(), 5);
}
