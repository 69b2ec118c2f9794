//! Fetching, against a server that answers what the test says.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

const KEYS: &str = r#"{"keys":[{"kty":"RSA"}]}"#;

/// Answers by path; its address.
async fn server(answers: &'static [(&'static str, &'static str, &'static str)]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let own = address.clone();
    tokio::spawn(async move {
        while let Ok((mut io, _)) = listener.accept().await {
            let own = own.clone();
            tokio::spawn(async move {
                let mut asked = vec![0; 4096];
                let count = io.read(&mut asked).await.unwrap_or(0);
                let asked = String::from_utf8_lossy(&asked[..count]).into_owned();
                let path = asked.split(' ').nth(1).unwrap_or_default();
                if path == "/silent" {
                    std::future::pending::<()>().await;
                }
                let found = answers.iter().find(|(at, ..)| *at == path);
                let (_, head, body) = found.copied().unwrap_or(("", "404 Not Found", ""));
                let (head, body) = (head.replace("@", &own), body.replace("@", &own));
                let answer =
                    format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                let _ = io.write_all(answer.as_bytes()).await;
            });
        }
    });
    address
}

fn fetcher() -> Fetcher {
    Fetcher::new(&Trust::read(Vec::<String>::new()))
}

async fn keys(source: KeySource) -> Result<String, Error> {
    fetcher().keys(&source, Duration::from_secs(5)).await
}

#[tokio::test]
async fn keys_are_fetched_directly_by_discovery_and_by_redirects() {
    let at = server(&[
        ("/keys", "200 OK", KEYS),
        ("/.well-known/openid-configuration", "200 OK", r#"{"jwks_uri":"@/keys"}"#),
        ("/moved", "302 Found\r\nLocation: /again", ""),
        ("/again", "307 Temporary Redirect\r\nLocation: @/keys", ""),
    ])
    .await;
    for path in ["/keys", "/moved"] {
        let source = KeySource::Uri(format!("{at}{path}").into());
        assert_eq!(keys(source).await.unwrap(), KEYS, "{path}");
    }
    for issuer in [at.clone(), format!("{at}/")] {
        assert_eq!(keys(KeySource::Issuer(issuer.into())).await.unwrap(), KEYS);
    }
}

#[tokio::test]
async fn what_is_not_a_key_set_is_told_apart() {
    let at = server(&[
        ("/loop", "302 Found\r\nLocation: @/loop", ""),
        ("/file", "302 Found\r\nLocation: file:///etc/passwd", ""),
        ("/html", "200 OK", "<html>"),
    ])
    .await;
    let uri = |path: &str| KeySource::Uri(format!("{at}{path}").into());
    assert!(matches!(keys(uri("/loop")).await, Err(Error::Redirect { .. })));
    assert!(matches!(keys(uri("/file")).await, Err(Error::Redirect { .. })));
    assert!(matches!(keys(uri("/html")).await, Err(Error::Read { .. })));
    assert!(matches!(keys(uri("/none")).await, Err(Error::Status { .. })));
    let nobody = KeySource::Uri("http://127.0.0.1:1/keys".into());
    assert!(matches!(keys(nobody).await, Err(Error::Ask { .. })));
    let file = KeySource::Uri("file:///etc/passwd".into());
    assert!(matches!(keys(file).await, Err(Error::Uri { .. })));
    let late = fetcher().keys(&uri("/silent"), Duration::from_millis(50)).await;
    assert!(matches!(late, Err(Error::Late { .. })));
}

#[tokio::test]
async fn a_flood_is_cut_off() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = format!("http://{}/keys", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut io, _) = listener.accept().await.unwrap();
        let _ = io.read(&mut [0; 4096]).await;
        let _ = io.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        while io.write_all(&[b' '; 65536]).await.is_ok() {}
    });
    let found = keys(KeySource::Uri(at.into())).await;
    assert!(matches!(found, Err(Error::Large { .. })), "{found:?}");
}

#[test]
fn a_redirect_never_leaves_https() {
    let at: Uri = "https://a/x".parse().unwrap();
    assert_eq!(next(&at, "/y").unwrap(), "https://a/y");
    assert_eq!(next(&at, "https://b/y").unwrap(), "https://b/y");
    assert_eq!(next(&at, "http://a/y"), None);
    assert_eq!(next(&at, "//b/y"), None);
}
