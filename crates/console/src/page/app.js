// What is shown, by the address; asks again every five seconds while the page is seen.

import { api, el } from "./dom.js";
import * as lists from "./lists.js";
import * as map from "./map.js";
import * as detail from "./detail.js";

const EVERY = 5000;
const main = document.getElementById("main");
const panel = document.getElementById("detail");
const search = document.getElementById("search");
const namespaces = document.getElementById("namespace");
const line = document.getElementById("overview");

let chosen = null;
let timer = 0;
let turn = 0;

const filter = {
  get search() { return search.value.trim(); },
  get namespace() { return namespaces.value; },
  choose(namespace) { namespaces.value = namespace; refresh(); },
  again: () => refresh(),
  close: () => { chosen = null; if (DETAILS[words()[0]]) history.back(); detail.show(panel, null, filter); main.focus(); },
};

const words = () => location.hash.replace(/^#\//, "").split("/").filter(Boolean).map(decodeURIComponent);
/** Addresses of a detail, and the list behind each. */
const DETAILS = { workload: "workloads", service: "services", resource: "resources" };
const VIEWS = {
  map: () => map.show(main, filter, (node) => { chosen = { node }; detail.show(panel, chosen, filter); panel.querySelector("button")?.focus(); }, refresh),
  workloads: () => lists.workloads(main, filter, (row) => { location.hash = detail.path("workload", row.namespace, row.name); }),
  services: () => lists.services(main, filter, (row) => { location.hash = detail.path("service", row.namespace, row.name); }),
  resources: () => lists.resources(main, filter, (row) => { location.hash = detail.path("resource", row.kind, row.namespace, row.name); }),
  pushes: () => lists.pushes(main, filter),
  logs: () => lists.logs(main, filter),
};

function viewOf() {
  const [first] = words();
  return DETAILS[first] ?? (VIEWS[first] ? first : "map");
}

async function overview() {
  const all = await api("overview");
  document.getElementById("name").textContent = `Mesh ${all.cluster}`;
  const count = (number, name, kind) => el("span", { class: number && kind ? kind : "" }, `${number} ${name}`);
  const parts = [el("span", {}, `control plane ${all.version}${all.ready ? "" : " (reading)"}`), count(all.services, "services"),
    count(all.workloads, "workloads"), count(all.proxies, "proxies"), count(all.errors, "errors", "bad"), count(all.warnings, "warnings", "warn"),
    count(all.refusals, "refusals", "bad"), all.convergence && el("span", {}, `a change reaches all in ${(all.convergence[1] * 1000).toFixed(0)} ms (p99)`)];
  const known = new Set([...namespaces.options].map((option) => option.value));
  for (const name of all.namespaces ?? []) if (!known.has(name)) namespaces.append(el("option", { value: name }, name));
  return parts.filter(Boolean);
}

async function refresh() {
  clearTimeout(timer);
  const mine = (turn += 1);
  const view = viewOf();
  document.querySelectorAll("nav a").forEach((link) => {
    if (link.dataset.view === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  });
  try {
    const key = document.activeElement?.dataset?.key;
    // A list must not jump under somebody who is choosing.
    const busy = main.contains(document.activeElement) && document.activeElement.matches("select");
    const [parts, said] = await Promise.all([overview(), busy ? "" : VIEWS[view]()]);
    // What had the focus was drawn anew.
    if (key && document.activeElement === document.body) main.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
    if (mine === turn) line.replaceChildren(...parts, el("span", { class: "dim" }, said));
  } catch (error) {
    if (mine === turn) line.replaceChildren(el("span", { class: "bad" }, `The control plane does not answer: ${error.message}`));
  }
  document.body.dataset.shown = String(turn);
  if (mine === turn) timer = setTimeout(() => (document.hidden ? undefined : refresh()), EVERY);
}

function go() {
  const [first, ...rest] = words();
  chosen = DETAILS[first] ? { kind: first, words: rest } : null;
  detail.show(panel, chosen, filter);
  refresh();
}

search.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(refresh, 150); });
namespaces.addEventListener("change", refresh);
addEventListener("hashchange", go);
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
document.addEventListener("keydown", (event) => {
  const typing = event.target.matches?.("input, select, textarea");
  if (event.key === "/" && !typing) { event.preventDefault(); search.focus(); }
  if (event.key === "Escape") { if (typing) { search.value = ""; search.blur(); refresh(); } else if (!panel.hidden) filter.close(); }
});
document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});
go();
