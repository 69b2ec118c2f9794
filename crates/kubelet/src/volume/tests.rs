//! Volumes of whole pods, on real directories.

use super::*;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::time::Duration;

#[derive(Default)]
struct Recorded(Mutex<Vec<String>>);

impl Mounter for Recorded {
    fn tmpfs(&self, at: &Path, size: Option<u64>) -> io::Result<()> {
        self.0.lock().push(format!("tmpfs {} {size:?}", at.file_name().unwrap().to_string_lossy()));
        Ok(())
    }
    fn unmount(&self, at: &Path) -> io::Result<()> {
        self.0.lock().push(format!("unmount {}", at.file_name().unwrap().to_string_lossy()));
        Ok(())
    }
}

struct Numbered;

impl TokenSource for Numbered {
    fn request<'a>(
        &'a self,
        _: &'a Pod,
        audience: &'a str,
        _: i64,
    ) -> BoxFuture<'a, Result<(String, Duration), String>> {
        Box::pin(async move { Ok((format!("token for {audience}"), Duration::from_secs(600))) })
    }
}

struct One(Option<Value>);

impl Objects for One {
    fn config_map(&self, _: &str) -> Option<Arc<ConfigMap>> {
        self.0.clone().map(|v| Arc::new(serde_json::from_value(v).unwrap()))
    }
    fn secret(&self, _: &str) -> Option<Arc<Secret>> {
        None
    }
}

fn pod(spec: Value) -> Pod {
    let mut spec = spec;
    spec["containers"] = json!([{"name": "c"}]);
    serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec}))
        .unwrap()
}

async fn refresh(
    volumes: &mut Volumes,
    pod: &Pod,
    objects: &One,
    stamp: &str,
) -> Result<(), String> {
    let none = BTreeMap::new();
    let facts = Facts { pod, pod_ips: &[], host_ips: &[], allocatable: &none };
    let ids = Ids::of_process();
    let means = Means { objects, tokens: &Numbered, facts, ids: &ids, stamp };
    volumes.refresh(pod, means).await.map_err(|e| e.to_string())
}

#[tokio::test]
async fn empty_directories_are_open_to_all_or_to_the_group() {
    let dir = tempfile::tempdir().unwrap();
    let mounter = Arc::new(Recorded::default());
    let mut volumes = Volumes::new(dir.path().join("v"), mounter.clone());
    let pod = pod(
        json!({"volumes": [{"name": "e", "emptyDir": {}}, {"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]}),
    );
    refresh(&mut volumes, &pod, &One(None), "1").await.unwrap();
    refresh(&mut volumes, &pod, &One(None), "2").await.unwrap();
    let path = volumes.place("e").unwrap().path.clone();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o777);
    volumes.remove();
    assert_eq!(*mounter.0.lock(), ["tmpfs m Some(1048576)", "unmount m"]);
    assert!(!path.exists());
}

#[tokio::test]
async fn a_missing_config_map_is_told_and_picked_up_when_it_comes() {
    let dir = tempfile::tempdir().unwrap();
    let mut volumes = Volumes::new(dir.path().join("v"), Arc::new(Recorded::default()));
    let pod = pod(json!({"volumes": [{"name": "cfg", "configMap": {"name": "m"}}]}));
    let error = refresh(&mut volumes, &pod, &One(None), "1").await.unwrap_err();
    assert_eq!(error, "MountVolume.SetUp failed for volume \"cfg\" : configmap \"m\" not found");
    refresh(&mut volumes, &pod, &One(Some(json!({"data": {"a": "1"}}))), "2").await.unwrap();
    let file = volumes.place("cfg").unwrap().path.join("a");
    assert_eq!(fs::read_to_string(&file).unwrap(), "1");
    refresh(&mut volumes, &pod, &One(Some(json!({"data": {"a": "2"}}))), "3").await.unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "2");
}

#[tokio::test]
async fn a_volume_has_the_mount_points_of_those_mounted_inside_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut volumes = Volumes::new(dir.path().join("v"), Arc::new(Recorded::default()));
    let mut pod = pod(json!({"volumes": [{"name": "cfg", "configMap": {"name": "m"}}]}));
    let mount = |name: &str, path: &str| json!({"name": name, "mountPath": path});
    let mounts = json!([
        mount("cfg", "/a/b"),
        mount("x", "/a/b/c/d"),
        mount("y", "/a/bc"),
        mount("z", "/a/b/../e")
    ]);
    pod.spec.as_mut().unwrap().containers[0].volume_mounts =
        serde_json::from_value(mounts).unwrap();
    let map = One(Some(json!({"data": {"f": "1"}})));
    for stamp in ["1", "2"] {
        refresh(&mut volumes, &pod, &map, stamp).await.unwrap();
        let path = &volumes.place("cfg").unwrap().path;
        assert!(path.join("c/d").is_dir() && path.join("f").is_file());
        assert!(!path.join("e").exists() && !path.join("..").join("e").exists());
    }
}

#[tokio::test]
async fn tokens_of_any_audience_are_written_and_come_due() {
    let dir = tempfile::tempdir().unwrap();
    let mut volumes = Volumes::new(dir.path().join("v"), Arc::new(Recorded::default()));
    let pod = pod(json!({"volumes": [{"name": "t", "projected": {"sources": [
        {"serviceAccountToken": {"audience": "istio-ca", "path": "istio-token", "expirationSeconds": 600}}]}}]}));
    refresh(&mut volumes, &pod, &One(None), "1").await.unwrap();
    let file = volumes.place("t").unwrap().path.join("istio-token");
    assert_eq!(fs::read_to_string(file).unwrap(), "token for istio-ca");
    assert!(volumes.due().is_some());
}

#[tokio::test]
async fn unknown_volume_types_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let mut volumes = Volumes::new(dir.path().join("v"), Arc::new(Recorded::default()));
    let pod = pod(json!({"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "x"}}]}));
    let error = refresh(&mut volumes, &pod, &One(None), "1").await.unwrap_err();
    assert_eq!(
        error,
        "MountVolume.SetUp failed for volume \"d\" : volume type persistentVolumeClaim is not supported by podlet"
    );
}

#[test]
fn a_single_user_is_found_only_when_all_agree() {
    let with = |spec: Value| serde_json::from_value::<Pod>(json!({"spec": spec})).unwrap();
    let of = |uid: i64| json!({"name": "c", "securityContext": {"runAsUser": uid}});
    assert_eq!(single_user(&with(json!({"containers": [of(5), of(5)]}))), Some(5));
    assert_eq!(single_user(&with(json!({"containers": [of(5), of(6)]}))), None);
    assert_eq!(single_user(&with(json!({"containers": [of(5), {"name": "x"}]}))), None);
    assert_eq!(
        single_user(&with(
            json!({"securityContext": {"runAsUser": 7}, "containers": [{"name": "x"}]})
        )),
        Some(7)
    );
}
