// Colours that differ in lightness as well as in hue, for the colour-blind and in grey; test.mjs measures it.

export interface Theme {
  ink: string;
  faint: string;
  paper: string;
  grid: string;
  /** By class of content. */
  content: string[];
  /** Marks on a cell: a dot or a line, for each class. */
  mark: string[];
  /** From few free pages to many; from small orders to large. */
  ramp: string[];
  lines: string[];
  onlyA: string;
  onlyB: string;
  both: string;
  fail: string;
}

const LIGHT: Theme = {
  ink: "#1b1f24",
  faint: "#5b6570",
  paper: "#ffffff",
  grid: "#d9dee3",
  content: ["#ffffff", "#eef1e6", "#9fd0ee", "#6b1204", "#dd9500", "#c86bb0", "#5e6266"],
  mark: ["#000000", "#1b1f24", "#1b1f24", "#ffd9cc", "#1b1f24", "#33002a", "#9aa0a6"],
  ramp: ["#2a0f4a", "#3d2a75", "#3b4c94", "#2f6ca3", "#2589a8", "#2aa5a0", "#4dbf8a", "#86d36f", "#c3e15c", "#ece27c", "#f8f0bd"],
  lines: ["#0b5fa5", "#c2410c", "#2f7d32", "#7a3e9d", "#8a6d00", "#555b61"],
  onlyA: "#0b5fa5",
  onlyB: "#d1490c",
  both: "#6b6f75",
  fail: "rgba(200,40,20,.22)",
};

const DARK: Theme = {
  ink: "#e8eaed",
  faint: "#a2abb4",
  paper: "#14181c",
  grid: "#39414a",
  content: ["#14181c", "#20272d", "#2b6ca0", "#ffe9dd", "#e9b93f", "#e07abd", "#42484e"],
  mark: ["#ffffff", "#e8eaed", "#ffffff", "#5a1204", "#1b1f24", "#1b0015", "#7d858d"],
  ramp: ["#fbf3c9", "#f0e27a", "#c5dc58", "#86c96d", "#4fb489", "#2f9c9d", "#2b82a5", "#33679f", "#3f4c8f", "#43327a", "#3d1f5e"],
  lines: ["#6db7f2", "#ff9a66", "#7fd083", "#c99ae6", "#e0c04a", "#b8bfc6"],
  onlyA: "#6db7f2",
  onlyB: "#ff8a4c",
  both: "#8d949b",
  fail: "rgba(255,120,90,.30)",
};

const dark = window.matchMedia("(prefers-color-scheme: dark)");

export function theme(): Theme {
  return dark.matches && !window.matchMedia("print").matches ? DARK : LIGHT;
}

/** Calls back when the colours change. */
export function onTheme(changed: () => void): void {
  dark.addEventListener("change", changed);
}

/** The themes, for the test that measures them. */
export const THEMES = { LIGHT, DARK };
