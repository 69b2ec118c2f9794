//! Spans of time between the wire and the standard library.

use crate::google::protobuf::{Duration, Timestamp};

impl From<std::time::Duration> for Duration {
    fn from(d: std::time::Duration) -> Self {
        // Protobuf's own limit is about 10,000 years; what is longer is cut there.
        const LIMIT: u64 = 315_576_000_000;
        let seconds = i64::try_from(d.as_secs().min(LIMIT)).unwrap_or(i64::MAX);
        Self { seconds, nanos: i32::try_from(d.subsec_nanos()).unwrap_or_default() }
    }
}

impl TryFrom<&Duration> for std::time::Duration {
    type Error = Negative;

    fn try_from(d: &Duration) -> Result<Self, Negative> {
        let seconds = u64::try_from(d.seconds).map_err(|_| Negative)?;
        let nanos = u32::try_from(d.nanos).map_err(|_| Negative)?;
        Ok(Self::new(seconds, nanos.min(999_999_999)))
    }
}

/// A span of time that runs backwards.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the duration is negative")]
pub struct Negative;

impl From<std::time::SystemTime> for Timestamp {
    fn from(time: std::time::SystemTime) -> Self {
        let since = time.duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap_or_default();
        let Duration { seconds, nanos } = since.into();
        Self { seconds, nanos }
    }
}

#[cfg(test)]
mod tests {
    use crate::google::protobuf::Duration;

    #[test]
    fn durations_go_there_and_back() {
        let span = std::time::Duration::from_millis(1_500);
        let wire = Duration::from(span);
        assert_eq!((wire.seconds, wire.nanos), (1, 500_000_000));
        assert_eq!(std::time::Duration::try_from(&wire), Ok(span));
    }

    #[test]
    fn a_negative_duration_is_refused() {
        assert!(std::time::Duration::try_from(&Duration { seconds: -1, nanos: 0 }).is_err());
    }
}
