// Where each pageblock is on the canvas.

import { Content, History } from "./data";

const GUTTER = 44;

/** A layout: rows by physical address in which gigabytes align, or a Hilbert curve. */
export interface Layout {
  width: number;
  height: number;
  cell: number;
  /** The corner of a pageblock; null for one without memory. */
  place(block: number): [number, number] | null;
  /** The pageblock at a point; -1 where there is none. */
  at(x: number, y: number): number;
  /** Labels: where, and what. */
  labels: [number, string][];
}

/** Tells which pageblocks have memory at some moment. */
export function present(history: History): Uint8Array {
  const has = new Uint8Array(history.blocks);
  const last = Math.max(0, history.samples - 1) * history.blocks;
  for (let block = 0; block < history.blocks; block++) {
    has[block] = Number(history.content[block] !== Content.Hole || history.content[last + block] !== Content.Hole);
  }
  return has;
}

/** The pageblocks of a gigabyte. */
export function perGigabyte(history: History): number {
  return Math.max(1, 2 ** 18 / history.blockPages);
}

/** Chooses how many cells a row has, a gigabyte or a part of one, so that the cells are as large as fits. */
export function chooseColumns(history: History, width: number, screen: number): number {
  const [near, cell] = largestCells(history, width, Math.max(300, screen * 0.7));
  // What fits on the screen in cells too small for marks is given more than the screen.
  return cell >= 6 ? near : largestCells(history, width, Math.max(500, screen * 1.2))[0];
}

/** Returns the columns that have the largest cells within a height, and the cell. */
function largestCells(history: History, width: number, height: number): [number, number] {
  const gigabyte = perGigabyte(history);
  const blocks = present(history).reduce((sum, has) => sum + has, 0);
  let [best, largest] = [gigabyte, 0];
  for (let columns = gigabyte; columns >= Math.min(16, gigabyte); columns /= 2) {
    const cell = Math.min(16, Math.floor((width - GUTTER) / columns));
    if (cell > largest && Math.ceil(blocks / columns) * cell <= height) [best, largest] = [columns, cell];
  }
  return [best, largest];
}

export function rows(history: History, columns: number, width: number): Layout {
  const has = present(history);
  const gigabyte = perGigabyte(history);
  const cell = Math.max(1, Math.min(16, Math.floor((width - GUTTER) / columns)));
  const rowOf = (block: number) => Math.floor(history.number[block] / columns);
  const used = new Set<number>();
  for (let block = 0; block < history.blocks; block++) if (has[block]) used.add(rowOf(block));
  const order = [...used].sort((a, b) => a - b);
  const top = new Map<number, number>();
  const labels: [number, string][] = [];
  let y = 0;
  let last = -1;
  for (const row of order) {
    const gib = Math.floor((row * columns) / gigabyte);
    if (gib !== last) {
      if (last >= 0) y += cell > 3 ? 4 : 1;
      if (!labels.length || y - labels[labels.length - 1][0] >= 14) labels.push([y, `${gib} GiB`]);
      last = gib;
    }
    top.set(row, y);
    y += cell;
  }
  const index = new Map<number, number>();
  for (let block = 0; block < history.blocks; block++) {
    // Where two zones share a pageblock, the one with memory is drawn.
    if (has[block]) index.set(history.number[block], block);
  }
  return {
    width: GUTTER + columns * cell,
    height: Math.max(y, cell),
    cell,
    labels,
    place(block) {
      if (!has[block]) return null;
      const row = top.get(rowOf(block));
      return row === undefined ? null : [GUTTER + (history.number[block] % columns) * cell, row];
    },
    at(x, y) {
      const column = Math.floor((x - GUTTER) / cell);
      if (column < 0 || column >= columns) return -1;
      for (const [row, start] of top) {
        if (y >= start && y < start + cell) return index.get(row * columns + column) ?? -1;
      }
      return -1;
    },
  };
}

/** A Hilbert curve through all memory: neighbours stay near each other, addresses cannot be read off. */
export function hilbert(history: History, width: number, height: number): Layout {
  const has = present(history);
  const blocks: number[] = [];
  for (let block = 0; block < history.blocks; block++) if (has[block]) blocks.push(block);
  let side = 1;
  while (side * side < blocks.length) side *= 2;
  const cell = Math.max(1, Math.min(16, Math.floor(Math.min(width, height) / side)));
  const at = new Map<number, number>();
  const place = new Map<number, [number, number]>();
  blocks.forEach((block, distance) => {
    const [x, y] = point(side, distance);
    place.set(block, [x * cell, y * cell]);
    at.set(y * side + x, block);
  });
  return {
    width: side * cell,
    height: side * cell,
    cell,
    labels: [],
    place: (block) => place.get(block) ?? null,
    at: (x, y) => at.get(Math.floor(y / cell) * side + Math.floor(x / cell)) ?? -1,
  };
}

/** The point of a Hilbert curve at a distance from its beginning. */
function point(side: number, distance: number): [number, number] {
  let [x, y, rest] = [0, 0, distance];
  for (let size = 1; size < side; size *= 2) {
    const right = 1 & (rest / 2);
    const up = 1 & (rest ^ right);
    if (!up) {
      if (right) [x, y] = [size - 1 - x, size - 1 - y];
      [x, y] = [y, x];
    }
    x += size * right;
    y += size * up;
    rest = Math.floor(rest / 4);
  }
  return [x, y];
}
