//! A small mesh with a mistake for each service, and what becomes of a request to it.
//!
//! One server has a port for each policy, so that all mistakes stand side by side.

/// What a client gets, and whose fault it is. `@ns@` stands for the namespace.
pub(crate) struct Mistake {
    pub(crate) name: &'static str,
    pub(crate) from: &'static str,
    pub(crate) url: &'static str,
    pub(crate) headers: &'static [&'static str],
    /// None: nothing answers.
    pub(crate) status: Option<u16>,
    pub(crate) culprits: &'static [&'static str],
}

const fn mistake(
    name: &'static str,
    url: &'static str,
    status: u16,
    culprits: &'static [&'static str],
) -> Mistake {
    Mistake { name, from: "client", url, headers: &[], status: Some(status), culprits }
}

pub(crate) const MISTAKES: &[Mistake] = &[
    mistake(
        "wrong subset",
        "http://subset/",
        503,
        &[
            "VirtualService @ns@/wrong-subset spec.http[0].route[0].destination.subset",
            "DestinationRule @ns@/subsets spec.subsets",
        ],
    ),
    mistake("no endpoints", "http://empty/", 503, &["Service @ns@/empty spec.selector"]),
    mistake(
        "denied by namespace",
        "http://denied/",
        403,
        &["AuthorizationPolicy @ns@/deny spec.rules[0]"],
    ),
    mistake(
        "token missing",
        "http://token/",
        403,
        &["AuthorizationPolicy @ns@/needs-token spec.rules[0]"],
    ),
    Mistake {
        headers: &["Authorization: Bearer no-token"],
        ..mistake(
            "token bad",
            "http://token/",
            401,
            &["RequestAuthentication @ns@/tokens spec.jwtRules[0]"],
        )
    },
    mistake(
        "port not named",
        "http://db:3306/",
        200,
        &["Service @ns@/db spec.ports[0].name", "VirtualService @ns@/unread spec.http"],
    ),
    mistake("host clash", "http://named/", 200, &["ServiceEntry @ns@/clash spec.hosts"]),
    Mistake {
        from: "outsider",
        status: None,
        ..mistake(
            "plaintext to strict",
            "http://strict/",
            0,
            &["PeerAuthentication @ns@/modes spec.portLevelMtls[8083].mode"],
        )
    },
    mistake(
        "egress blocked",
        "http://203.0.113.77/",
        502,
        &["Sidecar @ns@/default spec.outboundTrafficPolicy.mode"],
    ),
    mistake(
        "virtual service shadowed",
        "http://shadowed/x",
        200,
        &["VirtualService @ns@/shadow spec.http[1].match"],
    ),
    mistake(
        "mtls to a server without",
        "http://off/",
        503,
        &[
            "DestinationRule @ns@/mutual spec.trafficPolicy.tls",
            "PeerAuthentication @ns@/modes spec.portLevelMtls[8084].mode",
        ],
    ),
    mistake(
        "no mtls to a strict server",
        "http://plain/",
        503,
        &[
            "DestinationRule @ns@/plain spec.trafficPolicy.tls",
            "PeerAuthentication @ns@/modes spec.portLevelMtls[8083].mode",
        ],
    ),
    mistake("fault", "http://fault/", 418, &["VirtualService @ns@/fault spec.http[0].fault"]),
    mistake("no rule fits", "http://partly/else", 404, &["VirtualService @ns@/partly spec.http"]),
];

pub(crate) const OBJECTS: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: @ns@, labels: {app: client, sidecar.istio.io/inject: 'true'}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: echo, args: [serve, --http, '8080']}]
---
apiVersion: v1
kind: Pod
metadata: {name: outsider, namespace: @ns@, labels: {app: outsider, sidecar.istio.io/inject: 'false'}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: echo, args: [serve, --http, '8080']}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: server, namespace: @ns@}
spec:
  selector: {matchLabels: {app: server}}
  template:
    metadata: {labels: {app: server, version: v1, sidecar.istio.io/inject: 'true'}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: echo, args: [serve, --http, '8080,8081,8082,8083,8084,8085,8086']}]
---
apiVersion: v1
kind: Service
metadata: {name: subset, namespace: @ns@}
spec: {selector: {app: server}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: wrong-subset, namespace: @ns@}
spec: {hosts: [subset], http: [{route: [{destination: {host: subset, subset: v9}}]}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: subsets, namespace: @ns@}
spec: {host: subset, subsets: [{name: v1, labels: {version: v1}}]}
---
apiVersion: v1
kind: Service
metadata: {name: empty, namespace: @ns@}
spec: {selector: {app: nobody}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: denied, namespace: @ns@}
spec: {selector: {app: server}, ports: [{name: http, port: 80, targetPort: 8081}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: deny, namespace: @ns@}
spec:
  selector: {matchLabels: {app: server}}
  action: DENY
  rules: [{from: [{source: {namespaces: ['@ns@']}}], to: [{operation: {ports: ['8081']}}]}]
---
apiVersion: v1
kind: Service
metadata: {name: token, namespace: @ns@}
spec: {selector: {app: server}, ports: [{name: http, port: 80, targetPort: 8082}]}
---
apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: tokens, namespace: @ns@}
spec:
  selector: {matchLabels: {app: server}}
  jwtRules:
  - issuer: issuer.test
    jwks: '{"keys":[{"kty":"RSA","kid":"one","e":"AQAB","n":"tOb1b5f23AvPXyB5F3GNaUV8JEsYPln_a4KX6zgNyiRmVucGfElCB2i1n5LDd83k8HZ3N3IqEWsgZ4WPBwLE917j7vJcPLmoIezPsZ2MwFGpgTTjKlE31pMoG-9AqY9gmWCCl1GM_bbNqfN6FcUKDNnvMlohr6fPie3Uvh1slfWKT9YB7-T3z3_bk_YWLyWFF6t3ecH-w_gR-NT6qnIcigx-ZYl5ySfq7HbE5AEq84xITpvJppTHHHIcU13AyKH4IrRZ5INKBV7_LzKIim14fYxxYtae_3wyLa9_EzmgimvckKQNEKuY_C97Krpnlu7xfsTVuEbVH63-JLdTbb9ZLw"}]}'
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: needs-token, namespace: @ns@}
spec:
  selector: {matchLabels: {app: server}}
  action: DENY
  rules: [{from: [{source: {notRequestPrincipals: ['*']}}], to: [{operation: {ports: ['8082']}}]}]
---
# Without a name, and with a number that databases have: taken for bytes.
apiVersion: v1
kind: Service
metadata: {name: db, namespace: @ns@}
spec: {selector: {app: server}, ports: [{port: 3306, targetPort: 8086}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: unread, namespace: @ns@}
spec: {hosts: [db], http: [{directResponse: {status: 204}}]}
---
apiVersion: v1
kind: Service
metadata: {name: named, namespace: @ns@}
spec: {selector: {app: server}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: clash, namespace: @ns@}
spec:
  hosts: [named.@ns@.svc.cluster.local]
  location: MESH_EXTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: 203.0.113.78}]
---
apiVersion: v1
kind: Service
metadata: {name: strict, namespace: @ns@}
spec: {selector: {app: server}, ports: [{name: http, port: 80, targetPort: 8083}]}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: modes, namespace: @ns@}
spec:
  selector: {matchLabels: {app: server}}
  portLevelMtls: {8083: {mode: STRICT}, 8084: {mode: DISABLE}}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: default, namespace: @ns@}
spec:
  outboundTrafficPolicy: {mode: REGISTRY_ONLY}
  egress: [{hosts: ['*/*']}]
---
apiVersion: v1
kind: Service
metadata: {name: shadowed, namespace: @ns@}
spec: {selector: {app: server}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: shadow, namespace: @ns@}
spec:
  hosts: [shadowed]
  http:
  - route: [{destination: {host: shadowed}}]
  - match: [{uri: {prefix: /x}}]
    directResponse: {status: 204}
---
apiVersion: v1
kind: Service
metadata: {name: 'off', namespace: @ns@}
spec: {selector: {app: server}, ports: [{name: http, port: 80, targetPort: 8084}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: mutual, namespace: @ns@}
spec: {host: 'off', trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}}
---
apiVersion: v1
kind: Service
metadata: {name: plain, namespace: @ns@}
spec: {selector: {app: server}, ports: [{name: http, port: 80, targetPort: 8083}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: plain, namespace: @ns@}
spec: {host: plain, trafficPolicy: {tls: {mode: DISABLE}}}
---
apiVersion: v1
kind: Service
metadata: {name: fault, namespace: @ns@}
spec: {selector: {app: server}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: fault, namespace: @ns@}
spec:
  hosts: [fault]
  http:
  - fault: {abort: {httpStatus: 418, percentage: {value: 100}}}
    route: [{destination: {host: fault}}]
---
apiVersion: v1
kind: Service
metadata: {name: partly, namespace: @ns@}
spec: {selector: {app: server}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: partly, namespace: @ns@}
spec: {hosts: [partly], http: [{match: [{uri: {prefix: /this}}], route: [{destination: {host: partly}}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: limited, namespace: @ns@}
spec: {selector: {app: server}, ports: [{name: http, port: 80, targetPort: 8085}]}
---
apiVersion: policy.ironsail.io/v1alpha1
kind: RateLimitPolicy
metadata: {name: limit, namespace: @ns@}
spec:
  selector: {matchLabels: {app: server}}
  rules: [{name: few, match: {ports: [8085]}, local: {requests: 1, interval: 3600s}}]
"#;
