// A map on a canvas.

import type { Theme } from "./colors";
import { Content, type History } from "./data";
import type { Layout } from "./layout";

/** Prepares a canvas for the screen's density; returns what draws on it. */
export function prepare(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const density = Math.min(3, window.devicePixelRatio || 1);
  const [w, h] = [Math.max(1, Math.round(width * density)), Math.max(1, Math.round(height * density))];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  if (!context) throw new Error("the browser gives no canvas");
  context.setTransform(density, 0, 0, density, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

function labels(context: CanvasRenderingContext2D, layout: Layout, theme: Theme): void {
  context.fillStyle = theme.faint;
  context.font = "10px system-ui, sans-serif";
  context.textBaseline = "top";
  context.textAlign = "right";
  for (const [y, text] of layout.labels) context.fillText(text, 40, y);
}

/** Draws every pageblock at a sample. */
export function paint(canvas: HTMLCanvasElement, history: History, sample: number, layout: Layout, theme: Theme): void {
  const context = prepare(canvas, layout.width, layout.height);
  labels(context, layout, theme);
  const from = sample * history.blocks;
  const { cell } = layout;
  const gap = cell >= 5 ? 1 : 0;
  for (let block = 0; block < history.blocks; block++) {
    const place = layout.place(block);
    if (!place) continue;
    const at = from + block;
    const content = history.content[at];
    if (content === Content.Hole) continue;
    const [x, y] = place;
    context.fillStyle = theme.content[content];
    context.fillRect(x, y, cell - gap, cell - gap);
    if (cell < 5) continue;
    context.strokeStyle = context.fillStyle = theme.mark[content];
    // The kernel's own has the other diagonal: it is told from the rest without its colour.
    if ((history.foreign[at] || content === Content.Reserved) && cell >= 6) {
      const down = content === Content.Reserved;
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(x, down ? y : y + cell - gap);
      context.lineTo(x + cell - gap, down ? y + cell - gap : y);
      context.stroke();
    }
    // Of a block that nothing movable shares, the hue says it; the dot is for those that could be whole.
    if (content === Content.Mixed && history.stuck[at] > 0) {
      dot(context, x, y, cell - gap, history.stuck[at], history.blockPages);
    }
  }
}

/** A dot whose size is the share, on a scale of doublings, of the pages that hold the block. */
function dot(context: CanvasRenderingContext2D, x: number, y: number, size: number, stuck: number, pages: number): void {
  const share = Math.log2(1 + stuck) / Math.log2(1 + pages);
  const radius = Math.max(0.8, (size / 2) * (0.2 + 0.75 * share));
  context.beginPath();
  context.arc(x + size / 2, y + size / 2, radius, 0, 2 * Math.PI);
  context.fill();
}

/** Draws which pageblocks are held by pages that cannot be moved in A, in B, and in both. */
export function paintDifference(
  canvas: HTMLCanvasElement,
  a: [History, number],
  b: [History, number],
  layout: Layout,
  theme: Theme,
): [number, number, number] {
  const context = prepare(canvas, layout.width, layout.height);
  labels(context, layout, theme);
  const { cell } = layout;
  const gap = cell >= 5 ? 1 : 0;
  const counts: [number, number, number] = [0, 0, 0];
  for (let block = 0; block < a[0].blocks; block++) {
    const place = layout.place(block);
    if (!place) continue;
    const [atA, atB] = [a[1] * a[0].blocks + block, b[1] * b[0].blocks + block];
    if (a[0].content[atA] === Content.Reserved) continue;
    const [inA, inB] = [a[0].stuck[atA] > 0, b[0].stuck[atB] > 0];
    const kind: number = inA && inB ? 2 : inB ? 1 : inA ? 0 : -1;
    if (kind >= 0) counts[kind]++;
    const [x, y] = place;
    const colors = [theme.onlyA, theme.onlyB, theme.both];
    context.fillStyle = colors[kind] ?? theme.content[Content.Free];
    context.fillRect(x, y, cell - gap, cell - gap);
    if (kind < 0 || kind === 2 || cell < 7) continue;
    // A bar lying for A, a cross for B: the two can be distinguished without their colours.
    context.fillStyle = theme.paper;
    const middle = Math.floor((cell - gap) / 2);
    context.fillRect(x + 2, y + middle, cell - gap - 4, 1);
    if (kind === 1) context.fillRect(x + middle, y + 2, 1, cell - gap - 4);
  }
  return counts;
}

/** Draws a frame around a pageblock. */
export function frame(canvas: HTMLCanvasElement, layout: Layout, block: number, theme: Theme): void {
  const place = layout.place(block);
  const context = canvas.getContext("2d");
  if (!place || !context) return;
  context.strokeStyle = theme.ink;
  context.lineWidth = 2;
  context.strokeRect(place[0] - 1, place[1] - 1, layout.cell + 1, layout.cell + 1);
}

/** Draws a pageblock's history as a strip: its content, and above it the pages that hold it. */
export function strip(canvas: HTMLCanvasElement, history: History, block: number, sample: number, theme: Theme): void {
  const width = Math.max(120, Math.min(480, canvas.parentElement?.clientWidth ?? 320));
  const height = 44;
  const context = prepare(canvas, width, height);
  const step = width / Math.max(1, history.samples);
  for (let at = 0; at < history.samples; at++) {
    const cell = at * history.blocks + block;
    const x = at * step;
    context.fillStyle = theme.content[history.content[cell]];
    context.fillRect(x, height - 14, step + 0.5, 14);
    const share = Math.log2(1 + history.stuck[cell]) / Math.log2(1 + history.blockPages);
    context.fillStyle = theme.ink;
    if (share > 0) context.fillRect(x, (height - 16) * (1 - share), step + 0.5, (height - 16) * share);
  }
  context.strokeStyle = theme.lines[1];
  context.lineWidth = 1.5;
  const now = (sample + 0.5) * step;
  context.beginPath();
  context.moveTo(now, 0);
  context.lineTo(now, height);
  context.stroke();
}
