//! Rollouts played through on a model of ReplicaSets and pods, and single decisions as tables.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use super::plan::{Step, plan};
use super::replicas::{bounds, revision, size, wanted};
use crate::store::{annotation, name};

fn deployment(replicas: i32, strategy: &Value) -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "ns", "uid": "d", "generation": 1,
            "annotations": {"note": "kept"}},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "strategy": strategy, "progressDeadlineSeconds": 600,
            "template": {"metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "one"}]}},
        },
    }))
    .unwrap()
}

fn rolling(surge: i32, unavailable: i32) -> Value {
    json!({"type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
}

/// A model of the API: sets by name, each with the readiness of its pods.
struct World {
    deployment: Deployment,
    sets: Vec<(ReplicaSet, Vec<bool>)>,
    now: Timestamp,
    serial: i64,
}

impl World {
    fn new(deployment: Deployment) -> Self {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        Self { deployment, sets: Vec::new(), now, serial: 0 }
    }

    fn set_image(&mut self, image: &str) {
        let spec = self.deployment.spec.as_mut().unwrap();
        spec.template.spec.as_mut().unwrap().containers[0].image = Some(image.into());
    }

    /// One reconcile of the Deployment; returns what it did.
    fn step(&mut self) -> Vec<String> {
        let sets: Vec<Arc<ReplicaSet>> =
            self.sets.iter().map(|(set, _)| Arc::new(set.clone())).collect();
        let pods = self.pods();
        let plan = plan(&self.deployment, &sets, &pods, self.now);
        self.deployment.status = Some(plan.status);
        plan.steps.into_iter().map(|step| self.take(step)).collect()
    }

    fn pods(&self) -> Vec<Arc<Pod>> {
        let mut pods = Vec::new();
        for (set, ready) in &self.sets {
            for _ in ready {
                let mut pod = Pod::default();
                pod.metadata.owner_references = Some(vec![crate::owner::reference(set)]);
                pods.push(Arc::new(pod));
            }
        }
        pods
    }

    fn take(&mut self, step: Step) -> String {
        match step {
            Step::Create(mut set) => {
                self.serial += 1;
                set.metadata.uid = Some(format!("rs{}", self.serial));
                let born = Timestamp::from_second(self.serial).unwrap();
                set.metadata.creation_timestamp = crate::store::time(born);
                let text = format!("create {}", size(&set));
                self.sets.push((*set, Vec::new()));
                text
            }
            Step::Patch { set, body } => {
                let entry = self.sets.iter_mut().find(|(s, _)| s.metadata.uid == set.metadata.uid);
                let (target, _) = entry.unwrap();
                if let Some(replicas) = body["spec"]["replicas"].as_i64() {
                    let spec = target.spec.as_mut().unwrap();
                    spec.replicas = Some(i32::try_from(replicas).unwrap());
                }
                for (key, value) in body["metadata"]["annotations"].as_object().unwrap() {
                    let all = target.metadata.annotations.get_or_insert_default();
                    all.insert(key.clone(), value.as_str().unwrap().into());
                }
                format!("scale {} to {}", revision(&set), size(target))
            }
            Step::Delete(set) => {
                self.sets.retain(|(s, _)| s.metadata.uid != set.metadata.uid);
                format!("delete {}", revision(&set))
            }
            Step::Annotate(body) => {
                let value = body["metadata"]["annotations"][super::replicas::REVISION].as_str();
                let all = self.deployment.metadata.annotations.get_or_insert_default();
                all.insert(super::replicas::REVISION.into(), value.unwrap().into());
                format!("annotate {}", value.unwrap())
            }
        }
    }

    /// The ReplicaSet controller at work on one set: pods first, then the status.
    fn settle(&mut self, index: usize) {
        let (set, pods) = &mut self.sets[index];
        let wanted = usize::try_from(size(set)).unwrap();
        pods.sort_unstable_by_key(|ready| !ready);
        pods.truncate(wanted);
        pods.resize(wanted, false);
        self.report(index);
    }

    fn report(&mut self, index: usize) {
        let (set, pods) = &mut self.sets[index];
        let count = |n: usize| i32::try_from(n).unwrap();
        let ready = count(pods.iter().filter(|r| **r).count());
        set.status = Some(ReplicaSetStatus {
            replicas: count(pods.len()),
            ready_replicas: Some(ready),
            available_replicas: Some(ready),
            ..ReplicaSetStatus::default()
        });
    }

    fn ready(&self) -> i32 {
        let ready = self.sets.iter().flat_map(|(_, pods)| pods).filter(|r| **r).count();
        i32::try_from(ready).unwrap()
    }

    fn count(&self) -> i32 {
        i32::try_from(self.sets.iter().map(|(_, pods)| pods.len()).sum::<usize>()).unwrap()
    }

    /// Lets everything happen until nothing changes any more.
    fn calm(&mut self) {
        for _ in 0..200 {
            let quiet = self.step().is_empty();
            for index in 0..self.sets.len() {
                self.settle(index);
                self.sets[index].1.fill(true);
                self.report(index);
            }
            if quiet && self.step().is_empty() {
                return;
            }
        }
        panic!("the rollout does not come to rest");
    }

    fn progress(&self) -> (String, String) {
        let conditions = self.deployment.status.clone().unwrap().conditions.unwrap();
        let progress = conditions.into_iter().find(|c| c.type_ == "Progressing").unwrap();
        (progress.status, progress.reason.unwrap())
    }
}

fn random_bounds(random: &mut StdRng) -> (i32, i32) {
    loop {
        let bounds = (random.random_range(0..4), random.random_range(0..4));
        if bounds != (0, 0) {
            return bounds;
        }
    }
}

#[test]
fn a_rolling_update_never_breaks_its_bounds() {
    for seed in 0..400 {
        let mut random = StdRng::seed_from_u64(seed);
        let (surge, unavailable) = random_bounds(&mut random);
        let replicas = random.random_range(1..9);
        let mut world = World::new(deployment(replicas, &rolling(surge, unavailable)));
        world.calm();
        world.set_image("two");
        let least = wanted(&world.deployment) - bounds(&world.deployment).1;
        let most = wanted(&world.deployment) + bounds(&world.deployment).0;
        for _ in 0..300 {
            let some = random.random_range(0..world.sets.len());
            match random.random_range(0..10) {
                0..3 => drop(world.step()),
                3..6 => world.settle(some),
                6..8 => world.report(some),
                8 => {
                    let pods = &mut world.sets[some].1;
                    if let Some(pod) = pods.iter_mut().find(|ready| !**ready) {
                        *pod = true;
                    }
                }
                _ if random.random_bool(0.05) => world.set_image("three"),
                _ => {}
            }
            assert!(world.ready() >= least, "seed {seed}: {} of {least}", world.ready());
            assert!(world.count() <= most, "seed {seed}: {} of {most}", world.count());
        }
        world.calm();
        assert_eq!(world.count(), replicas, "seed {seed}");
        assert_eq!(world.progress().1, "NewReplicaSetAvailable", "seed {seed}");
    }
}

#[test]
fn pods_that_fail_at_random_never_make_it_exceed_the_surge_or_hang() {
    for seed in 0..200 {
        let mut random = StdRng::seed_from_u64(seed);
        let (surge, unavailable) = random_bounds(&mut random);
        let replicas = random.random_range(1..9);
        let mut world = World::new(deployment(replicas, &rolling(surge, unavailable)));
        world.calm();
        world.set_image("two");
        let most = wanted(&world.deployment) + bounds(&world.deployment).0;
        for _ in 0..200 {
            let some = random.random_range(0..world.sets.len());
            match random.random_range(0..4) {
                0 => drop(world.step()),
                1 => world.settle(some),
                2 => world.report(some),
                _ => {
                    for pod in &mut world.sets[some].1 {
                        *pod = random.random_bool(0.5);
                    }
                }
            }
            assert!(world.count() <= most, "seed {seed}: {} of {most}", world.count());
        }
        world.calm();
        assert_eq!(world.count(), replicas, "seed {seed}");
    }
}

#[test]
fn the_first_rollout_makes_one_set_and_ends_available() {
    let mut world = World::new(deployment(3, &rolling(1, 0)));
    assert_eq!(world.step(), ["annotate 1", "create 3"]);
    assert_eq!(world.progress(), ("True".into(), "NewReplicaSetCreated".into()));
    world.settle(0);
    assert_eq!(world.step(), Vec::<String>::new());
    let status = world.deployment.status.clone().unwrap();
    assert_eq!(status.updated_replicas, Some(3));
    assert_eq!(status.unavailable_replicas, Some(3));
    world.calm();
    assert_eq!(world.progress(), ("True".into(), "NewReplicaSetAvailable".into()));
    let set = &world.sets[0].0;
    assert_eq!(annotation(&set.metadata, "note"), Some("kept"));
    let hash = name(&set.metadata).strip_prefix("web-").unwrap().to_string();
    let spec = set.spec.clone().unwrap();
    assert_eq!(spec.selector.match_labels.unwrap()["pod-template-hash"], hash);
    assert_eq!(spec.template.unwrap().metadata.unwrap().labels.unwrap()["pod-template-hash"], hash);
}

#[test]
fn going_back_to_an_old_template_takes_its_set_again() {
    let mut world = World::new(deployment(2, &rolling(1, 0)));
    world.calm();
    world.set_image("two");
    world.calm();
    world.set_image("one");
    world.calm();
    assert_eq!(world.sets.len(), 2);
    let revisions: Vec<i64> = world.sets.iter().map(|(set, _)| revision(set)).collect();
    assert_eq!(revisions, [3, 2]);
    let history = annotation(&world.sets[0].0.metadata, super::replicas::HISTORY);
    assert_eq!(history, Some("1"));
    let now = annotation(&world.deployment.metadata, super::replicas::REVISION);
    assert_eq!(now, Some("3"));
}

#[test]
fn recreate_waits_until_the_last_old_pod_is_gone() {
    let mut world = World::new(deployment(2, &json!({"type": "Recreate"})));
    world.calm();
    world.set_image("two");
    assert_eq!(world.step(), ["scale 1 to 0"]);
    assert_eq!(world.step(), Vec::<String>::new(), "old pods are still there");
    world.settle(0);
    assert_eq!(world.step(), ["annotate 2", "create 2"]);
}

#[test]
fn a_paused_deployment_scales_but_does_not_roll() {
    let mut world = World::new(deployment(3, &rolling(1, 1)));
    world.calm();
    world.deployment.spec.as_mut().unwrap().paused = Some(true);
    world.set_image("two");
    assert_eq!(world.step(), Vec::<String>::new());
    assert_eq!(world.progress(), ("Unknown".into(), "DeploymentPaused".into()));
    world.deployment.spec.as_mut().unwrap().replicas = Some(5);
    assert_eq!(world.step(), ["scale 1 to 5"]);
    world.deployment.spec.as_mut().unwrap().paused = Some(false);
    world.calm();
    assert_eq!(world.sets.len(), 2);
    assert_eq!(world.progress().1, "NewReplicaSetAvailable");
}

#[test]
fn scaling_in_the_middle_of_a_rollout_keeps_the_proportion() {
    let mut world = World::new(deployment(10, &rolling(3, 2)));
    world.calm();
    world.set_image("two");
    world.step();
    world.settle(1);
    world.step();
    world.settle(0);
    assert_eq!([size(&world.sets[0].0), size(&world.sets[1].0)], [8, 3]);
    world.deployment.spec.as_mut().unwrap().replicas = Some(20);
    world.step();
    let sizes = [size(&world.sets[0].0), size(&world.sets[1].0)];
    assert_eq!(sizes.iter().sum::<i32>(), 23);
    assert_eq!(sizes, [17, 6]);
}

#[test]
fn a_rollout_that_stands_still_times_out() {
    let mut world = World::new(deployment(1, &rolling(1, 0)));
    world.step();
    world.settle(0);
    world.step();
    world.now = "2026-01-01T00:09:59Z".parse().unwrap();
    world.step();
    assert_eq!(world.progress().0, "True");
    world.now = "2026-01-01T00:10:01Z".parse().unwrap();
    world.step();
    assert_eq!(world.progress(), ("False".into(), "ProgressDeadlineExceeded".into()));
    world.calm();
    assert_eq!(world.progress(), ("True".into(), "NewReplicaSetAvailable".into()));
}

#[test]
fn only_the_newest_revisions_are_kept() {
    let mut world = World::new(deployment(1, &rolling(1, 0)));
    world.deployment.spec.as_mut().unwrap().revision_history_limit = Some(2);
    for image in ["one", "two", "three", "four", "five"] {
        world.set_image(image);
        world.calm();
    }
    let mut revisions: Vec<i64> = world.sets.iter().map(|(set, _)| revision(set)).collect();
    revisions.sort_unstable();
    assert_eq!(revisions, [3, 4, 5]);
}
