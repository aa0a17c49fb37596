// Functions of JavaScript whose callers are known, with calls of C++ and of OpenSSL in between.
const crypto = require("crypto");

function jsLeaf(n) {
  let sum = 0;
  for (let i = 0; i < 40; i++) sum += (n * i) % 7;
  return sum;
}

function jsFib(n) {
  return n < 2 ? jsLeaf(n) : jsFib(n - 1) + jsFib(n - 2);
}

function jsHashes(n) {
  let sum = 0;
  for (let i = 0; i < n; i++) sum += crypto.createHash("sha256").update("text" + i).digest()[0];
  return sum;
}

function jsParses(n) {
  const text = JSON.stringify({ numbers: [1, 2, 3], text: "text", object: { one: 1 } });
  let sum = 0;
  for (let i = 0; i < n; i++) sum += JSON.parse(text).numbers[1];
  return sum;
}

function jsSorts(n) {
  const numbers = Array.from({ length: n }, (_, i) => (i * 7919) % 1009);
  return numbers.sort((one, two) => one - two)[0];
}

function jsMain() {
  const end = Date.now() + 2000;
  let sum = 0;
  while (Date.now() < end) sum += jsFib(15) + jsHashes(300) + jsParses(1000) + jsSorts(1000);
  return sum;
}

if (jsMain() < 0) process.exit(1);
