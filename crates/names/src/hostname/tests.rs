//! Tables of matches, and what holds for all names.

use proptest::prelude::*;

use super::Hostname;

fn host(text: &str) -> Hostname {
    text.parse().unwrap()
}

#[test]
fn names_match_as_this_table_says() {
    for (a, b, overlap, subset) in [
        ("a.com", "a.com", true, true),
        ("a.com", "b.com", false, false),
        ("a.com", "*.com", true, true),
        ("a.com", "*", true, true),
        ("com", "*.com", false, false),
        ("b.a.com", "*.com", true, true),
        ("*.a.com", "*.com", true, true),
        ("*.com", "*.a.com", true, false),
        ("*.com", "*.net", false, false),
        ("*", "*.net", true, false),
        ("*", "*", true, true),
        ("xa.com", "*a.com", true, true),
        ("x-eu.a.com", "*-eu.a.com", true, true),
        ("*.com", "a.com", true, false),
    ] {
        let (a, b) = (host(a), host(b));
        assert_eq!(a.matches(&b), overlap, "{a} {b}");
        assert_eq!(b.matches(&a), overlap, "{b} {a}");
        assert_eq!(a.is_subset_of(&b), subset, "{a} in {b}");
    }
}

#[test]
fn the_most_specific_comes_first() {
    let mut names: Vec<_> = ["*", "*.com", "b.com", "*.a.com", "a.com", "*.b.com"].map(host).into();
    names.sort();
    let names: Vec<_> = names.iter().map(Hostname::as_str).collect();
    assert_eq!(names, ["a.com", "b.com", "*.a.com", "*.b.com", "*.com", "*"]);
}

#[test]
fn what_is_no_hostname_is_refused() {
    for bad in
        ["", ".", "a..b", "a.*", "a.*.com", "**", "*-", "-a.com", "a-.com", "a b", "a:80", "ü.de"]
    {
        assert!(bad.parse::<Hostname>().is_err(), "{bad}");
    }
    assert!("x".repeat(64).parse::<Hostname>().is_err());
}

#[test]
fn case_and_the_last_dot_do_not_matter() {
    assert_eq!(host("Foo.COM."), host("foo.com"));
}

fn any_host() -> impl Strategy<Value = Hostname> {
    "(\\*|\\*\\.)?[abc](\\.[abc]){0,3}|\\*".prop_filter_map("a hostname", |s| s.parse().ok())
}

proptest! {
    #[test]
    fn text_survives(name in any_host()) {
        prop_assert_eq!(name.to_string().parse::<Hostname>(), Ok(name));
    }

    #[test]
    fn anything_parses_or_is_refused(text in ".{0,40}") {
        if let Ok(name) = text.parse::<Hostname>() {
            prop_assert_eq!(name.to_string().parse::<Hostname>(), Ok(name));
        }
    }

    #[test]
    fn a_subset_overlaps_and_comes_first(a in any_host(), b in any_host()) {
        prop_assert_eq!(a.matches(&b), b.matches(&a));
        if a.is_subset_of(&b) {
            prop_assert!(a.matches(&b));
            prop_assert!(a <= b);
        }
    }

    #[test]
    fn subsets_of_subsets_are_subsets(a in any_host(), b in any_host(), c in any_host()) {
        if a.is_subset_of(&b) && b.is_subset_of(&c) {
            prop_assert!(a.is_subset_of(&c));
        }
    }
}
