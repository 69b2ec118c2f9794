//! istiod's own certificate.

use std::sync::Arc;
use std::time::Duration;

use ironsail_identity::{KeyKind, San};
use ironsail_names::TrustDomains;
use ironsail_sys::clock::Clock;
use parking_lot::Mutex;

use super::{Serving, ServingFiles, serving_names};
use crate::authority::{Authority, CACERTS_SECRET, Settings};
use crate::caller::Domains;
use crate::material::tests::{Party, now, plugged};
use crate::strongbox::MemoryStrongbox;

#[test]
fn names_are_those_of_istios_services() {
    let namespace = "istio-system".parse().unwrap();
    assert_eq!(
        serving_names(&namespace, "canary", "mesh.example.com, istiod.istio-system.svc"),
        [
            "istio-pilot.istio-system.svc",
            "istiod-canary.istio-system.svc",
            "istiod-remote.istio-system.svc",
            "istiod.istio-system.svc",
            "mesh.example.com",
        ]
    );
    assert_eq!(serving_names(&namespace, "default", "").len(), 3);
}

struct Bench {
    now: Arc<Mutex<std::time::SystemTime>>,
    strongbox: MemoryStrongbox,
    authority: Arc<Authority>,
    serving: Arc<Serving>,
}

async fn bench() -> Bench {
    let clock_hand = Arc::new(Mutex::new(now()));
    let told = clock_hand.clone();
    let clock = Clock::from_fn(move || *told.lock());
    let domains = Domains::new(TrustDomains::new("td".parse().unwrap(), []));
    let strongbox = MemoryStrongbox::default();
    let root = Party::root("root");
    strongbox.put(CACERTS_SECRET, plugged(&root.below("one"), &[], &[&root]));
    let kept = Arc::new(strongbox.clone());
    let authority = Authority::open(Settings::default(), kept, domains, clock).await.unwrap();
    let names = vec!["istiod.istio-system.svc".to_owned()];
    let serving = Serving::start(authority.clone(), names, KeyKind::EcdsaP256).unwrap();
    Bench { now: clock_hand, strongbox, authority, serving: Arc::new(serving) }
}

async fn renewed(bench: &Bench, old: &[u8]) {
    let waiting = async {
        while bench.serving.shown().current().unwrap().leaf().serial() == old {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(48 * 3600), waiting).await.expect("renewed");
}

#[tokio::test(start_paused = true)]
async fn it_is_renewed_before_it_ends() {
    let bench = bench().await;
    let first = bench.serving.shown().current().unwrap();
    let leaf = first.leaf();
    assert_eq!(leaf.sans(), [San::Dns("istiod.istio-system.svc".to_owned())]);
    assert_eq!(first.chain().len(), 2);
    let serving = bench.serving.clone();
    let task = tokio::spawn(async move { serving.run().await });
    // Just before half of its life it is still the same an hour later.
    *bench.now.lock() = now() + Duration::from_secs(40 * 86_400);
    tokio::time::sleep(Duration::from_secs(7200)).await;
    assert_eq!(bench.serving.shown().current().unwrap().leaf().serial(), leaf.serial());
    *bench.now.lock() = now() + Duration::from_secs(50 * 86_400);
    renewed(&bench, leaf.serial()).await;
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn it_follows_the_ca() {
    let bench = bench().await;
    let first = bench.serving.shown().current().unwrap();
    let serving = bench.serving.clone();
    let task = tokio::spawn(async move { serving.run().await });
    tokio::time::sleep(Duration::from_secs(60)).await;
    let root = Party::root("root");
    let signer = root.below("two");
    bench.strongbox.put(CACERTS_SECRET, plugged(&signer, &[], &[&root]));
    bench.authority.reload().await.unwrap();
    renewed(&bench, first.leaf().serial()).await;
    let current = bench.serving.shown().current().unwrap();
    assert_eq!(current.chain()[1], signer.certificate);
    task.abort();
}

/// Writes what the CA would show into files.
fn write_files(folder: &std::path::Path, authority: &Authority) -> Vec<u8> {
    let name = San::Dns("istiod.example.com".to_owned());
    let hour = Duration::from_secs(3600);
    let credential = authority.issue_server(&[name], KeyKind::EcdsaP256, hour).unwrap();
    std::fs::write(folder.join("tls.key"), &*credential.key().to_pem()).unwrap();
    std::fs::write(folder.join("tls.crt"), credential.chain_pem()).unwrap();
    std::fs::write(folder.join("ca.crt"), authority.roots().borrow().pem()).unwrap();
    credential.leaf().serial().to_vec()
}

#[tokio::test]
async fn files_are_taken_up_when_they_change_and_only_when_they_hold() {
    let bench = bench().await;
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let files =
        ServingFiles { certificate: at("tls.crt"), key: at("tls.key"), roots: at("ca.crt") };
    assert!(Serving::of_files(files.clone()).is_err(), "nothing is there");
    let first = write_files(folder.path(), &bench.authority);
    let serving = Arc::new(Serving::of_files(files).unwrap());
    let serial = || serving.shown().current().unwrap().leaf().serial().to_vec();
    assert_eq!(serial(), first);
    assert_eq!(*serving.roots().unwrap().borrow(), *bench.authority.roots().borrow());
    let running = serving.clone();
    let task = tokio::spawn(async move { running.run().await });
    // A key that does not belong to the certificate is not taken, what follows is.
    std::fs::write(at("tls.key"), "nothing").unwrap();
    let second = write_files(folder.path(), &bench.authority);
    let taken = async {
        while serial() != second {
            // The watch begins some time after the task does; a file written again is seen.
            std::fs::write(at("ca.crt"), bench.authority.roots().borrow().pem()).unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), taken).await.expect("taken up");
    task.abort();
}
