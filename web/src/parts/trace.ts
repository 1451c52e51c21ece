// The simulated step of a plan over time, as the server's trace has it: what each stage does and when.

import type { Trace } from '../api/trace';

/** The kinds of spans as the server names them, in the order of legends. */
export const spanKinds = [
  'forward',
  'backward',
  'weight gradient',
  'exposed data parallelism',
  'optimizer',
  'fixed',
] as const;
export type SpanKind = (typeof spanKinds)[number];
/** The first three are work of the pipeline; the others follow it. */
export const pipelineKinds: readonly SpanKind[] = spanKinds.slice(0, 3);

export interface Span {
  kind: SpanKind;
  start: number;
  end: number;
  /** From 0; absent after the pipeline. */
  microBatch?: number;
}

export interface Timeline {
  /** The operations of each stage in the order of time; times are seconds. */
  stages: Span[][];
  step: number;
  /** The end of the last operation of the pipeline. */
  pipeline: number;
}

export function timelineOf({ traceEvents }: Trace): Timeline {
  const stages: Span[][] = [];
  let step = 0;
  let pipeline = 0;
  for (const { cat, ph, tid = 0, ts = 0, dur = 0, args } of traceEvents) {
    const kind = spanKinds.find((name) => name === cat);
    if (ph !== 'X' || !kind) continue;
    const start = ts / 1e6;
    const end = (ts + dur) / 1e6;
    while (stages.length <= tid) stages.push([]);
    stages[tid]?.push({ kind, start, end, ...(args?.micro_batch === undefined ? {} : { microBatch: args.micro_batch }) });
    step = Math.max(step, end);
    if (pipelineKinds.includes(kind)) pipeline = Math.max(pipeline, end);
  }
  for (const spans of stages) spans.sort((a, b) => a.start - b.start);
  return { stages, step, pipeline };
}

export type Times = Partial<Record<SpanKind, number>>;

/** Returns how long a stage does what between two times. */
export function timesOf(spans: readonly Span[], from: number, to: number): Times {
  const times: Times = {};
  for (const { kind, start, end } of spans) {
    const inside = Math.min(end, to) - Math.max(start, from);
    if (inside > 0) times[kind] = (times[kind] ?? 0) + inside;
  }
  return times;
}

/** Returns the times of equal parts of a window, for spans in the order of time. */
export function bucketsOf(spans: readonly Span[], from: number, to: number, count: number): Times[] {
  const buckets = Array.from({ length: count }, (): Times => ({}));
  const width = (to - from) / count;
  for (const { kind, start, end } of spans) {
    const first = Math.max(Math.floor((start - from) / width), 0);
    for (let at = first; at < count && from + at * width < end; ++at) {
      const bucket = buckets[at];
      const inside = Math.min(end, from + (at + 1) * width) - Math.max(start, from + at * width);
      if (bucket && inside > 0) bucket[kind] = (bucket[kind] ?? 0) + inside;
    }
  }
  return buckets;
}

/** The part of the step that is shown, in shares of it. */
export interface Window {
  from: number;
  to: number;
}
export const wholeStep: Window = { from: 0, to: 1 };
const narrowest = 1e-5;

/** Reads a window from the fields of an address; what is no window shows the whole step. */
export function windowIn(query: Record<string, string>): Window {
  const from = Number(query['from'] ?? '0');
  const to = Number(query['to'] ?? '1');
  return from >= 0 && to <= 1 && to - from >= narrowest ? { from, to } : wholeStep;
}

/** Returns a window around the same middle, `factor` times as wide, inside the step. */
export function zoomed({ from, to }: Window, factor: number): Window {
  const width = Math.min(Math.max((to - from) * factor, narrowest * 2), 1);
  const start = Math.min(Math.max((from + to) / 2 - width / 2, 0), 1 - width);
  return { from: start, to: start + width };
}

/** Returns a window that is moved by a share of its width, inside the step. */
export function moved({ from, to }: Window, share: number): Window {
  const width = to - from;
  const start = Math.min(Math.max(from + width * share, 0), 1 - width);
  return { from: start, to: start + width };
}
