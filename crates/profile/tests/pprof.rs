//! Profiles of this very program name what it did.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::io::Read;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt;
use tower::ServiceExt;

#[global_allocator]
static ALLOCATOR: ironsail_profile::Allocator = ironsail_profile::Allocator;

async fn fetch(path: &str) -> (StatusCode, Vec<u8>) {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let response = ironsail_profile::router().oneshot(request).await.unwrap();
    let status = response.status();
    (status, response.into_body().collect().await.unwrap().to_bytes().to_vec())
}

/// The profile, unpacked. Its strings stand in it as they are.
fn names(profile: &[u8], name: &str) -> bool {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(profile).read_to_end(&mut bytes).unwrap();
    bytes.windows(name.len()).any(|window| window == name.as_bytes())
}

#[inline(never)]
fn hoard_much_memory() -> Vec<Vec<u8>> {
    (0..64).map(|_| vec![1; 1024 * 1024]).collect()
}

#[inline(never)]
fn count_without_end(stop: &std::sync::atomic::AtomicBool) -> u64 {
    let mut count = 0_u64;
    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
        count = std::hint::black_box(count + 1);
    }
    count
}

#[tokio::test]
async fn a_heap_profile_names_who_allocated() {
    let hoard = hoard_much_memory();
    let (status, profile) = fetch("/debug/pprof/heap").await;
    assert_eq!(status, StatusCode::OK, "{}", String::from_utf8_lossy(&profile));
    assert!(names(&profile, "hoard_much_memory"), "{} bytes", profile.len());
    assert_eq!(hoard.len(), 64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cpu_profile_names_who_worked_and_is_taken_one_at_a_time() {
    static STOP: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
    let worker = std::thread::spawn(|| count_without_end(&STOP));
    let (first, second) = tokio::join!(fetch("/debug/pprof/profile?seconds=1"), async {
        tokio::task::yield_now().await;
        fetch("/debug/pprof/profile?seconds=1").await
    });
    STOP.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(worker.join().unwrap() > 0);
    assert_eq!((first.0, second.0), (StatusCode::OK, StatusCode::CONFLICT));
    assert!(names(&first.1, "count_without_end"), "{} bytes", first.1.len());
}

#[tokio::test]
async fn what_is_not_there_is_said() {
    assert_eq!(fetch("/debug/pprof/goroutine").await.0, StatusCode::NOT_FOUND);
    assert_eq!(fetch("/debug/pprof/profile?seconds=0").await.0, StatusCode::BAD_REQUEST);
    assert_eq!(fetch("/debug/pprof/").await.0, StatusCode::OK);
}
