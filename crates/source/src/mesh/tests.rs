//! The mesh configuration from files and from ConfigMaps.

use ironsail_testkit::Api as TestApi;

use super::*;

async fn until(
    mesh: &mut watch::Receiver<Arc<Mesh>>,
    is: impl Fn(&MeshConfig) -> bool,
) -> Arc<Mesh> {
    let wait = mesh.wait_for(|mesh| is(&mesh.config));
    let wait = tokio::time::timeout(std::time::Duration::from_secs(20), wait);
    wait.await.expect("the mesh changes in time").unwrap().clone()
}

fn map(name: &str, mesh: &str) -> String {
    let text = serde_json::Value::from(mesh);
    format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}, namespace: default}}, data: {{mesh: {text}}}}}"
    )
}

fn config(api: &TestApi) -> Config {
    Config {
        file: "/nowhere/mesh".into(),
        networks_file: "/nowhere/meshNetworks".into(),
        shared: Some("shared".to_owned()),
        ..Config::new(Some(api.client()), "default", "canary")
    }
}

#[tokio::test]
async fn a_file_is_followed_and_a_broken_one_leaves_the_last_good() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mesh");
    std::fs::write(&path, "trustDomain: one\ndefaultConfig: {proxyAdminPort: 15999}\n").unwrap();
    std::fs::write(folder.path().join("meshNetworks"), "networks: {n1: {gateways: []}}\n").unwrap();
    let (board, stop) = (Board::default(), CancellationToken::new());
    let config = Config {
        file: path.clone(),
        networks_file: folder.path().join("meshNetworks"),
        ..Config::new(None, "istio-system", "default")
    };
    let mut mesh = follow(config, board.clone(), stop.clone()).await;
    let now = mesh.borrow_and_update().clone();
    assert_eq!(now.config.trust_domain, "one");
    assert_eq!(now.config.default_config.proxy_admin_port, 15999);
    // What is not said is as by default.
    assert_eq!(now.config.proxy_listen_port, MeshConfig::default().proxy_listen_port);
    assert!(now.networks.networks.contains_key("n1"));
    let mut changes = board.changes();
    std::fs::write(&path, "trustDomain: [").unwrap();
    changes.wait_for(|count| *count > 0).await.unwrap();
    assert_eq!(mesh.borrow().config.trust_domain, "one");
    let places = board.findings().places;
    assert!(places.keys().next().unwrap().ends_with("/mesh"), "{places:?}");
    std::fs::write(&path, "trustDomain: two\n").unwrap();
    until(&mut mesh, |config| config.trust_domain == "two").await;
    assert!(board.findings().places.is_empty());
    // What contradicts itself is not used, what has no effect is; both are told of.
    let mut changes = board.changes();
    changes.mark_unchanged();
    std::fs::write(&path, "trustDomain: three\nconnectTimeout: 2h\n").unwrap();
    changes.changed().await.unwrap();
    assert_eq!(mesh.borrow().config.trust_domain, "two");
    std::fs::write(&path, "trustDomain: four\ndefaultConfig: {statNameLength: 7}\n").unwrap();
    until(&mut mesh, |config| config.trust_domain == "four").await;
    let places = board.findings().places;
    assert!(places.keys().next().unwrap().ends_with("statNameLength"), "{places:?}");
    stop.cancel();
}

#[tokio::test]
async fn the_main_map_lies_over_the_shared_one_and_both_are_followed() {
    let api = TestApi::open().await;
    api.apply(&map("shared", "trustDomain: shared\ningressService: shared\n")).await;
    api.apply(&map("istio-canary", "trustDomain: main\n")).await;
    let stop = CancellationToken::new();
    let mut mesh = follow(config(&api), Board::default(), stop.clone()).await;
    let now = mesh.borrow_and_update().clone();
    assert_eq!((&*now.config.trust_domain, &*now.config.ingress_service), ("main", "shared"));
    api.apply(&map("shared", "trustDomain: shared\ningressService: other\n")).await;
    until(&mut mesh, |config| config.ingress_service == "other").await;
    api.apply(&map("istio-canary", "{}")).await;
    until(&mut mesh, |config| config.trust_domain == "shared").await;
    // A map that is gone leaves what it said.
    api.delete(&map("shared", "")).await;
    api.apply(&map("istio-canary", "ingressClass: mine")).await;
    let now = until(&mut mesh, |config| config.ingress_class == "mine").await;
    assert_eq!(now.config.trust_domain, "shared");
    stop.cancel();
}

#[tokio::test]
async fn selectors_follow_the_mesh_and_change_only_when_they_do() {
    let mesh = watch::Sender::new(Arc::new(Mesh::default()));
    let stop = CancellationToken::new();
    let mut selectors = follow_selectors(mesh.subscribe(), stop.clone());
    assert!(selectors.borrow().select_all());
    let with = |text: &str| {
        let value = ironsail_yaml::parse(text).unwrap();
        Arc::new(Mesh { config: MeshConfig::parse(&value).value, ..Mesh::default() })
    };
    mesh.send_replace(with("discoverySelectors: [{matchLabels: {mesh: in}}]"));
    let wanted = Selectors::labels(&[("mesh", "in")]);
    selectors.wait_for(|now| **now == wanted).await.unwrap();
    // Nonsense leaves the former ones; the next sense is taken.
    mesh.send_replace(with("discoverySelectors: [{matchExpressions: [{key: a, operator: Like}]}]"));
    mesh.send_replace(with(
        "discoverySelectors: [{matchExpressions: [{key: a, operator: Exists}]}]",
    ));
    selectors.changed().await.unwrap();
    assert!(selectors.borrow().select(&[("a".to_owned(), String::new())].into()));
    stop.cancel();
}
