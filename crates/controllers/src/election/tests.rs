//! Replicas against podlet's API: handover on a graceful end, on death, and to the default revision.

use std::sync::Arc;

use ironsail_testkit::{Api as TestApi, Fault, eventually};
use parking_lot::Mutex;

use super::*;

type Log = Arc<Mutex<Vec<String>>>;

struct Replica {
    stop: CancellationToken,
    leading: watch::Receiver<bool>,
    task: tokio::task::JoinHandle<()>,
}

fn config(identity: &str, revision: &str, default: &str) -> Config {
    Config {
        namespace: "default".to_owned(),
        name: name::STATUS.to_owned(),
        identity: identity.to_owned(),
        revision: revision.to_owned(),
        default_revision: watch::Sender::new(default.to_owned()).subscribe(),
        ttl: Duration::from_secs(2),
        clock: Clock::system(),
    }
}

fn replica(client: Client, config: Config, log: &Log) -> Replica {
    let stop = CancellationToken::new();
    let identity = config.identity.clone();
    let election = Election::new(client, config);
    let leading = election.leading();
    let log = log.clone();
    let task = tokio::spawn(election.run(stop.clone(), move |token| {
        let (log, identity) = (log.clone(), identity.clone());
        async move {
            log.lock().push(format!("{identity} starts"));
            token.cancelled().await;
            log.lock().push(format!("{identity} ends"));
        }
    }));
    Replica { stop, leading, task }
}

async fn holder(api: &TestApi) -> Lease {
    let leases: Api<Lease> = Api::default_namespaced(api.admin());
    leases.get(name::STATUS).await.unwrap()
}

#[tokio::test]
async fn the_lease_goes_over_at_once_on_a_graceful_end() {
    let (api, log) = (TestApi::open().await, Log::default());
    let mut first = replica(api.client(), config("first", "r", "r"), &log);
    first.leading.wait_for(|l| *l).await.unwrap();
    let mut second = replica(api.client(), config("second", "r", "r"), &log);
    // The second one has looked and waits.
    eventually("second looks at the lease", async || {
        let asked = api.asked().iter().filter(|line| line.starts_with("GET")).count();
        if asked > 4 { Ok(()) } else { Err(format!("{asked} looks")) }
    })
    .await;
    assert!(!*second.leading.borrow());
    first.stop.cancel();
    first.task.await.unwrap();
    let released = Instant::now();
    second.leading.wait_for(|l| *l).await.unwrap();
    assert!(released.elapsed() < Duration::from_millis(1500), "waited {:?}", released.elapsed());
    assert_eq!(*log.lock(), ["first starts", "first ends", "second starts"]);
    let spec = holder(&api).await.spec.unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some("second"));
    assert_eq!(spec.lease_transitions, Some(1));
    second.stop.cancel();
    second.task.await.unwrap();
}

#[tokio::test]
async fn the_lease_of_a_dead_replica_is_taken_when_it_has_expired() {
    let (api, log) = (TestApi::open().await, Log::default());
    let mut first = replica(api.client(), config("first", "r", "r"), &log);
    first.leading.wait_for(|l| *l).await.unwrap();
    first.task.abort();
    let mut second = replica(api.client(), config("second", "r", "r"), &log);
    second.leading.wait_for(|l| *l).await.unwrap();
    assert_eq!(log.lock().last().unwrap(), "second starts");
    second.stop.cancel();
    second.task.await.unwrap();
    assert_eq!(holder(&api).await.spec.unwrap().holder_identity, None);
}

#[tokio::test]
async fn a_leader_that_cannot_renew_stops_its_work_and_comes_back() {
    let (api, log) = (TestApi::open().await, Log::default());
    let mut only = replica(api.client(), config("only", "r", "r"), &log);
    only.leading.wait_for(|l| *l).await.unwrap();
    api.fault(|_, _| Some(Fault::Refuse));
    only.leading.wait_for(|l| !*l).await.unwrap();
    assert_eq!(*log.lock(), ["only starts", "only ends"]);
    api.heal();
    only.leading.wait_for(|l| *l).await.unwrap();
    only.stop.cancel();
    only.task.await.unwrap();
}

#[tokio::test]
async fn the_default_revision_takes_the_lease_from_another() {
    let (api, log) = (TestApi::open().await, Log::default());
    let mut canary = replica(api.client(), config("c", "canary", "stable"), &log);
    canary.leading.wait_for(|l| *l).await.unwrap();
    let mut stable = replica(api.client(), config("s", "stable", "stable"), &log);
    stable.leading.wait_for(|l| *l).await.unwrap();
    canary.leading.wait_for(|l| !*l).await.unwrap();
    let lease = holder(&api).await;
    assert_eq!(lease.metadata.annotations.unwrap()[REVISION], "stable");
    for replica in [canary, stable] {
        replica.stop.cancel();
        replica.task.await.unwrap();
    }
}
