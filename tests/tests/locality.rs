//! Which of several places serves a request: by share, by nearness, by label, by node.

use ironsail_testkit::{Ask, Case, Shared, Traffic, ask, case_on, mesh_on};

/// Three nodes: two zones of one region and one of another.
static WORLD: Shared = Shared::new(|_| {
    ["--nodes", "3", "--zones", "eu-a,eu-b,us-a"].iter().map(|&arg| arg.to_owned()).collect()
});

fn pod(name: &str, node: u8, inject: bool) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{app: shop, who: {name}, sidecar.istio.io/inject: '{inject}'}}}}
spec:
  nodeName: node-{node}
  terminationGracePeriodSeconds: 0
  containers: [{{name: main, image: echo, args: [serve, --http, '8080'], env: [{{name: VERSION, value: {name}}}]}}]
---"
    )
}

const SHOP: &str = "
apiVersion: v1
kind: Service
metadata: {name: shop}
spec: {selector: {app: shop}, ports: [{name: http, port: 80, targetPort: 8080}]}
---";

fn rule(policy: &str) -> String {
    format!(
        "
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {{name: shop}}
spec: {{host: shop, trafficPolicy: {policy}}}
---"
    )
}

/// Failing hosts are noticed at the first failure.
const OUTLIERS: &str = "outlierDetection: {consecutive5xxErrors: 1, interval: 1s, baseEjectionTime: 60s, maxEjectionPercent: 100}";

fn many() -> Ask {
    ask("http://shop/").times(30).status(200)
}

#[test]
fn the_place_of_a_client_decides() {
    case_on(mesh_on(&WORLD), "place", async |case| {
        let clients = ["near", "far"].map(|name| {
            pod(name, if name == "near" { 1 } else { 3 }, true).replace("app: shop", "app: client")
        });
        case.apply(&clients.concat()).await;
        case.apply(&(pod("eu-a", 1, false) + &pod("eu-b", 2, false) + &pod("us-a", 3, false)))
            .await;
        case.apply(SHOP).await;
        for name in ["near", "far", "eu-a", "eu-b", "us-a"] {
            case.ready(&format!("pod/{name}")).await;
        }
        let traffic = Traffic::new(case, "near");
        shares(&traffic).await;
        failover(&traffic).await;
        kubernetes(&traffic).await;
        zones(case, &traffic).await;
        traffic.done().await;
    });
}

async fn shares(traffic: &Traffic<'_>) {
    traffic
        .behaves(
            "without a rule all places share",
            "",
            vec![many().share("eu-a", 3..=20).share("eu-b", 3..=20).share("us-a", 3..=20)],
        )
        .await;
    let split = rule(
        "{loadBalancer: {localityLbSetting: {distribute: [{from: 'eu/*', to: {'eu/eu-a/*': 20, 'eu/eu-b/*': 80}}]}}}",
    );
    traffic
        .behaves(
            "distribute gives each place its share",
            &split,
            vec![
                ask("http://shop/")
                    .times(100)
                    .status(200)
                    .share("eu-a", 5..=40)
                    .share("eu-b", 60..=95)
                    .share("us-a", 0..=0),
                many().from("far").share("us-a", 1..=30),
            ],
        )
        .await;
    let off =
        rule(&format!("{{loadBalancer: {{localityLbSetting: {{enabled: false}}}}, {OUTLIERS}}}"));
    traffic
        .behaves(
            "switched off, all places share though failures are noticed",
            &off,
            vec![many().share("eu-a", 1..=28).share("us-a", 1..=28)],
        )
        .await;
}

async fn failover(traffic: &Traffic<'_>) {
    let nearest = rule(&format!("{{{OUTLIERS}}}"));
    traffic
        .behaves(
            "where failures are noticed the nearest place serves",
            &nearest,
            vec![many().version("eu-a"), many().from("far").version("us-a")],
        )
        .await;
    traffic
        .still(
            "when it fails, the next zone of the region does",
            vec![ask("http://shop/?status=503&only=eu-a").works(), many().version("eu-b")],
        )
        .await;
    let regions = rule(&format!(
        "{{loadBalancer: {{simple: ROUND_ROBIN, localityLbSetting: {{failover: [{{from: us, to: eu}}]}}}}, {OUTLIERS}}}"
    ));
    traffic
        .behaves(
            "failover names the region that stands in",
            &regions,
            vec![many().from("far").version("us-a")],
        )
        .await;
    traffic
        .still(
            "and it does",
            vec![
                ask("http://shop/?status=503&only=us-a").from("far").works(),
                many().from("far").share("us-a", 0..=0),
            ],
        )
        .await;
    let labels = rule(&format!(
        "{{loadBalancer: {{localityLbSetting: {{failoverPriority: ['who=eu-b', 'topology.kubernetes.io/region']}}}}, {OUTLIERS}}}"
    ));
    traffic
        .behaves(
            "failoverPriority goes by labels",
            &labels,
            vec![many().version("eu-b"), many().from("far").version("eu-b")],
        )
        .await;
    let nodes = rule(&format!(
        "{{loadBalancer: {{localityLbSetting: {{failoverPriority: ['kubernetes.io/hostname']}}}}, {OUTLIERS}}}"
    ));
    traffic
        .behaves(
            "and by nodes",
            &nodes,
            vec![many().version("eu-a"), many().from("far").version("us-a")],
        )
        .await;
    let warm = rule(&format!(
        "{{loadBalancer: {{simple: ROUND_ROBIN, warmup: {{duration: 60s}}}}, {OUTLIERS}}}"
    ));
    traffic
        .behaves("warmup leaves the preference alone", &warm, vec![many().version("eu-a")])
        .await;
}

async fn kubernetes(traffic: &Traffic<'_>) {
    let service = |more: &str| SHOP.replace("{selector:", &format!("{{{more}, selector:"));
    traffic
        .behaves(
            "trafficDistribution keeps to the zone",
            &service("trafficDistribution: PreferClose"),
            vec![many().version("eu-a"), many().from("far").version("us-a")],
        )
        .await;
    traffic
        .behaves(
            "internalTrafficPolicy keeps to the node",
            &service("internalTrafficPolicy: Local"),
            vec![many().version("eu-a"), many().from("far").version("us-a")],
        )
        .await;
    let annotated = SHOP.replace(
        "metadata: {name: shop}",
        "metadata: {name: shop, annotations: {networking.istio.io/traffic-distribution: PreferSameNode}}",
    );
    traffic
        .behaves(
            "the mesh's own annotation says the same for nodes",
            &annotated,
            vec![many().version("eu-a"), many().from("far").version("us-a")],
        )
        .await;
}

/// A client in a zone that it knows itself, with the others of its service in view.
fn zoned(name: &str, node: u8, zone: &str) -> String {
    pod(name, node, true)
        .replace("app: shop,", &format!("app: zoned, istio-locality: eu.{zone},"))
        .replace(
            "labels:",
            "annotations: {proxy.istio.io/config: '{\"proxyMetadata\": {\"ISTIO_META_ENABLE_SELF_DISCOVERY\": \"true\"}}'}, labels:",
        )
}

const ZONED: &str = "
apiVersion: v1
kind: Service
metadata: {name: zoned}
spec: {selector: {app: zoned}, ports: [{name: http, port: 80, targetPort: 8080}]}
---";

/// Envoy itself keeps to its zone, as far as that has its share of the endpoints.
async fn zones(case: &Case, traffic: &Traffic<'_>) {
    case.apply(ZONED).await;
    case.apply(&(zoned("zone-a", 1, "eu-a") + &zoned("zone-b", 2, "eu-b"))).await;
    for name in ["zone-a", "zone-b"] {
        case.ready(&format!("pod/{name}")).await;
    }
    let aware = |more: &str| {
        SHOP.to_owned()
            + &rule(&format!(
                "{{loadBalancer: {{simple: ROUND_ROBIN, zoneAwareLbSetting: {{{more}}}}}, {OUTLIERS}}}"
            ))
    };
    traffic
        .behaves(
            "zoneAwareLbSetting: the proxy keeps to its zone",
            &aware("enabled: true, minClusterSize: 1"),
            vec![many().from("zone-a").version("eu-a"), many().from("zone-b").version("eu-b")],
        )
        .await;
    traffic
        .behaves(
            "minClusterSize: too few endpoints, and the zones of the region share",
            &aware("enabled: true, minClusterSize: 50"),
            vec![
                many().from("zone-a").share("eu-a", 3..=27).share("eu-b", 3..=27),
                many().from("zone-b").share("us-a", 0..=0),
            ],
        )
        .await;
}
