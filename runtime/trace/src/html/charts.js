// What stands beside the schedule: legend, tooltip, histograms, idle bars.
function legend() {
  const box = byId("legend");
  box.replaceChildren();
  const totals = classNames().map(() => [0, 0]);
  for (const levels of rows) {
    for (const shapes of levels) {
      for (const shape of shapes) {
        for (const [kind, tasks, ns] of shape.parts) {
          totals[classOf(kind)][0] += tasks;
          totals[classOf(kind)][1] += ns;
        }
      }
    }
  }
  const hidden = state.hidden[state.mode];
  const redo = () => { overview = null; legend(); redraw(); };
  classNames().forEach((name, number) => {
    const button = make("button", { type: "button", "aria-pressed": String(!hidden.has(number)) });
    const what = state.mode === "label" ? "runs" : number < data.ran ? "tasks" : "transfers";
    button.title = `${count(totals[number][0])} ${what}, ${time(totals[number][1])}; press to hide or show, double press to show only this`;
    button.append(swatch(number), name === "" ? "(no name)" : name, make("span", {}, count(totals[number][0])));
    button.addEventListener("click", () => {
      if (!hidden.delete(number)) hidden.add(number);
      redo();
    });
    button.addEventListener("dblclick", () => {
      const others = classNames().map((_, other) => other).filter((other) => other !== number);
      const alone = others.every((other) => hidden.has(other));
      hidden.clear();
      if (!alone) others.forEach((other) => hidden.add(other));
      redo();
    });
    box.append(button);
  });
}

const tip = byId("tip");

function tell(shape, x, y) {
  tip.replaceChildren();
  const list = make("dl");
  const line = (name, value) => list.append(make("dt", {}, name), make("dd", {}, value));
  const head = make("strong");
  if (shape.merged) tellMerged(shape, head, line);
  else if (shape.move) tellMove(shape, head, line);
  else tellTask(shape, head, line);
  tip.append(head, list);
  if (shape.failed > 0 && shape.task !== undefined) tip.append(make("div", { class: "flag" }, "failed"));
  place(x, y);
}

function tellMerged(shape, head, line) {
  const took = shape.end - shape.start;
  const runs = shape.parts.reduce((sum, part) => sum + part[1], 0);
  const busy = shape.parts.reduce((sum, part) => sum + part[2], 0);
  const what = isLink(shape.row) ? "transfer" : "task";
  head.append(`${count(runs)} merged ${what}${runs === 1 ? "" : "s"}`);
  line(isLink(shape.row) ? "link" : "worker", data.tracks[shape.row].name);
  line("from", time(shape.start, data.extent, 6));
  line("length", time(took));
  line("busy", percent(took > 0 ? busy / took : 1));
  const parts = [...shape.parts].sort((a, b) => b[2] - a[2]);
  for (const [kind, number, ns] of parts.slice(0, 8)) {
    const [codelet, label] = data.kinds[kind];
    line(`${data.codelets[codelet]} ${data.labels[label]}`.trim(), `${count(number)} × ${time(ns / number)}`);
  }
  if (parts.length > 8) line("others", String(parts.length - 8));
  if (shape.critical > 0) line("on the critical path", String(shape.critical));
  if (shape.failed > 0) line("failed", String(shape.failed));
}

function tellMove(shape, head, line) {
  const { handle, bytes, converted } = shape.move;
  const took = shape.end - shape.start;
  const kind = shape.parts[0][0];
  const [reason, format] = data.kinds[kind];
  head.append(swatch(classOf(kind)), data.codelets[reason]);
  line("data", String(handle));
  if (data.labels[format] !== "") line("format", `${data.labels[format]}${converted ? ", converted" : ""}`);
  else if (converted) line("converted", "yes");
  line("link", data.tracks[shape.row].name);
  line("start", time(shape.start, data.extent, 6));
  line("took", time(took));
  line("bytes", prefixed(bytes, "B"));
  if (took > 0) line("rate", `${Number((Number(bytes) / took).toPrecision(4))} GB/s`);
}

function tellTask(shape, head, line) {
  const { id, coords, priority, flops, bytes, ready, predicted, implementation, batch } = shape.task;
  const took = shape.end - shape.start;
  const kind = shape.parts[0][0];
  const [codelet, label] = data.kinds[kind];
  head.append(swatch(classOf(kind)), data.codelets[codelet]);
  line("task", String(id));
  const used = (coords || []).map((value, axis) => (value === null ? "" : `${"ijk"[axis]} = ${value}`));
  if (used.some((value) => value !== "")) line("place", used.filter((value) => value !== "").join(", "));
  if (data.labels[label] !== "") line("label", data.labels[label]);
  if (implementation !== "") line("implementation", implementation);
  if (batch > 0) line("in one call with", `${batch - 1} more: times are shares`);
  line("worker", data.tracks[shape.row].name);
  line("start", time(shape.start, data.extent, 6));
  line("took", time(took));
  if (Number(predicted) > 0) line("predicted", `${time(Number(predicted))}: took ${(took / Number(predicted)).toFixed(2)} × that`);
  if (flops) {
    line("work", prefixed(flops, "flop"));
    if (took > 0) line("rate", `${Number((flops / took).toPrecision(4))} Gflop/s`);
  }
  line("operands", prefixed(bytes, "B"));
  line("priority", String(priority));
  line("ready at its end", count(ready));
  if (shape.level > 0) line("inside", `${shape.level} other bod${shape.level > 1 ? "ies" : "y"}`);
  if (shape.critical > 0) line("critical path", "yes");
}

function tellPhase([name, start, end], x, y) {
  const list = make("dl");
  const line = (name, value) => list.append(make("dt", {}, name), make("dd", {}, value));
  line("start", time(start, data.extent, 6));
  line("took", time(end - start));
  tip.replaceChildren(make("strong", {}, name), list);
  place(x, y);
}

function tellCurve(number, at, x, y) {
  const { points, name, limit } = data.curves[number];
  const point = points[lastBefore(points, at, (point) => point[0])];
  if (point === undefined) return hideTip();
  const [, low, high] = point;
  const write = curveUnit(number);
  const value = low === high ? write(low) : `${write(low)} to ${write(high)}`;
  const head = number === 0 ? `${value} ready` : `${name}: ${value} held`;
  tip.replaceChildren(make("strong", {}, head), make("div", {}, `at ${time(at, data.extent, 5)}`));
  if (limit !== null) tip.append(make("div", {}, `of ${write(limit)}, ${percent(high / Math.max(limit, 1))}`));
  place(x, y);
}

/** How a curve's values are written: ready tasks are counted, what follows is bytes. */
const curveUnit = (number) => (number === 0 ? count : (bytes) => prefixed(bytes, "B"));

function place(x, y) {
  tip.hidden = false;
  const { width: wide, height: tall } = tip.getBoundingClientRect();
  const over = x + 16 + wide > innerWidth;
  tip.style.left = `${Math.max(4, over ? x - wide - 14 : x + 16)}px`;
  tip.style.top = `${Math.max(4, Math.min(y + 14, innerHeight - tall - 6))}px`;
}

const hideTip = () => { tip.hidden = true; };

/** An SVG element. */
function draft(name, attributes, text = "") {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
  element.textContent = text;
  return element;
}

function histograms() {
  const box = byId("histograms");
  const [W, H, BASE] = [300, 92, 74];
  data.histograms.forEach(({ low, high, median, count: runs, bars }, number) => {
    const card = make("div");
    const head = make("h3");
    head.append(swatch(number, "codelet"), make("em", {}, data.codelets[number]));
    head.append(make("span", {}, `${count(runs)} runs, longest ${(high / Math.max(median, 1)).toFixed(1)} × median`));
    const svg = draft("svg", { viewBox: `0 0 ${W} ${H}`, preserveAspectRatio: "none", role: "img" });
    svg.setAttribute("aria-label", `Durations from ${time(low)} to ${time(high)}, median ${time(median)}`);
    const most = Math.max(...bars, 1);
    const step = W / bars.length;
    const log = (ns) => Math.log(Math.max(ns, 1));
    const wide = log(high) - log(low);
    bars.forEach((tasks, bar) => {
      if (tasks === 0) return;
      // A single task among thousands still shows.
      const tall = Math.max(1.5, (tasks / most) * (BASE - 12));
      const rect = draft("rect", { x: bar * step, y: BASE - tall, width: step - 0.8, height: tall, fill: colour(number, 1, "codelet") });
      const edge = (at) => time(Math.exp(log(low) + (wide * at) / bars.length));
      const range = wide > 0 ? `${edge(bar)} to ${edge(bar + 1)}` : time(low);
      rect.append(draft("title", {}, `${count(tasks)} tasks, ${range}`));
      svg.append(rect);
    });
    const at = wide > 0 ? ((log(median) - log(low)) / wide) * W : W / 2;
    svg.append(draft("line", { x1: 0, x2: W, y1: BASE + 0.5, y2: BASE + 0.5, stroke: "var(--line)" }));
    svg.append(draft("line", { x1: at, x2: at, y1: 3, y2: BASE + 4, stroke: "var(--mark)", "stroke-dasharray": "3 2" }));
    const write = (x, anchor, text) => svg.append(draft("text", { x, y: H - 4, "text-anchor": anchor }, text));
    if (wide > 0) {
      if (at > 108) write(0, "start", time(low));
      if (at < W - 108) write(W, "end", time(high));
    }
    const side = at < 62 ? "start" : at > W - 62 ? "end" : "middle";
    write(Math.min(Math.max(at, 0), W), side, `median ${time(median)}`);
    card.append(head, svg);
    box.append(card);
  });
  const rest = data.ran - data.histograms.length;
  if (rest > 0) box.append(make("p", { class: "note" }, `and ${rest} more codelets with less time`));
  if (data.ran === 0) box.append(make("p", { class: "note" }, "No task ran."));
}

/** What workers do without a body; last, what no record accounts for. */
const RESTS = [["sleeping", "#b8bec9"], ["searching", "#e69f00"], ["waiting for data", "#aa4499"], ["other", "#d55e00"]];

function idle() {
  const box = byId("idle");
  data.tracks.slice(0, data.workers).forEach((worker) => {
    const line = make("div");
    const bar = make("i");
    const known = worker.rests.reduce((sum, share) => sum + share, 0);
    [...worker.rests, worker.idle - known].forEach((share, state) => {
      const part = make("b", { title: `${RESTS[state][0]}: ${percent(Math.max(0, share))}` });
      part.style.width = percent(Math.max(0, share)).replace(" ", "");
      part.style.background = RESTS[state][1];
      bar.append(part);
    });
    line.append(make("span", { title: worker.name }, worker.name), bar, make("span", { class: "num" }, percent(worker.idle)));
    box.append(line);
  });
  RESTS.forEach(([name, colour]) => {
    const entry = make("span");
    const mark = make("i", { class: "swatch" });
    mark.style.background = colour;
    entry.append(mark, name);
    byId("rests").append(entry);
  });
}

function tableColours() {
  document.querySelectorAll("[data-codelet]").forEach((element) => {
    element.style.background = colour(Number(element.dataset.codelet), 1, "codelet");
  });
}
