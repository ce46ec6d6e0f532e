// Checks the page's program and bundles it with its style into ../src/page, which is committed: cargo needs no Node.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const here = new URL(".", import.meta.url).pathname;
const out = `${here}../src/page/`;
execFileSync(process.execPath, [`${here}node_modules/typescript/bin/tsc`, "-p", here], { stdio: "inherit" });
const uplot = `${here}node_modules/uplot/`;
const licence = readFileSync(`${uplot}LICENSE`, "utf8");
const version = JSON.parse(readFileSync(`${uplot}package.json`, "utf8")).version;
const shared = { bundle: true, minify: true, target: "es2022", write: false, legalComments: "none", charset: "utf8" };
const program = await build({ ...shared, entryPoints: [`${here}src/main.ts`], format: "iife" });
const style = await build({ ...shared, entryPoints: [`${here}src/page.css`] });
const text = program.outputFiles[0].text;
if (text.includes("</script")) throw new Error("the program would end its script element");
const head = `/* Built by web/build.mjs from web/src. uPlot ${version}:\n${licence.trim()} */\n`;
writeFileSync(`${out}page.js`, head + text);
writeFileSync(`${out}page.css`, style.outputFiles[0].text);
console.log(`page.js ${head.length + text.length} bytes, page.css ${style.outputFiles[0].text.length} bytes`);
