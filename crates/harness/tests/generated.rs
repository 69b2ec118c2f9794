//! Every target of the fuzzer with input that was kept (`corpus/TARGET/`) and input that is made here: the
//! same each time, some seconds in all. What a fuzzer found and was mended is kept there.

use std::path::Path;
use std::sync::Once;
use std::time::Duration;

use ironsail_harness::{ALL, run};
use ironsail_sys::clock::Clock;
use parking_lot::Mutex;

/// Inputs for each target, unless time runs out before.
const INPUTS: u64 = 400;
/// On a slow machine fewer inputs are tried.
const LONGEST: Duration = Duration::from_secs(4);

/// Bytes that look random, the same for the same seed (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Long ones make complicated things, short ones simple things; both are wanted.
    fn bytes(&mut self, number: u64) -> Vec<u8> {
        let length = (number % 16 + 1) * (self.next() % 200) + 1;
        (0..length).map(|_| self.next().to_le_bytes()[0]).collect()
    }
}

/// The threads that panicked, also if somebody caught it. A test's thread has its name.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn note_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.lock().extend(std::thread::current().name().map(str::to_owned));
            before(panic);
        }));
    });
}

fn try_all(name: &str) {
    note_panics();
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    for file in std::fs::read_dir(kept).into_iter().flatten().flatten() {
        run(name, &std::fs::read(file.path()).expect("what was kept can be read"));
    }
    let clock = Clock::system();
    let start = clock.now();
    let mut random = Random(7);
    for number in 0..INPUTS {
        if clock.now().duration_since(start).unwrap_or_default() > LONGEST {
            break;
        }
        run(name, &random.bytes(number));
    }
    assert!(!PANICS.lock().iter().any(|one| one == name), "something panicked, see above");
}

/// A test for each target, so that they run side by side and a failure has a name.
macro_rules! each {
    ($($name:ident)+) => {
        $(#[test]
        fn $name() {
            try_all(stringify!($name));
        })+

        const NAMES: &[&str] = &[$(stringify!($name)),+];
    };
}

each! {
    admission certificate csr discovery dns inject jwks jwt kinds node object
    patch protobuf proxyconfig recovery request resource schema spdy websocket yaml
}

#[test]
fn every_target_is_fuzzed_and_tried() {
    let all: Vec<&str> = ALL.iter().map(|(name, _)| *name).collect();
    assert_eq!(all, NAMES);
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/Cargo.toml");
    let manifest = std::fs::read_to_string(fuzz).expect("the fuzzer's manifest");
    for name in all {
        assert!(manifest.contains(&format!("path = \"targets/{name}.rs\"")), "{name}");
    }
}
