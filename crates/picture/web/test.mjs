// Tests the page in a real browser: node test.mjs PROGRAM [REPORT.html ...]
// PROGRAM is a built `pageblock`; it makes reports of a small simulation and of the shipped recording. Reports that are
// named are tested too. CHROMIUM names the browser, PICTURES a folder that pictures of every view are written to.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { chromium } from "playwright-core";

const [path, ...given] = process.argv.slice(2);
assert.ok(path, "the path of a built pageblock is missing");
const program = resolve(path);
const root = new URL("../../..", import.meta.url).pathname;
const folder = mkdtempSync(join(tmpdir(), "pageblock-page-"));
const pictures = process.env.PICTURES;
if (pictures) mkdirSync(pictures, { recursive: true });
const SECTIONS = ["map", "free", "occupancy", "unusable", "fallbacks", "held", "takers", "work", "sources"];

function make() {
  const run = (...args) => execFileSync(program, args, { stdio: ["ignore", "ignore", "inherit"], cwd: root });
  const at = (name) => join(folder, name);
  const policies = ["--policy", "linux-6.9", "--policy", "linux-6.10"];
  const small = ["run", "thpfioscale-madvhugepage", ...policies, "--scale", "1/32"];
  run(...small, "--seeds", "2", "--pictures", "--save", at("runs.json"));
  run("report", at("runs.json"), "-o", at("runs.html"));
  run("report", "recordings/debian-6.12-640m", "--policy", "linux-6.9", "-o", at("recording.html"));
  return ["runs.html", "recording.html"].map(at);
}

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox"],
});

/** Opens a page and fails on whatever the browser complains of, and on any request that leaves the file. */
async function open(file, options = {}) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, reducedMotion: "reduce", ...options });
  const wrong = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) wrong.push(message.text());
  });
  page.on("pageerror", (error) => wrong.push(String(error)));
  page.on("request", (request) => {
    if (!/^(file|data|blob):/.test(request.url())) wrong.push(`network: ${request.url()}`);
  });
  const started = Date.now();
  await page.goto(`file://${file}`);
  await page.waitForSelector("html[data-ready=yes]");
  await page.waitForTimeout(200);
  return { page, wrong, ms: Date.now() - started };
}

/** The canvas as bytes, to tell whether it changed. */
const picture = (page, selector) => page.$eval(selector, (canvas) => canvas.toDataURL());

async function views(file) {
  const { page, wrong, ms } = await open(file);
  for (const id of SECTIONS) assert.equal(await page.locator(`#${id}`).count(), 1, `${file}: ${id}`);
  const blank = await page.$$eval("canvas", (all) =>
    all.filter((canvas) => {
      const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
      return pixels.every((byte) => byte === 0);
    }).length,
  );
  assert.equal(blank, 0, `${file}: blank canvases`);
  if (pictures) {
    for (const id of SECTIONS) {
      await page.locator(`#${id}`).screenshot({ path: join(pictures, `${basename(file, ".html")}-${id}.png`) });
    }
  }
  await interact(page, file);
  assert.deepEqual(wrong, [], file);
  const ready = await page.evaluate("pageblockReadyMs");
  console.log(`${basename(file)}: ${statSync(file).size} bytes, opened in ${ms} ms, drawn in ${Math.round(ready)} ms`);
  await page.close();
}

async function interact(page, file) {
  const map = ".maps canvas >> nth=0";
  const first = page.locator(".maps canvas").first();
  // Hover.
  await first.evaluate((canvas) => canvas.scrollIntoView({ block: "center" }));
  await page.waitForTimeout(300);
  const box = await first.boundingBox();
  for (const dy of [0, 3, 6, 9]) await page.mouse.move(box.x + 60, box.y + box.height / 2 + dy);
  await page.waitForSelector("#detail canvas");
  const block = await page.textContent("#detail");
  assert.match(block, /frames \d+ to \d+, node \d+ \w+; type \w+, content [\w' ]+, \d\/8 free/, file);
  // Keys.
  await first.focus();
  await page.keyboard.press("ArrowLeft");
  assert.notEqual(await page.textContent("#detail"), block, `${file}: arrow key`);
  // Scrub.
  const end = await picture(page, ".maps canvas");
  const words = await page.textContent(".maps .words");
  await page.$eval("#moment", (slider) => {
    slider.value = "0";
    slider.dispatchEvent(new Event("input"));
  });
  await page.waitForTimeout(100);
  assert.notEqual(await picture(page, ".maps canvas"), end, `${file}: scrub draws`);
  assert.notEqual(await page.textContent(".maps .words"), words, `${file}: scrub counts`);
  // Play.
  await page.click("#play");
  await page.waitForTimeout(500);
  await page.click("#play");
  assert.ok(Number(await page.inputValue("#moment")) > 2, `${file}: play moves`);
  // A click on a curve sets the moment.
  const over = page.locator("#free .u-over").first();
  await over.evaluate((element) => element.scrollIntoView({ block: "center" }));
  await page.waitForTimeout(300);
  const chart = await over.boundingBox();
  await page.mouse.move(chart.x + chart.width / 2, chart.y + 20);
  await page.mouse.down();
  await page.mouse.up();
  await page.waitForTimeout(100);
  const [now, last] = [Number(await page.inputValue("#moment")), Number(await page.getAttribute("#moment", "max"))];
  assert.ok(Math.abs(now / last - 0.5) < 0.35, `${file}: a click on a curve sets the moment`);
  // Arrangements and zoom.
  for (const how of ["1", "16", "hilbert", "auto"]) {
    const before = await page.$eval(map, (canvas) => [canvas.width, canvas.height]);
    await page.selectOption("#arrange", how);
    await page.waitForTimeout(50);
    const after = await page.$eval(map, (canvas) => [canvas.width, canvas.height]);
    if (how === "16") assert.notDeepEqual(after, before, `${file}: ${how}`);
  }
  await page.click("text=+");
  await page.selectOption("#axis", "samples");
  await page.selectOption("#axis", "time");
  // One alone, and two.
  if ((await page.locator("#choose-b").count()) > 0) {
    assert.equal(await page.locator(".maps canvas").count(), 3, `${file}: A, B and the difference`);
    await page.selectOption("#choose-b", "-1");
    await page.waitForTimeout(100);
    assert.equal(await page.locator(".maps canvas").count(), 1, `${file}: A alone`);
    await page.selectOption("#choose-b", "1");
  }
}

async function shapes(file) {
  for (const [name, options] of [
    ["dark", { colorScheme: "dark" }],
    ["phone", { viewport: { width: 375, height: 812 }, deviceScaleFactor: 2 }],
    ["narrow", { viewport: { width: 320, height: 640 } }],
  ]) {
    const { page, wrong } = await open(file, options);
    const over = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");
    assert.ok(over <= 0, `${file}: ${name}: ${over} px too wide`);
    if (pictures) await page.screenshot({ path: join(pictures, `${basename(file, ".html")}-${name}.png`) });
    assert.deepEqual(wrong, [], `${file}: ${name}`);
    await page.close();
  }
}

/** A page whose data is damaged says so, and keeps its tables. */
async function damaged(file) {
  const html = readFileSync(file, "utf8");
  const broken = join(folder, "broken.html");
  writeFileSync(broken, html.replace(/(<script id="data"[^>]*>)[^<]{40}/, "$1"));
  const page = await browser.newPage();
  await page.goto(`file://${broken}`);
  await page.waitForSelector("html[data-ready=yes]");
  assert.match(await page.textContent("#state"), /^The pictures cannot be drawn: /);
  assert.ok((await page.locator("#sources").count()) === 1);
  await page.close();
}

// How the colour-blind see (Machado, Oliveira and Fernandes 2009, severity 1), on linear RGB.
const SIGHT = {
  all: [1, 0, 0, 0, 1, 0, 0, 0, 1],
  protan: [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998],
  deutan: [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881],
  tritan: [1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.3039],
};

function lab(hex, sight) {
  const linear = [1, 3, 5].map((at) => {
    const value = parseInt(hex.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  const m = SIGHT[sight];
  const rgb = [0, 3, 6].map((row) => Math.min(1, Math.max(0, m[row] * linear[0] + m[row + 1] * linear[1] + m[row + 2] * linear[2])));
  const [r, g, b] = rgb;
  const xyz = [
    (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505,
    0.2126 * r + 0.7152 * g + 0.0722 * b,
    (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089,
  ].map((value) => (value > 0.008856 ? Math.cbrt(value) : 7.787 * value + 16 / 116));
  return [116 * xyz[1] - 16, 500 * (xyz[0] - xyz[1]), 200 * (xyz[1] - xyz[2])];
}

/** Everyone can distinguish the classes of the map, by their lightness alone. */
async function colours(file) {
  const { page } = await open(file);
  const themes = await page.evaluate("pageblockThemes");
  await page.close();
  for (const [theme, { content }] of Object.entries(themes)) {
    let [least, grey] = [Infinity, Infinity];
    const classes = content.slice(1);
    classes.forEach((one, at) => {
      for (const other of classes.slice(at + 1)) {
        grey = Math.min(grey, Math.abs(lab(one, "all")[0] - lab(other, "all")[0]));
        for (const sight of Object.keys(SIGHT)) {
          const [a, b] = [lab(one, sight), lab(other, sight)];
          least = Math.min(least, Math.hypot(...a.map((value, axis) => value - b[axis])));
        }
      }
    });
    console.log(`${theme}: nearest two classes differ by ${least.toFixed(1)} (Lab), by ${grey.toFixed(1)} in lightness`);
    assert.ok(least >= 12 && grey >= 8, theme);
  }
}

try {
  const reports = [...(program ? make() : []), ...given.map((file) => resolve(file))];
  await colours(reports[0]);
  await damaged(reports[0]);
  for (const file of reports) await views(file);
  for (const file of reports) await shapes(file);
  console.log("every view is drawn");
} finally {
  await browser.close();
  rmSync(folder, { recursive: true, force: true });
}
