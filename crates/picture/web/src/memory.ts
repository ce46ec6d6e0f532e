// Free memory, occupancy, unusable free space, and what the machine did for memory.

import type { Clock } from "./clock";
import { theme } from "./colors";
import { CONTENT_NAMES, Content, type History, type Subject } from "./data";
import { section } from "./dom";
import { type Chart, type ChartOf, Charts, type Curve } from "./series";

const MIB_PER_PAGE = 4 / 1024;

export function freeMemory(clock: Clock): HTMLElement {
  const element = section(
    "free",
    "Free memory by order",
    "Free memory on the buddy lists, in MiB, stacked by the order of its blocks: the largest orders lie at the bottom. What a " +
      "huge page can be made of at once is the part from the order of a pageblock on. Pages on per-CPU lists are not in it.",
  );
  const chart: ChartOf = ({ history }) => {
    const orders = history.freeByOrder(-1);
    const curves = orders.map((blocks, order): Curve => {
      const values = blocks.map((n) => n * 2 ** order * MIB_PER_PAGE);
      return { label: `order ${order}`, values, color: step(order, orders.length) };
    });
    return { title: "free memory [MiB]", unit: "MiB", curves: curves.reverse(), stacked: true, height: 240 };
  };
  element.append(new Charts(clock, [chart]).element);
  return element;
}

/** A step of the ramp. */
function step(at: number, of: number): string {
  const { ramp } = theme();
  return ramp[Math.round((at * (ramp.length - 1)) / Math.max(1, of - 1))];
}

export function occupancy(clock: Clock): HTMLElement {
  const element = section(
    "occupancy",
    "Pageblocks by what is in them",
    "Above, pageblocks by the class of their content; below, by how many eighths of them are free, as LLFree draws it: free " +
      "memory in blocks that are neither full nor empty is fragmented.",
  );
  const content: ChartOf = ({ history }) => {
    const colors = theme();
    const by = history.byContent();
    const kinds = [Content.Unmovable, Content.Mixed, Content.Reclaimable, Content.Movable, Content.Free];
    const curves = kinds.map((kind) => ({ label: CONTENT_NAMES[kind], values: by[kind], color: colors.content[kind] }));
    return { title: "pageblocks by content", unit: "blocks", curves, stacked: true };
  };
  const eighths: ChartOf = ({ history }) => {
    const by = history.byEighths();
    const curves = by.map((values, at) => ({ label: at === 8 ? "all free" : `${at}/8 free`, values, color: step(at, 9) }));
    return { title: "pageblocks by free eighths", unit: "blocks", curves: curves.reverse(), stacked: true };
  };
  element.append(new Charts(clock, [content, eighths]).element);
  return element;
}

export function unusable(clock: Clock): HTMLElement {
  const element = section(
    "unusable",
    "Unusable free space",
    "For each order, the share of free memory in blocks too small for it, in percent. Shaded: intervals in which a request of " +
      "the order failed.",
  );
  const orders = Math.max(...clock.subjects.map(({ history }) => history.raw.zones[0]?.free.length ?? 0));
  const charts = Array.from({ length: Math.max(0, orders - 1) }, (_, at): ChartOf => (subject: Subject) => {
    const order = at + 1;
    const { history } = subject;
    const color = theme().lines[subject === clock.b ? 1 : 0];
    const curve = { label: "unusable", values: history.unusable(order), color };
    const size = 2 ** order * 4;
    const words = size >= 1024 ? `${size / 1024} MiB` : `${size} KiB`;
    return { title: `order ${order} (${words})`, unit: "%", curves: [curve], top: 100, marked: history.failed(order) };
  });
  element.append(new Charts(clock, charts, true).element);
  return element;
}

/** The counters of a chart: names, and words for them. */
type Counted = [string, string][];

/** The shortest time that a rate is of, as a share of the run: samples may be much nearer. */
const RATE_SPAN = 1 / 150;

/** What happened in a second, from a count. */
function rates(history: History, counts: number[]): (number | null)[] {
  const { seconds } = history;
  const shortest = (seconds[seconds.length - 1] - seconds[0]) * RATE_SPAN;
  let from = 0;
  return counts.map((count, at) => {
    while (from + 1 < at && seconds[at] - seconds[from + 1] >= shortest) from++;
    const span = seconds[at] - seconds[from];
    return span > 0 ? Math.max(0, count - counts[from]) / span : at ? null : 0;
  });
}

function rateChart(title: string, unit: string, counted: Counted): ChartOf {
  return ({ history }) => {
    const { lines } = theme();
    const curves = counted.flatMap(([name, label], at) => {
      const counts = history.counter(name);
      const dash = at % 2 ? [5, 3] : undefined;
      return counts ? [{ label, values: rates(history, counts), color: lines[at % lines.length], dash }] : [];
    });
    return curves.length ? { title, unit, curves } : null;
  };
}

const RATES: [string, string, Counted][] = [
  ["reclaim [pages/s]", "/s", [
    ["pgscan_kswapd", "scanned by kswapd"],
    ["pgsteal_kswapd", "reclaimed by kswapd"],
    ["pgscan_direct", "scanned by tasks"],
    ["pgsteal_direct", "reclaimed by tasks"],
  ]],
  ["stalls [1/s]", "/s", [
    ["allocstall", "direct reclaim"],
    ["compact_stall", "direct compaction"],
    ["compact_fail", "compaction failed"],
    ["oom_kill", "programs killed"],
  ]],
  ["compaction [pages/s]", "/s", [
    ["compact_migrate_scanned", "scanned for pages"],
    ["compact_free_scanned", "scanned for room"],
    ["pgmigrate_success", "moved"],
    ["pgmigrate_fail", "could not be moved"],
  ]],
  ["huge pages on fault [1/s]", "/s", [
    ["thp_fault_alloc", "got one"],
    ["thp_fault_fallback", "got small pages"],
    ["thp_collapse_alloc", "made by khugepaged"],
  ]],
  ["swap [pages/s]", "/s", [
    ["pswpin", "read back"],
    ["pswpout", "written"],
  ]],
];

/** The share of time in which tasks waited for memory. */
const pressure: ChartOf = ({ history }) => {
  const { lines } = theme();
  const names: Counted = [
    ["psi_memory_some_us", "some task waits"],
    ["psi_memory_full_us", "no task runs"],
  ];
  const curves = names.flatMap(([name, label], at) => {
    const counts = history.counter(name);
    const share = (rate: number | null) => (rate == null ? null : rate / 1e4);
    return counts ? [{ label, values: rates(history, counts).map(share), color: lines[at] }] : [];
  });
  return curves.length ? { title: "memory pressure (PSI) [% of time]", unit: "%", curves } : null;
};

/** The share of faults for a huge page that got one. */
const success: ChartOf = ({ history }) => {
  const [got, not] = [history.counter("thp_fault_alloc"), history.counter("thp_fault_fallback")];
  if (!got && !not) return null;
  const values = history.seconds.map((_, at) => {
    if (at === 0) return null;
    const since = (counts?: number[]) => (counts ? counts[at] - counts[at - 1] : 0);
    const asked = since(got) + since(not);
    return asked > 0 ? (100 * since(got)) / asked : null;
  });
  const curves = [{ label: "success", values, color: theme().lines[0] }];
  return { title: "huge pages on fault, success [%]", unit: "%", curves, top: 100 };
};

/** Free pages of a zone and its watermarks. */
function watermarks(zone: number): ChartOf {
  return ({ history }): Chart | null => {
    const of = history.raw.zones[zone];
    if (!of || of.managed === 0) return null;
    const { lines } = theme();
    const free = history.freeByOrder(zone);
    const pages = history.seconds.map((_, at) => free.reduce((sum, blocks, order) => sum + blocks[at] * 2 ** order, 0));
    const level = (mark: number) => of.boost.map((boost) => (of.watermarks[mark] + boost) * MIB_PER_PAGE);
    const curves: Curve[] = [
      { label: "free", values: pages.map((n) => n * MIB_PER_PAGE), color: lines[0] },
      { label: "high", values: level(2), color: lines[2], dash: [7, 3] },
      { label: "low", values: level(1), color: lines[4], dash: [4, 3] },
      { label: "min", values: level(0), color: lines[1], dash: [2, 2] },
    ];
    // The watermarks are what matters: what lies far above them is cut.
    const above = Math.max(...curves[1].values.map((value) => value ?? 0)) * 4;
    const most = Math.max(...curves[0].values.map((value) => value ?? 0));
    const least = Math.min(...curves[0].values.map((value) => value ?? 0));
    const title = `node ${of.node} ${of.zone}: free pages and watermarks with their boost [MiB]`;
    const cut = least < above && above < most;
    return { title: cut ? `${title}, cut above` : title, unit: "MiB", curves, top: cut ? above : most * 1.03 };
  };
}

export function work(clock: Clock): HTMLElement {
  const element = section(
    "work",
    "What the machine did for memory",
    "Free pages against the watermarks, and rates of reclaim, compaction and stalls between two samples. A click sets the moment " +
      "of all pictures.",
  );
  const zones = Math.max(...clock.subjects.map(({ history }) => history.raw.zones.length));
  const charts = [
    ...Array.from({ length: zones }, (_, zone) => watermarks(zone)),
    success,
    ...RATES.map(([title, unit, counted]) => rateChart(title, unit, counted)),
    pressure,
  ];
  element.append(new Charts(clock, charts).element);
  return element;
}
