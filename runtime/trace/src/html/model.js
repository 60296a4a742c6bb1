// The data as the charts want them, colours, and how numbers are written.
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);

/** The state of the page: what is coloured how, what is hidden, the window of time that is shown [ns]. */
const state = {
  mode: "codelet",
  hidden: { codelet: new Set(), label: new Set() },
  critical: false,
  from: 0,
  to: Math.max(data.extent, 1),
};

/** rows[track][level]: what is drawn there, by start; no two on one level overlap. */
const rows = data.tracks.map((track) => Array.from({ length: track.levels }, () => []));
const isLink = (row) => row >= data.workers;
const itemShapes = data.items.map(
  ([row, level, start, duration, kind, id, coords, priority, flops, bytes, ready, flags, predicted, implementation, batch]) => {
    const parts = [[kind, 1, duration]];
    const shape = { row, level, start, end: start + duration, parts, critical: (flags & 2) / 2, failed: flags & 1 };
    shape.task = { id, coords, priority, flops, bytes, ready, predicted, implementation, batch };
    rows[row][level].push(shape);
    return shape;
  },
);
data.moves.forEach(([row, level, start, duration, kind, handle, bytes, converted]) => {
  const shape = { row, level, start, end: start + duration, parts: [[kind, 1, duration]], critical: 0, failed: 0 };
  shape.move = { handle, bytes, converted };
  rows[row][level].push(shape);
});
const blockShapes = data.blocks.map(({ row, level, start, end, parts, critical, failed }) => {
  const shape = { row, level, start, end, parts, critical, failed, merged: true };
  rows[row][level].push(shape);
  return shape;
});
rows.forEach((levels) => levels.forEach((shapes) => shapes.sort((a, b) => a.start - b.start || a.end - b.end)));
const pathShapes = data.path.map((at) => (at < 0 ? blockShapes[-1 - at] : itemShapes[at]));

/** The number of a kind's colour: its codelet or its label. */
const classOf = (kind) => data.kinds[kind][state.mode === "codelet" ? 0 : 1];
const classNames = () => (state.mode === "codelet" ? data.codelets : data.labels);
/** Labels that are precisions have the colours that they have in reports. */
const PRECISIONS = {
  fp64: "#1d3a8a", fp32: "#2f7bd8", x3: "#1a9e74", hp1: "#e9a100", hp2: "#e5662f", hp3: "#c93a5b", bf1: "#7b5bd0", tf32: "#3aa7c9", fp8: "#8a4a1f",
};
// Other labels start elsewhere in the palette: a colour should not seem to mean the same thing in both ways of colouring.
function rgb(number, mode = state.mode) {
  const precision = mode === "label" ? PRECISIONS[data.labels[number]] : undefined;
  if (precision !== undefined) return [1, 3, 5].map((at) => parseInt(precision.slice(at, at + 2), 16));
  return data.palette[(number + (mode === "label" ? 9 : 0)) % data.palette.length];
}
const colour = (number, alpha = 1, mode = state.mode) => `rgba(${rgb(number, mode).join(",")},${alpha})`;
const dark = (number) => {
  const [r, g, b] = rgb(number);
  return 0.299 * r + 0.587 * g + 0.114 * b < 140;
};

/** A time [ns] in the unit that suits `scale`, by default itself. */
function time(ns, scale = ns, digits = 3) {
  const size = Math.abs(scale);
  const [unit, name] = size < 1e3 ? [1, "ns"] : size < 1e6 ? [1e3, "µs"] : size < 1e9 ? [1e6, "ms"] : [1e9, "s"];
  const value = ns / unit;
  return `${Number(value.toFixed(Math.max(0, digits - 1 - Math.floor(Math.log10(Math.max(1, Math.abs(value)))))))} ${name}`;
}

function count(value) {
  return String(value).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

function prefixed(value, unit) {
  let number = Number(value);
  const names = ["", "k", "M", "G", "T", "P", "E"];
  let at = 0;
  while (number >= 1000 && at < names.length - 1) { number /= 1000; at += 1; }
  return `${Number(number.toPrecision(4))} ${names[at]}${unit}`;
}

const percent = (share) => `${(100 * share).toFixed(1)} %`;

/** An element with text (never markup) and attributes. */
function make(name, attributes = {}, text = "") {
  const element = document.createElement(name);
  Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
  element.textContent = text;
  return element;
}

function swatch(number, mode = state.mode) {
  const element = make("i", { class: "swatch" });
  element.style.background = colour(number, 1, mode);
  return element;
}

/** The last shape of a level that starts at or before `at`, as an index; -1 if none. */
function lastBefore(shapes, at, key = (shape) => shape.start) {
  let low = 0;
  let high = shapes.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (key(shapes[middle]) <= at) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
