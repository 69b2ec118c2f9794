//! The page people see, and the same data as JSON under `/api/v1/products`.

use std::time::Duration;

use axum::extract::{Form, Path, State};
use axum::http::header::{COOKIE, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::call::{Caller, passed_on};
use crate::page;

#[derive(Clone, clap::Args)]
pub(crate) struct Args {
    /// Where details is.
    #[arg(long, env = "DETAILS_URL", default_value = "http://details:9080")]
    details_url: String,
    /// Where reviews is.
    #[arg(long, env = "REVIEWS_URL", default_value = "http://reviews:9080")]
    reviews_url: String,
    /// Where ratings is.
    #[arg(long, env = "RATINGS_URL", default_value = "http://ratings:9080")]
    ratings_url: String,
}

#[derive(Clone)]
struct Shop {
    args: Args,
    caller: Caller,
}

type Answer = Result<Value, (StatusCode, String)>;

pub(crate) fn routes(args: Args) -> Router {
    Router::new()
        .route("/", get(async || Html(page::index())))
        .route("/productpage", get(productpage))
        .route("/login", post(login))
        .route("/logout", get(logout))
        .route("/api/v1/products", get(async || Json(json!([product(0)]))))
        .route("/api/v1/products/{id}", get(api_details))
        .route("/api/v1/products/{id}/reviews", get(api_reviews))
        .route("/api/v1/products/{id}/ratings", get(api_ratings))
        .with_state(Shop { args, caller: Caller::new() })
}

/// The only book in the shop.
fn product(id: u32) -> Value {
    json!({
        "id": id,
        "title": "The Comedy of Errors",
        "descriptionHtml": "A comedy by <b>William Shakespeare</b>: two pairs of twins, parted by a shipwreck as children, come to the same town, and everybody takes each for the other.",
    })
}

impl Shop {
    async fn details(&self, id: u32, headers: &HeaderMap) -> Answer {
        let url = format!("{}/details/{id}", self.args.details_url);
        self.caller.json(&url, outgoing(headers), Duration::from_secs(3)).await
    }

    /// Tried twice, as shops do; the delay of one try is what the fault-injection tasks find.
    async fn reviews(&self, id: u32, headers: &HeaderMap) -> Answer {
        let url = format!("{}/reviews/{id}", self.args.reviews_url);
        let mut answer = Err((StatusCode::SERVICE_UNAVAILABLE, String::new()));
        for _ in 0..2 {
            answer = self.caller.json(&url, outgoing(headers), Duration::from_secs(3)).await;
            if answer.is_ok() {
                break;
            }
        }
        answer
    }

    async fn ratings(&self, id: u32, headers: &HeaderMap) -> Answer {
        let url = format!("{}/ratings/{id}", self.args.ratings_url);
        self.caller.json(&url, outgoing(headers), Duration::from_secs(3)).await
    }
}

async fn productpage(State(shop): State<Shop>, headers: HeaderMap) -> Html<String> {
    let (details, reviews) = tokio::join!(shop.details(0, &headers), shop.reviews(0, &headers));
    Html(page::product(&product(0), &details, &reviews, user(&headers).as_deref()))
}

async fn api_details(
    State(shop): State<Shop>,
    Path(id): Path<u32>,
    headers: HeaderMap,
) -> Response {
    json_answer(shop.details(id, &headers).await, "product details")
}

async fn api_reviews(
    State(shop): State<Shop>,
    Path(id): Path<u32>,
    headers: HeaderMap,
) -> Response {
    json_answer(shop.reviews(id, &headers).await, "product reviews")
}

async fn api_ratings(
    State(shop): State<Shop>,
    Path(id): Path<u32>,
    headers: HeaderMap,
) -> Response {
    json_answer(shop.ratings(id, &headers).await, "product ratings")
}

fn json_answer(answer: Answer, what: &str) -> Response {
    match answer {
        Ok(value) => Json(value).into_response(),
        Err((status, why)) => {
            eprintln!("{what}: {why}");
            let error = format!("Sorry, {what} are currently unavailable for this book.");
            (status, Json(json!({"error": error}))).into_response()
        }
    }
}

#[derive(Deserialize)]
struct Login {
    username: String,
}

async fn login(Form(login): Form<Login>) -> Response {
    let name: String =
        login.username.chars().filter(char::is_ascii_alphanumeric).take(40).collect();
    back(&format!("user={name}; Path=/; HttpOnly"))
}

async fn logout() -> Response {
    back("user=; Path=/; Max-Age=0")
}

fn back(cookie: &str) -> Response {
    let mut response = StatusCode::FOUND.into_response();
    response.headers_mut().insert(LOCATION, HeaderValue::from_static("/productpage"));
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

/// Who is signed in, from the cookie.
fn user(headers: &HeaderMap) -> Option<String> {
    let cookies = headers.get(COOKIE)?.to_str().ok()?;
    let name = cookies.split(';').find_map(|c| c.trim().strip_prefix("user="))?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// What the next service gets: the trace, and `end-user` for routing by person.
fn outgoing(headers: &HeaderMap) -> HeaderMap {
    let mut out = passed_on(headers);
    if let Some(name) = user(headers).and_then(|n| HeaderValue::from_str(&n).ok()) {
        out.insert("end-user", name);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signed_in_reader_is_named_to_the_next_service() {
        let mut headers = HeaderMap::new();
        headers.insert(COOKIE, HeaderValue::from_static("a=b; user=jason"));
        assert_eq!(outgoing(&headers)["end-user"], "jason");
    }
}
