// The lists: workloads, services, resources, pushes, log levels.

import { api, ask, badge, bytes, duration, el, rate, percent } from "./dom.js";

/** More rows are not drawn: whoever has more searches. */
const MOST = 500;
const sorting = {};

function table(name, columns, rows, { filter, open }) {
  const wanted = filter.search.toLowerCase().split(/\s+/).filter(Boolean);
  let kept = rows.filter((row) => !filter.namespace || row.namespace === filter.namespace);
  if (wanted.length) {
    kept = kept.filter((row) => {
      const text = columns.map((column) => column.sort(row)).join(" ").toLowerCase();
      return wanted.every((word) => text.includes(word));
    });
  }
  const by = (sorting[name] ??= { at: 0, up: true });
  const value = columns[by.at].sort;
  kept = [...kept].sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    const less = typeof x === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
    return by.up ? less : -less;
  });
  const head = columns.map((column, at) => el("th", { class: column.number && "number", "aria-sort": at === by.at ? (by.up ? "ascending" : "descending") : "none" },
    el("button", { type: "button", "data-key": `${name}:sort:${at}`, onclick: () => { sorting[name] = { at, up: by.at === at ? !by.up : true }; filter.again(); } },
      column.name, at === by.at ? (by.up ? " ▲" : " ▼") : "")));
  const body = kept.slice(0, MOST).map((row) => el("tr", open && { tabindex: 0, "data-key": `${name}:${row.kind ?? ""}/${row.namespace}/${row.name}`, onclick: () => open(row), onkeydown: (event) => event.key === "Enter" && open(row) },
    columns.map((column) => el("td", { class: column.number ? "number" : column.short && "short" }, column.show ? column.show(row) : column.sort(row)))));
  const rest = kept.length > MOST && el("p", { class: "empty" }, `${kept.length - MOST} more: search for what you want.`);
  const none = !kept.length && el("p", { class: "empty" }, rows.length ? "Nothing of this is called so." : "There is none.");
  return [el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, body)), rest, none].filter(Boolean);
}

const STATES = { SYNCED: "good", STALE: "warn", ERROR: "bad", "NOT SENT": "dim" };

function stateOf(row) {
  if (!row.proxy) return row.injected ? "not connected" : "no proxy";
  const states = Object.values(row.proxy.state);
  for (const worst of ["ERROR", "STALE"]) if (states.includes(worst)) return worst;
  return states.includes("SYNCED") ? "SYNCED" : "NOT SENT";
}

export function stateBadge(row) {
  const state = stateOf(row);
  const words = { SYNCED: "synced", STALE: "waiting for an answer", ERROR: "refused", "NOT SENT": "nothing sent" };
  return badge(words[state] ?? state, STATES[state] ?? (state === "not connected" ? "bad" : "dim"));
}

export function expiry(row) {
  if (!row.certificate) return el("span", { class: "dim" }, row.proxy ? "not told yet" : "–");
  const left = row.certificate.expiresIn;
  return el("span", { class: left < 0 ? "bad" : left < 3600 ? "warn" : "" }, left < 0 ? `ended ${duration(left)}` : `${duration(left)} left`);
}

export async function workloads(main, filter, open) {
  const rows = await api("workloads");
  main.replaceChildren(...table("workloads", [
    { name: "Name", sort: (row) => row.name },
    { name: "Namespace", sort: (row) => row.namespace },
    { name: "Workload", sort: (row) => row.workload, show: (row) => `${row.workload}${row.version ? ` · ${row.version}` : ""}` },
    { name: "Proxy", sort: (row) => stateOf(row), show: stateBadge },
    { name: "Version", short: true, sort: (row) => row.proxy?.version ?? "" },
    { name: "mTLS", short: true, sort: (row) => (row.proxy || row.injected ? row.mutualTls : "–") },
    { name: "Certificate", short: true, sort: (row) => row.certificate?.expiresIn ?? Infinity, show: expiry },
    { name: "Address", short: true, sort: (row) => row.addresses[0] ?? "" },
  ], rows, { filter, open }));
  const connected = rows.filter((row) => row.proxy).length;
  return `${rows.length} workloads, ${connected} with a proxy`;
}

export async function services(main, filter, open) {
  const [rows, map] = await Promise.all([api("services"), api("map?window=60").catch(() => ({ edges: [] }))]);
  const seen = new Map();
  for (const edge of map.edges) {
    const of = seen.get(edge.host) ?? { rate: 0, failed: 0 };
    of.rate += edge.rate;
    of.failed += edge.rate * edge.errors;
    seen.set(edge.host, of);
  }
  const at = (row) => seen.get(row.host) ?? { rate: 0, failed: 0 };
  main.replaceChildren(...table("services", [
    { name: "Name", sort: (row) => row.name },
    { name: "Namespace", sort: (row) => row.namespace },
    { name: "Ports", sort: (row) => row.ports.join(", ") },
    { name: "Endpoints", number: true, sort: (row) => row.healthy, show: (row) => el("span", { class: row.endpoints && !row.healthy ? "bad" : "" }, `${row.healthy} of ${row.endpoints}`) },
    { name: "Requests", number: true, sort: (row) => at(row).rate, show: (row) => (at(row).rate ? rate(at(row).rate) : "–") },
    { name: "Success", number: true, sort: (row) => (at(row).rate ? 1 - at(row).failed / at(row).rate : 2), show: (row) => (at(row).rate ? percent(1 - at(row).failed / at(row).rate) : "–") },
    { name: "Workloads", sort: (row) => row.workloads.join(", ") },
    { name: "Configured by", sort: (row) => row.objects.join(", ") },
  ], rows, { filter, open }));
  return `${rows.length} services`;
}

const WORST = { Error: 0, Warning: 1, Info: 2 };
export const SEVERITY = { Error: "bad", Warning: "warn", Info: "dim" };
const worst = (row) => Math.min(3, ...row.findings.map((finding) => WORST[finding.severity] ?? 2));

export async function resources(main, filter, open) {
  const rows = await api("resources");
  main.replaceChildren(...table("resources", [
    { name: "Findings", sort: (row) => worst(row), show: (row) => (row.findings.length
      ? row.findings.map((finding) => el("div", {}, badge(finding.severity, SEVERITY[finding.severity]), ` ${finding.field ? `${finding.field}: ` : ""}${finding.message}`))
      : el("span", { class: "good" }, "none")) },
    { name: "Kind", sort: (row) => row.kind },
    { name: "Namespace", sort: (row) => row.namespace },
    { name: "Name", sort: (row) => row.name },
    { name: "Created", sort: (row) => row.created ?? "" },
  ], rows, { filter, open }));
  const wrong = rows.filter((row) => worst(row) < 2).length;
  return `${rows.length} resources, ${wrong} with errors or warnings`;
}

export async function pushes(main, filter) {
  const report = await api("pushes");
  const columns = (time) => [
    { name: "Proxy", sort: (row) => row.proxy },
    { name: "Namespace", sort: (row) => row.namespace },
    { name: "Type", sort: (row) => row.kind },
    { name: time, sort: (row) => row.at },
    { name: "What it said", sort: (row) => row.message },
    { name: "Objects", sort: (row) => row.objects.join(", ") },
  ];
  const types = [
    { name: "Type", sort: (row) => row.kind },
    { name: "Pushes", number: true, sort: (row) => row.pushes },
    { name: "Refused", number: true, sort: (row) => row.refused, show: (row) => el("span", { class: row.refused ? "bad" : "" }, row.refused) },
    { name: "Resources", number: true, sort: (row) => row.resources },
    { name: "Bytes", number: true, sort: (row) => row.bytes, show: (row) => bytes(row.bytes) },
  ];
  main.replaceChildren(
    el("h2", { class: "tools" }, "Refused by proxies (NACK)"), ...table("refusals", columns("Refused"), report.refusals, { filter }),
    el("h2", { class: "tools" }, "Sent and not answered yet"), ...table("waiting", columns("Sent"), report.waiting, { filter }),
    el("h2", { class: "tools" }, "Sent since the start"), ...table("types", types, report.types, { filter: { ...filter, namespace: "", search: "" } }));
  return `${report.refusals.length} refusals, ${report.waiting.length} answers awaited`;
}

export async function logs(main, filter) {
  const rows = await ask("/scopej/");
  const levels = ["none", "error", "warn", "info", "debug", "trace"];
  const said = el("span", { role: "status" });
  const set = async (scope, level) => {
    try {
      await ask(`/scopej/${encodeURIComponent(scope)}`, { method: "PUT", headers: { "content-type": "application/json" }, body: JSON.stringify({ output_level: level }) });
      said.textContent = `${scope} logs ${level} now`;
    } catch (error) { said.textContent = error.message; }
  };
  main.replaceChildren(el("p", { class: "tools" }, "How much each part of the control plane writes into its log, until it starts anew. ", said), ...table("logs", [
    { name: "Part", sort: (row) => row.name },
    { name: "Level", sort: (row) => levels.indexOf(row.output_level), show: (row) => el("select", { "aria-label": `Level of ${row.name}`, onchange: (event) => set(row.name, event.target.value) },
      levels.map((level) => el("option", { selected: level === row.output_level }, level))) },
  ], rows, { filter }));
  return `${rows.length} parts`;
}
