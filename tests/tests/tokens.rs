//! A control plane that no cluster knows of: tokens of podlet's API server are checked by its public
//! keys, and the certificate that it shows is somebody else's, in files.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use futures::StreamExt;
use ironsail_identity::client::{CaClient, Config, Error, Security, Token, channel};
use ironsail_identity::tls::{Shown, Trusted};
use ironsail_identity::{CertificateRequest, KeyKind, PrivateKey, RootBundle, San, TrustBundles};
use ironsail_proto::envoy::config::core::v3::Node;
use ironsail_proto::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use ironsail_proto::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use ironsail_sys::clock::Clock;
use ironsail_sys::exec;
use ironsail_testkit::{Case, binary, case, eventually};
use ironsail_xds::CDS;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::PostParams;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tonic::Code;

/// An authority that is not the mesh's.
struct Elsewhere {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Elsewhere {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// Writes a fresh certificate for `name`, the key first as an administrator's tool may.
    fn write(&self, folder: &Path, name: &str) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(folder.join("tls.key"), key.serialize_pem()).unwrap();
        std::fs::write(folder.join("tls.crt"), certificate.pem()).unwrap();
        std::fs::write(folder.join("ca.crt"), &self.pem).unwrap();
    }

    fn roots(&self) -> RootBundle {
        RootBundle::from_pem(self.pem.as_bytes()).unwrap()
    }
}

/// Ends with the test.
struct Istiod {
    _process: tokio::process::Child,
    secure: String,
}

impl Istiod {
    /// Without Kubernetes: nobody can be asked about tokens.
    async fn start(folder: &Path, rule: &Value, web_roots: &Path) -> Self {
        std::fs::create_dir(folder.join("objects")).unwrap();
        let line = "discovery --registries Mock --log_as_json --secureGRPCAddr 127.0.0.1:0 \
            --grpcAddr= --httpAddr= --httpsAddr= --monitoringAddr= --ctrlz_port 0 \
            --tls-cipher-suites TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";
        let mut command = exec::async_command(binary("pilot-discovery"));
        command
            .args(line.split_whitespace())
            .arg("--configDir")
            .arg(folder.join("objects"))
            .env("JWT_RULE", rule.to_string())
            .env("SSL_CERT_FILE", web_roots)
            .stderr(std::process::Stdio::piped())
            .kill_on_drop(true);
        for (flag, file) in
            [("--tlsCertFile", "tls.crt"), ("--tlsKeyFile", "tls.key"), ("--caCertFile", "ca.crt")]
        {
            command.arg(flag).arg(folder.join(file));
        }
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut seen = BTreeMap::new();
        while !seen.contains_key("secureGRPCAddr") {
            let line = lines.next_line().await.unwrap().expect("it listens before it ends");
            let line: Value = serde_json::from_str(&line).unwrap();
            let message = line["msg"].as_str().unwrap_or_default();
            if let Some((name, address)) = message.split_once(" listens on ") {
                seen.insert(name.to_owned(), address.to_owned());
            }
        }
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self { _process: process, secure: seen["secureGRPCAddr"].clone() }
    }

    fn config(&self, roots: &RootBundle, name: &str, token: &str) -> Config {
        let trusted = Trusted::new(TrustBundles::of(roots.clone()));
        let server_name = Some(name.to_owned());
        let security = Security::Tls { server_name, trusted, shown: Shown::default() };
        let token = Token::Fixed(token.to_owned().into());
        Config { attempts: 1, ..Config::new(&self.secure, security, token) }
    }
}

async fn token(case: &Case, account: &str, audience: &str) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(case.client.clone(), &case.namespace);
    let asked =
        json!({"spec": {"audiences": [audience], "expirationSeconds": 3600}, "metadata": {}});
    let asked: TokenRequest = serde_json::from_value(asked).unwrap();
    let given = accounts.create_token_request(account, &PostParams::default(), &asked).await;
    given.unwrap().status.unwrap().token.unwrap()
}

/// What a token says of who made it.
fn issuer(token: &str) -> String {
    use base64::Engine;
    let claims = token.split('.').nth(1).unwrap();
    let claims = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(claims).unwrap();
    let claims: Value = serde_json::from_slice(&claims).unwrap();
    claims["iss"].as_str().unwrap().to_owned()
}

/// Where the API server is, and a file with its root.
fn api_server(case: &Case, folder: &Path) -> (String, std::path::PathBuf) {
    use base64::Engine;
    let text = std::fs::read_to_string(case.podlet().kubeconfig()).unwrap();
    let kubeconfig: Value = ironsail_yaml::parse(&text).unwrap();
    let cluster = &kubeconfig["clusters"][0]["cluster"];
    let root = cluster["certificate-authority-data"].as_str().unwrap();
    let root = base64::engine::general_purpose::STANDARD.decode(root).unwrap();
    let file = folder.join("web-roots.pem");
    std::fs::write(&file, root).unwrap();
    (cluster["server"].as_str().unwrap().to_owned(), file)
}

/// Whom a certificate that the CA gives is for.
async fn obtain(config: Config, identity: &str) -> Result<String, Error> {
    let client = CaClient::new(config, Clock::system()).unwrap();
    let key = PrivateKey::generate(KeyKind::EcdsaP256).unwrap();
    let csr = CertificateRequest::make(&key, &[San::Uri(identity.to_owned())]).unwrap();
    let chain = client.sign(&csr, Duration::from_secs(3600), None).await?;
    Ok(chain[0].spiffe().unwrap().to_string())
}

/// Whether a proxy of `namespace` is served.
async fn served(config: &Config, token: &str, namespace: &str) -> bool {
    let metadata = json!({"NAMESPACE": namespace, "CLUSTER_ID": "Kubernetes", "LABELS": {}});
    let node = Node {
        id: format!("sidecar~10.0.0.9~curl.{namespace}~{namespace}.svc.cluster.local"),
        metadata: metadata.as_object().cloned().map(Into::into),
        ..Node::default()
    };
    let asked =
        DeltaDiscoveryRequest { node: Some(node), type_url: CDS.into(), ..Default::default() };
    let asked = futures::stream::iter([asked]).chain(futures::stream::pending());
    let mut request = tonic::Request::new(asked);
    request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    let mut client = AggregatedDiscoveryServiceClient::new(channel(config).unwrap());
    let answer = async {
        let mut stream = client.delta_aggregated_resources(request).await?.into_inner();
        stream.message().await
    };
    let answer = tokio::time::timeout(Duration::from_secs(60), answer).await.unwrap();
    answer.is_ok_and(|message| message.is_some())
}

#[test]
fn tokens_are_checked_by_keys_and_the_certificate_is_a_mounted_one() {
    case("tokens", async |case| {
        let folder = tempfile::tempdir().unwrap();
        case.apply("{apiVersion: v1, kind: ServiceAccount, metadata: {name: sleep}}").await;
        let (server, web_roots) = api_server(case, folder.path());
        let own = token(case, "sleep", "istio-ca").await;
        let rule = json!({"issuer": issuer(&own), "jwksUri": format!("{server}/openid/v1/jwks"),
            "audiences": ["istio-ca"]});
        let elsewhere = Elsewhere::new();
        elsewhere.write(folder.path(), "istiod.example.com");
        let istiod = Istiod::start(folder.path(), &rule, &web_roots).await;
        let config = |token: &str| istiod.config(&elsewhere.roots(), "istiod.example.com", token);

        // A certificate of the mesh for exactly who the token is of.
        let ns = &case.namespace;
        let identity = format!("spiffe://cluster.local/ns/{ns}/sa/sleep");
        let given = eventually("a certificate is given", async || {
            obtain(config(&own), &identity).await.map_err(|error| format!("{error:?}"))
        })
        .await;
        assert_eq!(given, identity);
        let strange = obtain(config(&own), "spiffe://cluster.local/ns/other/sa/admin").await;
        assert!(matches!(strange, Err(Error::Refused { .. })), "{strange:?}");
        for bad in [
            token(case, "sleep", "vault").await,
            format!("{}x", &own[..own.len() - 1]),
            "no.to.ken".to_owned(),
        ] {
            match obtain(config(&bad), &identity).await.unwrap_err() {
                Error::Refused { status, .. } => assert_eq!(status.code(), Code::Unauthenticated),
                other => panic!("{other}"),
            }
        }
        // Discovery knows callers in the same way, and a proxy is of its token's namespace.
        assert!(served(&config(&own), &own, ns).await);
        assert!(!served(&config(&own), &own, "elsewhere").await);
        assert!(!served(&config("no.to.ken"), "no.to.ken", ns).await);

        // Other files, another certificate: no restart.
        let moved = Elsewhere::new();
        moved.write(folder.path(), "moved.example.com");
        eventually("the new certificate is shown", async || {
            let config = istiod.config(&moved.roots(), "moved.example.com", &own);
            obtain(config, &identity).await.map_err(|error| format!("{error:?}"))
        })
        .await;
        let old = obtain(config(&own), &identity).await;
        assert!(matches!(old, Err(Error::Refused { .. })), "{old:?}");
    });
}
