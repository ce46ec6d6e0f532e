// What all pictures have in common: the runs that are shown, and the moment.

import type { Subject } from "./data";

type Listener = () => void;

/** The moment is a sample; runs of one workload take the same sample at the same point of their work. */
export class Clock {
  sample = 0;
  a: Subject;
  b: Subject | null;
  /** What the curves are drawn over: time, or samples, which are at equal shares of a run's work. */
  axis: "time" | "samples";
  private moved: Listener[] = [];
  private changed: Listener[] = [];
  private frame = 0;

  constructor(readonly subjects: Subject[]) {
    this.a = subjects[0];
    this.b = subjects[1] ?? null;
    this.sample = this.last;
    this.axis = this.a.kind === "simulated" ? "samples" : "time";
  }

  /** The last sample that A has. */
  get last(): number {
    return Math.max(0, this.a.history.samples - 1);
  }

  /** The sample of a run at this moment: the last one of a run that ended before. */
  of(subject: Subject): number {
    return Math.min(this.sample, subject.history.samples - 1);
  }

  shown(): Subject[] {
    return this.b ? [this.a, this.b] : [this.a];
  }

  go(sample: number): void {
    this.sample = Math.max(0, Math.min(this.last, Math.round(sample)));
    // One frame draws all that moved since the last.
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.moved.forEach((listener) => listener());
    });
  }

  show(a: Subject, b: Subject | null): void {
    this.a = a;
    this.b = b;
    this.sample = Math.min(this.sample, this.last);
    this.changed.forEach((listener) => listener());
    this.moved.forEach((listener) => listener());
  }

  draw(axis: "time" | "samples"): void {
    this.axis = axis;
    this.changed.forEach((listener) => listener());
  }

  /** Calls back when the moment changes. */
  onMove(listener: Listener): void {
    this.moved.push(listener);
  }

  /** Calls back when other runs are shown. */
  onChange(listener: Listener): void {
    this.changed.push(listener);
  }
}
