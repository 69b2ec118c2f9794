//! The decision as a table, the controller against podlet's API.

use ironsail_testkit::{Api as TestApi, Fault, eventually};

use super::*;

const MAP: &str = ROOTS.name;
const KEY: &str = ROOTS.key;

fn map(data: &str, label: &str) -> ConfigMap {
    serde_json::from_value(json!({
        "metadata": {"name": MAP, "namespace": "a", "labels": {LABEL: label}},
        "data": {KEY: data, "other": "kept"},
    }))
    .unwrap()
}

#[test]
fn a_map_is_made_or_repaired_only_where_it_belongs() {
    let all = Selectors::default();
    let place = Place::default();
    let is = |name: &str, place: &Place, map: Option<&ConfigMap>| {
        decide(ROOTS, name, place, map, "root", &all)
    };
    assert!(matches!(is("a", &place, None), Action::Create(_)));
    assert_eq!(is("a", &place, Some(&map("root", "true"))), Action::Nothing);
    assert!(matches!(is("a", &place, Some(&map("old", "true"))), Action::Patch(_)));
    assert!(matches!(is("a", &place, Some(&map("root", "false"))), Action::Patch(_)));
    assert_eq!(is("kube-system", &place, None), Action::Nothing);
    assert_eq!(is("a", &Place { ending: true, ..Place::default() }, None), Action::Nothing);
    assert_eq!(decide(ROOTS, "a", &place, None, "", &all), Action::Nothing);
    let some = Selectors::labels(&[("mesh", "yes")]);
    assert_eq!(decide(ROOTS, "a", &place, None, "root", &some), Action::Nothing);
    let labels = [("mesh".to_owned(), "yes".to_owned())].into();
    let place = Place { labels, ending: false };
    assert!(matches!(decide(ROOTS, "a", &place, None, "root", &some), Action::Create(_)));
}

#[test]
fn a_list_of_revoked_certificates_is_emptied_when_it_goes() {
    let all = Selectors::default();
    let is = |map: Option<&ConfigMap>, text: &str| {
        decide(REVOKED, "a", &Place::default(), map, text, &all)
    };
    let with = |text: &str| {
        let value = json!({"metadata": {"name": REVOKED.name, "labels": {LABEL: "true"}},
            "data": {REVOKED.key: text}});
        serde_json::from_value::<ConfigMap>(value).unwrap()
    };
    assert_eq!(is(None, ""), Action::Nothing);
    assert!(matches!(is(None, "list"), Action::Create(_)));
    assert!(matches!(is(Some(&with("list")), ""), Action::Patch(_)));
    assert_eq!(is(Some(&with("")), ""), Action::Nothing);
    let mut theirs = with("list of somebody else");
    theirs.metadata.labels = None;
    assert_eq!(is(Some(&theirs), ""), Action::Nothing);
    assert!(matches!(is(Some(&theirs), "list"), Action::Patch(_)));
}

struct Bench {
    api: TestApi,
    bundle: watch::Sender<Arc<str>>,
    selectors: watch::Sender<Arc<Selectors>>,
    stop: CancellationToken,
}

async fn bench() -> Bench {
    let api = TestApi::open().await;
    let (bundle, selectors) = (watch::Sender::new("one".into()), watch::Sender::default());
    let stop = CancellationToken::new();
    let config = Config {
        client: api.client(),
        map: ROOTS,
        bundle: bundle.subscribe(),
        selectors: selectors.subscribe(),
    };
    tokio::spawn(run(config, stop.clone()));
    Bench { api, bundle, selectors, stop }
}

impl Bench {
    async fn maps(&self) -> BTreeMap<String, String> {
        let params = kube::api::ListParams::default().fields(&format!("metadata.name={MAP}"));
        let list = Api::<ConfigMap>::all(self.api.admin()).list(&params).await.unwrap();
        let text = |map: &ConfigMap| map.data.as_ref().map(|d| d[KEY].clone()).unwrap_or_default();
        list.iter().map(|map| (map.namespace().unwrap(), text(map))).collect()
    }

    async fn become_(&self, expected: &[(&str, &str)]) {
        let expected: BTreeMap<_, _> =
            expected.iter().map(|(n, t)| ((*n).to_owned(), (*t).to_owned())).collect();
        eventually("the maps are as expected", async || {
            let maps = self.maps().await;
            if maps == expected { Ok(()) } else { Err(format!("{maps:?}")) }
        })
        .await;
    }
}

const NAMESPACE: &str = "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}";

#[tokio::test]
async fn maps_follow_namespaces_and_the_root_and_are_repaired() {
    let bench = bench().await;
    bench.become_(&[("default", "one")]).await;
    bench.api.apply(NAMESPACE).await;
    bench.become_(&[("default", "one"), ("shop", "one")]).await;
    bench.bundle.send_replace("two".into());
    bench.become_(&[("default", "two"), ("shop", "two")]).await;
    let maps = Api::<ConfigMap>::namespaced(bench.api.admin(), "shop");
    let evil = json!({"data": {KEY: "evil", "note": "mine"}});
    maps.patch(MAP, &PatchParams::default(), &Patch::Merge(&evil)).await.unwrap();
    bench.become_(&[("default", "two"), ("shop", "two")]).await;
    assert_eq!(maps.get(MAP).await.unwrap().data.unwrap()["note"], "mine");
    maps.delete(MAP, &kube::api::DeleteParams::default()).await.unwrap();
    bench.become_(&[("default", "two"), ("shop", "two")]).await;
    bench.stop.cancel();
}

#[tokio::test]
async fn a_write_that_fails_is_tried_again() {
    let bench = bench().await;
    bench.become_(&[("default", "one")]).await;
    let mut failures = 3;
    bench.api.fault(move |method, path| {
        let hit = method == http::Method::POST && path.contains("/namespaces/shop/configmaps");
        if hit && failures > 0 {
            failures -= 1;
            return Some(Fault::Status(500, "InternalError"));
        }
        None
    });
    bench.api.apply(NAMESPACE).await;
    bench.become_(&[("default", "one"), ("shop", "one")]).await;
    bench.stop.cancel();
}

#[tokio::test]
async fn only_selected_namespaces_get_a_map() {
    let bench = bench().await;
    bench.become_(&[("default", "one")]).await;
    // Who has one keeps it.
    bench.selectors.send_replace(Arc::new(Selectors::labels(&[("mesh", "yes")])));
    bench.api.apply(NAMESPACE).await;
    bench
        .api
        .apply("{apiVersion: v1, kind: Namespace, metadata: {name: in, labels: {mesh: 'yes'}}}")
        .await;
    bench.become_(&[("default", "one"), ("in", "one")]).await;
    bench.stop.cancel();
}
