//! The shop's HTML. Everything that comes from another service is escaped.

use axum::http::StatusCode;
use serde_json::Value;

type Answer = Result<Value, (StatusCode, String)>;

const STYLE: &str = "
:root{--ink:#1c2430;--soft:#5b6675;--line:#e3e7ec;--accent:#14507a}
*{box-sizing:border-box}
body{margin:0;font:16px/1.55 system-ui,sans-serif;color:var(--ink);background:#f6f8fa}
header{background:var(--accent);color:#fff}
header div,main{max-width:960px;margin:0 auto;padding:16px 24px}
header div{display:flex;justify-content:space-between;align-items:center}
header a{color:#fff}
h1{margin:24px 0 8px;font-size:34px}
section{background:#fff;border:1px solid var(--line);border-radius:8px;padding:16px 24px;margin:16px 0}
h2{margin:0 0 8px;font-size:20px}
dl{display:grid;grid-template-columns:max-content 1fr;gap:4px 24px;margin:0}
dt{color:var(--soft)}dd{margin:0}
blockquote{margin:0 0 12px}
small{color:var(--soft)}
.stars{font-size:22px;letter-spacing:2px}
.error{color:#a33;font-weight:600}
input,button{font:inherit;padding:4px 10px;border-radius:6px;border:1px solid #fff}
.columns{display:grid;grid-template-columns:1fr 1fr;gap:16px}
@media(max-width:700px){.columns{grid-template-columns:1fr}}
";

pub(crate) fn index() -> String {
    layout(
        "Bookinfo",
        None,
        "<h1>Hello! This is a simple bookstore application</h1>\
         <section><p>It consists of the services productpage, details, reviews (in three versions) \
         and ratings.</p><p><a href=\"/productpage\">Go to the product page</a></p></section>",
    )
}

pub(crate) fn product(
    book: &Value,
    details: &Answer,
    reviews: &Answer,
    user: Option<&str>,
) -> String {
    let title = text(&book["title"]);
    // The summary is our own constant HTML, not another service's.
    let summary = book["descriptionHtml"].as_str().unwrap_or_default();
    let body = format!(
        "<h1>{title}</h1><p>{summary}</p><div class=\"columns\">\
         <section><h2>Book Details</h2>{}</section>\
         <section><h2>Book Reviews</h2>{}</section></div>",
        details_html(details),
        reviews_html(reviews),
    );
    layout("Simple Bookstore App", Some(user), &body)
}

fn layout(title: &str, user: Option<Option<&str>>, body: &str) -> String {
    let sign = match user {
        None => String::new(),
        Some(Some(name)) => {
            format!("<span>{} (<a href=\"/logout\">sign out</a>)</span>", escape(name))
        }
        Some(None) => "<form method=\"post\" action=\"/login\">\
             <input name=\"username\" placeholder=\"User name\" aria-label=\"User name\"> \
             <button>Sign in</button></form>"
            .to_owned(),
    };
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>{title}</title><style>{STYLE}</style></head><body>\
         <header><div><strong>Bookinfo Sample</strong>{sign}</div></header>\
         <main>{body}</main></body></html>\n"
    )
}

fn details_html(details: &Answer) -> String {
    let details = match details {
        Ok(details) => details,
        Err((status, _)) => return unavailable("product details", *status),
    };
    let rows = [
        ("ISBN-10", "ISBN-10"),
        ("Publisher", "publisher"),
        ("Pages", "pages"),
        ("Type", "type"),
        ("Language", "language"),
    ];
    let rows: String = rows
        .iter()
        .map(|(label, key)| format!("<dt>{label}</dt><dd>{}</dd>", text(&details[*key])))
        .collect();
    format!("<dl>{rows}</dl>")
}

fn reviews_html(reviews: &Answer) -> String {
    let answer = match reviews {
        Ok(answer) => answer,
        Err((status, _)) => return unavailable("product reviews", *status),
    };
    let mut html = String::new();
    for review in answer["reviews"].as_array().into_iter().flatten().take(50) {
        html.push_str(&format!(
            "<blockquote>\u{201c}{}\u{201d}<br><small>{}</small>{}</blockquote>",
            text(&review["text"]),
            text(&review["reviewer"]),
            stars_html(&review["rating"]),
        ));
    }
    html.push_str(&format!("<small>Reviews served by: {}</small>", text(&answer["podname"])));
    html
}

fn stars_html(rating: &Value) -> String {
    if let Some(stars) = rating["stars"].as_u64() {
        let stars = stars.min(5) as usize;
        let color = if rating["color"] == "red" { "#c62828" } else { "#111" };
        return format!(
            "<div class=\"stars\" style=\"color:{color}\" title=\"{stars} of 5\">{}{}</div>",
            "\u{2605}".repeat(stars),
            "\u{2606}".repeat(5 - stars)
        );
    }
    match rating["error"].as_str() {
        Some(error) => format!("<div class=\"error\">{}</div>", escape(error)),
        None => String::new(),
    }
}

fn unavailable(what: &str, status: StatusCode) -> String {
    format!(
        "<p class=\"error\">Error fetching {what}!</p>\
         <p>Sorry, {what} are currently unavailable for this book.</p><small>{status}</small>"
    )
}

fn text(value: &Value) -> String {
    match value {
        Value::String(s) => escape(s),
        Value::Null => String::new(),
        other => escape(&other.to_string()),
    }
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_of_other_services_are_escaped() {
        let reviews =
            Ok(json!({"podname": "<b>", "reviews": [{"text": "<script>", "reviewer": "R"}]}));
        let html = product(&json!({"title": "T"}), &Ok(json!({})), &reviews, Some("\"x"));
        assert!(!html.contains("<script>") && !html.contains("<b>"), "{html}");
        assert!(html.contains("&lt;script&gt;"));
    }

    #[test]
    fn stars_show_their_colour_and_number() {
        let html = stars_html(&json!({"stars": 4, "color": "red"}));
        assert!(
            html.contains("\u{2605}\u{2605}\u{2605}\u{2605}\u{2606}") && html.contains("#c62828")
        );
    }

    #[test]
    fn a_missing_service_is_said_on_the_page() {
        let down = Err((StatusCode::SERVICE_UNAVAILABLE, String::new()));
        let html = product(&json!({"title": "T"}), &down, &down, None);
        assert!(html.contains("Error fetching product details!"));
        assert!(html.contains("Error fetching product reviews!"));
    }
}
