//! Image references and the patterns that the image map knows them by.
//!
//! Text in, "does it match and how closely" out. No files, no defaults of a registry: a reference
//! is compared as it was written.

use std::cmp::Reverse;

/// `registry/path/name:tag@digest` in its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference<'a> {
    pub repository: &'a str,
    pub tag: Option<&'a str>,
    pub digest: Option<&'a str>,
}

impl<'a> Reference<'a> {
    pub fn parse(text: &'a str) -> Self {
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (text, None),
        };
        // A colon before the last slash belongs to a registry's port.
        let name_at = rest.rfind('/').map_or(0, |i| i + 1);
        let (repository, tag) = match rest[name_at..].find(':') {
            Some(colon) => (&rest[..name_at + colon], Some(&rest[name_at + colon + 1..])),
            None => (rest, None),
        };
        Self { repository, tag, digest }
    }
}

/// How well a pattern fits; greater is closer. The order of the fields is the order of weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Closeness {
    exact: bool,
    tag_named: bool,
    literals: usize,
    stars: Reverse<usize>,
}

/// How closely `pattern` fits `image`, or `None` if it does not.
///
/// A pattern without tag takes every tag and digest; one without a registry takes every prefix, so
/// `curl` fits `registry.example/tools/curl:8.1`. `*` stands for any run of characters.
pub fn closeness(pattern: &str, image: &str) -> Option<Closeness> {
    let literals = pattern.chars().filter(|c| *c != '*').count();
    let stars = Reverse(pattern.len() - literals.min(pattern.len()));
    if pattern == image {
        return Some(Closeness { exact: true, tag_named: true, literals, stars });
    }
    let (p, i) = (Reference::parse(pattern), Reference::parse(image));
    let part_fits = |pattern: Option<&str>, value: Option<&str>, default: &str| match pattern {
        None => true,
        Some(pattern) => glob(pattern, value.unwrap_or(default)),
    };
    // An image without tag means "latest", as it does to every container engine.
    if !part_fits(p.tag, i.tag, "latest") || !part_fits(p.digest, i.digest, "") {
        return None;
    }
    let full = glob(p.repository, i.repository);
    let suffix = || {
        !has_registry(p.repository)
            && i.repository
                .match_indices('/')
                .any(|(at, _)| glob(p.repository, &i.repository[at + 1..]))
    };
    (full || suffix()).then(|| Closeness {
        exact: false,
        tag_named: p.tag.is_some_and(|t| t != "*") || p.digest.is_some(),
        literals,
        stars,
    })
}

/// By the rule of every container engine: the first part is a host if it looks like one.
fn has_registry(repository: &str) -> bool {
    repository
        .split_once('/')
        .is_some_and(|(host, _)| host.contains(['.', ':']) || host == "localhost")
}

/// Whether `text` fits `pattern`, in time linear in each star's run.
fn glob(pattern: &str, text: &str) -> bool {
    let (p, t) = (pattern.as_bytes(), text.as_bytes());
    let (mut pi, mut ti) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while ti < t.len() {
        if pi < p.len() && p[pi] == b'*' {
            back = Some((pi + 1, ti));
            pi += 1;
        } else if pi < p.len() && p[pi] == t[ti] {
            pi += 1;
            ti += 1;
        } else if let Some((after_star, taken)) = back {
            pi = after_star;
            ti = taken + 1;
            back = Some((after_star, taken + 1));
        } else {
            return false;
        }
    }
    p[pi..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_come_apart_at_tag_and_digest() {
        let table = [
            ("a", ("a", None, None)),
            ("a:1", ("a", Some("1"), None)),
            ("h:5000/a", ("h:5000/a", None, None)),
            ("h:5000/a/b:1@sha256:ff", ("h:5000/a/b", Some("1"), Some("sha256:ff"))),
        ];
        for (text, (repository, tag, digest)) in table {
            assert_eq!(Reference::parse(text), Reference { repository, tag, digest }, "{text}");
        }
    }

    #[test]
    fn patterns_fit_as_the_map_promises() {
        let table = [
            ("curl", "curl", true),
            ("curl", "curl:8", true),
            ("curl", "docker.io/tools/curl:8@sha256:1", true),
            ("curl", "docker.io/tools/mycurl:8", false),
            ("tools/curl", "reg.example/tools/curl", true),
            ("reg.example/curl", "other.example/curl", false),
            ("reg.example/curl", "mirror/reg.example/curl", false),
            ("curl:8", "curl:8", true),
            ("curl:8", "curl:9", false),
            ("curl:8*", "x/curl:8.1", true),
            ("curl:latest", "curl", true),
            ("*/proxyv2:*", "reg.example/istio/proxyv2:1.2", true),
            ("reg.*/a", "reg.example/a:1", true),
            ("*", "anything:1", true),
        ];
        for (pattern, image, fits) in table {
            assert_eq!(closeness(pattern, image).is_some(), fits, "{pattern} {image}");
        }
    }

    #[test]
    fn the_closer_pattern_is_greater() {
        let image = "reg.example/tools/curl:8";
        let order = [
            "*",
            "curl",
            "tools/curl",
            "reg.example/tools/curl",
            "curl:8",
            "reg.example/tools/curl:8",
        ];
        for pair in order.windows(2) {
            assert!(closeness(pair[0], image) < closeness(pair[1], image), "{pair:?}");
        }
    }
}
