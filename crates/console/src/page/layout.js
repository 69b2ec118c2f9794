// Where the nodes of a map lie: callers left of what they call, few crossings, nothing on top of another.

export const WIDTH = 168;
export const HEIGHT = 38;
const GAP_X = 138;
const GAP_Y = 20;
/** Few nodes get more room. */
const FEW = 60;
const WIDE_GAP_Y = 44;
/** A map that is wider goes on below. */
const WIDEST = 8 * (WIDTH + GAP_X);
/** A column that is longer is split. */
const ROWS = 28;
/** With longer chains than this, the nearest way from the outside counts instead of the longest. */
const DEEP = 9;

/** Edges that lead back are left out, so that the rest has an order. */
function forward(nodes, edges) {
  const out = new Map(nodes.map((node) => [node.id, []]));
  const into = new Map(nodes.map((node) => [node.id, 0]));
  for (const edge of edges) {
    if (edge.from === edge.to || !out.has(edge.from) || !out.has(edge.to)) continue;
    out.get(edge.from).push(edge.to);
    into.set(edge.to, into.get(edge.to) + 1);
  }
  const state = new Map();
  const kept = new Map(nodes.map((node) => [node.id, []]));
  const starts = [...nodes].sort((a, b) => into.get(a.id) - into.get(b.id) || (a.id < b.id ? -1 : 1));
  for (const start of starts) {
    if (state.has(start.id)) continue;
    const stack = [[start.id, 0]];
    state.set(start.id, 1);
    while (stack.length) {
      const top = stack[stack.length - 1];
      const next = out.get(top[0])[top[1]++];
      if (next === undefined) { state.set(top[0], 2); stack.pop(); continue; }
      if (state.get(next) === 1) continue;
      kept.get(top[0]).push(next);
      if (!state.has(next)) { state.set(next, 1); stack.push([next, 0]); }
    }
  }
  return kept;
}

function ranks(nodes, kept) {
  const waiting = new Map(nodes.map((node) => [node.id, 0]));
  for (const targets of kept.values()) for (const to of targets) waiting.set(to, waiting.get(to) + 1);
  const rank = new Map();
  let queue = nodes.filter((node) => waiting.get(node.id) === 0).map((node) => node.id);
  queue.forEach((id) => rank.set(id, 0));
  while (queue.length) {
    const id = queue.pop();
    for (const to of kept.get(id)) {
      rank.set(to, Math.max(rank.get(to) ?? 0, rank.get(id) + 1));
      waiting.set(to, waiting.get(to) - 1);
      if (waiting.get(to) === 0) queue.push(to);
    }
  }
  return rank;
}

/** How many calls each is away from who is not called by anybody. */
function distances(nodes, kept) {
  const called = new Set([...kept.values()].flat());
  const far = new Map();
  let queue = nodes.filter((node) => !called.has(node.id)).map((node) => node.id);
  for (let distance = 0; queue.length; distance += 1) {
    const next = [];
    for (const id of queue) {
      if (far.has(id)) continue;
      far.set(id, distance);
      next.push(...kept.get(id));
    }
    queue = next;
  }
  return far;
}

/** Orders each column by where its neighbours are. */
function order(columns, kept) {
  const before = new Map();
  for (const [from, targets] of kept) for (const to of targets) (before.get(to) ?? before.set(to, []).get(to)).push(from);
  const place = new Map();
  const note = (column) => column.forEach((node, at) => place.set(node.id, at / Math.max(1, column.length)));
  columns.forEach(note);
  const sweep = (column, neighbours) => {
    const weight = new Map(column.map((node) => {
      const near = (neighbours.get(node.id) ?? []).map((id) => place.get(id) ?? 0);
      return [node.id, near.length ? near.reduce((a, b) => a + b, 0) / near.length : place.get(node.id)];
    }));
    column.sort((a, b) => weight.get(a.id) - weight.get(b.id) || (a.id < b.id ? -1 : 1));
    note(column);
  };
  for (let round = 0; round < 4; round += 1) {
    columns.slice(1).forEach((column) => sweep(column, before));
    columns.slice(0, -1).reverse().forEach((column) => sweep(column, kept));
  }
}

/** With more nodes than this each namespace is a map of its own, beside the others. */
const MANY = 120;
const HEADING = 44;
const AROUND = 26;

/** Gives `{places: Map(id → {x, y}), groups: [{name, x, y, width, height}], width, height}`. */
export function layout(nodes, edges) {
  return nodes.length > MANY ? blocks(nodes, edges) : { ...layered(nodes, edges), groups: [] };
}

function blocks(nodes, edges) {
  const groups = new Map();
  for (const node of nodes) (groups.get(node.namespace) ?? groups.set(node.namespace, []).get(node.namespace)).push(node);
  const parts = [...groups].map(([name, members]) => {
    const own = new Set(members.map((node) => node.id));
    return { name, ...layered(members, edges.filter((edge) => own.has(edge.from) && own.has(edge.to))) };
  }).sort((a, b) => b.height - a.height || (a.name < b.name ? -1 : 1));
  const area = parts.reduce((sum, part) => sum + (part.width + 2 * AROUND) * (part.height + HEADING + 2 * AROUND), 0);
  const widest = Math.max(Math.sqrt(area * 1.8), ...parts.map((part) => part.width + 2 * AROUND));
  const places = new Map();
  let [x, y, high, width] = [0, 0, 0, 0];
  for (const part of parts) {
    if (x > 0 && x + part.width + 2 * AROUND > widest) { x = 0; y += high + AROUND; high = 0; }
    Object.assign(part, { x, y });
    for (const [id, at] of part.places) places.set(id, { x: x + AROUND + at.x, y: y + HEADING + AROUND / 2 + at.y });
    part.width += 2 * AROUND;
    part.height += HEADING + AROUND;
    x += part.width + AROUND;
    width = Math.max(width, x - AROUND);
    high = Math.max(high, part.height);
  }
  return { places, groups: parts, width, height: y + high };
}

function layered(nodes, edges) {
  const kept = forward(nodes, edges);
  let rank = ranks(nodes, kept);
  if (Math.max(...rank.values()) > DEEP) rank = distances(nodes, kept);
  const columns = [];
  const sorted = [...nodes].sort((a, b) => (a.namespace + a.id < b.namespace + b.id ? -1 : 1));
  for (const node of sorted) (columns[rank.get(node.id) ?? 0] ??= []).push(node);
  for (let at = 0; at < columns.length; at += 1) columns[at] ??= [];
  order(columns, kept);
  const places = new Map();
  const gap = nodes.length <= FEW ? WIDE_GAP_Y : GAP_Y;
  const partsOf = (column) => Math.max(1, Math.ceil(column.length / ROWS));
  const widthOf = (column) => (partsOf(column) - 1) * (WIDTH + 44) + WIDTH;
  const bands = [[]];
  let x = 0;
  for (const column of columns) {
    if (x + widthOf(column) > WIDEST && x > 0) { bands.push([]); x = 0; }
    bands[bands.length - 1].push([column, x]);
    x += widthOf(column) + GAP_X;
  }
  let top = 0;
  let width = WIDTH;
  for (const band of bands) {
    const rowsOf = (column) => Math.ceil(column.length / partsOf(column));
    const spread = Math.max(1, ...band.map(([column]) => rowsOf(column)));
    for (const [column, left] of band) {
      const rows = Math.max(1, rowsOf(column));
      column.forEach((node, at) => {
        const part = Math.floor(at / rows);
        const inPart = Math.min(rows, column.length - part * rows);
        const y = top + ((spread - inPart) / 2 + (at % rows)) * (HEIGHT + gap);
        places.set(node.id, { x: left + part * (WIDTH + 44), y });
      });
      width = Math.max(width, left + widthOf(column));
    }
    top += spread * (HEIGHT + gap) + 40;
  }
  return { places, width, height: top - gap - 40 };
}
