//! Durations and ages as `kubectl` shows them: `5s`, `3m20s`, `2d4h`, `<unknown>`.

use std::time::{Duration, SystemTime};

use serde_json::Value;

/// A duration for people: two units at most, fewer the longer it is.
pub fn human_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let minutes = seconds / 60;
    let hours = minutes / 60;
    let days = hours / 24;
    let two = |a: u64, au: char, b: u64, bu: char| {
        if b == 0 { format!("{a}{au}") } else { format!("{a}{au}{b}{bu}") }
    };
    if seconds < 120 {
        format!("{seconds}s")
    } else if minutes < 10 {
        two(minutes, 'm', seconds % 60, 's')
    } else if minutes < 180 {
        format!("{minutes}m")
    } else if hours < 8 {
        two(hours, 'h', minutes % 60, 'm')
    } else if hours < 48 {
        format!("{hours}h")
    } else if hours < 192 {
        two(days, 'd', hours % 24, 'h')
    } else if days < 365 * 2 {
        format!("{days}d")
    } else if days < 365 * 8 {
        two(days / 365, 'y', days % 365, 'd')
    } else {
        format!("{}y", days / 365)
    }
}

/// When a timestamp field says.
pub(super) fn time(value: Option<&Value>) -> Option<SystemTime> {
    let stamp: jiff::Timestamp = value?.as_str()?.parse().ok()?;
    Some(stamp.into())
}

/// How long ago the timestamp is, or `<unknown>`.
pub(super) fn since(value: Option<&Value>, now: SystemTime) -> String {
    time(value).map_or_else(|| "<unknown>".to_owned(), |then| ago(then, now))
}

/// A time in the near future counts as now: clocks differ.
pub(super) fn ago(then: SystemTime, now: SystemTime) -> String {
    match now.duration_since(then) {
        Ok(age) => human_duration(age),
        Err(ahead) if ahead.duration() < Duration::from_secs(2) => "0s".to_owned(),
        Err(_) => "<invalid>".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_in_kubectl() {
        const H: u64 = 3600;
        const D: u64 = 24 * H;
        let cases = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (599, "9m59s"),
            (600, "10m"),
            (2 * H, "120m"),
            (3 * H, "3h"),
            (3 * H + 61, "3h1m"),
            (8 * H, "8h"),
            (47 * H, "47h"),
            (2 * D, "2d"),
            (2 * D + 4 * H, "2d4h"),
            (8 * D + 4 * H, "8d"),
            (364 * D, "364d"),
            (730 * D, "2y"),
            (731 * D, "2y1d"),
            (365 * 8 * D, "8y"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(human_duration(Duration::from_secs(seconds)), expected);
        }
    }
}
