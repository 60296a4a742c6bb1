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
    button.title = `${count(totals[number][0])} tasks, ${time(totals[number][1])}; press to hide or show, double press to show only this`;
    button.append(swatch(number), name === "" ? "(no label)" : name, make("span", {}, count(totals[number][0])));
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
  const took = shape.end - shape.start;
  const head = make("strong");
  if (shape.task === undefined) {
    const tasks = shape.parts.reduce((sum, part) => sum + part[1], 0);
    const busy = shape.parts.reduce((sum, part) => sum + part[2], 0);
    head.append(`${count(tasks)} merged task${tasks === 1 ? "" : "s"}`);
    line("worker", data.workers[shape.row].name);
    line("from", time(shape.start, data.makespan, 6));
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
  } else {
    const { id, coords, priority, flops, bytes, ready } = shape.task;
    const kind = shape.parts[0][0];
    const [codelet, label] = data.kinds[kind];
    head.append(swatch(classOf(kind)), data.codelets[codelet]);
    line("task", String(id));
    const used = (coords || []).map((value, axis) => (value === null ? "" : `${"ijk"[axis]} = ${value}`));
    if (used.some((value) => value !== "")) line("place", used.filter((value) => value !== "").join(", "));
    if (data.labels[label] !== "") line("label", data.labels[label]);
    line("worker", data.workers[shape.row].name);
    line("start", time(shape.start, data.makespan, 6));
    line("took", time(took));
    if (flops) {
      line("work", prefixed(flops, "flop"));
      if (took > 0) line("rate", `${Number((flops / took).toPrecision(4))} Gflop/s`);
    }
    line("operands", prefixed(bytes, "B", 1024));
    line("priority", String(priority));
    line("ready at its end", count(ready));
    if (shape.level > 0) line("inside", `${shape.level} other bod${shape.level > 1 ? "ies" : "y"}`);
    if (shape.critical > 0) line("critical path", "yes");
  }
  tip.append(head, list);
  if (shape.failed > 0 && shape.task !== undefined) tip.append(make("div", { class: "flag" }, "failed"));
  place(x, y);
}

function tellReady(at, x, y) {
  const point = data.ready[lastBefore(data.ready, at, (point) => point[0])];
  if (point === undefined) return hideTip();
  const [, low, high] = point;
  const value = low === high ? count(low) : `${count(low)} to ${count(high)}`;
  tip.replaceChildren(make("strong", {}, `${value} ready`), make("div", {}, `at ${time(at, data.makespan, 5)}`));
  place(x, y);
}

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
  const rest = data.codelets.length - data.histograms.length;
  if (rest > 0) box.append(make("p", { class: "note" }, `and ${rest} more codelets with less time`));
  if (data.codelets.length === 0) box.append(make("p", { class: "note" }, "No task ran."));
}

function idle() {
  const box = byId("idle");
  data.workers.forEach((worker) => {
    const line = make("div");
    const bar = make("i");
    const part = make("b");
    part.style.width = percent(Math.max(0, worker.idle)).replace(" ", "");
    bar.append(part);
    line.append(make("span", { title: worker.name }, worker.name), bar, make("span", { class: "num" }, percent(worker.idle)));
    box.append(line);
  });
}

function tableColours() {
  document.querySelectorAll("[data-codelet]").forEach((element) => {
    element.style.background = colour(Number(element.dataset.codelet), 1, "codelet");
  });
}
