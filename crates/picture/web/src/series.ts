// Curves over time, by uPlot.

import uPlot from "uplot";
import type { Clock } from "./clock";
import { onTheme, theme } from "./colors";
import type { Subject } from "./data";
import { el, time } from "./dom";

/** One curve, or one layer of a stack. */
export interface Curve {
  label: string;
  values: (number | null)[];
  color: string;
  dash?: number[];
}

export interface Chart {
  title: string;
  /** What the vertical axis counts. */
  unit: string;
  curves: Curve[];
  stacked?: boolean;
  /** Intervals to be marked, by sample. */
  marked?: boolean[];
  top?: number;
  height?: number;
  legend?: boolean;
}

/** Makes the chart of one run; `null` where the run has no data for it. */
export type ChartOf = (subject: Subject) => Chart | null;

/** Charts of the runs that are shown, beside each other and on one scale. */
export class Charts {
  readonly element = el("div", { class: "charts" });
  private plots: { plot: uPlot; subject: Subject; host: HTMLElement }[] = [];
  private width = 0;

  constructor(
    private readonly clock: Clock,
    private readonly charts: ChartOf[],
    private readonly small = false,
  ) {
    if (small) this.element.classList.add("small");
    clock.onChange(() => this.build());
    clock.onMove(() => this.plots.forEach(({ plot }) => plot.redraw(false, false)));
    onTheme(() => this.build());
    new ResizeObserver(() => {
      if (Math.abs(this.element.clientWidth - this.width) > 8) this.build();
    }).observe(this.element);
  }

  private build(): void {
    this.plots.forEach(({ plot }) => plot.destroy());
    this.plots = [];
    this.width = this.element.clientWidth;
    if (this.width === 0) return;
    const shown = this.clock.shown();
    const groups: HTMLElement[] = [];
    for (const chartOf of this.charts) {
      const made = shown.map((subject) => ({ subject, chart: chartOf(subject) }));
      const tops = made.map(({ chart }) => (chart ? highest(chart) : 0));
      const top = Math.max(...tops);
      const group = el("div", { class: "group" });
      for (const { subject, chart } of made) {
        if (chart) group.append(this.one(subject, { ...chart, top: chart.top ?? top }, shown.length));
      }
      if (group.childElementCount) groups.push(group);
    }
    if (!groups.length) groups.push(el("p", { class: "empty" }, "Nothing of this was counted."));
    this.element.replaceChildren(...groups);
    for (const { plot, host } of this.plots) host.append(plot.root);
  }

  private one(subject: Subject, chart: Chart, beside: number): HTMLElement {
    const colors = theme();
    const wide = this.width;
    const columns = this.small ? Math.max(1, Math.floor(wide / 270)) : beside > 1 && wide >= 700 ? 2 : 1;
    const width = Math.floor(wide / columns) - 16;
    const host = el("div", { class: "plot" });
    const name = this.clock.subjects.length > 1 ? `${subject.letter}: ${chart.title}` : chart.title;
    const figure = el("figure", {}, el("figcaption", {}, name), host);
    figure.setAttribute("aria-label", `${name}. ${inWords(chart)}`);
    figure.setAttribute("role", "group");
    const { seconds } = subject.history;
    const x = this.clock.axis === "time" ? seconds : seconds.map((_, at) => at);
    const tick = (at: number) => (this.clock.axis === "time" ? `${short(at)}s` : Number.isInteger(at) && at in seconds ? time(seconds[at]) : "");
    const layers = chart.stacked ? stack(chart.curves) : chart.curves.map((curve) => curve.values);
    const plot = new uPlot(
      {
        width,
        height: chart.height ?? (this.small ? 130 : 200),
        scales: { x: { time: false }, y: { range: [0, chart.top && chart.top > 0 ? chart.top : 1] } },
        legend: { show: chart.legend ?? !this.small, live: true },
        cursor: { drag: { x: false, y: false }, points: { size: 5 } },
        padding: [8, 8, 0, 0],
        axes: [
          { stroke: colors.faint, grid: { stroke: colors.grid, width: 1 }, ticks: { stroke: colors.grid }, size: 28, font: FONT, values: (_, at) => at.map(tick) },
          {
            stroke: colors.faint,
            grid: { stroke: colors.grid, width: 1 },
            ticks: { stroke: colors.grid },
            size: 46,
            font: FONT,
            values: (_, at) => at.map((value) => short(value)),
          },
        ],
        bands: chart.stacked
          ? chart.curves.slice(1).map((_, at) => ({ series: [at + 2, at + 1] as [number, number] }))
          : [],
        series: [
          { label: "time", value: (_, __, ___, index) => (index == null ? "" : time(seconds[index])) },
          ...chart.curves.map((curve, at) => ({
            label: curve.label,
            stroke: chart.stacked ? colors.paper : curve.color,
            width: chart.stacked ? 0.5 : 1.6,
            dash: curve.dash,
            fill: chart.stacked ? curve.color : undefined,
            points: { show: false },
            value: (_: uPlot, __: number, ___: number, index: number | null) => {
              const value = index == null ? null : chart.curves[at].values[index];
              return value == null ? "" : `${short(value)} ${chart.unit}`;
            },
          })),
        ],
        hooks: {
          drawClear: [(u) => mark(u, chart.marked, x, colors.fail)],
          draw: [(u) => moment(u, x[this.clock.of(subject)] ?? 0, colors.ink)],
        },
      },
      [x, ...layers] as uPlot.AlignedData,
    );
    plot.over.addEventListener("pointerdown", () => {
      if (plot.cursor.idx != null) this.clock.go(plot.cursor.idx);
    });
    // The legend's marks are the layers' colours, as the lines of a stack are the paper's.
    plot.root.querySelectorAll<HTMLElement>(".u-legend .u-marker").forEach((marker, at) => {
      if (at > 0 && chart.curves[at - 1]) marker.style.background = chart.curves[at - 1].color;
    });
    this.plots.push({ plot, subject, host });
    return figure;
  }
}

const FONT = "11px system-ui, sans-serif";

/** Returns a number in few letters. */
export function short(value: number): string {
  const size = Math.abs(value);
  for (const [from, letter] of [
    [1e9, "G"],
    [1e6, "M"],
    [1e4, "k"],
  ] as [number, string][]) {
    if (size >= from) return `${Number((value / (letter === "k" ? 1e3 : from)).toPrecision(3))}${letter}`;
  }
  return String(Number(value.toPrecision(3)));
}

function stack(curves: Curve[]): number[][] {
  const layers: number[][] = [];
  for (const { values } of curves) {
    const below = layers[layers.length - 1];
    layers.push(values.map((value, at) => (value ?? 0) + (below ? below[at] : 0)));
  }
  return layers;
}

function highest(chart: Chart): number {
  const layers = chart.stacked ? stack(chart.curves).slice(-1) : chart.curves.map((curve) => curve.values);
  let top = 0;
  for (const layer of layers) for (const value of layer) if (value != null && value > top) top = value;
  return top * 1.03;
}

/** The curves at the beginning and the end, for those who cannot see them. */
function inWords(chart: Chart): string {
  const ends = chart.curves.map(({ label, values }) => {
    const known = values.filter((value): value is number => value != null);
    return known.length ? `${label} from ${short(known[0])} to ${short(known[known.length - 1])} ${chart.unit}` : "";
  });
  return ends.filter(Boolean).join("; ");
}

function mark(u: uPlot, marked: boolean[] | undefined, x: number[], color: string): void {
  if (!marked) return;
  u.ctx.save();
  u.ctx.fillStyle = color;
  marked.forEach((is, at) => {
    if (!is) return;
    const [from, to] = [u.valToPos(x[at - 1], "x", true), u.valToPos(x[at], "x", true)];
    u.ctx.fillRect(from, u.bbox.top, Math.max(2, to - from), u.bbox.height);
  });
  u.ctx.restore();
}

function moment(u: uPlot, seconds: number, color: string): void {
  const at = Math.round(u.valToPos(seconds, "x", true));
  u.ctx.save();
  u.ctx.strokeStyle = color;
  u.ctx.lineWidth = 1.5;
  u.ctx.setLineDash([4, 3]);
  u.ctx.beginPath();
  u.ctx.moveTo(at, u.bbox.top);
  u.ctx.lineTo(at, u.bbox.top + u.bbox.height);
  u.ctx.stroke();
  u.ctx.restore();
}
