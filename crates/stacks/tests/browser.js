// Opens a page with a flame graph in a headless Chromium and does what a reader does, by real keys and a real
// mouse: finds a function, zooms by both, shows all again, inverts the graph, chooses a thread and a range of
// time, reads the table, and comes back by the address. Prints what the page says. Takes pictures of the
// search and the other views if asked to: PICTURE.png, PICTURE-inverted.png and so on.
//
// node browser.js CHROMIUM PAGE PATTERN [PICTURE]
"use strict";
const { spawn } = require("child_process");
const fs = require("fs"), os = require("os"), path = require("path");
const [browser, page, pattern, picture] = process.argv.slice(2);
const profile = fs.mkdtempSync(path.join(os.tmpdir(), "page-"));
const child = spawn(browser, [
  "--headless", "--no-sandbox", ...(process.env.SFRAME_BROWSER_DARK ? ["--force-dark-mode", "--blink-settings=preferredColorScheme=0"] : []), "--disable-gpu", "--no-first-run", "--disable-background-networking", "--hide-scrollbars",
  `--window-size=${process.env.SFRAME_BROWSER_SIZE ?? "1200,560"}`, "--remote-debugging-pipe", `--user-data-dir=${profile}`,
], { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
// Messages of the DevTools protocol, each ended by a zero byte.
const waiting = new Map();
let last = 0, rest = "", session;
child.stdio[4].on("data", bytes => {
  const messages = (rest + bytes).split("\0");
  rest = messages.pop();
  for (const { id, result, error } of messages.map(JSON.parse)) {
    waiting.get(id)?.(error ? Promise.reject(new Error(error.message)) : result);
    waiting.delete(id);
  }
});
const send = (method, params) => new Promise(answer => {
  waiting.set(++last, answer);
  child.stdio[3].write(JSON.stringify({ id: last, method, params, sessionId: session }) + "\0");
});
const ask = async expression => {
  const { result, exceptionDetails } = await send("Runtime.evaluate", { expression, returnByValue: true, awaitPromise: true });
  if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
  return result.value;
};
const text = id => ask(`document.getElementById("${id}").textContent`);
const zoomed = () => ask(`document.getElementById("graph").dataset.zoomed`);
const CODES = { ArrowDown: 40, Enter: 13, Escape: 27, "/": 191, i: 73, t: 84, f: 70 };
async function snap(name) {
  if (!picture) return;
  const { data } = await send("Page.captureScreenshot", { format: "png" });
  fs.writeFileSync(picture.replace(/(\.png)?$/, `${name}.png`), Buffer.from(data, "base64"));
}
async function press(...keys) {
  for (const key of keys) {
    const event = { key, code: key === "/" ? "Slash" : key, windowsVirtualKeyCode: CODES[key] };
    await send("Input.dispatchKeyEvent", { type: "keyDown", ...event });
    await send("Input.dispatchKeyEvent", { type: "keyUp", ...event });
  }
}
async function click(x, y) {
  for (const type of ["mousePressed", "mouseReleased"]) {
    await send("Input.dispatchMouseEvent", { type, x, y, button: "left", clickCount: 1 });
  }
}
async function read() {
  const { targetId } = await send("Target.createTarget", { url: "about:blank" });
  session = (await send("Target.attachToTarget", { targetId, flatten: true })).sessionId;
  await send("Page.enable");
  await send("Page.navigate", { url: `file://${path.resolve(page)}` });
  await ask(`new Promise(done => {
    const ready = () => location.protocol === "file:" && document.readyState === "complete" ? done() : setTimeout(ready, 20);
    ready();
  })`);
  console.log(await text("whole"));
  await press("/");
  await send("Input.insertText", { text: "(" });
  console.log(`a bad pattern: ${(await text("found")) ? "told" : "not told"}`);
  await press("Escape", "/");
  await send("Input.insertText", { text: pattern });
  console.log(await text("found"));
  await snap("");
  await press("Escape", "ArrowDown", "ArrowDown", "Enter");
  console.log(`keys zoom to ${await zoomed()}`);
  await press("Escape");
  const { x, y } = await ask(`document.getElementById("graph").getBoundingClientRect().toJSON()`);
  await click(x + 5, y + 20);
  console.log(`the mouse zooms to ${await zoomed()}`);
  await press("Escape");
  console.log(`then ${await zoomed()}`);
  await press("i");
  console.log(`inverted, ${await ask("calleesOf(root)[0].name")} has ${(await text("found")) || "no search"}`);
  await snap("-inverted");
  await press("t");
  const sorted = await ask(`[...document.querySelectorAll("#columns th")].findIndex(head => head.textContent.endsWith("▾"))`);
  const values = await ask(`[...document.querySelectorAll("#lines tr")].map(line => parseFloat(line.children[${sorted}].textContent.replace("−", "-")))`);
  const falls = values.every((value, place) => !place || Math.abs(value) <= Math.abs(values[place - 1]) + 0.01);
  console.log(`${await text("detail")}, ${sorted < 0 || !falls ? "in no order" : "those with the most first"}`);
  await snap("-table");
  await press("f");
  await ask(`(() => { const all = document.getElementById("thread"); all.value = all.options[1].value; all.dispatchEvent(new Event("change")); })()`);
  console.log(`a process: ${(await text("whole")).split(",")[0]}`);
  const line = await ask(`document.getElementById("timeline").getBoundingClientRect().toJSON()`);
  if (line.height) {
    for (const [type, x] of [["mousePressed", 0], ["mouseMoved", 0.4], ["mouseReleased", 0.4]]) {
      await send("Input.dispatchMouseEvent", { type, x: line.x + 1 + x * line.width, y: line.y + 10, button: "left", clickCount: 1 });
    }
    console.log(`a range: ${(await text("whole")).split(",")[0]}`);
    await snap("-range");
  }
  const address = await ask("location.hash");
  await send("Page.navigate", { url: `file://${path.resolve(page)}?again${address}` });
  await ask(`new Promise(done => setTimeout(done, 300))`);
  await ask(`new Promise(done => { const ready = () => document.readyState === "complete" ? done() : setTimeout(ready, 20); ready(); })`);
  console.log(`by its address: ${(await text("whole")).split(",")[0]}`);
}
async function end(status) {
  session = undefined;
  const closed = new Promise(done => child.on("exit", done));
  send("Browser.close");
  await Promise.race([closed, new Promise(late => setTimeout(late, 5000))]);
  child.kill("SIGKILL");
  fs.rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  process.exit(status);
}
child.on("error", error => { console.error(error.message); process.exit(1); });
read().then(() => end(0), error => { console.error(error); end(1); });
