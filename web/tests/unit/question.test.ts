import { describe, expect, it } from 'vitest';
import type { TuneRequest } from '../../src/api/wire';
import {
  countOf,
  inputOf,
  isSameCluster,
  mistakesIn,
  modelIn,
  numberOf,
  queryOf,
  questionOf,
  typedIn,
  typedOf,
  withPool,
  type Typed,
} from '../../src/parts/question';

const typed: Typed = {
  pools: [{ name: '', chip: 'nvidia-h100-sxm5-80gb', nodes: '8', devices: '' }],
  between: '',
  framework: 'megatron-core',
  version: '',
  sequence: '4,096',
  batch: ' 1024 ',
  precision: '',
};
const base = {
  hugging_face_config_json: '{}',
  workload: { sequence_length: 8192, global_batch_size: 512, precision: 'fp8', optimizer: 'adam', framework: { name: 'nemo', version: '2.0', facts: [] } },
  cluster: {
    name: 'mine',
    pools: [{ name: 'a', chip: 'nvidia-a100-sxm4-80gb', node_count: 4, memory_capacity_bytes: 5, inter_node: { nic_count: 4 } }],
  },
  deadline_seconds: 5,
  trials: { launcher: 'local' },
  history: [{}],
  disabled_rules: ['dominance'],
  dimensions: [],
} as unknown as TuneRequest;

// Two pools with their own link, and a plan for them that the study compares with.
const mixed = {
  ...base,
  baseline: { stages: [{ pool: 'old' }] },
  cluster: {
    name: 'two',
    pools: [
      { name: 'old', chip: 'a', node_count: 4, memory_capacity_bytes: 5 },
      { name: 'new', chip: 'h', node_count: 2, inter_node: { nic_count: 4 } },
    ],
    inter_pool: { bandwidth_bytes_per_second_per_node: 12.5e9, latency_seconds: 1e-5 },
    pool_links: [{ from: 'old', to: 'new', path: 'host' }],
  },
} as unknown as TuneRequest;

/** Returns a form with one pool's inputs changed. */
const withPoolInputs = (form: Typed, at: number, changes: Partial<Typed['pools'][number]>): Typed => ({
  ...form,
  pools: form.pools.map((pool, place) => (place === at ? { ...pool, ...changes } : pool)),
});

describe('the model of a file', () => {
  it('is of Hugging Face unless it has our own keys', () => {
    expect(modelIn('{"num_hidden_layers": 2}')).toEqual({ hugging_face_config_json: '{"num_hidden_layers": 2}' });
    expect(modelIn('{"layer_count": 2}')).toEqual({ model: { layer_count: 2 } });
  });
  it.each(['', 'no', '[]', 'null', '3', '"a"'])('is none in %j', (text) => {
    expect(modelIn(text)).toBeUndefined();
  });
});

describe('a number', () => {
  it.each([['4,096', 4096], ['1_000 000', 1000000], ['0', 0], ['-1', NaN], ['1.5', NaN], ['1e3', NaN], ['', NaN]])(
    'that is typed as %j is %d',
    (text, number) => {
      expect(countOf(text)).toBe(number);
    },
  );
  it('that is none is named, unless nothing is typed', () => {
    expect([...mistakesIn(typed)]).toEqual([]);
    const wrong = withPoolInputs({ ...typed, batch: '' }, 0, { nodes: 'two' });
    expect([...mistakesIn(wrong).keys()]).toEqual(['nodes']);
  });
  it.each([['25', 25], ['12,5', 12.5], [' 0.5 ', 0.5], ['0', NaN], ['-1', NaN], ['1e3', NaN], ['', NaN]])(
    'that may have a fraction and is typed as %j is %d',
    (text, number) => {
      expect(numberOf(text)).toBe(number);
    },
  );
  it('of each pool is named with the pool, and the link only if there are several', () => {
    const two = withPoolInputs({ ...typedOf(mixed), between: 'fast' }, 1, { devices: 'x' });
    expect([...mistakesIn(two)]).toEqual([['devices2', 'ask.notCount'], ['between', 'ask.notNumber']]);
    expect([...mistakesIn({ ...typed, between: 'fast' })]).toEqual([]);
  });
});

describe('the question of the form', () => {
  it('states nothing that is empty, so that the server applies its defaults', () => {
    expect(questionOf(typed, modelIn('{"a": 1}'))).toEqual({
      hugging_face_config_json: '{"a": 1}',
      workload: { sequence_length: 4096, global_batch_size: 1024, framework: { name: 'megatron-core' } },
      cluster: { name: '8 nodes of nvidia-h100-sxm5-80gb', pools: [{ chip: 'nvidia-h100-sxm5-80gb', node_count: 8 }] },
    });
  });
  it('keeps what a study asked and the form has no input for, and runs no trials', () => {
    const again = questionOf(withPoolInputs(typedOf(base), 0, { nodes: '16' }), undefined, base);
    expect(again).toEqual({
      hugging_face_config_json: '{}',
      workload: base.workload,
      cluster: { name: '16 nodes of nvidia-a100-sxm4-80gb', pools: [{ ...base.cluster?.pools[0], node_count: 16 }] },
      deadline_seconds: 5,
      disabled_rules: ['dominance'],
      dimensions: [],
    });
  });
  it('keeps the name of a cluster that stays', () => {
    expect(questionOf({ ...typedOf(base), batch: '64' }, undefined, base).cluster).toEqual(base.cluster);
  });
  it('takes over no links and no memory to another chip', () => {
    const again = questionOf(withPoolInputs(typedOf(base), 0, { chip: 'nvidia-h100-sxm5-80gb' }), undefined, base);
    expect(again.cluster?.pools).toEqual([{ name: 'a', chip: 'nvidia-h100-sxm5-80gb', node_count: 4 }]);
  });
  it('takes the model of a new file instead of the study\u2019s', () => {
    const again = questionOf(typedOf(base), { model: { layer_count: 2 } } as never, base);
    expect(again.model).toEqual({ layer_count: 2 });
    expect(again.hugging_face_config_json).toBeUndefined();
  });
});

describe('the address of the form', () => {
  it('has what differs from the study, also what was emptied', () => {
    const own = withPoolInputs({ ...typedOf(base), precision: '' }, 0, { nodes: '16' });
    const query = queryOf(own, base, { from: 'study-1' });
    expect(query).toMatchObject({ from: 'study-1', nodes: '16', precision: '-', chip: '' });
    const link = Object.fromEntries(Object.entries(query).filter(([, value]) => value !== ''));
    expect(typedIn(link, base)).toEqual(own);
  });
});

describe('several pools', () => {
  const form = typedOf(mixed);
  it('are asked again as they were, with the plan that the study compares with', () => {
    const again = questionOf(form, undefined, mixed);
    expect(again.cluster).toEqual(mixed.cluster);
    expect(again.baseline).toEqual(mixed.baseline);
    expect(form.between).toBe('12.5');
  });
  it('are changed one by one', () => {
    const changed = withPoolInputs(form, 1, { nodes: '8' });
    expect(isSameCluster(changed, mixed)).toBe(false);
    const again = questionOf(changed, undefined, mixed);
    expect(again.cluster?.pools).toEqual([mixed.cluster?.pools[0], { ...mixed.cluster?.pools[1], node_count: 8 }]);
    expect(again.cluster?.name).toBe('4 nodes of a + 8 nodes of h');
    expect(again.cluster?.pool_links).toEqual(mixed.cluster?.pool_links);
    expect(again).not.toHaveProperty('baseline');
  });
  it('lose the links of a pool that is removed, and the others keep what they state', () => {
    const again = questionOf({ ...form, pools: form.pools.slice(1) }, undefined, mixed);
    expect(again.cluster).toEqual({ name: '2 nodes of h', pools: [mixed.cluster?.pools[1]] });
  });
  it('are given names that differ when one is added', () => {
    expect(withPool(typed.pools).map(({ name }) => name)).toEqual(['pool1', 'pool2']);
    const odd = [{ ...typed.pools[0]!, name: 'pool2' }];
    expect(withPool(odd).map(({ name }) => name)).toEqual(['pool2', 'pool2-2']);
  });
  it('are asked with their link', () => {
    const two = { ...typed, between: '50', pools: withPool(typed.pools) };
    const { cluster } = questionOf(withPoolInputs(two, 1, { chip: 'b', nodes: '1' }), undefined);
    expect(cluster).toEqual({
      name: '8 nodes of nvidia-h100-sxm5-80gb + 1 nodes of b',
      inter_pool: { bandwidth_bytes_per_second_per_node: 50e9 },
      pools: [
        { name: 'pool1', chip: 'nvidia-h100-sxm5-80gb', node_count: 8 },
        { name: 'pool2', chip: 'b', node_count: 1 },
      ],
    });
  });
  it.each([
    ['one more', { ...form, pools: [...form.pools, { name: 'third', chip: 'c', nodes: '1', devices: '8' }] }],
    ['the first one less', { ...form, pools: form.pools.slice(1) }],
    ['another link', { ...form, between: '' }],
  ])('stand in the address: %s', (_, own) => {
    const query = queryOf(own, mixed, {});
    const link = Object.fromEntries(Object.entries(query).filter(([, value]) => value !== ''));
    expect(typedIn(link, mixed)).toEqual(own);
  });
  it('have inputs for the mistakes that the server finds', () => {
    expect(inputOf('cluster.pools[0].node_count')).toBe('nodes');
    expect(inputOf('cluster.pools[2].chip')).toBe('chip3');
    expect(inputOf('cluster.inter_pool.bandwidth_bytes_per_second_per_node')).toBe('between');
    expect(inputOf('cluster.pools[2].host')).toBeUndefined();
  });
});
