import { describe, expect, it } from 'vitest';
import { gainsSpec } from '../../src/charts/gains';
import { gainOf } from '../../src/parts/gains';
import { textOf } from '../../src/text/text';
import { measurement, ranked, summary } from './samples';

const retraction = { sequence: 9, create_time: '2026-11-02T00:00:00Z', reason: 'wrong' };

describe('the gain of a study', () => {
  it('is that of the fastest plan, by the median of its runs, against the measured baseline', () => {
    const runs = [
      measurement(8, { plan_digest: 'a' }),
      measurement(10, { plan_digest: 'a' }),
      measurement(12, { plan_digest: 'base' }),
      measurement(2, { plan_digest: 'b', retraction }),
      measurement(0, { plan_digest: 'c', outcome: 'oom' }),
    ];
    // 12 s against the median 9 s of two runs; the retracted 2 s do not count.
    expect(gainOf(summary(), ranked('base'), runs)).toMatchObject({
      baselineSeconds: 12,
      isBaselineMeasured: true,
      bestSeconds: 9,
      gain: 12 / 9 - 1,
      runCount: 3,
    });
  });
  it('is against the predicted baseline if that has not run', () => {
    const gain = gainOf(summary(), ranked('base'), [measurement(8)]);
    expect(gain).toMatchObject({ baselineSeconds: 10, isBaselineMeasured: false, gain: 0.25 });
  });
  it('is unknown without a run that counts, or without a baseline', () => {
    expect(gainOf(summary(), ranked('base'), [measurement(8, { retraction })])).toBeUndefined();
    expect(gainOf(summary(), undefined, [measurement(8)])).toBeUndefined();
  });
  it('is told in a sentence and a table', () => {
    const text = textOf('en');
    const first = gainOf(summary(), ranked('base'), [measurement(8)]);
    const second = gainOf(summary({ id: 'study-2' }), ranked('base'), [measurement(10)]);
    const spec = gainsSpec([first, second].flatMap((gain) => gain ?? []), text);
    expect(spec.sentence).toBe(
      'In 1 of 2 measured studies a plan beat the baseline; the largest gain is +25.0\u00a0%, of llama (eight).',
    );
    expect(spec.table.rows.map((row) => [row[0]?.value, row[7]?.value])).toEqual([
      ['study-1', 0.25],
      ['study-2', 0],
    ]);
  });
});
