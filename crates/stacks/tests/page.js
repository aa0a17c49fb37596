// Runs the script of a page with a flame graph in a stand-in for a browser's document, and does what a reader
// does: finds a function, zooms by keys and by the mouse, and shows all again. Prints what the page says.
//
// qjs --std page.js PAGE PATTERN
"use strict";
const [, page, pattern] = scriptArgs;
const html = std.loadFile(page);
const data = html.match(/<script id="data" type="application\/json">([\s\S]*?)<\/script>/)[1];
const code = html.match(/<script>\n([\s\S]*?)<\/script>/)[1];
const listeners = {}, elements = {}, drawn = [];
const listen = (id) => (type, act) => (listeners[`${id}:${type}`] ??= []).push(act);
const pen = new Proxy({}, {
  get: (_, name) => (name === "fillText" ? (text) => drawn.push(text) : () => {}),
  set: () => true,
});
const element = (id) => ({
  textContent: id === "data" ? data : "", dataset: {}, style: {}, clientWidth: 1000, clientHeight: 800, scrollTop: 0, value: "",
  addEventListener: listen(id), focus() { document.activeElement = this; }, getContext: () => pen, append() {}, setAttribute() {},
});
globalThis.document = {
  getElementById: (id) => (elements[id] ??= element(id)), createElement: element, body: {}, activeElement: null,
  addEventListener: listen("document"),
};
globalThis.URLSearchParams = class { get() { return null; } set() {} };
globalThis.location = { hash: "" };
globalThis.matchMedia = () => ({ matches: false, addEventListener() {} });
globalThis.getComputedStyle = () => ({ color: "#000", getPropertyValue: () => "#f0f" });
globalThis.devicePixelRatio = 1;
globalThis.addEventListener = () => {};
eval(code);
console.log(`drawn: ${drawn.join(" ")}`);
console.log(elements.whole.textContent);
const search = (text) => { elements.search.value = text; listeners["search:input"][0]({ target: elements.search }); };
search("(");
console.log(`a bad pattern: ${elements.found.textContent ? "told" : "not told"}`);
search(pattern);
console.log(elements.found.textContent);
const press = (key) => listeners["document:keydown"][0]({ key, target: elements.graph, preventDefault() {} });
["ArrowDown", "ArrowDown", "Enter"].forEach(press);
console.log(`keys zoom to ${elements.graph.dataset.zoomed}`);
press("Escape");
listeners["graph:click"][0]({ offsetX: 5, offsetY: 20 });
console.log(`the mouse zooms to ${elements.graph.dataset.zoomed}`);
press("Escape");
console.log(`then ${elements.graph.dataset.zoomed}`);
drawn.length = 0;
press("i");
console.log(`inverted: ${drawn.slice(0, 3).join(" ")}`);
press("t");
console.log(elements.detail.textContent);
