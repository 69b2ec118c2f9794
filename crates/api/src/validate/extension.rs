//! `WasmPlugin` and `TrafficExtension`.

use std::collections::BTreeSet;

use super::check::Check;
use super::name::{self, head};
use super::selector;
use crate::istio::extensions::{
    EnvValueSource, ExtensionCode, TrafficExtension, TrafficSelector, VmConfig, WasmPlugin,
};

pub(super) fn wasm_plugin(check: &mut Check<'_>, plugin: &WasmPlugin) {
    selector::policy(
        check,
        plugin.selector.as_ref(),
        plugin.target_ref.as_ref(),
        &plugin.target_refs,
    );
    module(check, &plugin.url, &plugin.sha256, &plugin.image_pull_secret, &plugin.plugin_name);
    check.some("vmConfig", plugin.vm_config.as_ref(), vm_config);
    traffic(check, &plugin.r#match);
}

pub(super) fn traffic_extension(check: &mut Check<'_>, extension: &TrafficExtension) {
    selector::policy(check, extension.selector.as_ref(), None, &extension.target_refs);
    match &extension.code {
        ExtensionCode::Unset => check.error("exactly one of wasm or lua must be set"),
        ExtensionCode::Lua(lua) => {
            check.require(!lua.inline_code.trim().is_empty(), || "lua.inlineCode may not be empty");
        }
        ExtensionCode::Wasm(wasm) => check.within("wasm", |check| {
            module(check, &wasm.url, &wasm.sha256, &wasm.image_pull_secret, &wasm.plugin_name);
            check.some("vmConfig", wasm.vm_config.as_ref(), vm_config);
        }),
    }
    traffic(check, &extension.r#match);
}

fn module(check: &mut Check<'_>, url: &str, sha256: &str, secret: &str, plugin: &str) {
    check.take_at("url", module_url(url));
    if !sha256.is_empty() {
        check.within("sha256", |check| {
            check.require(sha256.len() == 64, || "sha256 field must be 64 characters long");
            let hex = sha256.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            check.require(hex, || "sha256 field must match [a-f0-9]{64} pattern");
        });
    }
    check.require(
        secret.len() <= 253,
        || "imagePullSecret field must be less than 253 characters long",
    );
    check.require(plugin.len() <= 256, || "pluginName field must be less than 255 characters long");
}

/// An address with one of the known schemes, or none, which means an image.
fn module_url(url: &str) -> Result<(), String> {
    if url.is_empty() {
        return Err("url field needs to be set".to_owned());
    }
    if url.contains(|c: char| c.is_control() || c == ' ') {
        return Err(format!("failed to parse url: {:?}", head(url)));
    }
    let Some((scheme, rest)) = url.split_once("://") else { return Ok(()) };
    if !["file", "http", "https", "oci"].contains(&scheme) {
        return Err(format!("url contains unsupported scheme: {}", head(scheme)));
    }
    if rest.is_empty() { Err(format!("failed to parse url: {:?}", head(url))) } else { Ok(()) }
}

fn vm_config(check: &mut Check<'_>, config: &VmConfig) {
    let mut names = BTreeSet::new();
    check.each("env", &config.env, |check, variable| {
        check.require(!variable.name.is_empty(), || "spec.vmConfig.env invalid");
        check.require(
            variable.name.len() <= 256,
            || "env.name field must be less than 255 characters long",
        );
        check.require(names.insert(variable.name.clone()), || {
            format!("duplicate env name {:?}", head(&variable.name))
        });
        check.require(
            variable.value_from == EnvValueSource::Inline || variable.value.is_empty(),
            || "value may only be set when valueFrom is INLINE",
        );
    });
}

fn traffic(check: &mut Check<'_>, selectors: &[TrafficSelector]) {
    check.each("match", selectors, |check, selector| {
        check.each("ports", &selector.ports, |check, port| {
            check.take_at("number", name::port(port.number));
        });
    });
}
