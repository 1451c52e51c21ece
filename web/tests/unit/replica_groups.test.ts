// Plans whose replicas differ, whose stages are parts of nodes, and which leave nodes idle.
import { describe, expect, it } from 'vitest';
import type { Estimate, GetStudyResponse, StageEstimate, StagePlan } from '../../src/api/wire';
import { clusterFacts, clusterSpec, layoutOf } from '../../src/charts/cluster';
import { poolLinksSpec, poolUseSpec } from '../../src/charts/pool_links';
import { stageLayersSpec, stageTimesSpec } from '../../src/charts/pools';
import { csvOf } from '../../src/charts/spec';
import { stageFiguresSpec } from '../../src/charts/stages';
import { planLine, settingsOf } from '../../src/parts/plan_words';
import { devicesOf, poolStages, poolUse, stageRows, tracedRows } from '../../src/parts/pools';
import { seatsOf } from '../../src/parts/rank_layout';
import { languages, textOf, type Language } from '../../src/text/text';
import { estimate, plan, ranked, study, summary } from './samples';

const text = textOf('en');
const gib = 2 ** 30;

const stage = (pool: string, tensor: number, layers: number, deviceCount = 0): StagePlan => ({
  pool,
  node_count: 1,
  tensor_parallel: tensor,
  data_parallel: 1,
  context_parallel: 1,
  layer_count: layers,
  micro_batch_size: 1,
  ...(deviceCount > 0 ? { device_count: deviceCount } : {}),
});

// Two replicas on half a node of "old" each, and one on two nodes of "new": 2 x 4 + 8 + 8 devices.
const groups = plan({
  tensor_parallel: 1,
  pipeline_parallel: 2,
  data_parallel: 3,
  layers_per_stage: [],
  replica_groups: [
    { replica_count: 2, micro_batch_count: 10, stages: [stage('old', 4, 32, 4)] },
    { replica_count: 1, micro_batch_count: 12, stages: [stage('new', 8, 12), stage('new', 8, 20)] },
  ],
});

function figures(pool: string, group: number, changes: Partial<StageEstimate> = {}): StageEstimate {
  return {
    pool,
    replica_group: group,
    forward_seconds: 0.1,
    backward_seconds: 0.2,
    message_seconds: 0.01,
    reserved_memory_bytes: 20 * gib,
    memory_capacity_bytes: 40 * gib,
    fits: true,
    idle_ratio: 0.25,
    ...changes,
  };
}

const cost: Estimate = estimate({
  peak_memory_bytes_by_stage: [18 * gib, 50 * gib, 70 * gib],
  stages: [
    figures('old', 0, { idle_ratio: 0 }),
    figures('new', 1, { memory_capacity_bytes: 80 * gib, reserved_memory_bytes: 60 * gib }),
    figures('new', 1, { forward_seconds: 0.2, fits: false, memory_capacity_bytes: 80 * gib, reserved_memory_bytes: 88 * gib, idle_ratio: 0.05 }),
  ],
  idle_nodes_by_pool: { old: 1 },
});

const answered = (): GetStudyResponse => ({
  ...study([ranked('g', { plan: groups, estimate: cost })], ranked('g', { plan: groups, estimate: cost })),
  study: summary({ device_count: 32 }),
  question: {
    workload: { sequence_length: 4096, global_batch_size: 32 },
    cluster: {
      name: 'two',
      pools: [
        { name: 'old', chip: 'o', node_count: 2, devices_per_node: 8 },
        { name: 'new', chip: 'n', node_count: 2, devices_per_node: 8 },
        { name: 'third', chip: 't', node_count: 0, devices_per_node: 8 },
      ],
      pool_links: [{ from: 'new', to: 'old', bandwidth_bytes_per_second_per_node: 12.5e9, path: 'host' }],
    },
  } as never,
});

const defaults = [
  { field: 'cluster.inter_pool.bandwidth_bytes_per_second_per_node', value: '50000000000', source: '' },
  { field: 'cluster.inter_pool.latency_seconds', value: '2e-05', source: '' },
  { field: 'cluster.pool_links[0].latency_seconds', value: '2e-05', source: '' },
  { field: 'cluster.pool_links[old - third].path', value: 'host', source: '' },
];
const facts = () => clusterFacts(answered().question!.cluster!, defaults, 32);

describe('a plan whose replicas differ', () => {
  it('is named by its groups', () => {
    expect(planLine(groups, text)).toBe(
      '2 × [old (PP 1, TP 4, DP 1, MBS 1, each on 4 devices of a node, layers 32)] with 10 micro-batches each · ' +
        '1 × [new (PP 2, TP 8, DP 1, MBS 1, layers 12 + 20)] with 12 micro-batches each · SP · ZeRO 1 · 1F1B',
    );
    const settings = settingsOf(groups, text);
    expect(settings['replica_groups']).toContain('2 × [old (PP 1');
    for (const field of ['stages', 'pipeline_parallel', 'data_parallel', 'tensor_parallel']) expect(settings).not.toHaveProperty(field);
    expect(devicesOf(groups)).toBe(2 * 4 + 8 + 8);
  });
  it('has its stages by group, with their layers, degrees and micro-batches', () => {
    const spec = stageLayersSpec('Plan 1', stageRows(groups, cost, answered()), text);
    expect(spec.sentence).toBe(
      'The replicas of Plan 1 form 2 groups, and each replica has all 32 layers: ' +
        'group 1 is 2 replicas, each with 10 micro-batches of size 1 a step, and 32 layers on 8 devices of old; ' +
        'group 2 is 1 replica with 12 micro-batches of size 1 a step and 32 layers on 16 devices of new.',
    );
    expect(csvOf(spec.table).split('\r\n').slice(0, 4)).toEqual([
      'stage,pool,replica_count,device_count,node_part_device_count,tensor_parallel,context_parallel,data_parallel,micro_batch_size,micro_batch_count,layer_count,recompute',
      '"Group 1, stage 1",old,2,8,4,4,1,1,1,10,32,no recomputation',
      '"Group 2, stage 1",new,1,8,,8,1,1,1,12,12,no recomputation',
      '"Group 2, stage 2",new,1,8,,8,1,1,1,12,20,no recomputation',
    ]);
    expect(poolStages(stageRows(groups, cost, answered()), text)).toBe(
      'Stages by pool: group 1: 1 on old, group 2: 1–2 on new.',
    );
  });
  it('has the figures of each stage', () => {
    const spec = stageFiguresSpec('Plan 1', stageRows(groups, cost, answered()), text);
    // 0.2 + 0.2 + 0.01 s; the stages of "new" are idle 0.25 and 0.05 of the step.
    expect(spec?.sentence).toBe(
      'Of the stages of Plan 1, Group 2, stage 2 on new takes longest for a micro-batch: 410\u00a0ms. ' +
        'Shares of the step in which stages compute nothing, on average: 0.0\u00a0% on old, 15.0\u00a0% on new. ' +
        'The memory is too small on Group 2, stage 2.',
    );
    expect(csvOf(spec!.table).split('\r\n')[3]).toBe(`"Group 2, stage 2",new,0.2,0.2,0.01,0.05,${88 * gib},1.1,false`);
    const { stages: _stages, ...without } = cost;
    expect(stageFiguresSpec('Plan 1', stageRows(groups, without, answered()), text)).toBeUndefined();
  });
  it('has the timeline of its slowest replica', () => {
    const span = (end: number) => [{ kind: 'forward' as const, start: 0, end }];
    const rows = stageRows(groups, cost, answered());
    const timeline = { stages: [span(0.1), span(0.2)], step: 1, pipeline: 1 };
    expect(tracedRows(rows, timeline).map(({ group, number }) => [group, number])).toEqual([[2, 1], [2, 2]]);
    const spec = stageTimesSpec('Plan 1', rows, timeline, text);
    expect(spec.table.rows.map(([name]) => name?.text)).toEqual(['Group 2, stage 1', 'Group 2, stage 2']);
    expect(spec.sentence).toContain('the slowest replica, which is in group 2');
  });
  it('tells groups of as many stages apart by their forward passes', () => {
    const rows = stageRows(groups, cost, answered()).slice(1);
    const alike = [...rows.map((row) => ({ ...row, group: 1, figures: figures('new', 0, { forward_seconds: 0.5 }) })), ...rows];
    const span = (end: number) => [{ kind: 'forward' as const, start: 0, end }];
    expect(tracedRows(alike, { stages: [span(0.5), span(0.5)], step: 1, pipeline: 1 })[0]?.group).toBe(1);
    expect(tracedRows(alike, { stages: [span(0.1), span(0.2)], step: 1, pipeline: 1 })[0]?.group).toBe(2);
  });
});

describe('the nodes of such a plan', () => {
  const nodes = facts().pools.flatMap(({ name, nodeCount, devicesPerNode }) =>
    Array.from({ length: nodeCount }, () => ({ pool: name, devices: devicesPerNode })),
  );
  it('hold parts side by side, replica by replica; those with fewer replicas come first', () => {
    const seats = seatsOf(groups, nodes);
    const at = (node: number, device: number) => seats.find((seat) => seat.node === node && seat.device === device);
    expect(seats.length).toBe(24);
    // The group of one replica is replica 0 on the nodes of "new"; the halves of node 0 are 1 and 2.
    expect([at(0, 0), at(0, 3), at(0, 4), at(2, 0), at(3, 7)].map((seat) => [seat?.replica, seat?.stage, seat?.tensor])).toEqual([
      [1, 0, 0],
      [1, 0, 3],
      [2, 0, 0],
      [0, 1, 0],
      [0, 2, 7],
    ]);
    expect(at(1, 0)).toBeUndefined();
  });
  it('take the next node if a part has no room', () => {
    const three = plan({ stages: [stage('old', 4, 8, 4), stage('old', 2, 8, 2), stage('old', 4, 16, 4)] });
    expect([...new Set(seatsOf(three, nodes).map(({ stage: own, node }) => `${own} on ${node}`))]).toEqual([
      '0 on 0', '1 on 0', '2 on 1',
    ]);
    expect(seatsOf(plan({ stages: Array.from({ length: 5 }, () => stage('old', 4, 8, 4)) }), nodes)).toEqual([]);
  });
  it('are drawn with their groups', () => {
    const layout = layoutOf(facts(), groups);
    if (!layout) throw new Error('a layout');
    const spec = clusterSpec(layout, text);
    expect(spec.sentence).toContain('1 node is idle.');
    expect(spec.sentence).toContain('The replicas form 2 groups; R numbers them.');
    expect(spec.table.rows.map((row) => [row[1]?.text, row[3]?.text])).toEqual([
      ['old', 'group 1: 1'],
      ['old', 'idle'],
      ['new', 'group 2: 1'],
      ['new', 'group 2: 2'],
    ]);
  });
  it('are counted by pool, with those that are idle', () => {
    const spec = poolUseSpec('Plan 1', poolUse(groups, cost, answered()), text);
    expect(spec.sentence).toBe('Plan 1 uses 3 of 4 nodes. Idle: 1 of old.');
    expect(csvOf(spec.table)).toContain('old,o,2,1,1\r\nnew,n,2,2,0');
    // A plan for one pool leaves the others idle, and its estimate does not list them.
    const alone = poolUse(plan({ pools: ['new'] }), estimate(), answered());
    expect(alone.map(({ idleNodes }) => idleNodes)).toEqual([2, 0, 0]);
  });
});

describe('the links between pools', () => {
  it('are stated for a pair, or those of all pairs', () => {
    expect(facts().links).toEqual([
      { from: 'old', to: 'new', bytesPerSecond: 12.5e9, latencySeconds: 2e-5, path: 'host', isStated: true },
      { from: 'old', to: 'third', bytesPerSecond: 50e9, latencySeconds: 2e-5, path: 'host', isStated: false },
      { from: 'new', to: 'third', bytesPerSecond: 50e9, latencySeconds: 2e-5, path: 'direct', isStated: false },
    ]);
    const spec = poolLinksSpec(facts().links, text);
    expect(spec.sentence).toBe(
      'Of 3 links between pools, old – new is the slowest, with 12.5\u00a0GB/s a node. Through the memory of the hosts: old – new, old – third.',
    );
    expect(csvOf(spec.table).split('\r\n')[1]).toBe('old,new,12500000000,0.00002,host,true');
  });
  it.each(Object.keys(languages) as Language[])('and the stages leave no gap in a sentence: %s', (language) => {
    const own = textOf(language);
    const rows = stageRows(groups, cost, answered());
    const specs = [
      poolLinksSpec(facts().links, own),
      poolUseSpec('1', poolUse(groups, cost, answered()), own),
      stageLayersSpec('1', rows, own),
      stageFiguresSpec('1', rows, own)!,
    ];
    for (const { sentence, title } of specs) expect(sentence + title).not.toMatch(/[{}]|undefined|NaN/);
    expect(planLine(groups, own)).not.toMatch(/[{}]|undefined/);
  });
});
