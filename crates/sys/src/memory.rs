//! The C library's heap: how much of what is free goes back to the kernel.

/// Makes the heap give back what is free at its end from this size on, and take larger pieces from the
/// kernel one by one. Without it the library moves both bounds up as it sees large pieces, for speed. All
/// threads share one heap, since each of several would keep its own free pieces.
/// For small programs that now and then handle something large; call it once, at the start.
pub fn give_back_early() {
    #[cfg(target_env = "gnu")]
    {
        const BOUND: libc::c_int = 128 << 10;
        // SAFETY: mallopt takes plain numbers and may be called at any time.
        unsafe {
            libc::mallopt(libc::M_TRIM_THRESHOLD, BOUND);
            libc::mallopt(libc::M_MMAP_THRESHOLD, BOUND);
            libc::mallopt(libc::M_ARENA_MAX, 1);
        }
    }
}

/// Gives back every page that is free now, also between pieces in use.
pub fn give_back_now() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim takes a plain number and may be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_in_use_stays() {
        super::give_back_early();
        let kept: Vec<Vec<u8>> = (0..1000).map(|n| vec![n as u8; 5000]).collect();
        drop((0..1000).map(|n| vec![n as u8; 5000]).collect::<Vec<_>>());
        super::give_back_now();
        assert!(
            kept.iter().enumerate().all(|(n, piece)| piece.iter().all(|byte| *byte == n as u8))
        );
    }
}
