//! Every folder of `testdata`: objects and a proxy in, resources out, compared with `expect.yaml`.
//! `UPDATE=1` writes what comes out; look at the difference before you keep it.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "golden/case.rs"]
mod case;
#[path = "golden/yaml.rs"]
mod yaml;

use std::collections::BTreeSet;

use case::Case;
use ironsail_sys::env::Env;
use ironsail_translate::{cluster, endpoint};

#[test]
fn every_case_translates_as_expected() {
    let update = Env::of_process().var("UPDATE").is_some_and(|v| v == "1");
    let mut wrong = Vec::new();
    for folder in case::folders() {
        let case = Case::load(&folder);
        let actual = yaml::write(&case.translate());
        let file = folder.join("expect.yaml");
        if folder.join("traffic.yaml").exists() && !file.exists() {
            // A case about listeners and routes alone.
            continue;
        }
        if update {
            std::fs::write(&file, &actual).unwrap();
        }
        let expected = std::fs::read_to_string(&file).unwrap_or_default();
        if actual != expected {
            let line = actual.lines().zip(expected.lines()).position(|(a, b)| a != b);
            let line = line.unwrap_or_else(|| actual.lines().count().min(expected.lines().count()));
            let at = |text: &str| text.lines().nth(line).unwrap_or("(end)").to_owned();
            let name = folder.file_name().unwrap().to_string_lossy().into_owned();
            wrong.push(format!(
                "{name} line {}:\n  is       {}\n  expected {}",
                line + 1,
                at(&actual),
                at(&expected)
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_written_reads_the_same() {
    for folder in case::folders() {
        let value = Case::load(&folder).translate();
        let read: serde_json::Value = ironsail_yaml::parse(&yaml::write(&value)).unwrap();
        assert_eq!(read, value, "{}", folder.display());
    }
}

#[test]
fn clusters_and_load_assignments_belong_together() {
    for folder in case::folders() {
        let case = Case::load(&folder);
        let assigned = endpoint::views(&case.snapshot, &case.scope, &case.class);
        let assigned: BTreeSet<String> =
            assigned.iter().map(endpoint::EndpointView::asked_as).collect();
        let clusters = cluster::views(&case.snapshot, &case.scope, &case.class);
        let names: Vec<String> = clusters.iter().map(cluster::ClusterView::name).collect();
        let distinct: BTreeSet<&String> = names.iter().collect();
        assert_eq!(names.len(), distinct.len(), "a cluster twice in {}", folder.display());
        let eds = clusters.iter().map(|v| cluster::translate(v).value);
        let eds: BTreeSet<String> =
            eds.filter_map(|c| Some(c.eds_cluster_config?.service_name)).collect();
        assert_eq!(eds, assigned, "{}", folder.display());
    }
}

#[test]
fn each_cluster_and_load_assignment_is_found_by_name() {
    for folder in case::folders() {
        let case = Case::load(&folder);
        for view in cluster::views(&case.snapshot, &case.scope, &case.class) {
            let again = cluster::view(&case.snapshot, &case.scope, &case.class, &view.name());
            assert_eq!(again.map(|v| v.key()), Some(view.key()), "{}", view.name());
        }
        for service in &case.scope.services {
            let names = cluster::of_service(&case.snapshot, &case.scope, &case.class, service);
            let host = service.hostname().as_str();
            let own = |name: &str| {
                name.ends_with(&format!("|{host}")) || name.ends_with(&format!("_.{host}"))
            };
            assert!(names.map(|v| v.name()).all(|name| own(&name)));
        }
        let views = endpoint::views(&case.snapshot, &case.scope, &case.class);
        for view in views.into_iter().filter(|view| !view.passed_on) {
            let again = endpoint::view(&case.snapshot, &case.scope, &case.class, &view.name);
            assert_eq!(again.map(|v| v.key()), Some(view.key()), "{}", view.name);
        }
    }
}
