// The map: services, workloads or namespaces, and what goes between them.

import { api, bytes, describe, el, health, milliseconds, number, percent, rate, securityText, svg } from "./dom.js";
import { HEIGHT, WIDTH, layout } from "./layout.js";

const VIEWS = { services: "Services", workloads: "Workloads", namespaces: "Namespaces", list: "List" };
/** With more nodes than this a map of single services is no longer read at a glance. */
const MANY = 120;
const LABELLED = 40;

let view = null;
let seconds = 60;
let box = null;
let shape = "";
let placed = null;
let last = null;
/** Somebody moved or zoomed the map, so it stays as it is. */
let touched = false;
let before = "";

/** What stands for a node in a view. */
function standIn(node) {
  if (node.kind === "outside") return { ...node };
  if (view === "namespaces") {
    const name = node.namespace || "outside the mesh";
    return { id: `namespace:${name}`, kind: "namespace", namespace: node.namespace, name };
  }
  if (view === "services") {
    return { ...node, id: `app:${node.namespace}/${node.app}`, name: node.app, version: "" };
  }
  return node;
}

function merge(into, edge) {
  const all = into.rate + edge.rate;
  const mean = (a, b) => (all > 0 ? (a * into.rate + b * edge.rate) / all : 0);
  into.errors = mean(into.errors, edge.errors);
  into.refused = mean(into.refused, edge.refused);
  if (edge.latency && into.latency) {
    into.latency = {
      p50: mean(into.latency.p50, edge.latency.p50),
      p90: Math.max(into.latency.p90, edge.latency.p90),
      p99: Math.max(into.latency.p99, edge.latency.p99),
    };
  } else into.latency ??= edge.latency;
  into.rate = all;
  into.sent += edge.sent;
  into.received += edge.received;
  if (into.protocol !== edge.protocol) into.protocol = "several";
  if (into.security === "unknown") into.security = edge.security;
  else if (edge.security !== "unknown" && into.security !== edge.security) into.security = "mixed";
  for (const [flags, value] of Object.entries(edge.flags)) into.flags[flags] = (into.flags[flags] ?? 0) + value;
}

/** The nodes and edges of the chosen view, namespace and search. */
function gather(map, filter) {
  const names = new Map(map.nodes.map((node) => [node.id, standIn(node)]));
  const nodes = new Map([...names.values()].map((node) => [node.id, node]));
  const edges = new Map();
  for (const edge of map.edges) {
    const from = names.get(edge.from);
    const to = names.get(edge.to);
    if (!from || !to || (view === "namespaces" && from.id === to.id && from.kind === "outside")) continue;
    const key = `${from.id} ${to.id}`;
    const known = edges.get(key);
    if (known) merge(known, edge);
    else edges.set(key, { ...edge, key, from: from.id, to: to.id, flags: { ...edge.flags } });
  }
  let kept = [...edges.values()];
  if (filter.namespace) {
    const inside = (id) => nodes.get(id).namespace === filter.namespace;
    kept = kept.filter((edge) => inside(edge.from) || inside(edge.to));
    const used = new Set(kept.flatMap((edge) => [edge.from, edge.to]));
    for (const id of nodes.keys()) if (!used.has(id)) nodes.delete(id);
  }
  return { nodes: [...nodes.values()], edges: kept };
}

function edgePath(from, to) {
  const [x1, y1, y2] = [from.x + WIDTH, from.y + HEIGHT / 2, to.y + HEIGHT / 2];
  const x2 = to.x;
  if (from === to) return `M${x1 - 20} ${y1 - 12}c60 -42 60 50 0 22`;
  if (x2 > x1) {
    const bend = Math.max(40, (x2 - x1) / 2);
    return `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2 - 4} ${y2}`;
  }
  // Back to the left, below both.
  const low = Math.max(from.y, to.y) + HEIGHT + 26;
  return `M${from.x + WIDTH / 2} ${from.y + HEIGHT}C${from.x + WIDTH / 2} ${low + 20} ${to.x + WIDTH / 2} ${low + 20} ${to.x + WIDTH / 2} ${to.y + HEIGHT + 4}`;
}

function middle(from, to) {
  if (from === to) return [from.x + WIDTH + 70, from.y + HEIGHT / 2 - 16];
  if (to.x > from.x) return [(from.x + WIDTH + to.x) / 2, (from.y + to.y + HEIGHT) / 2 - 6];
  return [(from.x + to.x + WIDTH) / 2, Math.max(from.y, to.y) + HEIGHT + 30];
}

const shorten = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

/** The group that a node lies in. */
function nodeGroup(id) {
  const at = placed.places.get(id);
  return placed.groups.find((group) => at.x >= group.x && at.x < group.x + group.width && at.y >= group.y && at.y < group.y + group.height);
}

function edgeElement(edge, places, labelled) {
  const [from, to] = [places.get(edge.from), places.get(edge.to)];
  const kind = health(edge);
  const wide = Math.min(5, 1.2 + Math.log10(1 + edge.rate + (edge.sent + edge.received) / 1000));
  const [x, y] = middle(from, to);
  const flags = Object.keys(edge.flags);
  const text = describe(edge) + (flags.length ? ` · ${flags.join(" ")}` : "");
  const [upper, lower] = brief(edge, flags);
  const plain = edge.security === "none" || edge.security === "mixed";
  const far = placed.groups.length && nodeGroup(edge.from) !== nodeGroup(edge.to) ? " far" : "";
  const names = `edge${far} ${kind}${edge.protocol === "tcp" ? " tcp" : ""}${plain ? " plain" : ""}${labelled ? " labelled" : ""}`;
  return svg("g", { class: names, "data-from": edge.from, "data-to": edge.to },
    svg("title", {}, text),
    svg("path", { d: edgePath(from, to), "stroke-width": wide.toFixed(1), "marker-end": "url(#arrow)" }),
    svg("text", { x, y }, svg("tspan", { x }, upper), svg("tspan", { x, dy: 20 }, lower)));
}

/** Above and below the line of an edge. */
function brief(edge, flags) {
  const traffic = edge.rate > 0 ? `${rate(edge.rate)} · ${percent(1 - edge.errors)}` : `${bytes(edge.sent + edge.received)}/s`;
  const time = edge.latency ? milliseconds(edge.latency.p99) : "";
  const security = { mutual_tls: "mTLS", none: "plain", mixed: "mTLS, plain" }[edge.security];
  return [traffic, [time, security, flags.slice(0, 2).join(" ")].filter(Boolean).join(" · ")];
}

function nodeElement(node, place, open) {
  const under = { workload: node.namespace, service: node.namespace || "not in the mesh", namespace: "namespace", outside: "" }[node.kind];
  const version = node.version && node.version !== "latest" && node.version !== "unknown" ? ` · ${node.version}` : "";
  const label = `${node.kind} ${node.name}${under ? ` in ${under}` : ""}`;
  return svg("g", {
    class: `node ${node.kind}`, tabindex: "0", role: "button", "aria-label": label, "data-id": node.id,
    transform: `translate(${place.x} ${place.y})`,
    onclick: () => open(node), onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); open(node); } },
  },
  svg("title", {}, label),
  svg("rect", { width: WIDTH, height: HEIGHT, rx: node.kind === "service" ? 16 : 6 }),
  svg("text", { x: 9, y: under ? 16 : 23 }, shorten(node.name, 25)),
  under && svg("text", { class: "small", x: 9, y: 30 }, shorten(under + version, 29)));
}

/** Arrow keys go to the next node in that direction. */
function step(root, key) {
  const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key] ?? [];
  const here = root.querySelector(".node:focus");
  if (dx === undefined || !here) return false;
  const from = placed.places.get(here.dataset.id);
  let best = null;
  let least = Infinity;
  for (const [id, at] of placed.places) {
    const along = (at.x - from.x) * dx + (at.y - from.y) * dy;
    const across = Math.abs((at.x - from.x) * dy) + Math.abs((at.y - from.y) * dx);
    if (along > 1 && along + 2 * across < least) { least = along + 2 * across; best = id; }
  }
  if (best) root.querySelector(`.node[data-id="${CSS.escape(best)}"]`)?.focus();
  return true;
}

function mark(root, id) {
  root.querySelectorAll(".edge").forEach((edge) =>
    edge.classList.toggle("near", id !== null && (edge.dataset.from === id || edge.dataset.to === id)));
}

function moving(root) {
  const set = () => root.setAttribute("viewBox", `${box.x} ${box.y} ${box.w} ${box.h}`);
  const zoom = (factor, cx = box.x + box.w / 2, cy = box.y + box.h / 2) => {
    if (box.w * factor < 200 || box.w * factor > 40000) return;
    touched = true;
    box = { x: cx - (cx - box.x) * factor, y: cy - (cy - box.y) * factor, w: box.w * factor, h: box.h * factor };
    set();
  };
  set();
  root.addEventListener("wheel", (event) => {
    event.preventDefault();
    const at = root.getBoundingClientRect();
    zoom(event.deltaY > 0 ? 1.15 : 1 / 1.15, box.x + ((event.clientX - at.left) / at.width) * box.w,
      box.y + ((event.clientY - at.top) / at.height) * box.h);
  }, { passive: false });
  let from = null;
  root.addEventListener("pointerdown", (event) => {
    if (event.target.closest(".node")) return;
    from = { x: event.clientX, y: event.clientY, box };
    root.classList.add("moving");
    root.setPointerCapture(event.pointerId);
  });
  root.addEventListener("pointermove", (event) => {
    if (!from) return;
    const at = root.getBoundingClientRect();
    const scale = Math.max(box.w / at.width, box.h / at.height);
    touched = true;
    box = { ...from.box, x: from.box.x - (event.clientX - from.x) * scale, y: from.box.y - (event.clientY - from.y) * scale };
    set();
  });
  const end = () => { from = null; root.classList.remove("moving"); };
  root.addEventListener("pointerup", end);
  root.addEventListener("pointercancel", end);
  root.addEventListener("keydown", (event) => {
    if (event.key === "+" || event.key === "=") zoom(1 / 1.25);
    else if (event.key === "-") zoom(1.25);
    else if (event.key === "0") { touched = false; box = whole(); set(); }
    else if (!step(root, event.key)) return;
    event.preventDefault();
  });
  return { zoom, fit: () => { touched = false; box = whole(); set(); } };
}

function whole() {
  const edge = 24;
  const [w, h] = [Math.max(placed.width, 800), Math.max(placed.height, 300)];
  return { x: (placed.width - w) / 2 - edge, y: (placed.height - h) / 2 - edge, w: w + 2 * edge, h: h + 2 * edge + 30 };
}

function draw(found, filter, open) {
  const now = found.nodes.map((node) => node.id).sort().join() + found.edges.map((edge) => edge.key).sort().join();
  const asked = `${view} ${filter.namespace}`;
  if (asked !== before) touched = false;
  before = asked;
  if (now !== shape || !placed) {
    shape = now;
    placed = layout(found.nodes, found.edges);
    if (!touched || !box) box = whole();
  }
  const labelled = found.edges.length <= LABELLED;
  const wanted = filter.search.toLowerCase();
  const hit = (node) => wanted && `${node.namespace}/${node.name}`.toLowerCase().includes(wanted);
  const hits = new Set(found.nodes.filter(hit).map((node) => node.id));
  const root = svg("svg", { class: "map", role: "group", "aria-label": "Map of the mesh; arrow keys go from node to node, plus and minus zoom" },
    svg("defs", {}, svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 6, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto", markerUnits: "userSpaceOnUse" },
      svg("path", { d: "M0 0L8 4L0 8z" }))),
    placed.groups.map((group) => svg("g", { class: "group" },
      svg("rect", { x: group.x, y: group.y, width: group.width, height: group.height, rx: 10 }),
      svg("text", { x: group.x + 14, y: group.y + 32 }, group.name || "outside the mesh"))),
    found.edges.map((edge) => edgeElement(edge, placed.places, labelled)),
    found.nodes.map((node) => nodeElement(node, placed.places.get(node.id), open)));
  if (wanted) {
    root.querySelectorAll(".node").forEach((one) => {
      one.classList.toggle("hit", hits.has(one.dataset.id));
      one.classList.toggle("faded", !hits.has(one.dataset.id));
    });
    root.querySelectorAll(".edge").forEach((one) =>
      one.classList.toggle("faded", !hits.has(one.dataset.from) && !hits.has(one.dataset.to)));
  }
  for (const name of ["focusin", "mouseover"]) {
    root.addEventListener(name, (event) => mark(root, event.target.closest(".node")?.dataset.id ?? null));
  }
  return root;
}

function edgeList(found, open) {
  const names = new Map(found.nodes.map((node) => [node.id, node]));
  const rows = [...found.edges].sort((a, b) => b.rate - a.rate || b.sent + b.received - a.sent - a.received);
  const cell = (id) => { const node = names.get(id); return `${node.name}${node.namespace ? ` (${node.namespace})` : ""}`; };
  return el("table", {},
    el("thead", {}, el("tr", {}, ["From", "To", "Protocol", "Security"].map((name) => el("th", {}, name)),
      ["Requests", "Success", "p50", "p99", "Bytes", "Flags"].map((name) => el("th", { class: "number" }, name)))),
    el("tbody", {}, rows.slice(0, 1000).map((edge) => el("tr", { tabindex: 0, onclick: () => open(names.get(edge.to)), onkeydown: (event) => event.key === "Enter" && open(names.get(edge.to)) },
      el("td", {}, cell(edge.from)), el("td", {}, cell(edge.to)), el("td", {}, edge.protocol),
      el("td", { class: edge.security === "none" || edge.security === "mixed" ? "warn" : "" }, securityText[edge.security]),
      el("td", { class: "number" }, edge.rate ? rate(edge.rate) : "–"),
      el("td", { class: `number ${health(edge)}` }, edge.rate ? percent(1 - edge.errors) : "–"),
      el("td", { class: "number" }, edge.latency ? milliseconds(edge.latency.p50) : "–"),
      el("td", { class: "number" }, edge.latency ? milliseconds(edge.latency.p99) : "–"),
      el("td", { class: "number" }, edge.sent + edge.received ? `${bytes(edge.sent + edge.received)}/s` : "–"),
      el("td", { class: "number" }, Object.keys(edge.flags).join(" "))))));
}

/** What a node does, for the panel beside the map. */
export function neighbours(node, filter) {
  if (!last) return [];
  const found = gather(last, filter);
  const names = new Map(found.nodes.map((one) => [one.id, one]));
  const line = (edge, id) => `${names.get(id)?.name ?? id}: ${describe(edge) || "idle"}`;
  return [
    ["Called by", found.edges.filter((edge) => edge.to === node.id).map((edge) => line(edge, edge.from))],
    ["Calls", found.edges.filter((edge) => edge.from === node.id).map((edge) => line(edge, edge.to))],
  ];
}

/** Fetches and shows; gives the line for the top of the page. */
export async function show(main, filter, open, again) {
  last = await api(`map?window=${seconds}`);
  // Nobody chose: how many there are decides, as soon as there are some.
  const undecided = view === null && last.nodes.length === 0;
  view ??= new Set(last.nodes.map((node) => `${node.namespace}/${node.app}`)).size > MANY ? "namespaces" : "services";
  const chosen = view;
  if (view === "list") view = "services";
  const found = gather(last, filter);
  view = undecided ? null : chosen;
  const pick = (node) => {
    if (node.kind === "namespace" && node.namespace) { view = "services"; shape = ""; filter.choose(node.namespace); } else open(node);
  };
  const change = (to) => { view = to; shape = ""; placed = null; again(); };
  const focused = main.querySelector(".node:focus")?.dataset.id;
  const source = last.source;
  const state = source.name === "prometheus" ? "from Prometheus"
    : `from ${source.asked - source.failed} of ${source.asked} proxies`;
  const picture = found.nodes.length && chosen !== "list" ? draw(found, filter, pick) : null;
  const controls = picture && moving(picture);
  const tools = el("div", { class: "tools" },
    el("label", {}, "Show ", el("select", { id: "view", onchange: (event) => change(event.target.value) },
      Object.entries(VIEWS).map(([key, name]) => el("option", { value: key, selected: key === chosen }, name)))),
    el("label", {}, "of the last ", el("select", { onchange: (event) => { seconds = Number(event.target.value); again(); } },
      [[30, "30 seconds"], [60, "minute"], [300, "5 minutes"], [900, "15 minutes"]].map(([value, name]) => el("option", { value, selected: value === seconds }, name)))),
    controls && [el("button", { type: "button", title: "Larger (+)", "aria-label": "Larger", onclick: () => controls.zoom(1 / 1.25) }, "+"),
      el("button", { type: "button", title: "Smaller (-)", "aria-label": "Smaller", onclick: () => controls.zoom(1.25) }, "−"),
      el("button", { type: "button", title: "Everything (0)", onclick: () => controls.fit() }, "All")],
    el("span", { class: "legend dim" }, [["good", "succeeds"], ["warn", "some fail"], ["bad", "5 % or more fail"]].map(([kind, name]) =>
      el("span", {}, el("i", { class: kind }), name)), "dashed: TCP"),
    el("span", { class: source.failed ? "dim warn" : "dim", title: source.fault }, state));
  const empty = el("p", { class: "empty" }, source.name === "proxies" && source.asked === 0
    ? "No proxy is known yet. Label a namespace with istio-injection=enabled and start pods in it."
    : "No traffic within this time. Send a request through the mesh: it is here some seconds later.");
  const content = !found.nodes.length ? empty : chosen === "list" ? edgeList(found, pick) : picture;
  main.replaceChildren(tools, content);
  if (focused) main.querySelector(`.node[data-id="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  const sum = last.edges.reduce((all, edge) => all + edge.rate, 0);
  return `${number(sum)} requests a second, ${found.nodes.length} nodes, ${found.edges.length} edges`;
}
