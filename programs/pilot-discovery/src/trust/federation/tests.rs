//! A bundle endpoint that changes its mind, asked over HTTP: the fetcher's own tests have TLS.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

fn root(name: &str) -> (RootBundle, String) {
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    let x5c: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    let text = format!(r#"{{"keys": [{{"use": "x509-svid", "x5c": ["{x5c}"]}}]}}"#);
    (RootBundle::from_pem(pem.as_bytes()).unwrap(), text)
}

#[tokio::test]
async fn bundles_are_fetched_kept_when_the_endpoint_fails_and_forgotten_when_unwanted() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let said = Arc::new(Mutex::new("nothing yet".to_owned()));
    let saying = said.clone();
    tokio::spawn(async move {
        loop {
            let (mut io, _) = listener.accept().await.unwrap();
            let _ = io.read(&mut [0; 4096]).await;
            let body = saying.lock().clone();
            let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            let _ = io.write_all(text.as_bytes()).await;
        }
    });
    let (roots, text) = root("far");
    let (urls, wanted) = watch::channel(BTreeSet::from([url.clone()]));
    let (out, mut found) = watch::channel(Found::new());
    let settings = Settings { trust: Trust::read(Vec::<String>::new()), clock: Clock::system() };
    tokio::spawn(run(settings, wanted, out));
    let failed = |found: &Found| found.get(&url).is_some_and(|one| one.error.is_some());
    found.wait_for(failed).await.unwrap();
    *said.lock() = text;
    let good = |found: &Found| found.get(&url).is_some_and(|one| one.roots.is_some());
    let now = found.wait_for(good).await.unwrap()[&url].clone();
    assert_eq!((now.roots, now.error), (Some(roots), None));
    urls.send_replace(BTreeSet::new());
    found.wait_for(Found::is_empty).await.unwrap();
}

#[test]
fn endpoints_are_named_as_istio_names_them() {
    let mut faults = Vec::new();
    let all = endpoints("foo|https://a/x||bar|https://b|| ", &mut faults);
    assert_eq!(all[&"foo".parse().unwrap()], "https://a/x");
    assert_eq!((all.len(), faults.len()), (2, 0));
    assert!(endpoints("foo|http://a||https://b", &mut faults).is_empty());
    assert_eq!(faults.len(), 2);
}
