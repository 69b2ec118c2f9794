// Elements, numbers and requests. Texts become text, never markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

export const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

export async function ask(path, options) {
  const answer = await fetch(path, options);
  const text = await answer.text();
  if (!answer.ok) {
    let why = text;
    try { why = JSON.parse(text).error ?? text; } catch { /* it is a plain text */ }
    throw new Error(`${path}: ${answer.status} ${why}`.trim());
  }
  return text ? JSON.parse(text) : null;
}
export const api = (path) => ask(`/mesh/api/v1/${path}`);

export function number(value, digits = 1) {
  if (value === 0) return "0";
  if (Math.abs(value) < 0.095) return value.toPrecision(1);
  if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString("en");
  return value.toFixed(Math.abs(value) >= 100 ? 0 : digits).replace(/\.0+$/, "");
}
export const rate = (value) => `${number(value)}/s`;
export function percent(part) {
  const value = part * 100;
  if (value === 0 || value === 100) return `${value} %`;
  if (value > 99.9) return "99.9 %";
  return `${value < 10 ? value.toFixed(1) : value.toFixed(value > 99 ? 1 : 0)} %`;
}
export function bytes(value) {
  const units = ["B", "kB", "MB", "GB"];
  let at = 0;
  while (value >= 1000 && at < units.length - 1) { value /= 1000; at += 1; }
  return `${number(value)} ${units[at]}`;
}
export function milliseconds(value) {
  return value >= 1000 ? `${number(value / 1000)} s` : `${number(value)} ms`;
}
export function duration(seconds) {
  if (seconds < 0) return `${duration(-seconds)} ago`;
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
  }
  return `${Math.floor(seconds)} s`;
}

export const badge = (text, kind) => el("span", { class: `badge ${kind ?? "dim"}` }, text);
export const securityText = { mutual_tls: "mTLS", none: "plain text", mixed: "mTLS and plain text", unknown: "unknown" };

export function health(edge) {
  if (edge.protocol !== "tcp" && edge.rate === 0) return "idle";
  if (edge.errors >= 0.05) return "bad";
  if (edge.errors > 0.001 || edge.refused >= 0.05) return "warn";
  return "good";
}

/** One line of what an edge does. */
export function describe(edge) {
  const parts = [];
  if (edge.rate > 0) parts.push(rate(edge.rate), `${percent(1 - edge.errors)} ok`);
  if (edge.latency) parts.push(`p99 ${milliseconds(edge.latency.p99)}`);
  if (edge.sent + edge.received > 0) parts.push(`${bytes(edge.sent + edge.received)}/s`);
  if (edge.security !== "unknown") parts.push(securityText[edge.security]);
  return parts.join(" · ");
}
