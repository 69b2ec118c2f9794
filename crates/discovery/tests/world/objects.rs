//! YAML of small meshes.

/// Service `NAME` in `NAMESPACE` with pods at the given addresses.
pub(crate) fn service(name: &str, namespace: &str, index: usize, addresses: &[&str]) -> String {
    let endpoints = slice(name, namespace, addresses);
    format!(
        "---
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  clusterIP: 172.16.{}.{}
  selector: {{app: {name}}}
  ports: [{{name: http, port: 80, targetPort: 8080}}]
{endpoints}",
        index / 250,
        index % 250 + 1,
    )
}

/// The endpoints of a service.
pub(crate) fn slice(name: &str, namespace: &str, addresses: &[&str]) -> String {
    let endpoints: String = addresses
        .iter()
        .map(|ip| format!("- {{addresses: [{ip}], conditions: {{ready: true}}}}\n"))
        .collect();
    format!(
        "---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: {name}-x
  namespace: {namespace}
  labels: {{kubernetes.io/service-name: {name}}}
addressType: IPv4
ports: [{{name: http, port: 8080, protocol: TCP}}]
endpoints:
{endpoints}"
    )
}

/// `count` services `svc-0` … in namespace `foo`, two endpoints each.
pub(crate) fn services(count: usize) -> String {
    let one = |i: usize| {
        let (a, b) = (
            format!("10.1.{}.{}", i / 120, 2 * (i % 120) + 1),
            format!("10.1.{}.{}", i / 120, 2 * (i % 120) + 2),
        );
        service(&format!("svc-{i}"), "foo", i, &[&a, &b])
    };
    (0..count).map(one).collect()
}

/// A route of a service with a timeout.
pub(crate) fn route(name: &str, namespace: &str, seconds: u32) -> String {
    format!(
        "---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  hosts: [{name}.{namespace}.svc.cluster.local]
  http:
  - timeout: {seconds}s
    route: [{{destination: {{host: {name}.{namespace}.svc.cluster.local, port: {{number: 80}}}}}}]
"
    )
}
