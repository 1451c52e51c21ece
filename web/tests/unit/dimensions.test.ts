import { describe, expect, it } from 'vitest';
import type { Plan } from '../../src/api/wire';
import { choiceAfter, dimensionsSpec, importanceSpec, intervalsOf, labelledOf, linesOf } from '../../src/charts/dimensions';
import { choiceIn, importanceOf, isChosen, listedPlans, planAxes, queryOfChoice, type Choice } from '../../src/parts/plan_axes';
import { textOf } from '../../src/text/text';
import { estimate, plan, ranked } from './samples';

const text = textOf('en');
const plain = (said: string) => said.replaceAll('\u00a0', ' ');
const gib = 2 ** 30;
const all: Choice = { values: {}, ranges: {} };

function list(rows: [Partial<Plan>, number][]) {
  return listedPlans(
    rows.map(([changes, seconds], rank) =>
      ranked(String(rank), { rank, plan: plan(changes), estimate: estimate({ step_time_seconds: seconds }) }),
    ),
    text,
  );
}

// Micro-batches of 1 take 10 and 12 s, of 2 take 20 and 22 s; the number of stages matters little.
const four = list([
  [{ micro_batch_size: 1, pipeline_parallel: 16 }, 10],
  [{ micro_batch_size: 1, pipeline_parallel: 4 }, 12],
  [{ micro_batch_size: 2, pipeline_parallel: 16 }, 20],
  [{ micro_batch_size: 2, pipeline_parallel: 4 }, 22],
]);
const axes = planAxes(four);

describe('the axes of plans', () => {
  it('are the dimensions in which they differ, with numbers in order', () => {
    expect(axes.map(({ field, values }) => [field, values])).toEqual([
      ['pipeline_parallel', ['4', '16']],
      ['micro_batch_size', ['1', '2']],
    ]);
    expect(planAxes(four.slice(0, 1))).toEqual([]);
  });
  it('tell what is recomputed apart from how much', () => {
    const full = { granularity: 'full', layer_counts: [3, 0], modules: [], selective_layer_counts: [] };
    const parts = { granularity: 'selective', layer_counts: [], modules: ['attention'], selective_layer_counts: [] };
    const found = planAxes(list([[{}, 1], [{ recompute: full }, 2], [{ recompute: parts }, 3]]));
    expect(found.map(({ field, values }) => [field, values])).toEqual([
      ['recompute', ['full', 'none', 'selective+attention']],
      ['recomputed_layers', ['0', '3', '32']], // all of 16 + 16 if none is stated
    ]);
    expect(found[0]?.words).toEqual(['full recomputation', 'no recomputation', 'selective recomputation: attention']);
  });
});

describe('a choice of plans', () => {
  const choice: Choice = { values: { micro_batch_size: ['1'] }, ranges: { step_time_seconds: [11, 30] } };
  it('is what all axes choose', () => {
    expect(four.filter((one) => isChosen(one, all)).length).toBe(4);
    expect(four.filter((one) => isChosen(one, choice)).map(({ seconds }) => seconds)).toEqual([12]);
  });
  it('stands in the address, and is read from it', () => {
    const query = queryOfChoice(choice, axes);
    expect(query).toEqual({ pipeline_parallel: '', micro_batch_size: '1', step_time_seconds: '11..30', free_memory_bytes: '' });
    expect(choiceIn(query, axes)).toEqual(choice);
  });
  it.each(['micro_batch_size=7', 'micro_batch_size=', 'step_time_seconds=x..3', 'step_time_seconds=3', 'other=1'])(
    'is not made by what no axis has: %s',
    (field) => {
      const [name = '', value = ''] = field.split('=');
      expect(choiceIn({ [name]: value }, axes)).toEqual(all);
    },
  );
  it('follows what is marked on an axis, and no mark chooses all', () => {
    const marked = choiceAfter(all, axes, four, 'pipeline_parallel', [[0.6, 1.4]]);
    expect(marked).toEqual({ values: { pipeline_parallel: ['16'] }, ranges: {} });
    expect(choiceAfter(marked, axes, four, 'pipeline_parallel', [])).toEqual(all);
    expect(choiceAfter(all, axes, four, 'pipeline_parallel', [[-0.5, 1.5]])).toEqual(all);
    expect(choiceAfter(all, axes, four, 'step_time_seconds', [[11, 20.5]]).ranges).toEqual({
      step_time_seconds: [12, 20], // the plans that are inside
    });
    expect(choiceAfter(all, axes, four, 'free_memory_bytes', [[1, 2]])).toEqual(all);
  });
  it('is marked on its axes, where neighbours share a mark', () => {
    expect(intervalsOf([2, 0, 3])).toEqual([[-0.4, 0.4], [1.6, 3.4]]);
    const { marked } = dimensionsSpec(four, axes, choice, text);
    expect(marked?.['micro_batch_size']).toEqual([[-0.4, 0.4]]);
    expect(marked?.['pipeline_parallel']).toEqual([]);
    expect(marked?.['step_time_seconds']?.[0]?.[0]).toBeLessThan(11);
  });
});

describe('the parallel coordinates', () => {
  it('say what is there, and what is chosen', () => {
    expect(plain(dimensionsSpec(four, axes, all, text).sentence)).toBe(
      '4 plans take from 10.0 s to 22.0 s a step. They differ in: Pipeline stages, Micro-batch size.',
    );
    const fast: Choice = { values: { micro_batch_size: ['2'] }, ranges: {} };
    expect(plain(dimensionsSpec(four, axes, fast, text).sentence)).toContain(
      '2 of them are chosen; the fastest is Plan 2, with 20.0 s.',
    );
    const none: Choice = { values: {}, ranges: { step_time_seconds: [0, 1] } };
    expect(dimensionsSpec(four, axes, none, text).sentence).toContain('None of them is chosen.');
  });
  it('have every plan in the table, in base units', () => {
    const { table } = dimensionsSpec(four, axes, { values: { micro_batch_size: ['1'] }, ranges: {} }, text);
    expect(table.keys).toEqual(['plan', 'is_chosen', 'pipeline_parallel', 'micro_batch_size', 'step_time_seconds', 'free_memory_bytes']);
    expect(table.rows.map((row) => row.map(({ value }) => value))).toEqual([
      ['Baseline', true, '16', '1', 10, 16 * gib],
      ['Plan 1', true, '4', '1', 12, 16 * gib],
      ['Plan 2', false, '16', '2', 20, 16 * gib],
      ['Plan 3', false, '4', '2', 22, 16 * gib],
    ]);
  });
  it('break long names, and leave out labels that would cover others', () => {
    expect(linesOf('Kind of context parallelism')).toBe('Kind of\ncontext\nparallelism');
    expect(linesOf('流水线级数')).toBe('流水线级数');
    expect(labelledOf(3)).toEqual([0, 1, 2]);
    expect(labelledOf(25)).toEqual([0, 3, 6, 9, 12, 15, 18, 21, 24]);
  });
});

describe('the importance of dimensions', () => {
  it('is the variance that a grouping explains, less what it explains by chance', () => {
    // The mean is 16; total: 36 + 16 + 16 + 36 = 104. By micro-batch: means 11 and 21, within 2 + 2 = 4.
    // Grouped by stages, the means are 15 and 17, and within groups 50 + 50 = 100. n - 1 = 3, n - k = 2.
    const found = importanceOf(four, axes);
    expect(found.map(({ field }) => field)).toEqual(['micro_batch_size', 'pipeline_parallel']);
    expect(found[0]?.share).toBeCloseTo(1 - ((3 / 2) * 4) / 104, 12);
    expect(found[1]?.share).toBe(0); // 1 - 150 / 104 is less than chance
    expect(importanceSpec(found, 4, text).sentence).toBe(
      'Among the 4 chosen plans without the baseline, Micro-batch size explains most of the step time by itself: 94.2\u00a0% of its variance.',
    );
  });
  it('does not judge a dimension with a value for each plan, nor equal times', () => {
    const three = list([[{ data_parallel: 1 }, 1], [{ data_parallel: 2 }, 2], [{ data_parallel: 4 }, 3]]);
    expect(importanceOf(three, planAxes(three))).toEqual([]);
    expect(importanceOf(list([[{ zero_stage: 1 }, 5], [{ zero_stage: 2 }, 5], [{ zero_stage: 2 }, 5]]), axes)).toEqual([]);
    expect(importanceOf([], axes)).toEqual([]);
    expect(importanceSpec([], 0, text).sentence).toContain('No dimension can be judged');
  });
});
