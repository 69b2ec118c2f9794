// The panel beside: one workload, service, resource or node of the map.

import { api, badge, el } from "./dom.js";
import { SEVERITY, expiry, stateBadge } from "./lists.js";
import { neighbours } from "./map.js";

const link = (to, text) => el("a", { href: to }, text);
const section = (name, lines) => lines.length > 0 && [el("h3", {}, name), el("ul", {}, lines.map((line) => el("li", {}, line)))];

export function path(...parts) { return `#/${parts.map(encodeURIComponent).join("/")}`; }

async function workload(namespace, name) {
  const row = await api(`workloads/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`);
  const facts = [
    `${row.kind} ${row.workload}${row.version ? `, version ${row.version}` : ""}`,
    row.addresses.length && `at ${row.addresses.join(", ")}${row.node ? ` on ${row.node}` : ""}`,
    row.identity && `is ${row.identity}`,
    row.proxy && `Proxy ${row.proxy.kind}, version ${row.proxy.version}, connected since ${row.proxy.since}`,
  ].filter(Boolean);
  const states = Object.entries(row.proxy?.state ?? {}).map(([kind, state]) =>
    [badge(state.toLowerCase(), { SYNCED: "good", STALE: "warn", ERROR: "bad" }[state]), ` ${kind}`, row.resources[kind] !== undefined ? `: ${row.resources[kind]}` : ""]);
  return [el("h2", {}, row.name), el("p", {}, stateBadge(row), " certificate: ", expiry(row)),
    row.proxy?.refused && el("p", { class: "bad" }, row.proxy.refused),
    section("What it is", facts),
    row.words.map(([heading, lines]) => section(heading, lines)),
    section("What its proxy has", states),
    section("Labels", Object.entries(row.labels).map(([key, value]) => `${key}: ${value}`))];
}

async function service(namespace, name) {
  const rows = await api("services");
  const row = rows.find((one) => one.namespace === namespace && one.name === name);
  if (!row) throw new Error(`no service ${namespace}/${name}`);
  const pods = (await api("workloads")).filter((one) => one.namespace === namespace && one.services.includes(row.host));
  return [el("h2", {}, row.host),
    section("What it is", [`${row.kind} with ${row.healthy} of ${row.endpoints} endpoints healthy`, row.addresses.length && `at ${row.addresses.join(", ")}`, `ports ${row.ports.join(", ")}`].filter(Boolean)),
    section("Configured by", row.objects.map((text) => { const [kind, of, object] = text.split("/"); return link(path("resource", kind, of, object), text); })),
    section("Served by", pods.map((pod) => link(path("workload", pod.namespace, pod.name), `${pod.name}`)))];
}

async function resource(kind, namespace, name) {
  const object = await api(`resources/${[kind, namespace, name].map(encodeURIComponent).join("/")}`);
  const findings = object.findings ?? [];
  delete object.findings;
  return [el("h2", {}, `${kind} ${namespace}/${name}`),
    section("Findings", findings.map((finding) => [badge(finding.severity, SEVERITY[finding.severity]), ` ${finding.field ? `${finding.field}: ` : ""}${finding.message} `, el("span", { class: "dim" }, finding.code)])),
    el("pre", { tabindex: 0 }, JSON.stringify(object, null, 2))];
}

async function node(one, filter) {
  const rows = (await api("workloads")).filter((row) => row.namespace === one.namespace && (row.workload === one.name || row.app === one.name));
  return [el("h2", {}, one.name), el("p", { class: "dim" }, one.namespace),
    neighbours(one, filter).map(([heading, lines]) => section(heading, lines)),
    section("Workloads", rows.slice(0, 50).map((row) => [link(path("workload", row.namespace, row.name), row.name), " ", stateBadge(row)]))];
}

const KINDS = { workload, service, resource };

/** Shows what the words of the address ask for; `null` closes. */
export async function show(panel, what, filter) {
  panel.hidden = !what;
  if (!what) return;
  const close = el("button", { class: "close", type: "button", "aria-label": "Close", onclick: filter.close }, "✕");
  try {
    const content = what.node ? await node(what.node, filter) : await KINDS[what.kind](...what.words);
    panel.replaceChildren(close, ...content.flat(Infinity).filter((part) => part instanceof Node));
  } catch (error) {
    panel.replaceChildren(close, el("p", { class: "bad" }, error.message));
  }
}
