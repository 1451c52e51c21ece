import { describe, expect, it } from 'vitest';
import type { TuneRequest } from '../../src/api/wire';
import { countOf, modelIn, notCounts, queryOf, questionOf, typedIn, typedOf } from '../../src/parts/question';

const typed = {
  chip: 'nvidia-h100-sxm5-80gb',
  nodes: '8',
  devices: '',
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
    expect(notCounts(typed)).toEqual([]);
    expect(notCounts({ ...typed, nodes: 'two', batch: '' })).toEqual(['nodes']);
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
    const again = questionOf({ ...typedOf(base), nodes: '16' }, undefined, base);
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
    const again = questionOf({ ...typedOf(base), chip: 'nvidia-h100-sxm5-80gb' }, undefined, base);
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
    const own = { ...typedOf(base), nodes: '16', precision: '' };
    const query = queryOf(own, base, { from: 'study-1' });
    expect(query).toMatchObject({ from: 'study-1', nodes: '16', precision: '-', chip: '' });
    const link = Object.fromEntries(Object.entries(query).filter(([, value]) => value !== ''));
    expect(typedIn(link, base)).toEqual(own);
  });
});
