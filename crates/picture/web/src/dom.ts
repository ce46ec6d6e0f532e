// Elements, and numbers as text.

type Attributes = Record<string, string | number | boolean | undefined>;

/** Makes an element; text is never read as HTML. */
export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children);
  return element;
}

/** A section with a heading and a sentence that says what it shows. */
export function section(id: string, title: string, says: string): HTMLElement {
  return el("section", { id }, el("h2", {}, title), el("p", { class: "says" }, says));
}

/** A table with a caption; the first column is the row's head. */
export function table(caption: string, heads: string[], rows: (string | Node)[][]): HTMLElement {
  const head = el("tr", {}, ...heads.map((text) => el("th", { scope: "col" }, text)));
  const body = rows.map(([first, ...rest]) =>
    el("tr", {}, el("th", { scope: "row" }, first), ...rest.map((cell) => el("td", {}, cell))),
  );
  const whole = el("table", {}, el("caption", {}, caption), el("thead", {}, head), el("tbody", {}, ...body));
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }, whole);
}

export function count(value: number): string {
  return Math.round(value).toLocaleString("en-US").replace(/,/g, "\u202f");
}

export function bytes(pages: number): string {
  const mib = (pages * 4) / 1024;
  if (mib >= 10240) return `${(mib / 1024).toFixed(1)} GiB`;
  return mib >= 10 ? `${Math.round(mib)} MiB` : `${mib.toFixed(1)} MiB`;
}

export function time(seconds: number): string {
  if (seconds >= 7200) return `${(seconds / 3600).toFixed(2)} h`;
  if (seconds >= 600) return `${(seconds / 60).toFixed(1)} min`;
  return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
}
