//! `GET /ratings/{id}`: stars by reviewer; `POST` changes them until the program ends.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use parking_lot::Mutex;
use serde_json::json;

type Stars = BTreeMap<String, u8>;
type Shop = Arc<Mutex<BTreeMap<u32, Stars>>>;

/// How many books' changed ratings are kept.
const BOOKS: usize = 1_000;

pub(crate) fn routes() -> Router {
    Router::new().route("/ratings/{id}", get(read).post(write)).with_state(Shop::default())
}

fn default_stars() -> Stars {
    [("Reviewer1".to_owned(), 5), ("Reviewer2".to_owned(), 4)].into()
}

async fn read(State(shop): State<Shop>, Path(id): Path<String>) -> Response {
    let Ok(id) = id.parse::<u32>() else { return bad("please provide numeric product ID") };
    let stars = shop.lock().get(&id).cloned().unwrap_or_else(default_stars);
    Json(json!({"id": id, "ratings": stars})).into_response()
}

async fn write(
    State(shop): State<Shop>,
    Path(id): Path<String>,
    Json(stars): Json<Stars>,
) -> Response {
    let Ok(id) = id.parse::<u32>() else { return bad("please provide numeric product ID") };
    if stars.len() > 20 || stars.values().any(|s| *s > 5) {
        return bad("please provide at most 20 ratings of 0 to 5 stars");
    }
    let mut shop = shop.lock();
    if shop.len() >= BOOKS && !shop.contains_key(&id) {
        return bad("too many books were rated");
    }
    shop.insert(id, stars.clone());
    Json(json!({"id": id, "ratings": stars})).into_response()
}

fn bad(error: &str) -> Response {
    (StatusCode::BAD_REQUEST, Json(json!({"error": error}))).into_response()
}
