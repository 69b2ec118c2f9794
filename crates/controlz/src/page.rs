//! Each topic as a page for people. Everything shown is escaped.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Html;
use ironsail_daemon::metrics::Usage;

use crate::{Program, topic};

type Known = State<Arc<Program>>;

const TOPICS: [(&str, &str, &str); 8] = [
    ("/scopez/", "Logging Scopes", "the level of each part of the log"),
    ("/memz/", "Memory Usage", "what this process holds"),
    ("/envz/", "Environment Variables", "what it was started with"),
    ("/procz/", "Process Info", "how it runs"),
    ("/argsz/", "Command-Line Arguments", "how it was called"),
    ("/versionz/", "Version Info", "what it is"),
    ("/metricz/", "Metrics", "what Prometheus sees"),
    ("/signalz/", "Signals", "end it"),
];

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:0;color:#1c2733}\
    header{background:#16324f;color:#fff;padding:.7em 1.2em;font-size:1.2em}\
    header a{color:#fff;text-decoration:none}nav{float:left;width:15em;padding:1em}\
    nav a{display:block;padding:.2em 0;color:#16507f}main{margin-left:16em;padding:1em}\
    table{border-collapse:collapse}td,th{padding:.25em .8em;border-bottom:1px solid #dde4ea;\
    text-align:left;vertical-align:top}pre{white-space:pre-wrap}@media(prefers-color-scheme:dark)\
    {body{background:#111a22;color:#d5dee6}nav a{color:#7cb8ea}td,th{border-color:#2b3946}}";

fn frame(program: &Program, title: &str, body: &str) -> Html<String> {
    let name = escape(program.name);
    let mut nav = String::new();
    for (path, text, _) in program.more.iter().chain(&TOPICS) {
        let _ = write!(nav, "<a href=\"{path}\">{text}</a>");
    }
    Html(format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title} – {name}</title>\
         <style>{STYLE}</style></head><body><header><a href=\"/\">ControlZ: {name}</a></header>\
         <nav>{nav}</nav><main><h1>{title}</h1>{body}</main></body></html>\n"
    ))
}

fn table<'a>(rows: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let mut html = "<table>".to_owned();
    for (key, value) in rows {
        let _ = write!(html, "<tr><th>{}</th><td>{}</td></tr>", escape(key), escape(&value));
    }
    html + "</table>"
}

pub(crate) fn escape(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            c => html.push(c),
        }
    }
    html
}

pub(crate) async fn home(State(program): Known) -> Html<String> {
    let mut body = "<table>".to_owned();
    for (path, name, what) in program.more.iter().chain(&TOPICS) {
        let _ = write!(body, "<tr><td><a href=\"{path}\">{name}</a></td><td>{what}</td></tr>");
    }
    frame(&program, "ControlZ", &(body + "</table>"))
}

/// A change of a level is a request to the JSON path, so that a link can never make one.
const SCOPE_SCRIPT: &str = "<script>document.querySelectorAll('select').forEach(s=>\
    s.addEventListener('change',async()=>{const r=await fetch('/scopej/'+encodeURIComponent(s.name),\
    {method:'PUT',headers:{'content-type':'application/json'},\
    body:JSON.stringify({output_level:s.value})});if(!r.ok)alert(await r.text())}))</script>";

pub(crate) async fn scopes(State(program): Known) -> Html<String> {
    let mut body = "<table><tr><th>Scope</th><th>Output level</th></tr>".to_owned();
    for scope in topic::list(&program) {
        let name = escape(&scope.name);
        let _ = write!(body, "<tr><td>{name}</td><td><select name=\"{name}\">");
        for level in ["none", "error", "warn", "info", "debug", "trace"] {
            let chosen = if level == scope.output_level { " selected" } else { "" };
            let _ = write!(body, "<option{chosen}>{level}</option>");
        }
        body += "</select></td></tr>";
    }
    frame(&program, "Logging Scopes", &(body + "</table>" + SCOPE_SCRIPT))
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / (1024.0 * 1024.0))
}

pub(crate) async fn memory(State(program): Known) -> Html<String> {
    let usage = Usage::read().unwrap_or_default();
    let rows = [
        ("Resident", mebibytes(usage.resident)),
        ("Virtual", mebibytes(usage.virtual_size)),
        ("Open files", usage.descriptors.to_string()),
    ];
    frame(&program, "Memory Usage", &table(rows))
}

pub(crate) async fn environment(State(program): Known) -> Html<String> {
    let rows = program.environment.iter().map(|(k, v)| (k.as_str(), topic::shown(k, v)));
    let body = table(rows);
    frame(&program, "Environment Variables", &body)
}

pub(crate) async fn process(State(program): Known) -> Html<String> {
    let usage = Usage::read().unwrap_or_default();
    let rows = [
        ("Process", std::process::id().to_string()),
        ("Threads", usage.threads.to_string()),
        ("CPU seconds", format!("{:.2}", usage.cpu_seconds)),
    ];
    frame(&program, "Process Info", &table(rows))
}

pub(crate) async fn arguments(State(program): Known) -> Html<String> {
    let body = format!("<pre>{}</pre>", escape(&program.arguments.join("\n")));
    frame(&program, "Command-Line Arguments", &body)
}

pub(crate) async fn version(State(program): Known) -> Html<String> {
    let rows = [("Program", program.name.to_owned()), ("Version", program.version.clone())];
    frame(&program, "Version Info", &table(rows))
}

pub(crate) async fn metrics(State(program): Known) -> Html<String> {
    let body = format!("<pre>{}</pre>", escape(&program.metrics.text()));
    frame(&program, "Metrics", &body)
}

pub(crate) async fn signals(State(program): Known) -> Html<String> {
    let body = "<p>Ends the program as <code>SIGTERM</code> does: what it serves is drained first.</p>\
        <button onclick=\"if(confirm('End this program?'))fetch('/signalj/SIGTERM',{method:'PUT'})\">\
        SIGTERM</button>";
    frame(&program, "Signals", body)
}
