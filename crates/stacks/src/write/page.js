"use strict";
// Counts the samples that the reader chooses, and draws them as a flame graph, as an inverted one, or as a
// table. The choice is kept in the address, so that a link shows what its sender saw.
const element = id => document.getElementById(id);
const data = JSON.parse(element("data").textContent);
const { nodes, rows } = data, COUNT = nodes.parent.length, SLOTS = 1000, ROW = 18, MOST_LINES = 500;
const compared = data.sides.length > 1;
const canvas = element("graph"), pen = canvas.getContext("2d"), timeline = element("timeline"), scroller = element("scroller");
const dark = matchMedia("(prefers-color-scheme: dark)");
const SORT = compared ? "ownChange" : "own";
const state = { view: "flame", thread: "", event: 0, from: 0, to: SLOTS, find: "", by: compared ? 1 : 0, sort: SORT, zoom: [] };

// Callees of each node, as linked lists.
const firstCallee = new Int32Array(COUNT).fill(-1), nextCallee = new Int32Array(COUNT).fill(-1);
for (let node = COUNT - 1; node > 0; node--) {
  const parent = nodes.parent[node];
  nextCallee[node] = firstCallee[parent];
  firstCallee[parent] = node;
}
// What is chosen, for each side: weight, own weight, and samples of each node.
let weight, own, samples, rooted, root, zoomed, chosen, drawn = [], hits = new Uint8Array(data.names.length), pattern = null;

function percent(part, all) { return (100 * part / Math.max(all, 1e-9)).toFixed(2) + " %"; }
function signed(share) { return (share < 0 ? "−" : "+") + (100 * Math.abs(share)).toFixed(2) + " %"; }
function amount(value) {
  if (!data.events[state.event]?.timed) return `${Math.round(value)}`;
  return value >= 1e9 ? `${(value / 1e9).toFixed(2)} s` : value >= 1e6 ? `${(value / 1e6).toFixed(1)} ms` : `${(value / 1e3).toFixed(1)} µs`;
}
function count(number) { return `${number} sample${number === 1 ? "" : "s"}`; }
const kindOf = node => nodes.kind[node], nameOf = node => data.names[nodes.name[node]], fileOf = node => data.files[nodes.file[node]];
const shareOf = (weights, side) => weights[side] / Math.max(weight[side][0], 1e-9);

// Threads by the value of their choice.
function isOfThread(row) {
  if (!state.thread) return true;
  const thread = data.threads[rows.thread[row]], [what, value] = [state.thread[0], state.thread.slice(2)];
  return what === "p" ? String(thread.pid) === value : what === "n" ? thread.name === value : String(rows.thread[row]) === value;
}
const isOfRange = row => rows.slot[row] >= state.from && rows.slot[row] < state.to;
const isChosen = row => rows.event[row] === state.event && isOfRange(row) && isOfThread(row);
// Periods of zero say nothing.
const weighs = data.events.map(() => false);
rows.weight.forEach((value, row) => { if (value > 0) weighs[rows.event[row]] = true; });
const weightOf = row => weighs[rows.event[row]] ? rows.weight[row] : rows.samples[row];

function choose() {
  const sides = compared ? 2 : 1, make = () => Array.from({ length: 2 }, () => new Float64Array(COUNT));
  [weight, own, samples, rooted] = [make(), make(), make(), 0];
  rows.node.forEach((node, row) => {
    if (!isChosen(row)) return;
    const side = rows.side[row];
    own[side][node] += weightOf(row);
    samples[side][node] += rows.samples[row];
    rooted += rows.rooted[row];
  });
  for (let side = 0; side < sides; side++) {
    weight[side].set(own[side]);
    for (let node = COUNT - 1; node > 0; node--) {
      weight[side][nodes.parent[node]] += weight[side][node];
      samples[side][nodes.parent[node]] += samples[side][node];
    }
  }
  const all = samples.map(of => of[0]), cut = nodes.kind.includes(4);
  element("whole").textContent = compared
    ? `${data.sides[0]}: ${count(all[0])}; ${data.sides[1]}: ${count(all[1])}`
    : [rooted || cut || !all[0] ? `${count(all[0])}, ${percent(rooted, all[0])} from the root on` : `${count(all[0])} with recorded call chains`,
      ...data.notes].join("; ");
  grow();
}

// Boxes are made as they are drawn: each has the weights of both sides, and makes its callees when asked.
function box(parent, node, weights, entries) {
  return { parent, node, weights, entries, depth: parent ? parent.depth + 1 : 0, name: nameOf(node), kind: kindOf(node), start: 0, callees: null };
}
const sizeOf = one => one.weights[state.by];
function calleesOf(one) {
  if (one.callees) return one.callees;
  const found = [];
  if (!one.entries) {
    for (let node = firstCallee[one.node]; node >= 0; node = nextCallee[node]) {
      found.push(box(one, node, [weight[0][node], weight[1][node]], null));
    }
  } else {
    // Callers with the same name are one box.
    const groups = new Map();
    for (const [node, before, after] of one.entries) {
      const caller = one.parent ? nodes.parent[node] : node;
      if (caller <= 0) continue;
      const key = (nodes.name[caller] * data.files.length + nodes.file[caller]) * 8 + nodes.kind[caller];
      if (!groups.has(key)) groups.set(key, box(one, caller, [0, 0], []));
      const group = groups.get(key);
      group.weights[0] += before; group.weights[1] += after;
      group.entries.push([caller, before, after]);
    }
    found.push(...groups.values());
  }
  one.callees = found.filter(callee => sizeOf(callee) > 0)
    .sort((first, second) => sizeOf(second) - sizeOf(first) || (first.name < second.name ? -1 : 1));
  let start = one.start;
  for (const callee of one.callees) { callee.start = start; start += sizeOf(callee); }
  return one.callees;
}
function grow() {
  let entries = null;
  if (state.view === "inverted") {
    entries = [];
    for (let node = 0; node < COUNT; node++) if (own[0][node] || own[1][node]) entries.push([node, own[0][node], own[1][node]]);
  }
  root = box(null, 0, [weight[0][0], weight[1][0]], entries);
  zoomed = chosen = root;
  for (const name of state.zoom) {
    const next = calleesOf(zoomed).find(callee => nodes.name[callee.node] === name);
    if (!next) break;
    zoomed = chosen = next;
  }
  find(state.find);
}

function hash(text) { let h = 0; for (let i = 0; i < text.length; i++) h = (h * 31 + text.charCodeAt(i)) | 0; return h >>> 0; }
const hues = [[38, 24, 75], [20, 12, 75], [170, 24, 40], [220, 0, 8], [0, 0, 60]];
const colours = new Map();
function colour(one) {
  if (compared) return colourOfChange(one.weights);
  const key = nodes.name[one.node] * 8 + one.kind;
  if (!colours.has(key)) {
    const [hue, spread, strength] = hues[one.kind], shade = hash(one.name) % 24;
    colours.set(key, `hsl(${hue + spread * shade / 24} ${strength}% ${(dark.matches ? 34 : 66) + shade / 3}%)`);
  }
  return colours.get(key);
}
// More than before is red, less is blue; the strength is the change in proportion to the share.
function colourOfChange(weights) {
  const [before, after] = [0, 1].map(side => shareOf(weights, side)), all = before + after;
  const change = all ? (after - before) / all : 0, strength = Math.min(1, 2 * Math.abs(change));
  const plain = dark.matches ? 32 : 84, full = dark.matches ? 42 : 62;
  return `hsl(${change > 0 ? 2 : 215} ${Math.round(80 * strength)}% ${plain + (full - plain) * strength}%)`;
}

const widths = new Map();
function widthOf(text) {
  if (!widths.has(text)) widths.set(text, pen.measureText(text)?.width ?? 7 * text.length);
  return widths.get(text);
}
function fit(text, room) {
  const whole = widthOf(text);
  if (whole <= room) return text;
  let length = Math.floor(text.length * room / whole);
  while (length > 1 && widthOf(text.slice(0, length) + "…") > room) length--;
  return length > 1 ? text.slice(0, length) + "…" : "";
}

function prepare(what, width, height) {
  const ratio = globalThis.devicePixelRatio || 1, to = what.getContext("2d");
  what.width = width * ratio; what.height = height * ratio; what.style.height = height + "px";
  to.setTransform(ratio, 0, 0, ratio, 0, 0);
  to.font = "12px system-ui, sans-serif"; to.textBaseline = "middle";
  return to;
}
function draw() {
  const asTable = state.view === "table";
  canvas.hidden = element("height").hidden = asTable;
  element("functions").hidden = !asTable;
  for (const view of ["flame", "inverted", "table"]) element(view).setAttribute("aria-pressed", String(state.view === view));
  if (asTable) return list();
  // The canvas is as high as the window. Stacks are thousands deep, and no browser has so high a canvas.
  const width = canvas.clientWidth, scale = width / Math.max(sizeOf(zoomed), 1e-9);
  const boxes = [], left = [zoomed];
  let deepest = zoomed.depth;
  for (let one = zoomed.parent; one; one = one.parent) boxes.push([one, 0, width, true]);
  while (left.length) {
    const one = left.pop(), wide = sizeOf(one) * scale;
    if (wide < 0.4) continue;
    deepest = Math.max(deepest, one.depth);
    boxes.push([one, (one.start - zoomed.start) * scale, wide, false]);
    for (const callee of calleesOf(one)) left.push(callee);
  }
  const whole = (deepest + 1) * ROW, high = Math.max(Math.min(whole, scroller.clientHeight), ROW);
  element("height").style.height = Math.max(whole - high, 0) + "px";
  const top = Math.min(scroller.scrollTop, Math.max(whole - high, 0)), text = getComputedStyle(document.body).color;
  const mark = getComputedStyle(document.body).getPropertyValue("--mark");
  prepare(canvas, width, high);
  drawn = [];
  for (const [one, x, wide, isAbove] of boxes) {
    const y = one.depth * ROW - top;
    if (y < -ROW || y > high) continue;
    const isHit = one.kind !== 3 && hits[nodes.name[one.node]];
    pen.globalAlpha = pattern && !isHit ? 0.3 : isAbove ? 0.5 : 1;
    pen.fillStyle = isHit ? mark : colour(one);
    pen.fillRect(x, y, Math.max(wide - 0.5, 0.4), ROW - 1);
    if (one === chosen && document.activeElement === canvas) {
      pen.strokeStyle = text; pen.lineWidth = 2; pen.strokeRect(x + 1, y + 1, Math.max(wide - 2.5, 1), ROW - 3);
    }
    if (wide > 24) { pen.fillStyle = text; pen.fillText(fit(one.name, wide - 8), x + 4, y + ROW / 2); }
    pen.globalAlpha = 1;
    drawn.push([x, y, wide, one]);
  }
}

function drawTimeline() {
  timeline.hidden = data.length === 0;
  if (timeline.hidden) return;
  const width = timeline.clientWidth, high = 36, to = prepare(timeline, width, high), style = getComputedStyle(document.body);
  const bars = new Float64Array(Math.max(Math.ceil(width / 2), 1));
  rows.slot.forEach((slot, row) => {
    if (rows.event[row] !== state.event || rows.side[row] !== state.by || !isOfThread(row)) return;
    bars[Math.floor(slot / SLOTS * bars.length)] += weightOf(row);
  });
  const most = Math.max(...bars, 1e-9);
  to.fillStyle = style.getPropertyValue("--bar");
  bars.forEach((bar, at) => to.fillRect(2 * at, high - (high - 4) * bar / most, 1.6, (high - 4) * bar / most));
  if (state.from > 0 || state.to < SLOTS) {
    const [x, end] = [state.from, state.to].map(slot => slot / SLOTS * width);
    to.fillStyle = style.getPropertyValue("--range"); to.fillRect(x, 0, end - x, high);
    const seconds = [state.from, state.to].map(slot => (slot / SLOTS * data.length / 1e9).toFixed(3));
    to.fillStyle = style.color; to.fillText(`${seconds[0]} s to ${seconds[1]} s`, Math.min(x + 4, Math.max(width - 130, 0)), 10);
  }
}
function chooseRange(from, to) {
  [state.from, state.to] = [Math.max(0, Math.min(from, to)), Math.min(SLOTS, Math.max(from, to))];
  if (state.to - state.from < 2) [state.from, state.to] = [0, SLOTS];
  update();
}

// Functions by their own and total weight. One that calls itself counts once.
function functions() {
  const all = new Map(), active = new Map(), open = [], left = [0];
  const keyOf = node => nodes.name[node] * data.files.length + nodes.file[node];
  while (left.length) {
    const node = left.pop();
    if (node < 0) { const key = open.pop(); active.set(key, active.get(key) - 1); continue; }
    if (!weight[0][node] && !weight[1][node]) continue;
    const key = keyOf(node);
    if (kindOf(node) < 3) {
      if (!all.has(key)) all.set(key, { node, own: [0, 0], total: [0, 0] });
      const one = all.get(key);
      for (const side of [0, 1]) {
        one.own[side] += own[side][node];
        if (!active.get(key)) one.total[side] += weight[side][node];
      }
    }
    active.set(key, (active.get(key) || 0) + 1);
    open.push(key);
    left.push(-1);
    for (let callee = firstCallee[node]; callee >= 0; callee = nextCallee[callee]) left.push(callee);
  }
  return [...all.values()];
}
function list() {
  const change = of => shareOf(of, 1) - shareOf(of, 0);
  const columns = compared
    ? [["own", "self before"], ["ownAfter", "self after"], ["ownChange", "change"], ["total", "total before"], ["totalAfter", "total after"], ["totalChange", "change"], ["name", "function"]]
    : [["own", "self"], ["own", "%"], ["total", "total"], ["total", "%"], ["name", "function"]];
  const most = (what, side) => (a, b) => b[what][side] - a[what][side];
  const orders = {
    own: most("own", 0), ownAfter: most("own", 1), total: most("total", 0), totalAfter: most("total", 1),
    ownChange: (a, b) => Math.abs(change(b.own)) - Math.abs(change(a.own)), totalChange: (a, b) => Math.abs(change(b.total)) - Math.abs(change(a.total)),
    name: (a, b) => (nameOf(a.node) < nameOf(b.node) ? -1 : 1),
  };
  const fill = (parent, made) => { parent.textContent = ""; parent.append(...made); };
  const cell = (kind, text) => { const made = document.createElement(kind); made.textContent = text; return made; };
  fill(element("columns"), columns.map(([order, title], place) => {
    const isSorted = order === state.sort && columns.findIndex(([other]) => other === order) === place;
    const head = cell("th", title + (isSorted ? " ▾" : ""));
    head.addEventListener("click", () => { state.sort = order; update(); });
    return head;
  }));
  const shown = functions().filter(one => !pattern || hits[nodes.name[one.node]]).sort(orders[state.sort] ?? orders[SORT]);
  fill(element("lines"), shown.slice(0, MOST_LINES).map(one => {
    const line = document.createElement("tr"), share = (of, side) => (100 * shareOf(of, side)).toFixed(2);
    const numbers = compared
      ? [one.own, one.total].flatMap(of => [share(of, 0), share(of, 1), signed(change(of))])
      : [one.own, one.total].flatMap(of => [amount(of[0]), share(of, 0)]);
    const name = cell("td", nameOf(one.node) + " ");
    name.append(cell("small", fileOf(one.node).split("/").pop()));
    line.append(...numbers.map(number => cell("td", number)), name);
    line.addEventListener("click", () => {
      state.view = "flame";
      search.value = state.find = `^${nameOf(one.node).replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$`;
      update();
    });
    return line;
  }));
  element("detail").textContent = shown.length > MOST_LINES ? `the first ${MOST_LINES} of ${shown.length} functions` : `${shown.length} functions`;
}

function tell(one) {
  if (!one || state.view === "table") return;
  const file = fileOf(one.node), of = side => `${percent(one.weights[side], weight[side][0])} (${amount(one.weights[side])})`;
  const numbers = compared
    ? `before ${of(0)}, after ${of(1)}, change ${signed(shareOf(one.weights, 1) - shareOf(one.weights, 0))}`
    : [one.entries ? amount(sizeOf(one)) : count(samples[0][one.node]), data.events[state.event]?.timed && !one.entries ? amount(sizeOf(one)) : "",
      `${percent(sizeOf(one), sizeOf(root))} of all`, zoomed === root ? "" : `${percent(sizeOf(one), sizeOf(zoomed))} of those shown`].filter(Boolean).join(", ");
  element("detail").textContent = `${one.name}${file ? "  (" + file + ")" : ""}\n${numbers}${one === chosen ? linesOf(one) : ""}`;
}
// The source lines in which a function runs itself.
function linesOf(one) {
  if (data.lines.length < 2 || one === root) return "";
  const within = new Set(one.entries ? one.entries.map(([node]) => node) : [one.node]), sums = new Map();
  rows.node.forEach((node, row) => {
    if (!within.has(node) || !rows.line[row] || !isChosen(row)) return;
    sums.set(rows.line[row], (sums.get(rows.line[row]) || 0) + weightOf(row));
  });
  const most = [...sums].sort((a, b) => b[1] - a[1]).slice(0, 8);
  return most.map(([line, sum]) => `\n${percent(sum, sizeOf(root)).padStart(9)}  ${data.lines[line]}`).join("");
}

function zoom(one) {
  zoomed = chosen = one;
  state.zoom = [];
  for (let at = one; at.parent; at = at.parent) state.zoom.unshift(nodes.name[at.node]);
  canvas.dataset.zoomed = one.name;
  keep(); draw(); show(one); tell(one);
}
function show(one) {
  const y = one.depth * ROW, top = scroller.scrollTop, high = scroller.clientHeight;
  if (y < top || y > top + high - 2 * ROW) { scroller.scrollTop = Math.max(y - high / 3, 0); draw(); }
}
function find(text) {
  state.find = text;
  let wrong = "";
  try { pattern = text ? new RegExp(text, "i") : null; } catch (error) { [pattern, wrong] = [null, error.message]; }
  data.names.forEach((name, number) => { hits[number] = pattern && pattern.test(name) ? 1 : 0; });
  // Samples of what is found, those within another found function once.
  const inside = new Uint8Array(COUNT);
  let sum = 0;
  for (let node = 0; pattern && node < COUNT; node++) {
    const isHit = kindOf(node) !== 3 && hits[nodes.name[node]], parent = nodes.parent[node];
    const isInside = parent >= 0 && inside[parent];
    if (isHit && !isInside) sum += weight[state.by][node];
    inside[node] = isHit || isInside ? 1 : 0;
  }
  element("found").textContent = wrong || (pattern ? `found: ${percent(sum, weight[state.by][0])}` : "");
  element("found").className = wrong ? "wrong" : "";
  draw(); tell(chosen);
}

// The address.
function keep() {
  const { view, thread, event, from, to, find, by, sort, zoom } = state, parts = new URLSearchParams();
  const set = (key, value, usual) => { if (String(value) !== String(usual)) parts.set(key, value); };
  set("view", view, "flame"); set("thread", thread, ""); set("event", event, 0); set("time", `${from}-${to}`, `0-${SLOTS}`);
  set("find", find, ""); set("by", by, compared ? 1 : 0); set("sort", sort, SORT); set("zoom", zoom.join("."), "");
  try { history.replaceState(null, "", "#" + parts); } catch { /* A page that is shown inside another has no address. */ }
}
function recall() {
  const parts = new URLSearchParams(location.hash.slice(1)), number = (text, most) => Math.min(Math.max(Math.trunc(Number(text)) || 0, 0), most);
  const [from, to] = (parts.get("time") ?? `0-${SLOTS}`).split("-").map(text => number(text, SLOTS));
  state.view = ["inverted", "table"].includes(parts.get("view")) ? parts.get("view") : "flame";
  state.thread = parts.get("thread") ?? "";
  state.event = number(parts.get("event"), Math.max(data.events.length - 1, 0));
  [state.from, state.to] = from < to ? [from, to] : [0, SLOTS];
  state.find = parts.get("find") ?? "";
  state.by = compared ? number(parts.get("by") ?? 1, 1) : 0;
  state.sort = parts.get("sort") ?? SORT;
  state.zoom = parts.get("zoom") ? parts.get("zoom").split(".").map(Number) : [];
  for (const [id, value] of [["thread", state.thread], ["event", state.event], ["side", state.by], ["search", state.find]]) element(id).value = String(value);
}
function update() { keep(); drawTimeline(); choose(); canvas.dataset.zoomed = zoomed.name; }
function view(name) { state.view = name; state.zoom = []; scroller.scrollTop = 0; update(); }

// Choices.
function option(value, text) { const made = document.createElement("option"); made.value = value; made.textContent = text; return made; }
function offer() {
  const events = element("event"), threads = element("thread"), side = element("side");
  data.events.forEach((event, number) => events.append(option(String(number), event.name)));
  events.hidden = data.events.length < 2;
  if (compared) side.append(option("1", "widths: after"), option("0", "widths: before"));
  side.hidden = !compared;
  threads.append(option("", "all threads"));
  if (compared) {
    for (const name of new Set(data.threads.map(thread => thread.name))) threads.append(option("n:" + name, name));
  } else {
    const processes = new Map();
    data.threads.forEach((thread, number) => processes.set(thread.pid, [...(processes.get(thread.pid) ?? []), [thread, number]]));
    for (const [pid, own] of processes) {
      threads.append(option(`p:${pid}`, `${own[own.length - 1][0].process} ${pid}: all`));
      for (const [thread, number] of own) threads.append(option(`t:${number}`, `\u00a0\u00a0${thread.name} ${thread.tid}`));
    }
  }
  threads.hidden = data.threads.length < 2;
  const kinds = compared
    ? [["hsl(2 80% 55%)", "more than before"], ["hsl(215 80% 55%)", "less"], ["hsl(0 0% 60%)", "the same"]]
    : [["hsl(45 75% 60%)", "function"], ["hsl(26 75% 60%)", "kernel"], ["hsl(180 40% 55%)", "inlined"], ["hsl(220 8% 60%)", "thread"], ["hsl(0 60% 60%)", "cut off"]];
  for (const [back, text] of kinds) {
    const square = document.createElement("i");
    square.style.background = back;
    element("legend").append(square, text);
  }
  element("statistics").textContent = data.statistics;
}

function at(event) {
  const hit = drawn.find(([left, top, wide]) => event.offsetY >= top && event.offsetY < top + ROW && event.offsetX >= left && event.offsetX < left + Math.max(wide, 1));
  return hit && hit[3];
}
const search = element("search");
canvas.addEventListener("mousemove", event => { const one = at(event); canvas.style.cursor = one ? "pointer" : ""; tell(one || chosen); });
canvas.addEventListener("click", event => { const one = at(event); if (one) zoom(one); });
element("reset").addEventListener("click", showAll);
search.addEventListener("input", () => { find(search.value); keep(); });
element("thread").addEventListener("change", event => { state.thread = event.target.value; update(); });
element("event").addEventListener("change", event => { state.event = Number(event.target.value); update(); });
element("side").addEventListener("change", event => { state.by = Number(event.target.value); update(); });
for (const name of ["flame", "inverted", "table"]) element(name).addEventListener("click", () => view(name));
function showAll() {
  search.value = "";
  Object.assign(state, { find: "", zoom: [], from: 0, to: SLOTS });
  update();
}
let dragged = null;
// The first and last samples are hard to hit, so the ends catch the mouse.
const slotAt = event => {
  const x = event.offsetX, width = timeline.clientWidth;
  return x < 3 ? 0 : x > width - 3 ? SLOTS : Math.round(x / Math.max(width, 1) * SLOTS);
};
timeline.addEventListener("mousedown", event => { dragged = slotAt(event); });
timeline.addEventListener("mousemove", event => {
  if (dragged === null) return;
  [state.from, state.to] = [dragged, slotAt(event)].sort((a, b) => a - b);
  drawTimeline();
});
addEventListener("mouseup", event => {
  if (dragged === null) return;
  const end = event.target === timeline ? slotAt(event) : state.from === dragged ? state.to : state.from;
  chooseRange(dragged, end);
  dragged = null;
});
timeline.addEventListener("dblclick", () => chooseRange(0, SLOTS));
function moveRange(key) {
  const length = state.to - state.from, step = Math.max(Math.round(length / 10), 1);
  switch (key) {
    case "ArrowLeft": case "ArrowRight": {
      const from = Math.min(Math.max(state.from + (key === "ArrowLeft" ? -step : step), 0), SLOTS - length);
      return chooseRange(from, from + length);
    }
    case "ArrowUp": return chooseRange(state.from + step, state.to - step);
    case "ArrowDown": return chooseRange(state.from - step, state.to + step);
  }
}
document.addEventListener("keydown", event => {
  if (event.key === "Escape") { showAll(); canvas.focus({ preventScroll: true }); return; }
  if (event.target === search || event.target.tagName === "SELECT" || event.ctrlKey || event.metaKey || event.altKey) return;
  const act = {
    "/": () => search.focus(), f: () => view("flame"), i: () => view("inverted"), t: () => view("table"),
    b: () => { if (compared) { state.by = 1 - state.by; element("side").value = String(state.by); update(); } },
  }[event.key];
  if (act) { act(); event.preventDefault(); return; }
  if (event.target === timeline && event.key.startsWith("Arrow")) { moveRange(event.key); event.preventDefault(); return; }
  if (event.target !== canvas) return;
  const siblings = chosen.parent ? calleesOf(chosen.parent) : [chosen], place = siblings.indexOf(chosen);
  const to = { ArrowUp: chosen.parent, ArrowDown: calleesOf(chosen)[0], ArrowLeft: siblings[place - 1], ArrowRight: siblings[place + 1] }[event.key];
  if (event.key === "Enter") zoom(chosen);
  else if (to) { chosen = to; if (to.depth < zoomed.depth) zoomed = to; draw(); tell(to); show(to); }
  else return;
  event.preventDefault();
});
canvas.addEventListener("focus", draw);
canvas.addEventListener("blur", draw);
scroller.addEventListener("scroll", () => { if (state.view !== "table") draw(); });
addEventListener("resize", () => { drawTimeline(); draw(); });
addEventListener("hashchange", () => { recall(); update(); });
dark.addEventListener("change", () => { colours.clear(); drawTimeline(); draw(); });
offer();
recall();
drawTimeline();
choose();
canvas.dataset.zoomed = zoomed.name;
