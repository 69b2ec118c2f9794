//! `GET /reviews/{id}`: what two readers said, with stars from `ratings` in v2 and v3.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::call::{Caller, passed_on};

#[derive(Clone, clap::Args)]
pub(crate) struct Args {
    /// Ask the ratings service for stars (v2, v3).
    #[arg(long, env = "ENABLE_RATINGS", default_value_t = false, action = clap::ArgAction::Set,
        num_args = 0..=1, default_missing_value = "true")]
    ratings: bool,
    /// Colour of the stars.
    #[arg(long, env = "STAR_COLOR", default_value = "black")]
    star_color: String,
    /// Where ratings is.
    #[arg(long, env = "RATINGS_URL", default_value = "http://ratings:9080")]
    ratings_url: String,
    /// Shown in the answer.
    #[arg(long, env = "HOSTNAME", default_value = "")]
    podname: String,
    /// Shown in the answer.
    #[arg(long, env = "CLUSTER_NAME", default_value = "null")]
    cluster: String,
}

#[derive(Clone)]
struct Reviews {
    args: Args,
    caller: Caller,
}

pub(crate) fn routes(args: Args) -> Router {
    Router::new()
        .route("/reviews/{id}", get(reviews))
        .with_state(Reviews { args, caller: Caller::new() })
}

async fn reviews(
    State(this): State<Reviews>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    let Ok(id) = id.parse::<u32>() else {
        let error = json!({"error": "please provide numeric product ID"});
        return (StatusCode::BAD_REQUEST, Json(error)).into_response();
    };
    let mut reviews = vec![
        json!({"reviewer": "Reviewer1", "text": "Two pairs of twins, one town, no peace. I \
            laughed from the first scene to the last."}),
        json!({"reviewer": "Reviewer2", "text": "Quick, loud and cheerful. Those who want deep \
            thoughts should take one of the later plays."}),
    ];
    if this.args.ratings {
        let url = format!("{}/ratings/{id}", this.args.ratings_url);
        // Black stars wait longer than red ones, so that a delay can tell the versions apart.
        let timeout = if this.args.star_color == "black" { 10 } else { 2 };
        let answer =
            this.caller.json(&url, passed_on(&headers), Duration::from_secs(timeout)).await;
        for review in &mut reviews {
            review["rating"] = rating(
                &answer,
                review["reviewer"].as_str().unwrap_or_default(),
                &this.args.star_color,
            );
        }
    }
    Json(json!({
        "id": id.to_string(),
        "podname": this.args.podname,
        "clustername": this.args.cluster,
        "reviews": reviews,
    }))
    .into_response()
}

fn rating(answer: &Result<Value, (StatusCode, String)>, reviewer: &str, color: &str) -> Value {
    match answer.as_ref().ok().and_then(|a| a["ratings"][reviewer].as_i64()) {
        Some(stars) => json!({"stars": stars, "color": color}),
        None => json!({"error": "Ratings service is currently unavailable"}),
    }
}
