// Several studies side by side, and one question at several sizes.
import { describe, expect, it } from 'vitest';
import { ApiError } from '../../src/api/client';
import type { GetStudyResponse, SweepRequest, TuneRequest } from '../../src/api/wire';
import { costFrontSpec, costPoints } from '../../src/charts/cost_front';
import { scalingSpec, studiesSpec, throughputOf } from '../../src/charts/throughput';
import { csvOf } from '../../src/charts/spec';
import { isSameWork, questionDifferences, studyNames, studyRows } from '../../src/parts/study_pairs';
import { askSweep, numbersIn, sweptQuestion, usualSizes, type SweepCalls } from '../../src/parts/sweep';
import { languages, textOf, type Language } from '../../src/text/text';
import { estimate, plan, ranked, study, summary } from './samples';

const text = textOf('en');

function asked(id: string, nodes: number, changes: Partial<GetStudyResponse> = {}): GetStudyResponse {
  return {
    ...study([ranked('a')], ranked('b')),
    study: summary({ id, cluster_name: `${nodes} nodes`, device_count: nodes * 8 }),
    question: {
      workload: { sequence_length: 4096, global_batch_size: 64 },
      cluster: { name: `${nodes} nodes`, pools: [{ chip: 'h100', node_count: nodes }] },
      history: [{ outcome: 'ok' }],
      trials: { max_trials: 3 },
      baseline: plan(),
    } as unknown as TuneRequest,
    ...changes,
  };
}

describe('studies side by side', () => {
  const two = [asked('s-1', 8), asked('s-2', 16)];
  it('differ in what their questions state, without measurements and names', () => {
    expect(questionDifferences(two, text)).toEqual([{ label: 'cluster.pools[0].node_count', values: ['8', '16'] }]);
    expect(questionDifferences([asked('s-1', 8), asked('s-2', 8)], text)).toEqual([]);
  });
  it('compare the plan that a question states in one row', () => {
    const withBaseline = (tensor: number) =>
      asked('s', 8, { question: { baseline: plan({ tensor_parallel: tensor }) } as TuneRequest });
    expect(questionDifferences([withBaseline(2), withBaseline(4)], text)).toEqual([
      {
        label: 'baseline',
        values: [2, 4].map((tensor) => `TP ${tensor} + SP · PP 2 · DP 8 · MBS 1 · ZeRO 1 · 1F1B`),
      },
    ]);
  });
  it('compare the model file by its keys', () => {
    const withConfig = (layers: number) =>
      asked('s', 8, { question: { hugging_face_config_json: JSON.stringify({ num_hidden_layers: layers, hidden_size: 8 }) } as TuneRequest });
    expect(questionDifferences([withConfig(4), withConfig(5)], text)).toEqual([
      { label: 'config.json.num_hidden_layers', values: ['4', '5'] },
    ]);
  });
  it('have the figures that any of them has', () => {
    const rows = studyRows(two, text);
    const valueOf = (label: string) => rows.find((row) => row.label === label)?.values;
    expect(valueOf('Devices of the cluster')).toEqual(['64', '128']);
    expect(valueOf('Step time')).toEqual(['10.0\u00a0s', '10.0\u00a0s']);
    expect(valueOf('Tokens per second')).toEqual(['64,000', '64,000']);
    expect(valueOf('Price of the whole run')).toBeUndefined();
    const paid = asked('s-3', 8, study([ranked('a', { run: { step_count: 1, days: 2, low_days: 1.5, high_days: 3, device_hours: 3072, price: 900 } })], ranked('b')));
    expect(studyRows([two[0]!, paid], text).find(({ label }) => label === 'Price of the whole run')?.values).toEqual(['–', '900']);
  });
  it('say what is missing where nothing fits', () => {
    const { result: _result, ...nothing } = asked('s-3', 8);
    const infeasible = { binding_memory_kind: 'weights', missing_bytes: 2 ** 31, suggestions: [], pruned_count_by_rule: {}, recommendation: 'nothing_fits' };
    const rows = studyRows([two[0]!, { ...nothing, infeasible }], text);
    expect(rows.find(({ label }) => label === 'Verdict')?.values).toEqual(['Launch this plan', 'No plan fits']);
    expect(rows.find(({ label }) => label === 'Step time')?.values).toEqual(['10.0\u00a0s', '–']);
    expect(rows.find(({ label }) => label === 'Missing memory per device')?.values).toEqual(['–', '2.0\u00a0GiB']);
  });
  it('have different names, and say if their steps are not the same work', () => {
    expect(studyNames([asked('s-1', 8), asked('s-2', 8)], text)).toEqual(['llama on 8 nodes (s-1)', 'llama on 8 nodes (s-2)']);
    expect(isSameWork(two)).toBe(true);
    const longer = asked('s-2', 8, { question: { workload: { sequence_length: 8192, global_batch_size: 64 } } as TuneRequest });
    expect(isSameWork([two[0]!, longer])).toBe(false);
  });
  it('say which is faster, and if that is sure', () => {
    // 1,000 tokens/s at 10 s a step, of which 80 % lie between 8 and 12 s: 833 to 1,250.
    expect(throughputOf(estimate())).toEqual({ tokens: 1000, low: 10000 / 12, high: 1250 });
    const named = (name: string, tokens: number) => ({ name, estimate: estimate({ tokens_per_second_per_device: tokens }) });
    expect(studiesSpec([named('a', 1000), named('b', 1100)], text).sentence).toMatch(/^b .*overlaps that of a/);
    expect(studiesSpec([named('a', 1000), named('b', 2000)], text).sentence).toMatch(/^b .*lies above that of a/);
    expect(studiesSpec([named('a', 1000), { name: 'b' }], text).sentence).toBe('Only a has an estimate: 1,000 tokens per second and device.');
  });
});

describe('the sizes of a sweep', () => {
  it('are whole numbers, in order, each once', () => {
    expect(numbersIn('8, 4 16,8')).toEqual([4, 8, 16]);
    for (const bad of ['', '4, x', '0', '1.5', Array.from({ length: 13 }, (_, at) => at + 1).join(',')]) {
      expect(numbersIn(bad), bad).toBeUndefined();
    }
  });
  it('begin around those of the study', () => {
    expect(usualSizes(asked('s', 6).question, { kind: 'nodes' })).toEqual([3, 6, 12]);
    expect(usualSizes(asked('s', 6).question, { kind: 'sequence' })).toEqual([4096, 8192, 16384, 32768]);
  });
});

describe('a sweep', () => {
  const signal = new AbortController().signal;
  const refuse = () => Promise.reject(new Error('not asked'));
  it('asks once for all numbers of nodes, without what belongs to the study only', async () => {
    const requests: SweepRequest[] = [];
    const calls: SweepCalls = {
      recommend: refuse,
      sweep: async (request) => {
        requests.push(request);
        const point = { free_memory_ratio: 0, device_seconds_per_token: 1, is_on_front: true, cluster_index: 0, cluster_name: '', chip: '' };
        return { points: [{ ...point, device_count: 32 }, { ...point, device_count: 64, best: ranked('a') }], warnings: ['w'], applied_defaults: [], reason: '' };
      },
    };
    const answer = await askSweep(asked('s', 8), { kind: 'nodes' }, [4, 8], calls, signal);
    expect(requests[0]?.node_counts).toEqual([4, 8]);
    for (const left of ['trials', 'baseline']) expect(requests[0]?.question).not.toHaveProperty(left);
    expect(sweptQuestion(asked('s', 8).question!).history).toEqual([]);
    expect(answer.points.map(({ value, deviceCount, best }) => [value, deviceCount, best?.plan_digest])).toEqual([
      [4, 32, undefined], [8, 64, 'a'],
    ]);
    const spec = scalingSpec(answer.points, 'nodes', text);
    expect(spec.sentence).toBe('Number of nodes 8: 1,000 tokens per second and device. At 1 size, no plan fits.');
    expect(csvOf(spec.table).split('\r\n')[1]).toBe('4,32,,,,,No plan fits');
  });
  it('asks one after the other for sequence lengths; that nothing fits is an answer', async () => {
    const lengths: number[] = [];
    const calls: SweepCalls = {
      sweep: refuse,
      recommend: async ({ workload }) => {
        lengths.push(workload?.sequence_length ?? 0);
        if (workload?.sequence_length === 8192) {
          throw new ApiError(400, 'NO_FEASIBLE_PLAN', '', [], { binding_memory_kind: '', missing_bytes: 1, suggestions: [], pruned_count_by_rule: {}, recommendation: '' });
        }
        return { study_id: '', source: 'model', result: study([ranked('a')], ranked('b')).result! };
      },
    };
    const answer = await askSweep(asked('s', 8), { kind: 'sequence' }, [4096, 8192], calls, signal);
    expect(lengths).toEqual([4096, 8192]);
    expect(answer.points.map(({ best }) => best?.plan_digest)).toEqual(['a', undefined]);
    const broken: SweepCalls = { sweep: refuse, recommend: () => Promise.reject(new ApiError(429, 'SERVER_BUSY', '')) };
    await expect(askSweep(asked('s', 8), { kind: 'sequence' }, [4096], broken, signal)).rejects.toThrow(ApiError);
  });
  it('asks one after the other for nodes of one of several pools, and counts all devices together', async () => {
    const cluster = { name: 'two', pools: [{ name: 'a', chip: 'a100', node_count: 2, devices_per_node: 8 }, { name: 'h', chip: 'h100', node_count: 4, devices_per_node: 4 }] };
    const mixed = asked('s', 4, { question: { ...asked('s', 4).question, cluster } as unknown as TuneRequest });
    const counts: (number | undefined)[][] = [];
    const calls: SweepCalls = {
      sweep: refuse,
      recommend: async ({ cluster: own }) => {
        counts.push(own?.pools.map(({ node_count }) => node_count) ?? []);
        return { study_id: '', source: 'model', result: study([ranked('a')], ranked('b')).result! };
      },
    };
    const answer = await askSweep(mixed, { kind: 'nodes', pool: 1 }, [4, 6], calls, signal);
    expect(counts).toEqual([[2, 4], [2, 6]]);
    // 2 nodes of 8 and 4 of 4 are 32 devices; two more nodes of 4 make 40.
    expect(answer.points.map(({ deviceCount }) => deviceCount)).toEqual([32, 40]);
    // The plan uses TP 4 x PP 2 x DP 8 = 64 devices, which have 1,000 tokens a second each.
    expect(scalingSpec(answer.points, 'nodes', text, 'h').sentence).toBe(
      'Nodes of h 4: 64,000 tokens per second; Nodes of h 6: 64,000, which is 0.0\u00a0%.',
    );
    expect(usualSizes(mixed.question, { kind: 'nodes', pool: 1 })).toEqual([1, 2, 4, 8]);
  });
  it('says how throughput changes', () => {
    const at = (value: number, tokens: number) => ({ value, deviceCount: value * 8, best: ranked('a', { estimate: estimate({ tokens_per_second_per_device: tokens }) }) });
    expect(scalingSpec([at(4, 1000), at(8, 900)], 'nodes', text).sentence).toBe(
      'Number of nodes 4: 1,000 tokens per second and device; Number of nodes 8: 900, which is −10.0\u00a0%.',
    );
  });
  it.each(Object.keys(languages) as Language[])('leaves no gap in a sentence: %s', (language) => {
    const own = textOf(language);
    const point = { value: 4, deviceCount: 32, best: ranked('a') };
    for (const { sentence } of [scalingSpec([point, { ...point, value: 8 }, { value: 9, deviceCount: 72 }], 'sequence', own), scalingSpec([point, { ...point, value: 8 }], 'nodes', own, 'h'), scalingSpec([point], 'nodes', own, 'h'), studiesSpec([{ name: 'a', estimate: estimate() }, { name: 'b', estimate: estimate() }], own)]) {
      expect(sentence).not.toMatch(/[{}]|undefined|NaN/);
    }
  });
});

describe('step time against cost', () => {
  const at = (value: number, seconds: number, tokens: number, price?: number) => ({
    value,
    deviceCount: value * 8,
    best: ranked(String(value), {
      estimate: estimate({ step_time_seconds: seconds, tokens_per_second_per_device: tokens }),
      ...(price === undefined ? {} : { run: { step_count: 1, days: 1, low_days: 1, high_days: 1, device_hours: 1, price } }),
    }),
  });
  // A billion tokens at 1,000 a second and device are 10^6 device-seconds, 277.8 device-hours.
  const sizes = [at(2, 40, 1000), at(4, 22, 900), at(6, 23, 800), { value: 8, deviceCount: 64 }];
  it('marks the sizes that no other size beats in both', () => {
    const { points, isPrice } = costPoints(sizes);
    expect(isPrice).toBe(false);
    expect(points.map(({ nodes, isOnFront }) => [nodes, isOnFront])).toEqual([[4, true], [6, false], [2, true]]);
    expect(points[2]?.cost).toBeCloseTo(277.78, 2);
    const spec = costFrontSpec(sizes, text);
    // 1 - 22/40 = 45 %; 1000/900 - 1 = 11.1 %.
    expect(spec?.sentence).toBe(
      'Of 3 sizes, 2 are beaten by no other in both. Training is cheapest with 2 nodes; with 4, a step takes 45.0\u00a0% less and the training costs 11.1\u00a0% more.',
    );
    expect(csvOf(spec!.table).split('\r\n')[0]).toBe('node_count,step_time_seconds,device_hours_per_billion_tokens,is_on_front');
  });
  it('takes prices if every size has one, and is absent for a single size', () => {
    const { points, isPrice } = costPoints([at(2, 40, 1000, 50), at(4, 22, 900, 40)]);
    expect([isPrice, points.map(({ cost }) => cost)]).toEqual([true, [40, 50]]);
    expect(costPoints([at(2, 40, 1000, 50), at(4, 22, 900)]).isPrice).toBe(false);
    expect(costFrontSpec(sizes.slice(0, 1), text)).toBeUndefined();
    expect(costFrontSpec([at(2, 40, 1000, 50), at(4, 22, 900, 40)], text)?.sentence).toBe('No other size is as fast or as cheap as 4 nodes.');
  });
});
