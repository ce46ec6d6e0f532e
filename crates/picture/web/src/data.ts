// The data of the page: what Rust writes (crates/picture/src/page), and what is read out of it.

export interface Zone {
  node: number;
  zone: string;
  start: number;
  blocks: number;
  managed: number;
  watermarks: [number, number, number];
  boost: number[];
  free: number[][];
}

export interface FallbackCount {
  effect: string;
  requested: string;
  from: string;
  events: number;
  blocks: number;
}

export interface Taker {
  command: string;
  site?: string;
  claims: number;
  pollutions: number;
  steals: number;
  blocks: number;
  lost: number;
  stuck: number;
}

interface RawHistory {
  layout: number;
  pageblock_order: number;
  types: string[];
  contents: string[];
  zones: Zone[];
  times_us: number[];
  fallbacks_until: number[];
  counters: Record<string, number[]>;
  cells: string;
  fallbacks: FallbackCount[];
  takers: Taker[];
  notes?: string[];
}

interface RawSubject {
  name: string;
  kind: "simulated" | "recorded" | "replayed" | "real";
  workload: string;
  machine: string;
  seed?: number;
  command: string;
  certificate?: string;
  notes: string[];
  history: RawHistory | null;
}

interface RawData {
  layout: number;
  subjects: RawSubject[];
}

/** Classes of content by their number, as crates/measure/src/history/cell.rs has them. */
export enum Content {
  Hole,
  Free,
  Movable,
  Unmovable,
  Reclaimable,
  Mixed,
  Reserved,
}

export const CONTENT_NAMES = ["no memory", "free", "movable", "unmovable", "reclaimable", "mixed", "the kernel's own"];

/** The history of one machine's memory. */
export class History {
  readonly samples: number;
  readonly blocks: number;
  /** By sample and block: the class of content, the type, whether most pages are of another type. */
  readonly content: Uint8Array;
  readonly type: Uint8Array;
  readonly foreign: Uint8Array;
  readonly eighths: Uint8Array;
  readonly stuck: Uint16Array;
  /** By block: its number among all pageblocks of physical memory, and its zone. */
  readonly number: Float64Array;
  readonly zoneOf: Uint8Array;
  readonly seconds: number[];
  readonly blockPages: number;

  private constructor(
    readonly raw: RawHistory,
    bytes: Uint8Array,
  ) {
    this.samples = raw.times_us.length;
    this.blocks = raw.zones.reduce((sum, zone) => sum + zone.blocks, 0);
    this.blockPages = 2 ** raw.pageblock_order;
    this.seconds = raw.times_us.map((us) => us / 1e6);
    const cells = this.samples * this.blocks;
    if (bytes.length !== cells * 4) throw new Error(`the map has ${bytes.length} bytes, not ${cells * 4}`);
    this.content = new Uint8Array(cells);
    this.type = new Uint8Array(cells);
    this.foreign = new Uint8Array(cells);
    this.eighths = new Uint8Array(cells);
    this.stuck = new Uint16Array(cells);
    this.open(bytes);
    this.number = new Float64Array(this.blocks);
    this.zoneOf = new Uint8Array(this.blocks);
    let at = 0;
    raw.zones.forEach((zone, index) => {
      for (let block = 0; block < zone.blocks; block++, at++) {
        this.number[at] = zone.start / this.blockPages + block;
        this.zoneOf[at] = index;
      }
    });
  }

  static async of(raw: RawHistory): Promise<History> {
    if (raw.layout !== 1) throw new Error(`the history has layout ${raw.layout}; this page reads 1`);
    return new History(raw, await inflate(raw.cells));
  }

  /** Undoes the differences between samples, in place, and takes the bytes apart. */
  private open(bytes: Uint8Array): void {
    const { blocks, samples } = this;
    const size = blocks * 4;
    for (let at = size; at < bytes.length; at++) bytes[at] ^= bytes[at - size];
    for (let sample = 0; sample < samples; sample++) {
      const from = sample * size;
      const to = sample * blocks;
      for (let block = 0; block < blocks; block++) {
        const kinds = bytes[from + block];
        const eighths = bytes[from + blocks + block];
        this.type[to + block] = kinds & 0xf;
        this.content[to + block] = kinds >> 4;
        this.eighths[to + block] = eighths & 0x7f;
        this.foreign[to + block] = eighths >> 7;
        this.stuck[to + block] = bytes[from + 2 * blocks + block] | (bytes[from + 3 * blocks + block] << 8);
      }
    }
  }

  /** The numbers of pageblocks by class of content, over time. */
  byContent(): number[][] {
    return this.tally(Content.Reserved + 1, (at) => this.content[at]);
  }

  /** The numbers of pageblocks by their free eighths, over time; those without memory for the allocator left out. */
  byEighths(): number[][] {
    const used = (at: number) => this.content[at] !== Content.Hole && this.content[at] !== Content.Reserved;
    return this.tally(9, (at) => (used(at) ? this.eighths[at] : -1));
  }

  private tally(kinds: number, kindOf: (at: number) => number): number[][] {
    const counts = Array.from({ length: kinds }, () => new Array<number>(this.samples).fill(0));
    for (let sample = 0, at = 0; sample < this.samples; sample++) {
      for (let block = 0; block < this.blocks; block++, at++) {
        const kind = kindOf(at);
        if (kind >= 0) counts[kind][sample]++;
      }
    }
    return counts;
  }

  /** Free blocks by order over time, of one zone or of all (-1). */
  freeByOrder(zone: number): number[][] {
    const zones = this.raw.zones.filter((_, index) => zone < 0 || zone === index);
    const orders = Math.max(0, ...zones.map((z) => z.free.length));
    return Array.from({ length: orders }, (_, order) =>
      this.seconds.map((_, sample) => zones.reduce((sum, z) => sum + (z.free[order]?.[sample] ?? 0), 0)),
    );
  }

  /** The share of free memory in blocks too small for an order, in percent, over time. */
  unusable(order: number): (number | null)[] {
    const free = this.freeByOrder(-1);
    return this.seconds.map((_, sample) => {
      let all = 0;
      let usable = 0;
      free.forEach((blocks, at) => {
        const pages = blocks[sample] * 2 ** at;
        all += pages;
        if (at >= order) usable += pages;
      });
      return all > 0 ? (100 * (all - usable)) / all : null;
    });
  }

  /** Whether a request of an order failed since the sample before, by sample. */
  failed(order: number): boolean[] {
    const counts = this.raw.counters[`alloc_failed_order_${order}`];
    return this.seconds.map((_, sample) => !!counts && sample > 0 && counts[sample] > counts[sample - 1]);
  }

  counter(name: string): number[] | undefined {
    return this.raw.counters[name];
  }
}

/** A run or a recording with its opened history. */
export interface Subject extends Omit<RawSubject, "history"> {
  history: History;
  /** A, B, C and so on, or R of a recording. */
  letter: string;
}

/** A run whose history was not kept. */
export type Missing = Pick<RawSubject, "name" | "kind" | "command" | "notes">;

/** Opens the data of the page. */
export async function open(): Promise<{ subjects: Subject[]; missing: Missing[] }> {
  const text = document.getElementById("data")?.textContent ?? "";
  const json = new TextDecoder().decode(await inflate(text.trim()));
  const data = JSON.parse(json) as RawData;
  if (data.layout !== 1) throw new Error(`the page's data have layout ${data.layout}; its program reads 1`);
  const subjects: Subject[] = [];
  const missing: Missing[] = [];
  let lettered = 0;
  for (const raw of data.subjects) {
    if (raw.history) {
      // The letters of the comparison are those of runs and replays; what was recorded is not in it.
      const letter = raw.kind === "recorded" ? "R" : String.fromCharCode(65 + (lettered++ % 26));
      subjects.push({ ...raw, history: await History.of(raw.history), letter });
    } else {
      missing.push(raw);
    }
  }
  return { subjects, missing };
}

/** Opens what is compressed by zlib and in base64. */
async function inflate(base64: string): Promise<Uint8Array<ArrayBuffer>> {
  const binary = atob(base64);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at);
  if (typeof DecompressionStream === "undefined") {
    throw new Error("this browser cannot open compressed data; browsers since 2023 can (DecompressionStream)");
  }
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
