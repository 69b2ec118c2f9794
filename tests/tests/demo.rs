//! What `make demo` prints as the classic steps: every line of it is run as it stands, and what is seen
//! is what it says will be.

use ironsail_sys::exec;
use ironsail_testkit::{Case, SYSTEM, eventually, mesh_case, repository};

/// A client outside of the mesh, at whose place the user's terminal is.
const CLIENT: &str = "
apiVersion: v1
kind: Pod
metadata: {name: terminal, labels: {sidecar.istio.io/inject: 'false'}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: echo, args: [serve, --http, '8080']}]
";

async fn shop(case: &Case) {
    case.join_mesh().await;
    case.sample("bookinfo/platform/kube/bookinfo.yaml").await;
    case.apply(CLIENT).await;
    for name in
        ["details-v1", "ratings-v1", "reviews-v1", "reviews-v2", "reviews-v3", "productpage-v1"]
    {
        case.ready(&format!("deployment/{name}")).await;
    }
    case.ready("pod/terminal").await;
    case.ingress_gateway().await;
    case.sample("bookinfo/networking/bookinfo-gateway.yaml").await;
}

/// A shell as the demo's user has it: with kubectl for the shop's namespace, and the way in.
struct Shell<'a> {
    case: &'a Case,
    /// What the user's shell knows already.
    functions: String,
}

impl Shell<'_> {
    fn run(&self, line: &str) -> String {
        let kubectl = self.case.kubectl();
        let words: Vec<String> = std::iter::once(kubectl.get_program())
            .chain(kubectl.get_args())
            .map(|word| format!("'{}'", word.to_string_lossy()))
            .collect();
        let script = format!(
            "kubectl() {{ command {} \"$@\"; }}\n\
             curl() {{ kubectl exec terminal -c main -- curl \"$@\"; }}\n\
             GATEWAY=http://istio-ingressgateway.{SYSTEM}\n{}\n{line}",
            words.join(" "),
            self.functions
        );
        let mut bash = exec::command("bash");
        bash.args(["-c", &script]).current_dir(repository());
        for (name, value) in kubectl.get_envs() {
            match value {
                Some(value) => bash.env(name, value),
                None => bash.env_remove(name),
            };
        }
        let run = bash.output().expect("bash runs");
        let (out, err) =
            (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
        match run.status.success() {
            true => out.into_owned(),
            false => format!("{out}{err}"),
        }
    }
}

/// Whether a line is as told: word by word, and a number behind `about` only nearly so.
fn is_as_told(told: &str, seen: &str) -> bool {
    let mut seen = seen.split_whitespace();
    let mut told = told.split_whitespace();
    while let Some(word) = told.next() {
        let Some(other) = seen.next() else { return false };
        let fits = match word {
            "about" => {
                let number = |text: Option<&str>| text.and_then(|text| text.parse::<f64>().ok());
                let (told, seen) = (number(told.next()), number(Some(other)));
                told.zip(seen).is_some_and(|(told, seen)| (seen - told).abs() <= 0.8 * told)
            }
            word => word == other,
        };
        if !fits {
            return false;
        }
    }
    seen.next().is_none()
}

#[test]
fn numbers_that_are_about_right_are_right() {
    assert!(is_as_told("10 reviews-v1", "     10 reviews-v1"));
    assert!(!is_as_told("10 reviews-v1", "9 reviews-v1"));
    assert!(is_as_told("504 after about 6 s", "504 after 6.021 s"));
    assert!(!is_as_told("about 5 x", "10 x"));
    assert!(!is_as_told("a b", "a") && !is_as_told("a", "a b"));
}

#[test]
fn the_steps_that_the_demo_prints_show_what_they_say() {
    mesh_case("demo", async |case| {
        shop(case).await;
        let text = repository().join("samples/bookinfo/steps.sh");
        let text = std::fs::read_to_string(text).expect("the steps");
        let mut lines = text.lines().filter(|line| !line.is_empty()).peekable();
        let mut shell = Shell { case, functions: String::new() };
        let mut shown = 0;
        while let Some(line) = lines.next() {
            if line.starts_with('#') {
                continue;
            }
            if line.contains("() {") {
                shell.functions += line;
                shell.functions.push('\n');
                continue;
            }
            let mut told = Vec::new();
            while let Some(one) = lines.next_if(|next| next.starts_with("#=>")) {
                told.push(one.trim_start_matches("#=>"));
            }
            if told.is_empty() {
                let said = shell.run(line);
                assert!(!said.to_lowercase().contains("error"), "{line}: {said}");
                continue;
            }
            eventually(line, async || {
                let seen = shell.run(line);
                let same = seen.lines().count() == told.len();
                let all = told.iter().zip(seen.lines()).all(|(told, seen)| is_as_told(told, seen));
                if same && all { Ok(()) } else { Err(format!("{told:?} was told: {seen}")) }
            })
            .await;
            shown += 1;
        }
        assert_eq!(shown, 7, "steps that say what is seen");
        case.nothing_was_refused().await;
    });
}
