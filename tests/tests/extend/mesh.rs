//! A namespace of the mesh, requests by curl with what came back, and that no proxy refused anything.

use std::collections::BTreeMap;

use ironsail_testkit::{Case, SYSTEM, eventually, mesh_case};

/// What a request got back.
#[derive(Debug, Default)]
#[allow(dead_code, reason = "each test uses its part of it")]
pub(crate) struct Got {
    /// 0 if nothing answered.
    pub(crate) code: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Got {
    #[allow(dead_code, reason = "each test uses its part of it")]
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// A test in a namespace whose pods get a sidecar. No proxy may have refused anything in the end.
pub(crate) fn in_the_mesh(name: &str, test: impl AsyncFnOnce(&Case)) {
    in_the_mesh_with_refusals(name, async |case| {
        test(case).await;
        let own = format!(".{}\"", case.namespace);
        eventually("a proxy is connected", async || {
            let rows = case.page(8080, "/debug/syncz").await.body;
            if rows.contains(&own) { Ok(()) } else { Err(rows) }
        })
        .await;
        let log = istiod_log(case);
        let refusals: Vec<&str> = log
            .lines()
            .filter(|l| l.contains("ACK ERROR") && l.contains(&case.namespace))
            .collect();
        assert!(refusals.is_empty(), "a proxy refused configuration: {refusals:?}");
    });
}

/// The same where proxies may refuse something on the way.
pub(crate) fn in_the_mesh_with_refusals(name: &str, test: impl AsyncFnOnce(&Case)) {
    mesh_case(name, async |case| {
        case.join_mesh().await;
        test(case).await;
    });
}

/// What the control plane has written so far.
fn istiod_log(case: &Case) -> String {
    let logs = ["-n", SYSTEM, "logs", "-l", "app=istiod", "--tail", "-1"];
    let output = case.podlet().kubectl().args(logs).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// One request from the pod of curl.
pub(crate) async fn ask(case: &Case, url: &str, headers: &[&str]) -> Got {
    let mut command = vec!["curl", "-s", "-i", "-m", "60"];
    for header in headers {
        command.extend(["-H", header]);
    }
    command.push(url);
    let run = case.exec("deployment/curl", &command).await;
    let text = run.stdout.replace("\r\n", "\n");
    let (head, body) = text.split_once("\n\n").unwrap_or((&text, ""));
    let mut lines = head.lines();
    let code = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|c| c.parse().ok());
    let headers = lines.filter_map(|line| line.split_once(": "));
    Got {
        code: code.unwrap_or(0),
        headers: headers.map(|(k, v)| (k.to_ascii_lowercase(), v.to_owned())).collect(),
        body: body.to_owned(),
    }
}

/// The same until it got what is wanted.
#[allow(dead_code, reason = "each test uses its part of it")]
pub(crate) async fn ask_until(
    case: &Case,
    url: &str,
    headers: &[&str],
    wanted: impl Fn(&Got) -> bool,
) -> Got {
    eventually(&format!("{url} answers as wanted"), async || {
        let got = ask(case, url, headers).await;
        if wanted(&got) { Ok(got) } else { Err(format!("{got:?}")) }
    })
    .await
}
