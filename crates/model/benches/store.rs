//! What one change costs, in meshes of different sizes: it must follow the change, not the mesh.
//!
//! `cargo bench -p ironsail-model`

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use ironsail_api::{ClusterId, Event, Object, decode_any};
use ironsail_model::{Settings, Store};
use serde_json::{Value, json};

fn object(value: &Value) -> Object {
    decode_any(value).and_then(|decoded| decoded.object.ok()).expect("a good object")
}

fn apply(store: &mut Store, object: Object) {
    store.apply(Event::Apply { cluster: ClusterId::from("Kubernetes"), object });
}

/// The slice of service `n`: five endpoints, of which the first is ready or not.
fn slice(n: usize, ready: bool) -> Object {
    let ip = |e: usize| format!("10.{}.{}.{e}", n / 250, n % 250);
    let endpoints: Vec<Value> = (1..=5)
        .map(|e| {
            json!({
                "addresses": [ip(e)], "conditions": {"ready": e != 1 || ready},
                "targetRef": {"kind": "Pod", "name": format!("s{n}-{e}")},
            })
        })
        .collect();
    object(&json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {
            "name": format!("s{n}-x"), "namespace": format!("ns{}", n % 50),
            "labels": {"kubernetes.io/service-name": format!("s{n}")},
        },
        "endpoints": endpoints, "ports": [{"name": "http", "port": 8080}],
    }))
}

fn service(n: usize, port: u16) -> Object {
    object(&json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": format!("s{n}"), "namespace": format!("ns{}", n % 50)},
        "spec": {
            "clusterIP": format!("172.{}.{}.1", n / 250, n % 250), "selector": {"app": format!("s{n}")},
            "ports": [{"name": "http", "port": port, "targetPort": 8080}],
        },
    }))
}

fn mesh(size: usize) -> Store {
    let mut store = Store::new(Settings::default());
    for n in 0..size {
        apply(&mut store, service(n, 80));
        apply(&mut store, slice(n, true));
        for e in 1..=5 {
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {
                    "name": format!("s{n}-{e}"), "namespace": format!("ns{}", n % 50),
                    "labels": {"app": format!("s{n}"), "version": "v1", "security.istio.io/tlsMode": "istio"},
                },
                "spec": {"serviceAccountName": format!("s{n}")},
                "status": {"phase": "Running", "podIP": format!("10.{}.{}.{e}", n / 250, n % 250)},
            });
            apply(&mut store, object(&pod));
        }
    }
    store.take();
    store
}

fn changes(criterion: &mut Criterion) {
    for size in [100, 1_000, 10_000] {
        let mut store = mesh(size);
        let slices = [slice(7, true), slice(7, false)];
        let mut step = 0;
        criterion.bench_with_input(BenchmarkId::new("endpoint", size), &(), |bencher, ()| {
            bencher.iter(|| {
                step += 1;
                apply(&mut store, slices[step % 2].clone());
                black_box(store.take())
            });
        });
        let services = [service(7, 80), service(7, 81)];
        criterion.bench_with_input(BenchmarkId::new("service", size), &(), |bencher, ()| {
            bencher.iter(|| {
                step += 1;
                apply(&mut store, services[step % 2].clone());
                black_box(store.take())
            });
        });
    }
}

criterion_group!(benches, changes);
criterion_main!(benches);
