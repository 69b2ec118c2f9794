//! Details of instances that whole-pod tests do not reach.

use super::*;

#[test]
fn stop_signals_are_known_by_name() {
    assert_eq!(signal_number("SIGTERM"), Some(15));
    assert_eq!(signal_number("SIGUSR1"), Some(10));
    assert_eq!(signal_number("QUIT"), Some(3));
    assert_eq!(signal_number("SIGNOPE"), None);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_is_only_ever_brought_forward() {
    let order = |seconds| {
        Some(Stop { deadline: Instant::now() + Duration::from_secs(seconds), message: None })
    };
    let (tx, rx) = watch::channel(order(10));
    let start = Instant::now();
    let waiting = tokio::spawn(past_deadline(rx, start + Duration::from_secs(10)));
    tx.send(order(60)).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    tx.send(order(2)).unwrap();
    waiting.await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 3);
}
