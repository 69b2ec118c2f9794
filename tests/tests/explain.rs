//! `istioctl explain` on prepared mistakes: each names the culprit, and what it predicts is what the
//! traffic gets and what the proxies log.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "explain/mistake.rs"]
mod mistake;

use ironsail_testkit::{Case, SYSTEM, binary, eventually, mesh_case};
use mistake::{MISTAKES, Mistake, OBJECTS};
use serde_json::{Value, json};

#[test]
fn ten_mistakes_and_more_are_explained() {
    mesh_case("explain", async |case| {
        set_up(case).await;
        versions(case).await;
        for mistake in MISTAKES {
            let outcome = mistake.is_explained(case).await;
            mistake.is_logged(case, &outcome).await;
        }
        limits(case).await;
        files(case);
        case.nothing_was_refused().await;
    });
}

async fn set_up(case: &Case) {
    let mesh = format!(
        "defaultConfig:\n  discoveryAddress: istiod.{SYSTEM}.svc:15012\n\
         rootNamespace: {SYSTEM}\ntrustDomain: cluster.local\naccessLogFile: /dev/stdout\n"
    );
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "istio", "namespace": SYSTEM}, "data": {"mesh": mesh}});
    case.try_apply(object).await.unwrap();
    let labels = json!({"istio-injection": "enabled"});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": case.namespace, "labels": labels}});
    case.try_apply(namespace).await.unwrap();
    case.apply(&OBJECTS.replace("@ns@", &case.namespace)).await;
    for what in ["pod/client", "pod/outsider", "deployment/server"] {
        case.ready(what).await;
    }
}

/// What istioctl prints; it must succeed.
fn istioctl(case: &Case, args: &[&str]) -> Result<String, String> {
    let mut command = ironsail_sys::exec::command(binary("istioctl"));
    command.env("KUBECONFIG", case.podlet().kubeconfig()).args(["-n", &case.namespace]).args(args);
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(format!("istioctl {}: {}", args.join(" "), text(&output.stderr))),
    }
}

fn explained(case: &Case, args: &[&str]) -> Result<Value, String> {
    let args = [&["explain", "-o", "json"], args].concat();
    let said = istioctl(case, &args)?;
    serde_json::from_str(&said).map_err(|error| format!("no JSON ({error}): {said}"))
}

/// Every object that an explanation blames, as `KIND NS/NAME FIELD`.
fn blamed(said: &Value) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut all = list(&said["outcome"]["culprits"]);
    for step in list(&said["steps"]) {
        for warning in list(&step["warnings"]) {
            all.extend(list(&warning["from"]));
        }
    }
    let text = |one: &Value| {
        let part = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
        format!("{} {}", part("object"), part("field")).trim_end().to_owned()
    };
    all.iter().map(text).collect()
}

/// The status that a client gets; none if nothing answers.
async fn status(case: &Case, mistake: &Mistake, id: &str) -> Option<u16> {
    let id = format!("x-request-id: {id}");
    let url = mistake.url.replace("@ns@", &case.namespace);
    let mut command = vec!["echo", "call", &url, "--timeout", "5000", "-H", &id];
    for header in mistake.headers {
        command.extend(["-H", header]);
    }
    let run = case.exec_in(mistake.from, "main", &command).await;
    let line = run.stdout.lines().next().unwrap_or_default().to_owned();
    let answer: Value = serde_json::from_str(&line).unwrap_or_default();
    answer["status"].as_u64().and_then(|status| u16::try_from(status).ok())
}

impl Mistake {
    /// The outcome, once explanation and traffic agree on what is wanted.
    async fn is_explained(&self, case: &Case) -> Value {
        let url = self.url.replace("@ns@", &case.namespace);
        let source = format!("pod/{}", self.from);
        let mut args = vec![source.as_str(), url.as_str()];
        for header in self.headers {
            args.extend(["-H", header]);
        }
        eventually(&format!("{} is explained", self.name), async || {
            let got = status(case, self, &format!("try-{}", self.name)).await;
            if got != self.status {
                return Err(format!("the client gets {got:?}, not {:?}", self.status));
            }
            let said = explained(case, &args)?;
            let outcome = &said["outcome"];
            let delivered = outcome["verdict"] == "delivered";
            let predicted = match delivered {
                true => Some(200),
                false => outcome["status"].as_u64(),
            };
            if predicted != self.status.map(u64::from) {
                return Err(format!(
                    "it predicts {predicted:?}, the client gets {got:?}: {said:#}"
                ));
            }
            let all = blamed(&said);
            for culprit in self.culprits {
                let culprit = culprit.replace("@ns@", &case.namespace);
                if !all.contains(&culprit) {
                    return Err(format!("{culprit} is not blamed, but {all:?}: {said:#}"));
                }
            }
            Ok(outcome.clone())
        })
        .await
    }

    /// A proxy logs what was predicted, and the request is found by its id.
    async fn is_logged(&self, case: &Case, outcome: &Value) {
        let (flags, details) = (outcome["flags"].as_str(), outcome["details"].as_str());
        let (Some(flags), Some(details)) = (flags, details.filter(|one| !one.is_empty())) else {
            return;
        };
        let id = format!("{}-{}", self.name.replace(' ', "-"), case.namespace);
        status(case, self, &id).await;
        eventually(&format!("{} is logged", self.name), async || {
            let said = explained(case, &["--request-id", &id])?;
            let lines = said["logged"].as_array().cloned().unwrap_or_default();
            let fits = |one: &Value| {
                let line = &one["line"];
                let own = |key: &str| line[key].as_str().unwrap_or_default();
                own("details").starts_with(details)
                    && (flags == "-" || own("flags").split(',').any(|flag| flag == flags))
            };
            match lines.iter().any(fits) {
                true => Ok(()),
                false => Err(format!("{flags} {details} wanted: {said:#}")),
            }
        })
        .await;
    }
}

async fn versions(case: &Case) {
    eventually("the versions of all", async || {
        let said = istioctl(case, &["version"])?;
        let wanted = ["client version: ", "control plane version: ", "data plane version: "];
        match wanted.iter().all(|part| said.contains(part)) {
            true => Ok(()),
            false => Err(said),
        }
    })
    .await;
    let said = istioctl(case, &["version", "-o", "json"]).unwrap();
    let said: Value = serde_json::from_str(&said).unwrap();
    assert!(said["meshVersion"][0]["Info"]["version"].is_string(), "{said}");
}

/// A limit is known before it is reached, and named in the log when it is.
async fn limits(case: &Case) {
    let limited = Mistake {
        name: "limited",
        from: "client",
        url: "http://limited/",
        headers: &[],
        status: Some(429),
        culprits: &[],
    };
    eventually("the limit is reached", async || {
        match status(case, &limited, "try-limited").await {
            Some(429) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let said = explained(case, &["pod/client", "http://limited/"]).unwrap();
    let policy = format!("RateLimitPolicy {}/limit", case.namespace);
    assert!(said["steps"].to_string().contains(&policy), "{said:#}");
    let outcome = json!({"flags": "-", "details": "local_rate_limited"});
    limited.is_logged(case, &outcome).await;
}

/// The same answer from files, before anything is applied.
fn files(case: &Case) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("objects.yaml");
    std::fs::write(&file, OBJECTS.replace("@ns@", &case.namespace)).unwrap();
    let file = file.display().to_string();
    for mistake in MISTAKES.iter().filter(|one| one.headers.is_empty()) {
        let url = mistake.url.replace("@ns@", &case.namespace);
        let source = format!("pod/{}", mistake.from);
        let said = explained(case, &[&source, &url, "-f", &file]).unwrap();
        let all = blamed(&said);
        for culprit in mistake.culprits {
            let culprit = culprit.replace("@ns@", &case.namespace);
            assert!(all.contains(&culprit), "{}: {culprit} of {all:?}: {said:#}", mistake.name);
        }
    }
}
