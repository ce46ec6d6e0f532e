// Fallbacks between types, who made them, and how many pages hold the blocks that are lost.

import type { Clock } from "./clock";
import { onTheme, theme } from "./colors";
import { Content, type FallbackCount, type History, type Subject } from "./data";
import { bytes, count, el, section, table } from "./dom";

const TYPES = ["Unmovable", "Movable", "Reclaimable"];
const EFFECTS: [string, string][] = [
  ["claims", "The block changes to the type of the request."],
  ["pollutions", "The block keeps its type and gets pages that cannot be moved."],
  ["steals", "The block keeps its type and gets movable pages."],
];

/** A picture that is redrawn when other runs are shown. */
function remade(clock: Clock, make: () => Node[], moves = false): HTMLElement {
  const element = el("div");
  const build = () => element.replaceChildren(...make());
  clock.onChange(build);
  if (moves) clock.onMove(build);
  onTheme(build);
  build();
  return element;
}

export function fallbacks(clock: Clock): HTMLElement {
  const element = section(
    "fallbacks",
    "Claims, pollutions and steals",
    "Rows are the type that was requested, columns the type of the list that served it. Large: different pageblocks that were " +
      "taken from; small: events. A thousand steals from one block are one block.",
  );
  element.append(
    remade(clock, () => EFFECTS.map(([effect, says]) => matrices(clock, effect, says))),
  );
  return element;
}

function matrices(clock: Clock, effect: string, says: string): HTMLElement {
  const shown = clock.shown();
  const all = shown.map(({ history }) => history.raw.fallbacks.filter((row) => row.effect === effect));
  const most = Math.max(1, ...all.flat().map((row) => row.blocks));
  const parts = shown.map((subject, at) => matrix(subject, effect, all[at], most));
  return el("div", {}, el("h3", {}, effect[0].toUpperCase() + effect.slice(1)), el("p", { class: "says" }, says), el("div", { class: "side" }, ...parts));
}

function matrix(subject: Subject, effect: string, counts: FallbackCount[], most: number): HTMLElement {
  const extra = counts.flatMap((row) => [row.requested, row.from]).filter((type) => !TYPES.includes(type));
  const types = [...TYPES, ...new Set(extra)];
  const rows = types
    .filter((type) => TYPES.includes(type) || counts.some((row) => row.requested === type))
    .map((requested) => [
      requested,
      ...types.map((from) => {
        const found = counts.find((row) => row.requested === requested && row.from === from);
        return el("span", { class: "heat" }, ...(found ? heat(found, most) : [requested === from ? "" : "0"]));
      }),
    ]);
  const made = table(`${subject.letter} ${subject.name}: ${effect}`, ["requested \u2193 from \u2192", ...types], rows);
  made.querySelectorAll<HTMLElement>(".heat").forEach((cell) => {
    const blocks = Number(cell.querySelector("b")?.dataset.blocks ?? 0);
    const share = blocks ? 0.15 + 0.6 * (Math.log2(1 + blocks) / Math.log2(1 + most)) : 0;
    const parent = cell.parentElement;
    if (parent && share) parent.style.background = `color-mix(in srgb, ${theme().lines[1]} ${Math.round(share * 100)}%, transparent)`;
  });
  return made;
}

function heat(found: FallbackCount, most: number): Node[] {
  const share = Math.round((100 * found.blocks) / most);
  return [
    el("b", { "data-blocks": found.blocks, title: `${share} % of the most` }, count(found.blocks)),
    el("small", {}, ` ${count(found.events)} event${found.events === 1 ? "" : "s"}`),
  ];
}

const STEPS = [1, 2, 3, 4, 8, 16, 32, 64, 128, 256];

/** By number of pages: blocks that hold that many or fewer that cannot be moved, and all that hold any. */
function heldBy(history: History, sample: number): { upTo: number[]; all: number } {
  const upTo = new Array<number>(STEPS.length).fill(0);
  let all = 0;
  for (let block = 0, at = sample * history.blocks; block < history.blocks; block++, at++) {
    const stuck = history.stuck[at];
    if (!stuck || history.content[at] === Content.Reserved) continue;
    all++;
    STEPS.forEach((step, index) => {
      if (stuck <= step) upTo[index]++;
    });
  }
  return { upTo, all };
}

export function held(clock: Clock): HTMLElement {
  const element = section(
    "held",
    "Blocks held by few pages",
    "How many pageblocks hold pages that cannot be moved, but no more than so many: what moving or avoiding those few pages " +
      "would give back. At the moment of the map.",
  );
  const make = () => {
    const shown = clock.shown().map((subject) => ({ subject, of: heldBy(subject.history, clock.of(subject)) }));
    const most = Math.max(1, ...shown.map(({ of }) => of.all));
    const row = (label: string, pick: (of: { upTo: number[]; all: number }) => number) => [
      label,
      ...shown.flatMap(({ of, subject }) => [bar(pick(of), most, subject === clock.b ? 1 : 0)]),
    ];
    const rows = STEPS.map((step, at) => row(step === 1 ? "1 page" : `${step} or fewer`, (of) => of.upTo[at]));
    rows.push(row("any number", (of) => of.all));
    const heads = ["pages", ...shown.map(({ subject }) => `${subject.letter}: blocks`)];
    return [table("Blocks held by k pages or fewer", heads, rows)];
  };
  element.append(remade(clock, make, true));
  return element;
}

function bar(value: number, most: number, line: number): HTMLElement {
  const fill = el("span", { class: "bar", "aria-hidden": "true" });
  fill.style.width = `${(100 * value) / most}%`;
  fill.style.background = theme().lines[line];
  return el("span", { class: "barred" }, fill, el("span", {}, count(value)));
}

const TAKERS = 15;

export function takers(clock: Clock): HTMLElement {
  const element = section(
    "takers",
    "Who took them",
    "Lost: blocks that at the end hold pages that cannot be moved and that this command was the last to claim or pollute since " +
      "they held none. What a command only keeps in blocks of its own type is not in it.",
  );
  element.append(remade(clock, () => clock.shown().map(takerTable)));
  return element;
}

function takerTable({ history, letter, name, kind }: Subject): HTMLElement {
  const all = history.raw.takers;
  if (!all.length) return el("p", { class: "empty" }, `${letter} ${name}: no request took from a block of another type.`);
  if (kind === "replayed") {
    return el("p", { class: "empty" }, `${letter} ${name}: a free replay does not know which command asked.`);
  }
  const sites = all.some((taker) => taker.site);
  const rows = all.slice(0, TAKERS).map((taker) => [
    taker.command,
    ...(sites ? [taker.site ?? ""] : []),
    count(taker.lost),
    bytes(taker.lost * history.blockPages),
    count(taker.stuck),
    count(taker.blocks),
    count(taker.claims),
    count(taker.pollutions),
    count(taker.steals),
  ]);
  const heads = ["command", ...(sites ? ["asked from"] : []), "blocks lost", "of memory", "pages in them", "blocks taken from", "claims", "pollutions", "steals"];
  const more = all.length > TAKERS ? `, ${TAKERS} of ${all.length}` : "";
  return table(`${letter} ${name}: who took blocks of other types${more}`, heads, rows);
}
