import { describe, expect, it } from 'vitest';
import { svgText } from '../../src/charts/drawing';
import { paletteOf } from '../../src/charts/palette';
import { tickOf, timelineSpec } from '../../src/charts/timeline';
import { bucketsOf, moved, spanKinds, timelineOf, timesOf, windowIn, wholeStep, zoomed } from '../../src/parts/trace';
import { textOf } from '../../src/text/text';

const text = textOf('en');
const plain = (said: string) => said.replaceAll('\u00a0', ' ');

const span = (tid: number, cat: string, ts: number, dur: number, micro_batch?: number) => ({
  name: cat, cat, ph: 'X', tid, ts: ts * 1e6, dur: dur * 1e6, ...(micro_batch === undefined ? {} : { args: { micro_batch } }),
});
// Two stages, two micro-batches, forward 1 s, backward 2 s; then the optimizer takes 1 s.
const trace = {
  traceEvents: [
    { name: 'process_name', ph: 'M' },
    span(0, 'forward', 0, 1, 0), span(0, 'forward', 1, 1, 1), span(0, 'backward', 4, 2, 0), span(0, 'backward', 7, 2, 1),
    span(1, 'forward', 1, 1, 0), span(1, 'backward', 2, 2, 0), span(1, 'forward', 4, 1, 1), span(1, 'backward', 5, 2, 1),
    span(0, 'optimizer', 9, 1), span(1, 'optimizer', 9, 1), span(0, 'unheard of', 0, 99),
  ],
};
const timeline = timelineOf(trace);

describe('the trace of a plan', () => {
  it('is a row of spans for each stage, in seconds', () => {
    expect(timeline.step).toBe(10);
    expect(timeline.pipeline).toBe(9);
    expect(timeline.stages.map((spans) => spans.map(({ kind, start, end }) => [kind[0], start, end]))).toEqual([
      [['f', 0, 1], ['f', 1, 2], ['b', 4, 6], ['b', 7, 9], ['o', 9, 10]],
      [['f', 1, 2], ['b', 2, 4], ['f', 4, 5], ['b', 5, 7], ['o', 9, 10]],
    ]);
    expect(timelineOf({ traceEvents: [] })).toEqual({ stages: [], step: 0, pipeline: 0 });
  });
  it('is counted inside a window, and in equal parts of it', () => {
    const [first = []] = timeline.stages;
    expect(timesOf(first, 1.5, 5)).toEqual({ forward: 0.5, backward: 1 });
    expect(bucketsOf(first, 0, 10, 5)).toEqual([{ forward: 2 }, {}, { backward: 2 }, { backward: 1 }, { backward: 1, optimizer: 1 }]);
    const sum = bucketsOf(first, 0.3, 9.7, 7).flatMap((part) => Object.values(part)).reduce((a, b) => a + b, 0);
    expect(sum).toBeCloseTo(0.7 + 1 + 2 + 2 + 0.7, 9);
  });
});

describe('the window on a step', () => {
  it('is read from the address, and is the whole step if that makes no sense', () => {
    expect(windowIn({ from: '0.25', to: '0.5' })).toEqual({ from: 0.25, to: 0.5 });
    for (const bad of [{}, { from: '0.5', to: '0.5' }, { from: '-1' }, { to: '2' }, { from: 'x' }] as Record<string, string>[]) {
      expect(windowIn(bad)).toEqual(wholeStep);
    }
  });
  it('zooms around its middle, moves by its width, and stays in the step', () => {
    expect(zoomed(wholeStep, 0.5)).toEqual({ from: 0.25, to: 0.75 });
    expect(zoomed({ from: 0.75, to: 1 }, 2)).toEqual({ from: 0.5, to: 1 });
    expect(zoomed({ from: 0.25, to: 0.75 }, 4)).toEqual(wholeStep);
    expect(moved({ from: 0.25, to: 0.5 }, 1)).toEqual({ from: 0.5, to: 0.75 });
    expect(moved({ from: 0.1, to: 0.5 }, -1)).toEqual({ from: 0, to: 0.4 });
    let window = wholeStep;
    for (let at = 0; at < 100; ++at) window = zoomed(window, 0.5);
    expect(windowIn({ from: String(window.from), to: String(window.to) })).toEqual(window);
  });
});

describe('the drawing of a step', () => {
  it('says how long the stages wait, and has their times in the table', () => {
    const spec = timelineSpec('Plan 1', timeline, wholeStep, text);
    // Both stages work 6 of 9 s.
    expect(plain(spec.sentence)).toBe(
      'A step of Plan 1 is simulated to take 10.0 s, of which the pipeline takes 9.00 s. In the pipeline, the stages wait between 33.3 % and 33.3 % of the time.',
    );
    expect(spec.table.rows.map((row) => row.map(({ value }) => value))).toEqual([
      ['Stage 1', 2, 4, 0, 0, 1, 0, 3],
      ['Stage 2', 2, 4, 0, 0, 1, 0, 3],
    ]);
    expect(spec.legend?.map(({ name }) => name)).toEqual(['forward pass', 'backward pass', 'optimizer']);
  });
  it('is the same as the last time', async () => {
    // After a change that is meant: npx vitest run -u tests/unit/timeline.test.ts, and look at the picture.
    const spec = timelineSpec('Plan 1', timeline, { from: 0.1, to: 0.95 }, text);
    await expect(svgText(spec, paletteOf(false), true)).toMatchFileSnapshot('baselines/timeline.svg');
  });
  it('shows shares of time where operations are too many, and operations after zooming in', () => {
    const many = timelineOf({
      traceEvents: Array.from({ length: 4000 }, (_, at) => span(at % 2, at % 4 < 2 ? 'forward' : 'backward', Math.floor(at / 2), 0.5, at)),
    });
    const whole = timelineSpec('Plan 1', many, wholeStep, text);
    expect(whole.sentence).toContain('too many to draw');
    // 2 stages of 240 bars, each half forward or backward, both kinds in some.
    const bars = whole.draw(paletteOf(false)).split('<rect').length - 1;
    expect(bars).toBeGreaterThan(400);
    expect(bars).toBeLessThan(1000);
    const near = timelineSpec('Plan 1', many, { from: 0.5, to: 0.506 }, text);
    expect(near.sentence).not.toContain('too many');
    expect(near.draw(paletteOf(true))).toContain('>2001</text>');
  });
  it('has round times on its axis, and a colour and a word for each kind', () => {
    expect([60, 7, 0.012, 1].map(tickOf)).toEqual([10, 2, 0.002, 0.2]);
    for (const kind of spanKinds) expect(textOf('zh-CN').word('span', kind.replaceAll(' ', '_'))).not.toBe(kind);
  });
});
