//! CPU profiles by a timer signal, a hundred times a second of CPU time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::{Error, encode};

const FREQUENCY: i32 = 100;

static BUSY: AtomicBool = AtomicBool::new(false);

/// Where the program spends its time during the next `duration`: a gzipped profile. One at a time.
pub async fn cpu(duration: Duration) -> Result<Vec<u8>, Error> {
    let _turn = Turn::take()?;
    let builder = pprof::ProfilerGuardBuilder::default().frequency(FREQUENCY);
    // Code that holds the unwinder's own locks cannot be unwound.
    let builder = builder.blocklist(&["libc", "libgcc", "pthread", "vdso"]);
    let guard = builder.build().map_err(Error::Cpu)?;
    tokio::time::sleep(duration).await;
    let report = guard.report().build().map_err(Error::Cpu)?;
    drop(guard);
    Ok(encode::samples(&report, duration, FREQUENCY))
}

/// The right to take a profile, given back when dropped.
struct Turn;

impl Turn {
    fn take() -> Result<Self, Error> {
        match BUSY.swap(true, Ordering::AcqRel) {
            true => Err(Error::Busy),
            false => Ok(Self),
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        BUSY.store(false, Ordering::Release);
    }
}
