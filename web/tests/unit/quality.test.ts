import { describe, expect, it } from 'vitest';
import { measurementLimit, newestMeasurements } from '../../src/api/measurements';
import type { ListMeasurementsResponse } from '../../src/api/wire';
import { coverageSpec, errorGroupsSpec, errorOverTimeSpec, scatterSpec } from '../../src/charts/quality';
import { groupsOf, quantileOf, runsOf, summaryOf } from '../../src/parts/run_errors';
import { textOf } from '../../src/text/text';
import { matching } from '../../src/views/quality';
import { measurement } from './samples';

const text = textOf('en');
const retraction = { sequence: 9, create_time: '2026-11-02T00:00:00Z', reason: 'milliseconds' };
// Four runs that count, with errors of +10, -10, 0 and +50 %: the last is outside of 8 to 12 s.
const measured = [
  measurement(11, { id: 'm-1', create_time: '2026-11-03T00:00:00Z' }),
  measurement(9, { id: 'm-2', create_time: '2026-11-01T00:00:00Z' }),
  measurement(10, { id: 'm-3', create_time: '2026-11-02T00:00:00Z', chip: 'amd-instinct-mi300x' }),
  measurement(15, { id: 'm-4', create_time: '2026-11-04T00:00:00Z', framework_version: '0.12' }),
  measurement(7000, { id: 'm-5', retraction }),
  measurement(0, { id: 'm-6', outcome: 'oom' }),
];

describe('runs that count', () => {
  it('have both times, were not retracted, and stand in the order of their time', () => {
    expect(runsOf(measured).map((run) => run.measurement.id)).toEqual(['m-2', 'm-3', 'm-1', 'm-4']);
    expect(runsOf(measured, true).map((run) => run.measurement.id)).toEqual(['m-5']);
    const { expected: _, ...unknown } = measurement(10);
    expect(runsOf([unknown])).toEqual([]);
  });
  it('are summed up by quantiles', () => {
    expect(quantileOf([1, 2, 3, 4], 0.5)).toBe(2.5);
    expect(quantileOf([], 0.5)).toBe(0);
    const summary = summaryOf(runsOf(measured));
    expect(summary).toMatchObject({ count: 4, insideCount: 3 });
    expect(summary.median).toBeCloseTo(0.05); // between 0 and +10 %
    expect(summary.size).toBeCloseTo(0.1); // of 0, 10, 10 and 50 %
  });
  it('are grouped, the largest group first', () => {
    const names = (by: 'chip' | 'version') => groupsOf(runsOf(measured), by).map(({ name }) => name);
    expect(names('chip')).toEqual(['nvidia-h100-sxm5-80gb', 'amd-instinct-mi300x']);
    expect(names('version')).toEqual(['megatron-core 0.14', 'megatron-core 0.12']);
  });
  it('match the filters of the address', () => {
    const ids = (query: Record<string, string>) => matching(measured, query).map(({ id }) => id);
    expect(ids({ chip: 'amd-instinct-mi300x' })).toEqual(['m-3']);
    expect(ids({ version: 'megatron-core 0.12', source: 'job_report', by: 'model' })).toEqual(['m-4']);
    expect(ids({ source: 'trial' })).toEqual([]);
  });
});

describe('charts of predictions', () => {
  const runs = runsOf(measured);
  it('say how far the median was off, and count no retracted run', () => {
    const spec = scatterSpec(runs, runsOf(measured, true), text);
    expect(spec.sentence).toBe(
      '4 runs: the median was 5.0\u00a0% slower than predicted, and half of them were off by at most 10.0\u00a0%.',
    );
    expect(spec.table.rows.map((row) => [row[5]?.text, row[7]?.text])).toEqual([
      ['−10.0\u00a0%', 'no'],
      ['0.0\u00a0%', 'no'],
      ['+10.0\u00a0%', 'no'],
      ['+50.0\u00a0%', 'no'],
      ['+69,900.0\u00a0%', 'yes'],
    ]);
  });
  it('compare the older half with the newer one', () => {
    // Errors of -10 and 0 %, then of +10 and +50 %.
    expect(errorOverTimeSpec(runs, text).sentence).toBe(
      'The median error was −5.0\u00a0% in the older half of the runs and is +30.0\u00a0% in the newer half.',
    );
  });
  it('name the group that is the farthest off, and count the runs inside their intervals', () => {
    const groups = groupsOf(runs, 'version');
    expect(errorGroupsSpec(groups, 'version', text).sentence).toBe(
      'Of 2 groups, megatron-core 0.12 is the farthest off, with a median error of +50.0\u00a0% (runs: 1).',
    );
    const spec = coverageSpec(groups, 'version', text);
    expect(spec.title).toBe('How often the interval was right, by framework version');
    expect(spec.sentence).toBe('3 of 4 runs (75.0\u00a0%) lie inside their 80 % interval.');
    expect(spec.table.rows.map((row) => row[3]?.text)).toEqual(['100.0\u00a0%', '0.0\u00a0%']);
  });
  it('stay sound without a run', () => {
    for (const spec of [scatterSpec([], [], text), errorOverTimeSpec([], text), coverageSpec([], 'chip', text)]) {
      expect(spec.sentence).toBe('No measured run with an expectation matches.');
    }
  });
});

describe('reading measurements', () => {
  it('follows the pages up to a limit', async () => {
    const asked: unknown[] = [];
    const pages = (endless: boolean) => (query: Record<string, unknown>) => {
      asked.push(query['page_token']);
      const last = !endless && asked.length === 2;
      return Promise.resolve<ListMeasurementsResponse>({
        measurements: Array.from({ length: 1000 }, () => measurement(10)),
        next_page_token: last ? '' : `after ${asked.length}`,
      });
    };
    const signal = new AbortController().signal;
    const two = await newestMeasurements({}, signal, pages(false) as never);
    expect([two.measurements.length, two.isCut]).toEqual([2000, false]);
    expect(asked).toEqual(['', 'after 1']);
    const many = await newestMeasurements({}, signal, pages(true) as never);
    expect([many.measurements.length, many.isCut]).toEqual([measurementLimit, true]);
  });
});
