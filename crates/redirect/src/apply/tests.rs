//! The order of looking, changing and undoing, with programs that only say what they are told to.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;

use super::{Backend, Error, Kind, Options, Outcome, Output, Programs, Rehearsal, detect};
use crate::config::{Config, Host, Settings};
use crate::rule::Family;

/// Answers by program name; what is not listed is not installed.
#[derive(Default)]
struct Fake {
    answers: BTreeMap<String, Output>,
    runs: RefCell<Vec<(String, String)>>,
}

impl Fake {
    fn with(mut self, program: &str, code: i32, stdout: &str) -> Self {
        let (stdout, stderr) = if code == 0 { (stdout, "") } else { ("", stdout) };
        let output =
            Output { code: Some(code), stdout: stdout.to_owned(), stderr: stderr.to_owned() };
        self.answers.insert(program.to_owned(), output);
        self
    }

    fn nft(self) -> Self {
        let version = "iptables-nft-save v1.8.9 (nf_tables)\n";
        ["iptables", "ip6tables"].iter().fold(self, |fake, family| {
            fake.with(&format!("{family}-nft-save"), 0, "")
                .with(&format!("{family}-nft-save --version"), 0, version)
                .with(&format!("{family}-nft-restore --noflush"), 0, "")
                .with(&format!("{family}-nft-restore --counters"), 0, "")
        })
    }

    fn writes(&self) -> Vec<String> {
        let runs = self.runs.borrow();
        runs.iter().filter(|(_, stdin)| !stdin.is_empty()).map(|(run, _)| run.clone()).collect()
    }
}

impl Programs for Fake {
    fn run(&self, program: &str, args: &[&str], stdin: &str) -> io::Result<Output> {
        let run = [program].iter().chain(args).copied().collect::<Vec<_>>().join(" ");
        self.runs.borrow_mut().push((run.clone(), stdin.to_owned()));
        self.answers.get(&run).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

const RULES: &str = "*nat\n:OUTPUT ACCEPT [0:0]\n-A OUTPUT -j ACCEPT\nCOMMIT\n";
/// What the older kind prints once somebody has merely listed its tables.
const NO_RULES: &str =
    "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n";

fn config(ipv6: bool) -> Config {
    Settings { inbound_ports_include: "*".to_owned(), ..Settings::default() }
        .config(&Host { ipv6, name_servers: Vec::new() })
        .unwrap()
}

fn options(reconcile: bool, force: bool) -> Options {
    Options { backend: Backend::Iptables(None), reconcile, force }
}

fn apply(config: &Config, options: &Options, fake: &Fake) -> Result<Outcome, Error> {
    // Without the routes, which are the kernel's business.
    let set = crate::build(config);
    super::iptables::apply(config, &set, options, None, fake)
        .and_then(|done| done.keep_if(Ok(()), fake))
}

#[test]
fn the_kind_that_holds_rules_is_chosen() {
    let legacy = |saved: &str| {
        Fake::default().with("iptables-legacy-save", 0, saved).with(
            "iptables-legacy-save --version",
            0,
            "iptables-legacy-save v1.8.9 (legacy)\n",
        )
    };
    let kind = |fake: &Fake, forced| detect(fake, Family::V4, forced).map(|found| found.kind());
    assert_eq!(kind(&legacy(RULES).nft(), None).unwrap(), Kind::Legacy);
    assert_eq!(kind(&legacy(NO_RULES).nft(), None).unwrap(), Kind::Nft);
    assert_eq!(kind(&legacy("").nft(), None).unwrap(), Kind::Nft);
    assert_eq!(kind(&Fake::default().nft(), None).unwrap(), Kind::Nft);
    assert_eq!(kind(&legacy(""), None).unwrap(), Kind::Legacy, "nothing else is there");
    assert_eq!(kind(&legacy("").nft(), Some(Kind::Legacy)).unwrap(), Kind::Legacy);
    assert_eq!(kind(&legacy(RULES).nft(), Some(Kind::Nft)).unwrap(), Kind::Nft);
    assert!(kind(&Fake::default().nft(), Some(Kind::Legacy)).is_err());
}

#[test]
fn the_plain_name_is_the_last_resort() {
    let plain = Fake::default().with("iptables-save", 0, "").with(
        "iptables-save --version",
        0,
        "v1.8.9 (nf_tables)",
    );
    let found = detect(&plain, Family::V4, None).unwrap();
    assert_eq!((found.command(), found.kind()), ("iptables", Kind::Nft));
    let old = Fake::default().with("iptables-save", 0, "");
    assert_eq!(detect(&old, Family::V4, None).unwrap().kind(), Kind::Legacy, "knows no --version");
    let broken = Fake::default().with("iptables-nft-save", 1, "no kernel support");
    let error = detect(&broken, Family::V6, None).unwrap_err().to_string();
    assert!(error.starts_with("no usable iptables for IPv6: "), "{error}");
}

#[test]
fn a_clean_namespace_gets_one_restore_per_family() {
    let fake = Fake::default().nft();
    assert_eq!(apply(&config(true), &options(false, false), &fake).unwrap(), Outcome::Applied);
    assert_eq!(
        fake.writes(),
        ["iptables-nft-restore --noflush", "ip6tables-nft-restore --noflush"]
    );
}

#[test]
fn what_is_in_place_is_not_written_again_unless_asked() {
    let config = config(false);
    let saved = crate::iptables::restore(&crate::build(&config), Family::V4).replace("-N ", ":");
    let fake = Fake::default().nft().with("iptables-nft-save", 0, &saved);
    assert_eq!(apply(&config, &options(false, false), &fake).unwrap(), Outcome::Unchanged);
    assert_eq!(fake.writes(), Vec::<String>::new());
    assert_eq!(apply(&config, &options(false, true), &fake).unwrap(), Outcome::Replaced);
    assert_eq!(fake.writes().len(), 1);
}

#[test]
fn other_rules_of_ours_are_replaced_only_if_asked() {
    let other = "*nat\n:ISTIO_OUTPUT - [0:0]\n-A OUTPUT -p tcp -j ISTIO_OUTPUT\nCOMMIT\n";
    let fake = Fake::default().nft().with("iptables-nft-save", 0, other);
    let error = apply(&config(false), &options(false, false), &fake).unwrap_err();
    assert!(matches!(error, Error::Drift { family: Family::V4, .. }), "{error}");
    assert!(error.to_string().contains("--reconcile"), "{error}");
    assert_eq!(fake.writes(), Vec::<String>::new());
    assert_eq!(apply(&config(false), &options(true, false), &fake).unwrap(), Outcome::Replaced);
}

#[test]
fn a_failure_of_one_family_puts_the_other_back() {
    let fake = Fake::default().nft().with(
        "ip6tables-nft-restore --noflush",
        2,
        "ip6tables: line 3 failed\n",
    );
    let error = apply(&config(true), &options(false, false), &fake).unwrap_err().to_string();
    assert_eq!(error, "ip6tables-nft-restore failed (exit 2): ip6tables: line 3 failed");
    assert_eq!(
        fake.writes(),
        [
            "iptables-nft-restore --noflush",
            "ip6tables-nft-restore --noflush",
            "ip6tables-nft-restore --counters",
            "iptables-nft-restore --counters",
        ]
    );
}

#[test]
fn a_failed_undo_says_that_the_rules_are_neither() {
    let fake = Fake::default().nft().with("iptables-nft-restore --noflush", 1, "first").with(
        "iptables-nft-restore --counters",
        4,
        "second",
    );
    let error = apply(&config(false), &options(false, false), &fake).unwrap_err();
    let Error::NotUndone { source, second } = error else { panic!("{error}") };
    assert!(source.to_string().contains("first") && second.to_string().contains("second"));
}

#[test]
fn a_rehearsal_asks_but_does_not_write() {
    let ours = "*nat\n:ISTIO_OUTPUT - [0:0]\n-A OUTPUT -j ISTIO_OUTPUT\nCOMMIT\n";
    let programs = Rehearsal::of(Fake::default().nft().with("iptables-nft-save", 0, ours));
    super::clean_rules(&config(false), Backend::Iptables(None), &programs).unwrap();
    assert_eq!(
        programs.written(),
        "# iptables-nft-restore --noflush\n*nat\n:ISTIO_OUTPUT - [0:0]\n-D OUTPUT -j ISTIO_OUTPUT\n-X ISTIO_OUTPUT\nCOMMIT\n"
    );
}

#[test]
fn the_description_shows_every_step() {
    let settings = Settings {
        inbound_ports_include: "*".to_owned(),
        inbound_interception_mode: "TPROXY".to_owned(),
        ..Settings::default()
    };
    let config = settings.config(&Host { ipv6: true, name_servers: Vec::new() }).unwrap();
    let text = super::describe(&config, Backend::Iptables(None));
    let steps: Vec<&str> = text.lines().filter(|line| line.starts_with('#')).collect();
    assert_eq!(
        steps,
        [
            "# iptables-restore --noflush",
            "# ip6tables-restore --noflush",
            "# ip -6 addr add ::6/128 dev lo",
            "# ip rule add fwmark 1337 lookup 133",
            "# ip route add local default dev lo table 133",
            "# ip -6 rule add fwmark 1337 lookup 133",
            "# ip -6 route add local default dev lo table 133",
        ]
    );
    assert!(super::describe(&config, Backend::Nftables).starts_with("# nft -f -\nadd table"));
}
