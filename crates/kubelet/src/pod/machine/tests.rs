//! The life cycle as tables: a pod, what happens to it, what is done about it.

use super::*;
use serde_json::{Value, json};

/// A machine, a clock, and short words for what happens.
struct Script {
    machine: Machine,
    now: Instant,
}

fn ended(code: i32) -> Ended {
    Ended {
        code,
        signal: None,
        reason: if code == 0 { "Completed" } else { "Error" }.into(),
        message: None,
        container_id: None,
        started_at: None,
        finished_at: None,
    }
}

impl Script {
    fn new(spec: Value) -> Self {
        let spec: PodSpec = serde_json::from_value(spec).unwrap();
        let mut machine = Machine::new(&spec, Limits::KUBERNETES);
        machine.sandbox_ready();
        Self { machine, now: Instant::now() }
    }

    fn index(&self, name: &str) -> usize {
        self.machine.units.iter().position(|u| u.name == name).unwrap()
    }

    /// The steps of now, as words.
    fn steps(&mut self) -> Vec<String> {
        let steps = self.machine.steps(self.now);
        steps
            .into_iter()
            .map(|step| match step {
                Step::Start(i) => format!("start {}", self.machine.units[i].name),
                Step::Stop { unit, grace } => {
                    format!("stop {} {}", self.machine.units[unit].name, grace.as_secs())
                }
                Step::Finish => "finish".to_owned(),
            })
            .collect()
    }

    fn expect(&mut self, want: &[&str]) -> &mut Self {
        assert_eq!(self.steps(), want);
        self
    }

    fn runs(&mut self, name: &str) -> &mut Self {
        let index = self.index(name);
        self.machine.created(index, format!("id-{name}"), Timestamp::UNIX_EPOCH);
        self.machine.running(index);
        self
    }

    fn ends(&mut self, name: &str, code: i32) -> &mut Self {
        let index = self.index(name);
        self.machine.ended(index, ended(code), self.now);
        self
    }

    fn faults(&mut self, name: &str) -> &mut Self {
        let index = self.index(name);
        let fault = Fault { kind: FaultKind::Image, message: "no".into() };
        self.machine.faulted(index, fault, self.now);
        self
    }

    fn after(&mut self, seconds: u64) -> &mut Self {
        self.now += Duration::from_secs(seconds);
        self
    }

    fn stop(&mut self, why: Stop, grace: u64) -> &mut Self {
        self.machine.stop_pod(why, Duration::from_secs(grace), self.now);
        self
    }
}

fn pod(policy: &str, init: &[&str], sidecars: &[&str], main: &[&str]) -> Value {
    let side = sidecars.iter().map(|n| json!({"name": n, "restartPolicy": "Always"}));
    let init: Vec<Value> = side.chain(init.iter().map(|n| json!({"name": n}))).collect();
    let main: Vec<Value> = main.iter().map(|n| json!({"name": n})).collect();
    json!({"restartPolicy": policy, "initContainers": init, "containers": main})
}

#[test]
fn init_containers_run_one_after_the_other_then_the_main_ones() {
    let mut s = Script::new(pod("Always", &["i1", "i2"], &[], &["a", "b"]));
    s.expect(&["start i1"]).expect(&[]);
    s.runs("i1").expect(&[]).ends("i1", 0).expect(&["start i2"]);
    s.runs("i2").ends("i2", 0).expect(&["start a"]).expect(&[]);
    s.runs("a").expect(&["start b"]).runs("b").expect(&[]);
    assert!(s.machine.initialized);
}

#[test]
fn nothing_starts_before_the_sandbox_is_there() {
    let spec: PodSpec = serde_json::from_value(pod("Always", &[], &[], &["a"])).unwrap();
    let mut machine = Machine::new(&spec, Limits::KUBERNETES);
    assert!(machine.steps(Instant::now()).is_empty());
    machine.sandbox_ready();
    assert_eq!(machine.steps(Instant::now()), [Step::Start(0)]);
}

#[test]
fn a_failed_init_container_is_tried_again_unless_the_policy_is_never() {
    let mut s = Script::new(pod("Always", &["i"], &[], &["a"]));
    s.expect(&["start i"]).runs("i").ends("i", 1).expect(&["start i"]);
    s.runs("i").ends("i", 1).expect(&[]).after(9).expect(&[]).after(1).expect(&["start i"]);
    assert_eq!(s.machine.units[0].restarts, 2);
    let mut s = Script::new(pod("Never", &["i"], &[], &["a"]));
    s.expect(&["start i"]).runs("i").ends("i", 1).expect(&["finish"]).expect(&[]);
    assert_eq!(s.machine.stopping(), Some(Stop::Finished));
}

#[test]
fn a_sidecar_is_waited_for_until_its_startup_probe_passes() {
    let mut spec = pod("Always", &["i"], &["s"], &["a"]);
    spec["initContainers"][0]["startupProbe"] = json!({"tcpSocket": {"port": 1}});
    let mut s = Script::new(spec);
    s.expect(&["start s"]).runs("s").expect(&[]);
    s.machine.startup_passed(0);
    s.expect(&["start i"]).runs("i").ends("i", 0).expect(&["start a"]);
}

#[test]
fn a_sidecar_is_restarted_whatever_the_policy_and_a_finished_pod_stops_it() {
    let mut s = Script::new(pod("Never", &[], &["s1", "s2"], &["a"]));
    s.expect(&["start s1"])
        .runs("s1")
        .expect(&["start s2"])
        .runs("s2")
        .expect(&["start a"])
        .runs("a");
    s.ends("s1", 0).expect(&["start s1"]).runs("s1");
    s.ends("a", 0).expect(&["stop s2 30"]).expect(&[]);
    s.after(10).ends("s2", 0).expect(&["stop s1 20"]).ends("s1", 143).expect(&["finish"]);
}

#[test]
fn init_containers_do_not_run_again_when_a_sidecar_restarts_later() {
    let mut s = Script::new(pod("Always", &["i"], &["s"], &["a"]));
    s.expect(&["start s"])
        .runs("s")
        .expect(&["start i"])
        .runs("i")
        .ends("i", 0)
        .expect(&["start a"])
        .runs("a");
    s.ends("s", 1).expect(&["start s"]).runs("s").expect(&[]);
    s.ends("s", 1)
        .ends("a", 1)
        .expect(&["start a"])
        .runs("a")
        .expect(&[])
        .after(10)
        .expect(&["start s"]);
}

#[test]
fn restart_policies_decide_what_comes_back() {
    for (policy, code, want) in [
        ("Always", 0, "start a"),
        ("Always", 1, "start a"),
        ("OnFailure", 0, "finish"),
        ("OnFailure", 1, "start a"),
        ("Never", 0, "finish"),
        ("Never", 1, "finish"),
    ] {
        let mut s = Script::new(pod(policy, &[], &[], &["a"]));
        s.expect(&["start a"]).runs("a").ends("a", code).expect(&[want]);
    }
}

#[test]
fn one_container_done_does_not_finish_the_pod() {
    let mut s = Script::new(pod("OnFailure", &[], &[], &["a", "b"]));
    s.expect(&["start a"]).runs("a").expect(&["start b"]).runs("b");
    s.ends("a", 0).expect(&[]).ends("b", 0).expect(&["finish"]);
}

#[test]
fn crashes_are_held_back_longer_each_time() {
    let mut s = Script::new(pod("Always", &[], &[], &["a"]));
    s.expect(&["start a"]).runs("a").ends("a", 1).expect(&["start a"]).runs("a");
    for delay in [10, 20, 40] {
        s.ends("a", 1).expect(&[]);
        assert_eq!(
            s.machine.units[0].held_back(Limits::KUBERNETES),
            Some(Duration::from_secs(delay))
        );
        assert_eq!(s.machine.wake(s.now), Some(s.now + Duration::from_secs(delay)));
        s.after(delay).expect(&["start a"]).runs("a");
    }
    assert_eq!(s.machine.units[0].restarts, 4);
}

#[test]
fn deletion_stops_main_containers_first_and_sidecars_last_in_reverse() {
    let mut s = Script::new(pod("Always", &[], &["s1", "s2"], &["a", "b"]));
    s.expect(&["start s1"]).runs("s1").expect(&["start s2"]).runs("s2");
    s.expect(&["start a"]).runs("a").expect(&["start b"]).runs("b");
    s.stop(Stop::Deleted, 30).expect(&["stop b 30", "stop a 30"]).expect(&[]);
    s.after(5).ends("a", 143).expect(&[]).ends("b", 0).expect(&["stop s2 25"]);
    s.ends("s2", 0).expect(&["stop s1 25"]).ends("s1", 0).expect(&["finish"]);
}

#[test]
fn sidecars_are_not_waited_for_past_the_grace() {
    let mut s = Script::new(pod("Always", &[], &["s"], &["a"]));
    s.expect(&["start s"]).runs("s").expect(&["start a"]).runs("a");
    s.stop(Stop::Deleted, 10).expect(&["stop a 10"]);
    assert_eq!(s.machine.wake(s.now), Some(s.now + Duration::from_secs(10)));
    s.after(10).expect(&["stop s 2"]).expect(&[]);
    assert_eq!(s.machine.wake(s.now), None);
    s.ends("s", 0).expect(&[]).ends("a", 137).expect(&["finish"]);
}

#[test]
fn a_pod_stopped_while_a_container_starts_stops_that_container() {
    let mut s = Script::new(pod("Always", &[], &[], &["a", "b"]));
    s.expect(&["start a"])
        .stop(Stop::Deleted, 3)
        .expect(&["stop a 3"])
        .ends("a", 137)
        .expect(&["finish"]);
}

#[test]
fn a_later_stop_only_shortens_the_grace() {
    let mut s = Script::new(pod("Always", &[], &[], &["a"]));
    s.expect(&["start a"]).runs("a").stop(Stop::Deleted, 10);
    s.stop(Stop::Deleted, 60);
    assert_eq!(s.machine.stop_deadline(), Some(s.now + Duration::from_secs(10)));
    s.stop(Stop::Deleted, 1);
    assert_eq!(s.machine.stop_deadline(), Some(s.now + Duration::from_secs(1)));
}

#[test]
fn a_fault_is_retried_later_or_as_soon_as_something_changed() {
    let mut s = Script::new(pod("Always", &[], &[], &["a"]));
    s.expect(&["start a"]).faults("a").expect(&[]).after(10).expect(&["start a"]);
    s.faults("a").expect(&[]);
    s.machine.retry_faults();
    s.expect(&["start a"]).runs("a").expect(&[]);
    assert_eq!(s.machine.units[0].restarts, 0);
    assert_eq!(s.machine.units[0].fault, None);
}

#[test]
fn a_fault_of_one_main_container_does_not_hold_up_the_others() {
    let mut s = Script::new(pod("Always", &[], &[], &["a", "b"]));
    s.expect(&["start a"]).faults("a").expect(&["start b"]).runs("b").expect(&[]);
}

#[test]
fn a_container_stopped_by_its_probe_comes_back() {
    let mut s = Script::new(pod("Always", &[], &[], &["a"]));
    s.expect(&["start a"]).runs("a");
    s.machine.stop_unit(0);
    s.expect(&[]).ends("a", 137).expect(&["start a"]);
}

#[test]
fn a_restart_rule_wins_over_the_policy() {
    let rules =
        |op: &str| json!([{"action": "Restart", "exitCodes": {"operator": op, "values": [42]}}]);
    for (op, code, want) in [("In", 42, "start a"), ("In", 1, "finish"), ("NotIn", 1, "start a")] {
        let mut s = Script::new(json!({"restartPolicy": "Never", "containers": [
            {"name": "a", "restartPolicy": "Never", "restartPolicyRules": rules(op)}]}));
        s.expect(&["start a"]).runs("a").ends("a", code).expect(&[want]);
    }
}

#[test]
fn readiness_needs_the_startup_probe_and_the_readiness_probe() {
    let mut s = Script::new(json!({"containers": [{"name": "a",
        "startupProbe": {"tcpSocket": {"port": 1}}, "readinessProbe": {"tcpSocket": {"port": 1}}}]}));
    s.expect(&["start a"]).runs("a");
    let ready = |s: &Script| s.machine.units[0].is_ready();
    s.machine.probed(0, true);
    assert!(!ready(&s));
    s.machine.startup_passed(0);
    assert!(ready(&s));
    s.machine.probed(0, false);
    assert!(!ready(&s));
}
