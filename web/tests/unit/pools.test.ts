import { describe, expect, it } from 'vitest';
import type { GetStudyResponse, Heterogeneous, StagePlan } from '../../src/api/wire';
import { clusterFacts, clusterSpec, layoutOf } from '../../src/charts/cluster';
import { stagesSpec } from '../../src/charts/memory';
import { poolSetsSpec, stageLayersSpec, stageTimesSpec } from '../../src/charts/pools';
import { csvOf } from '../../src/charts/spec';
import { alternativesOf } from '../../src/parts/alternatives';
import { listedPlans, planAxes } from '../../src/parts/plan_axes';
import { planLine, settingsOf } from '../../src/parts/plan_words';
import { devicesOf, shownPlans, stageRows, tokensNote } from '../../src/parts/pools';
import { languages, textOf, type Language } from '../../src/text/text';
import { kindRows } from '../../src/views/decision';
import { estimate, plan, ranked, study, summary } from './samples';

const text = textOf('en');
const gib = 2 ** 30;

function stage(pool: string, tensor: number, data: number, layers: number, full = 0): StagePlan {
  const recompute = {
    granularity: full > 0 ? 'full' : 'none',
    layer_counts: full > 0 ? [full] : [],
    modules: [],
    selective_layer_counts: [],
  };
  return {
    pool, node_count: 1, tensor_parallel: tensor, data_parallel: data, context_parallel: 1, layer_count: layers, micro_batch_size: 1, recompute,
  };
}

// Two stages on a node of eight of "old", one on a node of eight of "new". The plan's own sizes mean nothing.
const mixed = plan({
  tensor_parallel: 1,
  data_parallel: 21,
  pipeline_parallel: 3,
  layers_per_stage: [],
  stages: [stage('old', 2, 2, 5, 1), stage('old', 2, 2, 6), stage('new', 4, 2, 21)],
});
const alone = plan({ tensor_parallel: 4, pipeline_parallel: 2, data_parallel: 1, pools: ['new'] });

const answer: Heterogeneous = {
  tokens_per_second_by_pool: { new: 800 },
  lower_bound_tokens_per_second: 800,
  upper_bound_tokens_per_second: 1250,
  efficiency_ratio: 0.8,
  gain_ratio: 1.25,
  mix_verdict: 'mix',
  reason: '',
  gain_low_ratio: 1.1,
  best_by_pool_set: [
    { pools: ['new'], tokens_per_second: 800, plan: alone },
    { pools: ['old', 'new'], tokens_per_second: 1000, plan: mixed },
  ],
  generations: [],
};

function mixedStudy(): GetStudyResponse {
  const peaks = estimate({ peak_memory_bytes_by_stage: [30 * gib, 20 * gib, 60 * gib] });
  const base = study([ranked('m', { plan: mixed, estimate: peaks })], ranked('a', { plan: alone }));
  return {
    ...base,
    study: summary({ device_count: 16 }),
    question: {
      cluster: {
        name: 'two',
        pools: [
          { name: 'old', chip: 'o', node_count: 1, devices_per_node: 8, memory_capacity_bytes: 40 * gib },
          { name: 'new', chip: 'n', node_count: 1, devices_per_node: 8 },
        ],
      },
    } as never,
    result: {
      ...base.result!,
      heterogeneous: answer,
      applied_defaults: [{ field: 'cluster.pools[1].memory_capacity_bytes', value: String(80 * gib), source: 'chip' }],
    },
  };
}

describe('a plan that mixes pools', () => {
  it('is named by its stages, not by sizes that mean nothing', () => {
    expect(planLine(mixed, text)).toBe(
      'old (PP 2, TP 2, DP 2, MBS 1, layers 5 + 6, full recomputation 1 + 0) · new (PP 1, TP 4, DP 2, MBS 1, layers 21) · SP · ZeRO 1 · 1F1B',
    );
    const settings = settingsOf(mixed, text);
    expect(settings).not.toHaveProperty('data_parallel');
    expect(settings).not.toHaveProperty('pools');
    expect(settings['stages']).toContain('old (PP 2');
    expect(planLine(alone, text)).toBe('TP 4 + SP · PP 2 · DP 1 · MBS 1 · ZeRO 1 · 1F1B · only on new');
    expect(settingsOf(alone, text)['pools']).toBe('new');
  });
  it('has no value in the dimensions of one pool', () => {
    const plans = listedPlans([ranked('m', { plan: mixed, rank: 1 }), ranked('a', { plan: alone, rank: 2 })], text);
    expect(plans[0]?.values).not.toHaveProperty('tensor_parallel');
    expect(planAxes(plans).find(({ field }) => field === 'tensor_parallel')?.words).toEqual(['–', '4']);
  });
  it('uses the devices of its stages', () => {
    expect(devicesOf(mixed)).toBe(2 * 2 + 2 * 2 + 4 * 2);
    expect(devicesOf(alone)).toBe(8);
    expect(tokensNote(alone, mixedStudy(), text)).toBe('on the 8 of 16 devices that the plan uses');
    expect(tokensNote(mixed, mixedStudy(), text)).toBe('in training, all tokens');
  });
  it('is compared by the tokens of the whole job, because plans use unequally many devices', () => {
    const { rows } = kindRows(alternativesOf(mixedStudy(), text), text);
    expect(rows.find(({ label }) => label === 'Devices')?.values).toEqual(['16', '8']);
    expect(rows.find(({ label }) => label === 'Tokens per second')?.values).toEqual(['16,000', '8,000']);
  });
  it('has the memory of each stage against its own pool', () => {
    const rows = stageRows(mixed, estimate({ peak_memory_bytes_by_stage: [30 * gib, 20 * gib, 60 * gib] }), mixedStudy());
    expect(rows.map(({ pool, capacityBytes }) => [pool, capacityBytes / gib])).toEqual([['old', 40], ['old', 40], ['new', 80]]);
    const spec = stagesSpec(estimate({ peak_memory_bytes_by_stage: [30 * gib, 20 * gib, 60 * gib] }), text, rows);
    expect(spec.table.rows.map((row) => row.map((cell) => cell.text))).toEqual([
      ['Stage 1', 'old', '30.0\u00a0GiB', '75.0\u00a0%'],
      ['Stage 2', 'old', '20.0\u00a0GiB', '50.0\u00a0%'],
      ['Stage 3', 'new', '60.0\u00a0GiB', '75.0\u00a0%'],
    ]);
    expect(spec.sentence).toContain('40.0\u00a0GiB, 80.0\u00a0GiB');
  });
});

describe('the charts about pools', () => {
  it('show each set between its bounds, the fastest first', () => {
    const spec = poolSetsSpec(answer, text);
    expect(spec.sentence).toBe(
      'The fastest mix, old + new, has 1,000 tokens per second: +25.0\u00a0% against the best pool alone (new, 800), and 80.0\u00a0% of the sum of all pools alone.',
    );
    expect(csvOf(spec.table).split('\r\n')[1]).toMatch(/^old \+ new,1000,1\.25,0\.8,/);
    expect(csvOf(spec.table).split('\r\n')[2]).toMatch(/^new,800,1,0\.64,/);
  });
  it('say if only a mix, or no mix, holds the job', () => {
    const only = { ...answer, lower_bound_tokens_per_second: 0, upper_bound_tokens_per_second: 0, best_by_pool_set: answer.best_by_pool_set.slice(1) };
    expect(poolSetsSpec(only, text).sentence).toBe('No pool holds the job alone; old + new together have 1,000 tokens per second.');
    expect(poolSetsSpec({ ...answer, best_by_pool_set: answer.best_by_pool_set.slice(0, 1) }, text).sentence).toBe(
      'No mix of pools fits; new alone has 800 tokens per second.',
    );
  });
  it('count the layers and devices of each pool', () => {
    const spec = stageLayersSpec('Plan 1', stageRows(mixed, undefined, mixedStudy()), text);
    expect(spec.sentence).toBe(
      'Plan 1 splits 32 layers: 11 on 8 devices of old, 21 on 8 devices of new. Each micro-batch has 2 sequences over all data-parallel ranks of a stage.',
    );
  });
  it('have the waiting of each pool', () => {
    // The pipeline takes 4 s; the stages of "old" work 3 s and 1 s of it, that of "new" 4 s.
    const span = (end: number) => [{ kind: 'forward' as const, start: 0, end }];
    const timeline = { stages: [span(3), span(1), span(4)], step: 5, pipeline: 4 };
    const spec = stageTimesSpec('Plan 1', stageRows(mixed, undefined, mixedStudy()), timeline, text);
    expect(spec.sentence).toContain('50.0\u00a0% on old, 0.0\u00a0% on new');
    expect(spec.table.rows.map((row) => row.at(-1)?.value)).toEqual([1, 3, 0]);
  });
  it.each(Object.keys(languages) as Language[])('leave no gap in a sentence: %s', (language) => {
    const own = textOf(language);
    const rows = stageRows(mixed, undefined, mixedStudy());
    for (const { sentence, title } of [poolSetsSpec(answer, own), stageLayersSpec('1', rows, own)]) {
      expect(sentence + title).not.toMatch(/[{}]|undefined|NaN/);
    }
  });
});

describe('the plans that can be shown', () => {
  it('are those of the answer, then the best of each other set', () => {
    const other = { ...answer, best_by_pool_set: [...answer.best_by_pool_set, { pools: ['new', 'old'], tokens_per_second: 900, plan: plan({ stages: [stage('new', 8, 1, 30), stage('old', 8, 1, 2)] }) }] };
    expect(shownPlans(alternativesOf(mixedStudy(), text), other, text).map(({ name }) => name)).toEqual([
      'Plan 1', 'Baseline', 'Fastest of new + old',
    ]);
  });
});

describe('the cluster of a plan for one pool', () => {
  it('has idle nodes', () => {
    const { question, result } = mixedStudy();
    if (!question?.cluster) throw new Error('a cluster');
    const facts = clusterFacts(question.cluster, result?.applied_defaults ?? [], 16);
    const layout = layoutOf(facts, alone);
    expect(layout?.kinds.map(({ pool, stages }) => [pool, stages])).toEqual([['old', []], ['new', [0, 1]]]);
    if (!layout) throw new Error('a layout');
    const spec = clusterSpec(layout, text);
    expect(spec.sentence).toContain('1 node is idle.');
    expect(spec.table.rows[0]?.map(({ text: cell }) => cell).slice(0, 4)).toEqual(['1', 'old', '1', 'idle']);
  });
});
