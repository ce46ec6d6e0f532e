// The page: opens the data and puts the pictures in their place.

import { Clock } from "./clock";
import { THEMES } from "./colors";
import { type Missing, open } from "./data";
import { el } from "./dom";
import { fallbacks, held, takers } from "./fallbacks";
import { BlockMap } from "./map";
import { freeMemory, occupancy, unusable, work } from "./memory";

const started = performance.now();

function contents(): void {
  const nav = document.getElementById("contents");
  const links = [...document.querySelectorAll<HTMLElement>("main section[id]")].map((section) =>
    el("a", { href: `#${section.id}` }, section.querySelector("h2")?.textContent ?? section.id),
  );
  nav?.replaceChildren(...links);
}

/** Runs without a history, and how to get one. */
function without(missing: Missing[]): HTMLElement {
  const items = missing.map((run) => {
    const again = run.kind === "simulated" || run.kind === "replayed";
    const text = again
      ? " was saved without the history of its memory. This makes it: "
      : run.kind === "recorded"
        ? " is a recording that does not show the state of memory over time; the notes below say why."
        : " ran on a real kernel, and nothing recorded the state of its memory over time.";
    return el("li", {}, el("b", {}, run.name), text, ...(again ? [el("code", {}, run.command)] : []));
  });
  return el("section", { id: "without" }, el("h2", {}, "Without pictures"), el("ul", {}, ...items));
}

async function main(): Promise<void> {
  const pictures = document.getElementById("pictures");
  const state = document.getElementById("state");
  if (!pictures || !state) return;
  try {
    const { subjects, missing } = await open();
    const sampled = subjects.filter(({ history }) => history.samples > 0 && history.blocks > 0);
    if (sampled.length) {
      const clock = new Clock(sampled);
      pictures.append(
        new BlockMap(clock).element,
        freeMemory(clock),
        occupancy(clock),
        unusable(clock),
        fallbacks(clock),
        held(clock),
        takers(clock),
        work(clock),
      );
    } else if (!missing.length) {
      pictures.append(el("p", { class: "empty" }, "Nothing was sampled: the runs ended before they began."));
    }
    if (missing.length) pictures.append(without(missing));
    state.remove();
  } catch (error) {
    state.className = "warning";
    state.textContent = `The pictures cannot be drawn: ${error instanceof Error ? error.message : String(error)}`;
  }
  contents();
  // For the test of the page.
  Object.assign(window, { pageblockThemes: THEMES, pageblockReadyMs: performance.now() - started });
  document.documentElement.dataset.ready = "yes";
}

void main();
