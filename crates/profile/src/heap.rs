//! Heap profiles from the allocator's own samples.

#[cfg(feature = "heap")]
pub use tikv_jemallocator::Jemalloc as Allocator;

use crate::Error;

/// There are no samples to tell of.
#[cfg(not(feature = "heap"))]
pub async fn heap() -> Result<Vec<u8>, Error> {
    Err(Error::NoSamples)
}

/// What is allocated now, by who allocated it: a gzipped profile.
#[cfg(feature = "heap")]
pub async fn heap() -> Result<Vec<u8>, Error> {
    let control = jemalloc_pprof::PROF_CTL.as_ref().ok_or(Error::NoSamples)?.clone();
    let mut control = control.lock_owned().await;
    if !control.activated() {
        control.activate().map_err(|e| Error::Heap(e.to_string()))?;
    }
    // Names are looked up in the program's file, which takes a while.
    let dumped = tokio::task::spawn_blocking(move || control.dump_pprof()).await;
    match dumped {
        Ok(Ok(profile)) => Ok(profile),
        Ok(Err(error)) => Err(Error::Heap(error.to_string())),
        Err(error) => Err(Error::Heap(error.to_string())),
    }
}
