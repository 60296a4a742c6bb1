// The Gantt chart with its overview and the curves below it: one canvas, one axis of time.
const canvas = byId("gantt");
const pen = canvas.getContext("2d");
const ROWS = rows.length;
const ROW = ROWS <= 4 ? 46 : ROWS <= 8 ? 36 : ROWS <= 16 ? 26 : ROWS <= 40 ? 18 : ROWS <= 100 ? 12 : 8;
const GAP = ROW > 16 ? 4 : ROW > 10 ? 2 : 1;
const OVERVIEW = 54;
const AXIS = 26;
const STRIP = OVERVIEW + AXIS;
const PHASES = data.phases.length > 0 ? 20 : 0;
const TOP = STRIP + PHASES;
const CURVES = TOP + ROWS * ROW + 14;
const CURVE = 84;
const CURVE_GAP = 8;
const HEIGHT = CURVES + data.curves.length * (CURVE + CURVE_GAP) - 4;
const RIGHT = 10;
const full = Math.max(data.extent, 1);
let left = 70;
let width = 100;
let theme = {};
let hover = null;

const xOf = (ns) => left + ((ns - state.from) / (state.to - state.from)) * width;
const timeAt = (x) => state.from + ((x - left) / width) * (state.to - state.from);
const rowTop = (row) => TOP + row * ROW;

function readTheme() {
  const style = getComputedStyle(document.documentElement);
  const names = ["panel", "text", "soft", "line", "lane", "accent", "mark", "bad", "shade"];
  theme = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  theme.font = getComputedStyle(document.body).fontFamily;
}

function resize() {
  const ratio = window.devicePixelRatio || 1;
  const outer = canvas.parentElement.clientWidth;
  canvas.style.height = `${HEIGHT}px`;
  canvas.width = Math.round(outer * ratio);
  canvas.height = Math.round(HEIGHT * ratio);
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.font = `12px ${theme.font}`;
  const widest = Math.max(34, ...data.tracks.map((track) => pen.measureText(track.name).width));
  left = Math.min(Math.ceil(widest) + 58, 220);
  width = Math.max(50, outer - left - RIGHT);
  overview = null;
  redraw();
}

// What a pointer's move does not change is kept: drawing 50 000 shapes takes a while.
const scene = document.createElement("canvas");
let stale = true;
let pending = false;
function redraw(all = true) {
  stale ||= all;
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => {
    pending = false;
    draw();
  });
}

function draw() {
  if (stale) {
    pen.clearRect(0, 0, left + width + RIGHT, HEIGHT);
    drawOverview();
    drawAxis();
    drawLabels();
    inside(drawPhases, STRIP);
    inside(() => {
      rows.forEach((levels, row) => {
        pen.fillStyle = theme.lane;
        pen.fillRect(left, rowTop(row), width, ROW - GAP);
        levels.forEach((shapes, level) => drawLevel(shapes, row, level, levels.length));
      });
      drawPhaseStarts();
      if (state.critical) drawPath();
    });
    data.curves.forEach(drawCurve);
    scene.width = canvas.width;
    scene.height = canvas.height;
    scene.getContext("2d").drawImage(canvas, 0, 0);
    stale = false;
  } else {
    pen.save();
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    pen.drawImage(scene, 0, 0);
    pen.restore();
  }
  inside(drawHover);
}

/** Draws within the chart's frame. */
function inside(drawing, top = TOP) {
  pen.save();
  pen.beginPath();
  pen.rect(left, top, width, HEIGHT - top);
  pen.clip();
  drawing();
  pen.restore();
}

/** Where a level of a row lies: bodies inside a body are lower, so that the outer one stays visible; lanes share a row. */
function band(row, level, levels) {
  const height = ROW - GAP;
  if (isLink(row)) return [rowTop(row) + (level * height) / levels, height / levels];
  const inset = levels > 1 ? (level * height * 0.6) / levels : 0;
  return [rowTop(row) + inset, height - inset];
}

/** The class of a kind, with a half added where it is dimmed beside the critical path: a key that sorts. */
const tone = (kind, lit) => classOf(kind) + (lit ? 0 : 0.5);

/** The colour of a tone; a hidden class leaves a ghost, or its time would look idle. */
function fill(tone) {
  const number = Math.floor(tone);
  if (state.hidden[state.mode].has(number)) return "rgba(128,128,128,.16)";
  return colour(number, tone === number ? 1 : 0.2);
}

function drawLevel(shapes, row, level, levels) {
  const [top, height] = band(row, level, levels);
  // Shapes below a pixel are added up per column and drawn as a stack: drawn one over the other they would look idle.
  let column = -1;
  let sums = new Map();
  let carry = new Map();
  const flush = () => {
    let y = top + height;
    for (const [style, part] of sums.size > 1 ? [...sums].sort((a, b) => a[0] - b[0]) : sums) {
      const tall = Math.min(part * height, y - top);
      pen.fillStyle = fill(style);
      pen.fillRect(column, y - tall, 1, tall);
      y -= tall;
    }
    sums = carry;
    carry = new Map();
    column += 1;
  };
  const add = (sum, style, part) => sum.set(style, (sum.get(style) || 0) + part);
  const marks = [];

  let at = lastBefore(shapes, state.from);
  while (at > 0 && shapes[at - 1].end > state.from) at -= 1;
  for (at = Math.max(at, 0); at < shapes.length && shapes[at].start < state.to; at += 1) {
    const shape = shapes[at];
    const x0 = xOf(shape.start);
    const x1 = xOf(shape.end);
    if (x1 < left) continue;
    const lit = !state.critical || (shape.critical > 0 && !shape.merged);
    if (x1 - x0 < 1.5) {
      const first = Math.floor(x0);
      if (first !== column) {
        if (column >= 0) flush();
        if (first !== column) {
          if (column >= 0) flush();
          column = first;
        }
      }
      const whole = Math.max(shape.end - shape.start, 1);
      for (const [kind, , ns] of shape.parts) {
        const style = tone(kind, lit);
        const here = (Math.min(x1, first + 1) - x0) * (ns / whole);
        add(sums, style, here);
        if (x1 > first + 1) add(carry, style, (x1 - first - 1) * (ns / whole));
      }
    } else {
      drawShape(shape, Math.max(x0, left - 2), Math.min(x1, left + width + 2), top, height, lit);
    }
    if ((state.critical && shape.critical > 0) || shape.failed) marks.push([x0, x1, shape]);
  }
  if (column >= 0) { flush(); flush(); }
  for (const [x0, x1, shape] of marks) {
    pen.fillStyle = shape.failed ? theme.bad : theme.mark;
    pen.fillRect(x0, top + height - 3, Math.max(x1 - x0, 1), 3);
    if (shape.failed && x1 - x0 > 6) outline(x0, x1, top, height, theme.bad);
  }
}

function outline(x0, x1, top, height, colour) {
  pen.strokeStyle = colour;
  pen.lineWidth = 2;
  pen.strokeRect(Math.round(x0) + 1, top + 1, Math.max(Math.round(x1) - Math.round(x0) - 3, 1), height - 2);
}

function drawShape(shape, x0, x1, top, height, lit) {
  const begin = Math.round(x0);
  const wide = Math.max(1, Math.round(x1) - begin);
  const edge = wide > 4 ? 1 : 0;
  if (shape.merged) {
    // A merged block: its height is shared by codelets as its time was; what is left was idle.
    let y = top + height;
    const whole = Math.max(shape.end - shape.start, 1);
    for (const [kind, , ns] of [...shape.parts].sort((a, b) => classOf(a[0]) - classOf(b[0]))) {
      const tall = (height * ns) / whole;
      pen.fillStyle = fill(tone(kind, lit));
      pen.fillRect(begin, y - tall, wide - edge, tall);
      y -= tall;
    }
    return;
  }
  const kind = shape.parts[0][0];
  pen.fillStyle = fill(tone(kind, lit));
  pen.fillRect(begin, top, wide - edge, height);
  const number = classOf(kind);
  if (wide < 26 || height < 13 || !lit || state.hidden[state.mode].has(number)) return;
  const name = data.codelets[data.kinds[kind][0]];
  const place = (shape.task?.coords || []).filter((value) => value !== null).join(",");
  const size = height > 20 ? 11.5 : 10.5;
  pen.font = `${size}px ${theme.font}`;
  const text = [`${name} ${place}`, name].find((words) => textWidth(words) + 8 < wide);
  if (text === undefined) return;
  pen.fillStyle = dark(number) ? "#fff" : "#10151d";
  pen.textBaseline = "middle";
  pen.textAlign = "left";
  pen.fillText(text, begin + 4, top + height / 2 + 0.5);
}

const widths = new Map();
function textWidth(words) {
  const key = `${pen.font}|${words}`;
  if (!widths.has(key)) widths.set(key, pen.measureText(words).width);
  return widths.get(key);
}

function drawPath() {
  pen.strokeStyle = theme.mark;
  pen.lineWidth = 1;
  pen.globalAlpha = 0.65;
  pen.beginPath();
  for (let at = 1; at < pathShapes.length; at += 1) {
    const [before, after] = [pathShapes[at - 1], pathShapes[at]];
    if (after.end < state.from || before.start > state.to) continue;
    const y0 = rowTop(before.row) + ROW - GAP - 1.5;
    const y1 = rowTop(after.row) + ROW - GAP - 1.5;
    pen.moveTo(xOf(before.end), y0);
    pen.lineTo(xOf(after.start), y1);
  }
  pen.stroke();
  pen.globalAlpha = 1;
}

function drawAxis() {
  pen.font = `11px ${theme.font}`;
  pen.textBaseline = "middle";
  pen.textAlign = "left";
  let free = left;
  for (const [tick, words] of axisTicks()) {
    const x = Math.round(xOf(tick)) + 0.5;
    pen.strokeStyle = theme.line;
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(x, STRIP - 6);
    pen.lineTo(x, HEIGHT - 4);
    pen.stroke();
    pen.fillStyle = theme.soft;
    const wide = textWidth(words);
    const begin = Math.max(x - wide / 2, left);
    if (begin < free || begin + wide > left + width) continue;
    pen.fillText(words, begin, OVERVIEW + AXIS / 2 - 1);
    free = begin + wide + 8;
  }
}

/** Where the axis has lines, with their labels: as close as the labels allow, and no closer than 60 pixels. */
function axisTicks() {
  const scale = Math.max(state.to, 1);
  const closest = Math.max(((state.to - state.from) * 60) / width, 1);
  for (let power = 10 ** Math.floor(Math.log10(closest)); ; power *= 10) {
    for (const step of [power, 2 * power, 5 * power]) {
      if (step < closest) continue;
      const digits = Math.min(12, 2 + Math.ceil(Math.log10(Math.max(scale / step, 1))));
      const ticks = [];
      for (let tick = Math.ceil(state.from / step) * step; tick <= state.to; tick += step) ticks.push([tick, time(tick, scale, digits)]);
      const widest = Math.max(0, ...ticks.map(([, words]) => textWidth(words)));
      if (ticks.length < 2 || ((step / (state.to - state.from)) * width) > widest + 16) return ticks;
    }
  }
}

/** The words, or as much of them as there is room for. */
function fitted(words, room) {
  while (words.length > 1 && pen.measureText(words).width > room) words = `${words.slice(0, -2)}…`;
  return words;
}

/** What the program did meanwhile: a strip above the rows. */
function drawPhases() {
  pen.font = `11px ${theme.font}`;
  pen.textBaseline = "middle";
  pen.textAlign = "left";
  data.phases.forEach(([name, start, end], number) => {
    const x0 = Math.max(xOf(start), left);
    const x1 = Math.min(xOf(end), left + width);
    if (x1 - x0 < 0.5) return;
    pen.fillStyle = theme.accent;
    pen.globalAlpha = number % 2 === 0 ? 0.28 : 0.14;
    pen.fillRect(x0, STRIP, x1 - x0, PHASES - 4);
    pen.globalAlpha = 1;
    pen.fillStyle = theme.text;
    if (x1 - x0 > 24) pen.fillText(fitted(name, x1 - x0 - 8), x0 + 4, STRIP + (PHASES - 4) / 2);
  });
}

/** A line through the rows where a phase begins. */
function drawPhaseStarts() {
  pen.strokeStyle = theme.text;
  pen.globalAlpha = 0.5;
  pen.lineWidth = 1;
  pen.beginPath();
  for (const [, start] of data.phases.slice(1)) {
    const x = Math.round(xOf(start)) + 0.5;
    pen.moveTo(x, TOP);
    pen.lineTo(x, CURVES - 14);
  }
  pen.stroke();
  pen.globalAlpha = 1;
}

/** The phase at a place of the canvas; undefined if there is none. */
const phaseAt = (x, y) => y < STRIP || y >= TOP || x < left ? undefined : data.phases.find(([, start, end]) => start <= timeAt(x) && timeAt(x) < end);

function drawLabels() {
  const every = Math.ceil(12 / ROW);
  pen.textBaseline = "middle";
  data.tracks.forEach((track, row) => {
    if (row % every !== 0) return;
    const y = rowTop(row) + (ROW - GAP) / 2;
    const size = ROW > 14 ? 12 : 10;
    pen.font = `${size}px ${theme.font}`;
    pen.textAlign = "left";
    pen.fillStyle = theme.text;
    pen.fillText(fitted(track.name, left - 54), 0, y);
    pen.textAlign = "right";
    pen.fillStyle = theme.soft;
    pen.fillText(`${(100 * (1 - track.idle)).toFixed(0)} %`, left - 10, y);
  });
  pen.font = `10.5px ${theme.font}`;
  pen.fillStyle = theme.soft;
  pen.textAlign = "left";
  pen.fillText("busy workers", 0, (OVERVIEW - 8) / 2);
  pen.textAlign = "right";
  pen.fillText("busy", left - 10, OVERVIEW + AXIS / 2 - 1);
}

/** Busy workers over the whole run, stacked by colour; drawn once per way of colouring and size. */
let overview = null;
function makeOverview() {
  const columns = Math.round(width);
  const classes = classNames().length;
  const sums = Array.from({ length: classes }, () => new Float64Array(columns));
  for (const levels of rows.slice(0, data.workers)) {
    for (const shape of levels[0]) {
      const first = (shape.start / full) * columns;
      const last = (shape.end / full) * columns;
      const long = Math.max(last - first, 1e-9);
      for (let column = Math.floor(first); column < Math.min(Math.ceil(last), columns); column += 1) {
        const part = (Math.min(last, column + 1) - Math.max(first, column)) / long;
        for (const [kind, , ns] of shape.parts) sums[classOf(kind)][column] += (part * ns * columns) / full;
      }
    }
  }
  const sheet = document.createElement("canvas");
  sheet.width = columns;
  sheet.height = (OVERVIEW - 8) * 2;
  const brush = sheet.getContext("2d");
  for (let column = 0; column < columns; column += 1) {
    let y = sheet.height;
    for (let number = 0; number < classes; number += 1) {
      if (state.hidden[state.mode].has(number)) continue;
      const tall = (sums[number][column] / Math.max(data.workers, 1)) * sheet.height;
      brush.fillStyle = colour(number);
      brush.fillRect(column, y - tall, 1, tall);
      y -= tall;
    }
  }
  return sheet;
}

function drawOverview() {
  overview ??= makeOverview();
  pen.fillStyle = theme.lane;
  pen.fillRect(left, 0, width, OVERVIEW - 8);
  pen.drawImage(overview, left, 0, width, OVERVIEW - 8);
  if (state.from <= 0 && state.to >= full) return;
  const x0 = left + (state.from / full) * width;
  const x1 = left + (state.to / full) * width;
  pen.fillStyle = theme.shade;
  pen.fillRect(left, 0, x0 - left, OVERVIEW - 8);
  pen.fillRect(x1, 0, left + width - x1, OVERVIEW - 8);
  pen.strokeStyle = theme.mark;
  pen.lineWidth = 1.5;
  pen.strokeRect(x0, 0.75, Math.max(x1 - x0, 2), OVERVIEW - 9.5);
}

const curveTop = (number) => CURVES + number * (CURVE + CURVE_GAP);

/** The curve at a height of the canvas; -1 if there is none. */
const curveAt = (y) => data.curves.findIndex((_, number) => y >= curveTop(number) && y < curveTop(number) + CURVE);

function drawCurve({ name, limit, points: values }, number) {
  const top = curveTop(number);
  const most = values.reduce((most, point) => Math.max(most, point[2]), Math.max(limit ?? 1, 1));
  const yOf = (value) => top + CURVE - 2 - (value / most) * (CURVE - 8);
  pen.fillStyle = theme.lane;
  pen.fillRect(left, top, width, CURVE);
  inside(() => {
    let at = Math.max(0, lastBefore(values, state.from, (point) => point[0]));
    const points = [];
    for (; at < values.length; at += 1) {
      const [ns, low, high] = values[at];
      points.push([xOf(ns), yOf(low), yOf(high)]);
      if (ns > state.to) break;
    }
    if (points.length > 0) {
      const trace = (column, close) => {
        pen.beginPath();
        if (close) pen.moveTo(points[0][0], top + CURVE);
        points.forEach(([x, ...ys], place) => {
          if (place > 0) pen.lineTo(x, points[place - 1][column]);
          else if (!close) pen.moveTo(x, ys[column - 1]);
          pen.lineTo(x, ys[column - 1]);
        });
        if (close) pen.lineTo(points.at(-1)[0], top + CURVE);
      };
      pen.fillStyle = theme.accent;
      pen.globalAlpha = 0.16;
      trace(2, true);
      pen.fill();
      trace(1, true);
      pen.fill();
      pen.globalAlpha = 1;
      pen.strokeStyle = theme.accent;
      pen.lineWidth = 1.2;
      trace(2, false);
      pen.stroke();
    }
    if (limit !== null) {
      pen.strokeStyle = theme.bad;
      pen.setLineDash([4, 3]);
      pen.beginPath();
      pen.moveTo(left, yOf(limit));
      pen.lineTo(left + width, yOf(limit));
      pen.stroke();
      pen.setLineDash([]);
    }
  }, top);
  pen.font = `10.5px ${theme.font}`;
  pen.fillStyle = theme.soft;
  pen.textBaseline = "middle";
  pen.textAlign = "left";
  pen.fillText(fitted(name, left - 14), 0, top + CURVE / 2);
  pen.textAlign = "right";
  pen.fillText(curveUnit(number)(most), left - 10, top + 8);
  pen.fillText("0", left - 10, top + CURVE - 6);
}

function drawHover() {
  if (hover === null) return;
  if (hover.shape) {
    const { row, level, start, end } = hover.shape;
    const [top, height] = band(row, level, rows[row].length);
    outline(xOf(start), xOf(end), top, height, theme.mark);
  }
  if (hover.x < left || hover.x > left + width) return;
  pen.strokeStyle = theme.mark;
  pen.globalAlpha = 0.45;
  pen.lineWidth = 1;
  pen.beginPath();
  pen.moveTo(Math.round(hover.x) + 0.5, 0);
  pen.lineTo(Math.round(hover.x) + 0.5, HEIGHT);
  pen.stroke();
  pen.globalAlpha = 1;
  if (hover.anchor !== undefined) {
    pen.fillStyle = theme.accent;
    pen.globalAlpha = 0.2;
    pen.fillRect(hover.anchor, TOP, hover.x - hover.anchor, HEIGHT - TOP);
    pen.globalAlpha = 1;
  }
}

/** The innermost shape at a point of the canvas. */
function shapeAt(x, y) {
  const row = Math.floor((y - TOP) / ROW);
  if (x < left || x > left + width || y < TOP || row >= ROWS) return null;
  // A pixel to either side: thin shapes can be met.
  const [at, near] = [timeAt(x), timeAt(x + 1) - timeAt(x)];
  for (let level = rows[row].length - 1; level >= 0; level -= 1) {
    const [top, height] = band(row, level, rows[row].length);
    if (y < top || (isLink(row) && y > top + height)) continue;
    const shapes = rows[row][level];
    const place = lastBefore(shapes, at + near);
    for (const shape of [shapes[place], shapes[place - 1]]) {
      if (shape !== undefined && shape.start <= at && shape.end >= at) return shape;
    }
    if (place >= 0 && shapes[place].end >= at - near) return shapes[place];
  }
  return null;
}

function show(from, to) {
  // Deeper, the axis would run out of a number's digits.
  const least = Math.min(Math.max(20, full * 1e-12), full);
  const span = Math.min(Math.max(to - from, least), full);
  const middle = (from + to) / 2;
  state.from = Math.min(Math.max(middle - span / 2, 0), full - span);
  state.to = state.from + span;
  redraw();
}

function zoom(factor, x = left + width / 2) {
  const at = timeAt(x);
  show(at - (at - state.from) * factor, at + (state.to - at) * factor);
}

const pan = (share) => show(state.from + share * (state.to - state.from), state.to + share * (state.to - state.from));
