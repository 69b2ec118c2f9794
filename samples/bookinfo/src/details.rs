//! `GET /details/{id}`: facts about a book.

use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;

pub(crate) fn routes() -> Router {
    Router::new().route("/details/{id}", get(details))
}

async fn details(Path(id): Path<String>) -> Response {
    let Ok(id) = id.parse::<u32>() else {
        let error = json!({"error": "please provide numeric product id"});
        return (StatusCode::BAD_REQUEST, Json(error)).into_response();
    };
    Json(json!({
        "id": id,
        "author": "William Shakespeare",
        "year": 1595,
        "type": "paperback",
        "pages": 200,
        "publisher": "PublisherA",
        "language": "English",
        "ISBN-10": "1234567890",
        "ISBN-13": "123-1234567890",
    }))
    .into_response()
}
