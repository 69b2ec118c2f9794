//! Objects as users write them, for the fuzzer to break.

use std::sync::LazyLock;

use arbitrary::{Result, Unstructured};
use serde_json::Value;

use crate::json;

const MANIFESTS: &str = r#"
{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default, labels: {app: a}}, data: {a: b}, binaryData: {b: aGk=}}
---
{apiVersion: v1, kind: Secret, metadata: {name: a}, type: Opaque, stringData: {a: b}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: b}, spec: {finalizers: [kubernetes]}}
---
{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {type: NodePort, selector: {app: a}, ports: [{name: http, port: 80, targetPort: http, nodePort: 30080}, {name: b, port: 53, protocol: UDP}], sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 5}}, ipFamilyPolicy: SingleStack}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}}
---
{apiVersion: v1, kind: Node, metadata: {name: a}, spec: {podCIDR: 10.244.0.0/24, taints: [{key: a, effect: NoSchedule}]}, status: {conditions: [{type: Ready, status: "True"}], capacity: {cpu: "2"}}}
---
{apiVersion: v1, kind: Event, metadata: {name: a.b}, involvedObject: {kind: Pod, name: a, namespace: default}, reason: A, message: b, count: 1, firstTimestamp: "2026-01-02T03:04:05Z"}
---
apiVersion: v1
kind: Pod
metadata: {name: a, labels: {app: a}, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: a, uid: "1", controller: true}]}
spec:
  restartPolicy: Never
  initContainers: [{name: i, image: x, restartPolicy: Always, startupProbe: {httpGet: {path: /, port: 80}}}]
  containers:
  - {name: c, image: "x:1", command: [a], args: [b], env: [{name: A, value: b}, {name: B, valueFrom: {fieldRef: {fieldPath: metadata.name}}}], ports: [{containerPort: 80, name: http}], resources: {limits: {memory: 1Gi, cpu: 100m}, requests: {cpu: 50m}}, livenessProbe: {exec: {command: [a]}}, readinessProbe: {tcpSocket: {port: http}}, lifecycle: {preStop: {exec: {command: [a]}}}, volumeMounts: [{name: v, mountPath: /v, subPath: a}], securityContext: {runAsUser: 5, capabilities: {add: [NET_ADMIN], drop: [ALL]}}}
  volumes: [{name: v, emptyDir: {sizeLimit: 1Mi}}, {name: w, projected: {sources: [{serviceAccountToken: {path: t, audience: x}}, {configMap: {name: a, items: [{key: a, path: b}]}}]}}]
  tolerations: [{key: a, operator: Exists}]
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In, values: [b]}]}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: a, annotations: {a: b}}
spec: {replicas: 2, strategy: {rollingUpdate: {maxSurge: 25%, maxUnavailable: 1}}, selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c, image: x}]}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: a}
spec: {serviceName: a, replicas: 1, selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c, image: x}]}}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: a}
spec: {selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c, image: x}]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: a}
spec: {completions: 3, parallelism: 2, completionMode: Indexed, backoffLimit: 2, template: {spec: {restartPolicy: Never, containers: [{name: c, image: x}]}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: a}
spec: {schedule: "*/5 * * * *", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: x}]}}}}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: a, labels: {kubernetes.io/service-name: a}}, addressType: IPv4, endpoints: [{addresses: [10.0.0.1], conditions: {ready: true}, targetRef: {kind: Pod, name: a}}], ports: [{name: http, port: 80, protocol: TCP}]}
---
{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: a}, spec: {ingressClassName: a, rules: [{host: a.example, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: a, port: {number: 80}}}}]}}], tls: [{hosts: [a.example], secretName: a}]}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: a}, spec: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}], ports: [{port: 80, endPort: 90}]}], policyTypes: [Ingress]}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a}, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}, {nonResourceURLs: [/x], verbs: [get]}], aggregationRule: {clusterRoleSelectors: [{matchLabels: {a: b}}]}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: a}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: a}, subjects: [{kind: ServiceAccount, name: a, namespace: default}]}
---
{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: a}, spec: {holderIdentity: a, leaseDurationSeconds: 5, renewTime: "2026-01-02T03:04:05.000006Z"}}
---
{apiVersion: authentication.k8s.io/v1, kind: TokenReview, spec: {token: a.b.c, audiences: [x]}}
---
{apiVersion: authorization.k8s.io/v1, kind: SubjectAccessReview, spec: {user: a, groups: [b], resourceAttributes: {verb: get, resource: pods, namespace: default, fieldSelector: {requirements: [{key: a, operator: In, values: [b]}]}}}}
---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: a}, spec: {minAvailable: 50%, selector: {matchLabels: {app: a}}}}
---
{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: a}, spec: {minReplicas: 1, maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: a}, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]}}
---
{apiVersion: autoscaling/v1, kind: Scale, metadata: {name: a}, spec: {replicas: 3}}
---
{apiVersion: fuzz.example/v1, kind: Thing, metadata: {name: a}, spec: {a: 2, b: [x], c: {d: e}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.fuzz.example}
spec:
  group: fuzz.example
  scope: Namespaced
  names: {plural: things, kind: Thing, listKind: ThingList, singular: thing, shortNames: [th]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.a, statusReplicasPath: .status.a}}
    additionalPrinterColumns: [{name: A, type: integer, jsonPath: ".spec.a"}, {name: B, type: string, jsonPath: ".spec.b[0]"}]
    selectableFields: [{jsonPath: .spec.a}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [a]
            x-kubernetes-validations: [{rule: "self.a > 0", message: "a must be positive"}, {rule: "!has(oldSelf.a) || self.a >= oldSelf.a", optionalOldSelf: false}]
            properties:
              a: {type: integer, minimum: 0, maximum: 100, default: 1}
              b: {type: array, x-kubernetes-list-type: set, maxItems: 5, items: {type: string, maxLength: 5, pattern: "^[a-z]*$"}}
              c: {type: object, additionalProperties: {type: string, enum: [e, f]}}
              d: {x-kubernetes-int-or-string: true}
              e: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name], items: {type: object, required: [name], properties: {name: {type: string, format: hostname}, when: {type: string, format: date-time}}}}
              f: {type: object, x-kubernetes-preserve-unknown-fields: true, nullable: true}
              g: {oneOf: [{required: [a]}, {required: [b]}], type: object, properties: {a: {type: number}, b: {type: boolean}}}
          status: {type: object, properties: {a: {type: integer}}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: default}}
"#;

static SAMPLES: LazyLock<Vec<Value>> =
    LazyLock::new(|| ironsail_yaml::documents(MANIFESTS).expect("the samples are YAML"));

pub(crate) fn all() -> &'static [Value] {
    &SAMPLES
}

/// A sample with up to three things changed.
pub(crate) fn broken(u: &mut Unstructured<'_>) -> Result<Value> {
    let mut object = u.choose(all())?.clone();
    for _ in 0..u.int_in_range(0..=3)? {
        let json::Json(with) = u.arbitrary()?;
        json::graft(u, &mut object, with)?;
    }
    Ok(object)
}
