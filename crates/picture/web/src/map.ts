// The map of pageblocks: A, B and their difference, with a player and the history of a block.

import type { Clock } from "./clock";
import { onTheme, theme } from "./colors";
import { CONTENT_NAMES, Content, type History, type Subject } from "./data";
import { count, el, section, time } from "./dom";
import { chooseColumns, hilbert, type Layout, perGigabyte, rows } from "./layout";
import { frame, paint, paintDifference, prepare, strip } from "./paint";

const PLAY_MS = 60;

interface View {
  subject: Subject;
  canvas: HTMLCanvasElement;
  figure: HTMLElement;
  words: HTMLElement;
  layout: Layout;
}

/** Two machines that have the same pageblocks can be subtracted. */
export function comparable(a: History, b: History): boolean {
  const zones = (history: History) => history.raw.zones.map((zone) => [zone.node, zone.zone, zone.start, zone.blocks]);
  return a.blockPages === b.blockPages && JSON.stringify(zones(a)) === JSON.stringify(zones(b));
}

export class BlockMap {
  readonly element: HTMLElement;
  private readonly views = el("div", { class: "maps" });
  private readonly slider = el("input", { type: "range", min: 0, step: 1, "aria-label": "Moment", id: "moment" });
  private readonly now = el("output", { for: "moment" });
  private readonly play = el("button", { type: "button", id: "play" }, "Play");
  private readonly detail = el("div", { class: "detail", "aria-live": "polite", id: "detail" });
  private readonly arrange = el("select", { id: "arrange" });
  private shown: View[] = [];
  private difference: { canvas: HTMLCanvasElement; words: HTMLElement; layout: Layout } | null = null;
  private block = -1;
  private timer = 0;

  constructor(private readonly clock: Clock) {
    this.element = section(
      "map",
      "Pageblocks over time",
      "A cell is a pageblock, in the order of physical addresses; gigabytes begin a band of their own. The colour " +
        "says what is in it, the size of a dot how many pages that cannot be moved hold a block that movable pages share, a " +
        "stroke that most of its pages are of another type than the block.",
    );
    this.element.append(this.legend(), this.choice(), this.player(), this.views, this.detail);
    clock.onMove(() => this.draw());
    clock.onChange(() => this.build());
    onTheme(() => {
      this.element.querySelector(".legend")?.replaceWith(this.legend());
      this.draw();
    });
    let width = 0;
    new ResizeObserver(() => {
      if (this.element.clientWidth === width) return;
      width = this.element.clientWidth;
      this.build();
    }).observe(this.element);
  }

  private legend(): HTMLElement {
    const colors = theme();
    const kinds = [Content.Free, Content.Movable, Content.Reclaimable, Content.Mixed, Content.Unmovable, Content.Reserved];
    const marks = [
      el("li", {}, sample("dot"), "held by few pages, by many"),
      el("li", {}, sample("stroke"), "content of another type than the block"),
    ];
    function sample(kind: string): HTMLElement {
      const canvas = el("canvas", { "aria-hidden": "true" });
      const context = prepare(canvas, 34, 16);
      [0, 18].forEach((x, at) => {
        const content = kind === "dot" ? Content.Mixed : at ? Content.Unmovable : Content.Movable;
        context.fillStyle = colors.content[content];
        context.fillRect(x, 0, 16, 16);
        context.fillStyle = context.strokeStyle = colors.mark[content];
        context.beginPath();
        if (kind === "dot") context.arc(x + 8, 8, at ? 6 : 2, 0, 7);
        else {
          context.moveTo(x, 16);
          context.lineTo(x + 16, 0);
        }
        if (kind === "dot") context.fill();
        else context.stroke();
      });
      return canvas;
    }
    const items = kinds.map((kind) => {
      const swatch = el("span", { class: "swatch", "aria-hidden": "true" });
      swatch.style.background = colors.content[kind];
      return el("li", {}, swatch, CONTENT_NAMES[kind]);
    });
    return el("ul", { class: "legend" }, ...items, ...marks);
  }

  /** Which runs are shown, and how. */
  private choice(): HTMLElement {
    const { clock } = this;
    const options = (none: boolean) => [
      ...(none ? [el("option", { value: -1 }, "nothing")] : []),
      ...clock.subjects.map((subject, at) => el("option", { value: at }, `${subject.letter} ${subject.name}`)),
    ];
    const a = el("select", { id: "choose-a" }, ...options(false));
    const b = el("select", { id: "choose-b" }, ...options(true));
    a.value = "0";
    b.value = clock.b ? "1" : "-1";
    const choose = () => clock.show(clock.subjects[Number(a.value)], clock.subjects[Number(b.value)] ?? null);
    a.addEventListener("change", choose);
    b.addEventListener("change", choose);
    for (const [value, text] of [
      ["auto", "to fit"],
      ["1", "a gigabyte a row"],
      ["2", "half a gigabyte"],
      ["4", "a quarter"],
      ["8", "an eighth"],
      ["16", "a sixteenth"],
      ["hilbert", "Hilbert curve"],
    ]) {
      this.arrange.append(el("option", { value }, text));
    }
    this.arrange.addEventListener("change", () => this.build());
    const zoom = (by: number) => {
      const order = ["1", "2", "4", "8", "16"];
      const at = order.indexOf(this.arrange.value);
      const first = this.shown[0];
      const fits = first ? perGigabyte(first.subject.history) / this.columns(first.subject.history) : 1;
      const from = at >= 0 ? at : Math.max(0, order.indexOf(String(fits)));
      this.arrange.value = order[Math.max(0, Math.min(order.length - 1, from + by))];
      this.build();
    };
    const button = (text: string, label: string, by: number) => {
      const made = el("button", { type: "button", "aria-label": label }, text);
      made.addEventListener("click", () => zoom(by));
      return made;
    };
    const label = (text: string, input: HTMLElement) => el("label", {}, text, input);
    return el(
      "div",
      { class: "controls" },
      label("Show ", a),
      ...(clock.subjects.length > 1 ? [label("beside ", b)] : []),
      label("Rows ", this.arrange),
      button("\u2212", "Smaller cells", -1),
      button("+", "Larger cells", 1),
    );
  }

  private player(): HTMLElement {
    const { clock, slider, play } = this;
    slider.addEventListener("input", () => clock.go(Number(slider.value)));
    play.addEventListener("click", () => (this.timer ? this.stop() : this.start()));
    const axis = el("select", { id: "axis" }, el("option", { value: "time" }, "time"), el("option", { value: "samples" }, "progress"));
    axis.value = clock.axis;
    axis.addEventListener("change", () => clock.draw(axis.value === "time" ? "time" : "samples"));
    return el("div", { class: "controls player" }, play, slider, this.now, el("label", {}, "Curves over ", axis));
  }

  private start(): void {
    const { clock } = this;
    if (clock.sample >= clock.last) clock.go(0);
    this.play.textContent = "Pause";
    this.timer = window.setInterval(() => {
      if (clock.sample >= clock.last) this.stop();
      else clock.go(clock.sample + 1);
    }, PLAY_MS);
  }

  private stop(): void {
    window.clearInterval(this.timer);
    this.timer = 0;
    this.play.textContent = "Play";
  }

  private columns(history: History): number {
    const gigabyte = perGigabyte(history);
    const part = Number(this.arrange.value);
    return part ? Math.max(1, gigabyte / part) : chooseColumns(history, this.width(), this.height());
  }

  private width(): number {
    const all = Math.max(200, this.element.clientWidth);
    const views = this.clock.b ? 3 : 1;
    // Side by side where each is wide enough to be read.
    const beside = Math.min(views, all >= 1000 ? 3 : all >= 700 ? 2 : 1);
    return Math.floor((all - 24 * (beside - 1)) / beside);
  }

  private height(): number {
    return Math.max(400, window.innerHeight);
  }

  private layoutOf(history: History): Layout {
    return this.arrange.value === "hilbert"
      ? hilbert(history, this.width(), this.height())
      : rows(history, this.columns(history), this.width());
  }

  /** Redraws the canvases: other runs, or another width. */
  private build(): void {
    if (this.element.clientWidth === 0) return;
    const { clock } = this;
    this.slider.max = String(clock.last);
    this.shown = clock.shown().map((subject) => {
      const layout = this.layoutOf(subject.history);
      const canvas = el("canvas", { tabindex: 0, role: "img", "aria-label": `Pageblocks of ${subject.name}` });
      const words = el("p", { class: "words" });
      const head = el("figcaption", {}, el("b", {}, `${subject.letter} `), subject.name);
      const figure = el("figure", {}, head, el("div", { class: "scroll" }, canvas), words);
      figure.style.width = `${this.width()}px`;
      const view = { subject, canvas, figure, words, layout };
      this.listen(canvas, layout, subject.history);
      return view;
    });
    this.difference = null;
    const figures = this.shown.map((view) => view.figure);
    if (clock.b) figures.push(this.buildDifference(clock.a, clock.b));
    this.views.replaceChildren(...figures);
    this.draw();
  }

  private buildDifference(a: Subject, b: Subject): HTMLElement {
    const head = el("figcaption", {}, el("b", {}, "Difference "), "blocks held by pages that cannot be moved");
    const words = el("p", { class: "words" });
    if (!comparable(a.history, b.history)) {
      words.textContent = "The two machines have other pageblocks: nothing can be subtracted.";
      return el("figure", {}, head, words);
    }
    const layout = this.layoutOf(a.history);
    const width = `${this.width()}px`;
    const label = `Pageblocks held in ${a.name} only, in ${b.name} only, and in both`;
    const canvas = el("canvas", { tabindex: 0, role: "img", "aria-label": label, id: "difference" });
    this.listen(canvas, layout, a.history);
    this.difference = { canvas, words, layout };
    const figure = el("figure", {}, head, el("div", { class: "scroll" }, canvas), words);
    figure.style.width = width;
    return figure;
  }

  private listen(canvas: HTMLCanvasElement, layout: Layout, history: History): void {
    const pick = (event: PointerEvent) => {
      const box = canvas.getBoundingClientRect();
      const block = layout.at(event.clientX - box.left, event.clientY - box.top);
      if (block >= 0 && block !== this.block) this.select(block);
    };
    canvas.addEventListener("pointermove", pick);
    canvas.addEventListener("pointerdown", pick);
    canvas.addEventListener("keydown", (event) => {
      const columns = this.arrange.value === "hilbert" ? 1 : this.columns(history);
      const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
      if (event.key === " ") this.play.click();
      else if (event.key === "," || event.key === ".") this.clock.go(this.clock.sample + (event.key === "," ? -1 : 1));
      else if (step !== undefined) this.select(Math.max(0, Math.min(history.blocks - 1, Math.max(0, this.block) + step)));
      else return;
      event.preventDefault();
    });
  }

  private select(block: number): void {
    this.block = block;
    this.draw();
  }

  private draw(): void {
    const { clock } = this;
    const colors = theme();
    this.slider.value = String(clock.sample);
    const times = clock.shown().map((subject) => time(subject.history.seconds[clock.of(subject)] ?? 0));
    this.now.textContent = times.map((text, at) => (times.length > 1 ? `${clock.shown()[at].letter} ${text}` : text)).join(", ");
    this.slider.setAttribute("aria-valuetext", this.now.textContent);
    for (const { subject, canvas, layout, words } of this.shown) {
      const sample = clock.of(subject);
      paint(canvas, subject.history, sample, layout, colors);
      if (this.block >= 0) frame(canvas, layout, this.block, colors);
      words.textContent = sentence(subject.history, sample);
    }
    if (this.difference && clock.b) {
      const { canvas, words, layout } = this.difference;
      const [a, b] = [clock.a, clock.b];
      const [onlyA, onlyB, both] = paintDifference(
        canvas,
        [a.history, clock.of(a)],
        [b.history, clock.of(b)],
        layout,
        colors,
      );
      if (this.block >= 0) frame(canvas, layout, this.block, colors);
      const key = (color: string, text: string) => {
        const swatch = el("span", { class: "swatch", "aria-hidden": "true" });
        swatch.style.background = color;
        return el("span", { class: "key" }, swatch, text);
      };
      words.replaceChildren(
        key(colors.onlyA, `${count(onlyA)} in ${a.letter} only (bar)`),
        key(colors.onlyB, `${count(onlyB)} in ${b.letter} only (cross)`),
        key(colors.both, `${count(both)} in both`),
      );
    }
    this.explain();
  }

  /** Says what the chosen block is, and draws its history. */
  private explain(): void {
    if (this.block < 0) {
      this.detail.replaceChildren(
        el("p", { class: "says" }, "Point at a block, or move with the arrow keys, for its history; space plays, comma and full stop step."),
      );
      return;
    }
    const parts = this.shown
      .filter(({ subject }) => this.block < subject.history.blocks)
      .map(({ subject }) => {
        const canvas = el("canvas", { "aria-hidden": "true" });
        const box = el("div", {}, el("p", {}, describe(subject, this.block, this.clock.of(subject))), canvas);
        return { box, canvas, subject };
      });
    this.detail.replaceChildren(...parts.map(({ box }) => box));
    for (const { canvas, subject } of parts) strip(canvas, subject.history, this.block, this.clock.of(subject), theme());
  }
}

/** What the map shows, in a sentence. */
function sentence(history: History, sample: number): string {
  const counts = new Array<number>(7).fill(0);
  let foreign = 0;
  let held = 0;
  for (let block = 0, at = sample * history.blocks; block < history.blocks; block++, at++) {
    counts[history.content[at]]++;
    foreign += history.foreign[at];
    if (history.content[at] !== Content.Reserved && history.stuck[at] > 0) held++;
  }
  const all = history.blocks - counts[Content.Hole] - counts[Content.Reserved];
  const share = all ? ((100 * held) / all).toFixed(1) : "0";
  return (
    `${count(held)} of ${count(all)} blocks (${share} %) hold pages that cannot be moved; ${count(counts[Content.Free])} free, ` +
    `${count(counts[Content.Movable])} movable, ${count(counts[Content.Reclaimable])} reclaimable, ` +
    `${count(counts[Content.Mixed])} mixed, ${count(counts[Content.Unmovable])} unmovable; ` +
    `${count(foreign)} with content of another type.`
  );
}

function describe({ history, letter }: Subject, block: number, sample: number): string {
  const at = sample * history.blocks + block;
  const zone = history.raw.zones[history.zoneOf[block]];
  const frames = history.number[block] * history.blockPages;
  const since = sinceWhen(history, block, sample);
  return (
    `${letter}: frames ${frames} to ${frames + history.blockPages - 1}, node ${zone.node} ${zone.zone}; type ` +
    `${history.raw.types[history.type[at]]}, content ${CONTENT_NAMES[history.content[at]]}, ${history.eighths[at]}/8 free, ` +
    `${history.stuck[at]} pages cannot be moved${since}`
  );
}

/** Since when the block is held without a break. */
function sinceWhen(history: History, block: number, sample: number): string {
  let first = sample;
  while (first >= 0 && history.stuck[first * history.blocks + block] > 0) first--;
  if (first === sample) return "";
  return first < 0 ? ", held since the beginning" : `, held since ${time(history.seconds[first + 1])}`;
}
