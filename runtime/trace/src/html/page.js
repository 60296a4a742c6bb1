// What the user does: pointer, wheel, keys, buttons.
function setMode(mode) {
  state.mode = mode;
  byId("mode").querySelectorAll("button").forEach((button) => {
    button.setAttribute("aria-pressed", String(button.dataset.mode === mode));
  });
  overview = null;
  legend();
  redraw();
}

function setCritical(on) {
  state.critical = on;
  byId("show-path").setAttribute("aria-pressed", String(on));
  redraw();
}

let grip = null;

canvas.addEventListener("pointerdown", (event) => {
  if (event.button !== 0) return;
  canvas.setPointerCapture(event.pointerId);
  const kind = event.shiftKey ? "select" : event.offsetY < OVERVIEW - 8 ? "overview" : "move";
  grip = { kind, x: event.offsetX, from: state.from, to: state.to };
  canvas.classList.add("moving");
  if (kind === "overview") follow(event.offsetX);
});

function follow(x) {
  const half = (state.to - state.from) / 2;
  const middle = ((x - left) / width) * full;
  show(middle - half, middle + half);
}

canvas.addEventListener("pointermove", (event) => {
  const [x, y] = [event.offsetX, event.offsetY];
  hover = { x, shape: null };
  if (grip?.kind === "move") {
    const moved = ((x - grip.x) / width) * (grip.to - grip.from);
    show(grip.from - moved, grip.to - moved);
    hideTip();
  } else if (grip?.kind === "overview") {
    follow(x);
  } else if (grip?.kind === "select") {
    hover.anchor = grip.x;
    hideTip();
  } else {
    hover.shape = shapeAt(x, y);
    if (hover.shape !== null) tell(hover.shape, event.clientX, event.clientY);
    else if (phaseAt(x, y) !== undefined) tellPhase(phaseAt(x, y), event.clientX, event.clientY);
    else if (x >= left && curveAt(y) >= 0) tellCurve(curveAt(y), timeAt(x), event.clientX, event.clientY);
    else hideTip();
  }
  redraw(false);
});

canvas.addEventListener("pointerup", (event) => {
  if (grip?.kind === "select" && Math.abs(event.offsetX - grip.x) > 3) {
    const ends = [timeAt(grip.x), timeAt(event.offsetX)].sort((a, b) => a - b);
    show(...ends);
  }
  grip = null;
  if (hover !== null) hover.anchor = undefined;
  canvas.classList.remove("moving");
  redraw(false);
});

canvas.addEventListener("pointercancel", () => {
  grip = null;
  canvas.classList.remove("moving");
});

canvas.addEventListener("pointerleave", () => {
  if (grip !== null) return;
  hover = null;
  hideTip();
  redraw(false);
});

canvas.addEventListener("dblclick", (event) => {
  const shape = shapeAt(event.offsetX, event.offsetY);
  if (shape === null) return show(0, full);
  const around = (shape.end - shape.start) * 3;
  show(shape.start - around, shape.end + around);
});

canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  hideTip();
  if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    pan(Math.sign(event.deltaX || event.deltaY) * 0.12);
  } else {
    zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300))), event.offsetX);
  }
}, { passive: false });

const keys = {
  ArrowLeft: () => pan(-0.15),
  ArrowRight: () => pan(0.15),
  "+": () => zoom(0.7),
  "=": () => zoom(0.7),
  "-": () => zoom(1 / 0.7),
  0: () => show(0, full),
  Home: () => show(0, full),
  c: () => setCritical(!state.critical),
  l: () => setMode(state.mode === "codelet" ? "label" : "codelet"),
};
window.addEventListener("keydown", (event) => {
  const action = keys[event.key];
  if (action === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  action();
});

byId("mode").addEventListener("click", (event) => {
  if (event.target.dataset.mode) setMode(event.target.dataset.mode);
});
byId("show-path").addEventListener("click", () => setCritical(!state.critical));
byId("in").addEventListener("click", () => zoom(0.6));
byId("out").addEventListener("click", () => zoom(1 / 0.6));
byId("fit").addEventListener("click", () => show(0, full));

if (data.labels.every((label) => label === "")) byId("mode").hidden = true;

readTheme();
tableColours();
legend();
histograms();
idle();
resize();
window.addEventListener("resize", resize);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readTheme(); redraw(); });

// `#from=0.2&to=0.3&critical&colour=label`: shares of the run; a link can open the page where it matters.
const opened = new URLSearchParams(location.hash.slice(1));
if (opened.has("from") || opened.has("to")) show(Number(opened.get("from") ?? 0) * full, Number(opened.get("to") ?? 1) * full);
if (opened.has("critical")) setCritical(true);
if (opened.get("colour") === "label") setMode("label");
