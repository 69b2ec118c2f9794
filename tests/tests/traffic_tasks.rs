//! The tasks that everybody begins with, by the manifests in `samples/`: request routing, fault
//! injection, traffic shifting, timeouts and mirroring with bookinfo; TCP shifting, circuit breaking
//! and mirroring with echo.

#[path = "world/echo.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod echo;

use echo::{client, server};
use ironsail_testkit::{Answer, Ask, Case, Traffic, ask, mesh_case};

const REVIEWS: &str = "http://productpage:9080/api/v1/products/0/reviews";

async fn shop(case: &Case) {
    echo::start(case, &[&client("client", "team: red")], &[]).await;
    case.sample("bookinfo/platform/kube/bookinfo.yaml").await;
    for name in
        ["details-v1", "ratings-v1", "reviews-v1", "reviews-v2", "reviews-v3", "productpage-v1"]
    {
        case.ready(&format!("deployment/{name}")).await;
    }
    case.ready("pod/client").await;
    case.sample("bookinfo/networking/destination-rule-all.yaml").await;
}

/// The colour of the stars, or none.
fn stars(answer: &Answer) -> &str {
    answer.body["reviews"][0]["rating"]["color"].as_str().unwrap_or("none")
}

fn all_are(wanted: &'static str) -> impl Fn(&[Answer]) -> bool {
    move |answers| answers.iter().all(|a| a.status == Some(200) && stars(a) == wanted)
}

fn reader(times: u32) -> Ask {
    ask(REVIEWS).times(times)
}

fn jason(times: u32) -> Ask {
    reader(times).header("Cookie: user=jason").args(&["--timeout", "20000"])
}

async fn step(case: &Case, file: &str) {
    case.sample(&format!("bookinfo/networking/{file}.yaml")).await;
}

#[test]
fn the_classic_steps_with_the_book_shop() {
    mesh_case("shop", async |case| {
        shop(case).await;
        let t = Traffic::new(case, "client");
        t.still(
            "every version answers by turns",
            vec![reader(30).all("all versions", |all| {
                ["none", "black", "red"]
                    .iter()
                    .all(|colour| all.iter().any(|a| stars(a) == *colour))
            })],
        )
        .await;
        step(case, "virtual-service-all-v1").await;
        t.still("all to v1", vec![reader(10).all("no stars", all_are("none"))]).await;
        step(case, "virtual-service-reviews-test-v2").await;
        t.still(
            "jason sees v2",
            vec![
                jason(5).all("black stars", all_are("black")),
                reader(5).all("no stars", all_are("none")),
            ],
        )
        .await;
        step(case, "virtual-service-ratings-test-delay").await;
        t.still(
            "the delay shows that the shop waits too short",
            vec![
                jason(1).all("no reviews, after twice three seconds", |all| {
                    all[0].status != Some(200) && all[0].millis > 5000
                }),
                reader(3).all("others see nothing of it", all_are("none")),
            ],
        )
        .await;
        step(case, "virtual-service-ratings-test-abort").await;
        t.still(
            "the abort is seen as reviews without stars",
            vec![
                jason(1).all("a note in place of stars", |all| {
                    all[0].body["reviews"][0]["rating"]["error"]
                        == "Ratings service is currently unavailable"
                }),
                reader(3).all("others see nothing of it", all_are("none")),
            ],
        )
        .await;
        step(case, "virtual-service-all-v1").await;
        step(case, "virtual-service-reviews-50-v3").await;
        t.still(
            "half to v3",
            vec![reader(60).all("both", |all| {
                let red = all.iter().filter(|a| stars(a) == "red").count();
                let none = all.iter().filter(|a| stars(a) == "none").count();
                red + none == 60 && (10..=50).contains(&red)
            })],
        )
        .await;
        step(case, "virtual-service-reviews-v3").await;
        t.still("all to v3", vec![reader(10).all("red stars", all_are("red"))]).await;
        step(case, "virtual-service-reviews-timeout").await;
        t.still(
            "a timeout ends the wait",
            vec![
                reader(1).all("no reviews, soon", |all| {
                    all[0].status != Some(200) && all[0].millis < 3000
                }),
            ],
        )
        .await;
        step(case, "virtual-service-all-v1").await;
        step(case, "virtual-service-reviews-mirror-v2").await;
        t.still(
            "version 1 answers while version 2 gets copies",
            vec![reader(5).all("no stars", all_are("none"))],
        )
        .await;
        t.done().await;
    });
}

async fn sample(case: &Case, file: &str) {
    case.sample(&format!("echo/networking/{file}.yaml")).await;
}

#[test]
fn the_steps_with_echo() {
    mesh_case("steps", async |case| {
        let (two, client) = (server("echo", "v2", true), client("client", "team: red"));
        echo::start(case, &[&two, &client], &[]).await;
        case.sample("echo/echo.yaml").await;
        case.ready("deployment/echo").await;
        case.ready("pod/echo-v2").await;
        case.ready("pod/client").await;
        let t = Traffic::new(case, "client");
        let tcp = |n: u32| ask("tcp://echo:9000").times(n).works();
        sample(case, "destination-rule-all").await;
        sample(case, "virtual-service-tcp-v1").await;
        t.still("connections to v1", vec![tcp(20).version("v1")]).await;
        sample(case, "virtual-service-tcp-20-v2").await;
        t.still(
            "one connection in five to v2",
            vec![tcp(100).share("v1", 55..=97).share("v2", 3..=45)],
        )
        .await;
        sample(case, "virtual-service-mirror").await;
        let key = "x-count: mirror";
        t.still(
            "version 1 answers",
            vec![ask("http://echo/").header(key).times(5).status(200).version("v1")],
        )
        .await;
        ironsail_testkit::eventually("version 2 gets copies", async || {
            t.answers(&ask("http://echo/").header(key)).await;
            let url = "http://localhost:8080/?counted=mirror";
            let copies = case.call_with("pod/echo-v2", url, &[]).await;
            let count = copies[0].body["count"].as_u64();
            if count >= Some(1) { Ok(()) } else { Err(format!("{count:?} copies")) }
        })
        .await;
        breaker(case, &t).await;
        t.done().await;
    });
}

/// With the limit, a crowd is mostly refused; one request at a time still passes.
async fn breaker(case: &Case, t: &Traffic<'_>) {
    case.kubectl_says(&["delete", "virtualservice", "echo"]);
    sample(case, "destination-rule-circuit-breaker").await;
    // The limit has arrived when some of a crowd are refused.
    ironsail_testkit::eventually("the circuit breaker trips", async || {
        let args = ["http://echo/?delay=200", "--workers", "6", "--total", "18", "--rate", "2000"];
        let seen = t.load(&args).await;
        let count = |status: &str| seen["statuses"][status].as_u64().unwrap_or_default();
        if count("503") >= 3 && count("200") >= 1 { Ok(()) } else { Err(seen.to_string()) }
    })
    .await;
    t.still("one at a time passes", vec![ask("http://echo/").times(5).status(200)]).await;
}
