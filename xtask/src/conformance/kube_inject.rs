//! Family `kube-inject`: configuration files of `kube-inject`, each with its one template.
//!
//! The data has the files that go in; what must come out follows from them: the two containers of
//! the template, with the value that stands in the image's name.

use std::path::Path;

use anyhow::Context;
use ironsail_inject::{Config, Injector, Mesh, Settings, Values, manifest};
use serde_json::Value;

use super::{Case, inject, read};

/// Configuration, file with the values, path of the values in it, and how the image's tag ends.
const CASES: [(&str, &str, &[&str], &str); 4] = [
    ("inject-config.yaml", "inject-values.yaml", &[], "test"),
    ("inject-config-inline.yaml", "inject-values.yaml", &[], "test"),
    ("inject-config-iop.yaml", "istio-operator.yaml", &["spec", "values"], "testiop"),
    ("inject-config-inline-iop.yaml", "istio-operator.yaml", &["spec", "values"], "testiop"),
];

pub(super) fn cases(folder: &Path) -> anyhow::Result<Vec<Case>> {
    let data = folder.parent().context("the data has no folder")?;
    let hello = read(&data.join("inject/hello.yaml"))?;
    let mut cases = Vec::new();
    for (config, values, path, suffix) in CASES {
        let text = read(&folder.join(config))?;
        let values: Value = ironsail_yaml::parse(&read(&folder.join(values))?)?;
        let values = path.iter().fold(&values, |tree, key| &tree[*key]);
        let mesh = match path.is_empty() {
            true => Mesh::from_yaml(&read(&folder.join("mesh-config.yaml"))?)?,
            false => Mesh::default(),
        };
        let values = Values::from_yaml(&values.to_string())?;
        let config_read = Config::from_yaml_or_template(&text);
        let injector = Injector::new(config_read, values, mesh, Settings::default())?;
        cases.push(Case::judged(config, judge(&injector, &hello, &text, suffix)));
    }
    Ok(cases)
}

fn judge(injector: &Injector, hello: &str, config: &str, suffix: &str) -> Result<(), String> {
    let got = manifest(injector, hello).map_err(|error| error.to_string())?;
    let got = ironsail_yaml::documents(&got.yaml).map_err(|error| error.to_string())?;
    let spec = inject::normal(&got[0]["spec"]["template"]["spec"]);
    let images: Vec<&str> =
        config.lines().filter_map(|line| line.trim().strip_prefix("image: ")).collect();
    let [init, proxy] = images[..] else {
        return Err("the configuration is not of two containers".to_owned());
    };
    let init = init.split("{{").next().unwrap_or(init).to_owned() + suffix;
    let want = serde_json::json!({
        "initContainers": [{ "name": "istio-init", "image": init }],
        "containers": [
            { "name": "hello", "image": spec["containers"][0]["image"],
              "ports": spec["containers"][0]["ports"] },
            { "name": "istio-proxy", "image": proxy },
        ],
    });
    if spec == want { Ok(()) } else { Err(format!("{spec} instead of {want}")) }
}
