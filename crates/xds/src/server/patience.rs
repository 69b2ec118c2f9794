//! A timer for keepalive that does not blame the other end for our own slowness.
//!
//! HTTP/2 looks at the clock before it looks at the socket. When this process got no time to run for
//! longer than a ping may take, the answer lies in the socket already, and the connection would be ended
//! all the same. So whoever finds its time run out is given one more moment, in which what has come is read.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};

/// Long enough to read what has come, short beside any keepalive.
const MOMENT: Duration = Duration::from_millis(500);

/// Sleeps as tokio does, and a moment longer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Patience;

impl Timer for Patience {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(Patient { sleep: Box::pin(tokio::time::sleep(duration)), waited: false })
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        let deadline = tokio::time::Instant::from_std(deadline);
        Box::pin(Patient { sleep: Box::pin(tokio::time::sleep_until(deadline)), waited: false })
    }
}

struct Patient {
    sleep: Pin<Box<tokio::time::Sleep>>,
    /// The moment was given.
    waited: bool,
}

impl Sleep for Patient {}

impl Future for Patient {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            std::task::ready!(self.sleep.as_mut().poll(cx));
            if std::mem::replace(&mut self.waited, true) {
                return Poll::Ready(());
            }
            let later = tokio::time::Instant::now() + MOMENT;
            self.sleep.as_mut().reset(later);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn time_runs_out_a_moment_after_it_was_noticed() {
        let started = tokio::time::Instant::now();
        Patience.sleep(Duration::from_secs(10)).await;
        assert_eq!(started.elapsed(), Duration::from_secs(10) + MOMENT);
        // Noticed late: the moment begins then.
        let late = Patience.sleep(Duration::from_secs(10));
        tokio::time::advance(Duration::from_secs(60)).await;
        let noticed = tokio::time::Instant::now();
        late.await;
        assert_eq!(noticed.elapsed(), MOMENT);
    }
}
