import { describe, expect, it } from 'vitest';
import { clusterFacts, clusterSpec, drawnKinds, layoutOf, type ClusterFacts } from '../../src/charts/cluster';
import { communicationSpec } from '../../src/charts/communication';
import { element, escaped, svgText } from '../../src/charts/drawing';
import { paletteOf } from '../../src/charts/palette';
import { equalNodes, groupsOf, rangesOf, seatsOf, type Groups } from '../../src/parts/rank_layout';
import { textOf } from '../../src/text/text';
import { estimate, plan } from './samples';

const text = textOf('en');
const nodesOf = (count: number, devices: number) => Array.from({ length: count }, () => ({ pool: 'a', devices }));
const find = (groups: Groups[], kind: string) => groups.find((group) => group.kind === kind);

// 2 stages x 4 data ranks x 2 tensor ranks on 4 nodes of 4 devices.
const small = plan({ tensor_parallel: 2, pipeline_parallel: 2, data_parallel: 4, expert_parallel: 4 });

describe('the seats of ranks', () => {
  it('are taken tensor first, then context, data and stages', () => {
    const seats = seatsOf(plan({ tensor_parallel: 2, context_parallel: 2, data_parallel: 2, pipeline_parallel: 2 }), nodesOf(2, 8));
    // Rank 5 of 16 is tensor rank 1, context rank 0 of the second copy; rank 8 begins the second stage.
    expect(seats[5]).toMatchObject({ node: 0, device: 5, stage: 0, tensor: 1, context: 0, data: 1 });
    expect(seats[8]).toMatchObject({ node: 1, device: 0, stage: 1, tensor: 0, context: 0, data: 0 });
  });
  it('are taken by stages before copies if the order of ranks says so', () => {
    const seats = seatsOf({ ...small, rank_order: 'tp-cp-ep-pp-dp' }, nodesOf(4, 4));
    const at = (node: number, device: number) => seats.find((seat) => seat.node === node && seat.device === device);
    expect([at(0, 0), at(0, 2), at(1, 0), at(3, 3)].map((seat) => [seat?.stage, seat?.data, seat?.tensor])).toEqual([
      [0, 0, 0],
      [1, 0, 0],
      [0, 1, 0],
      [1, 3, 1],
    ]);
  });
  it('take the nodes of their pools in mixed clusters', () => {
    const stage = { recompute: undefined, context_parallel: 1, layer_count: 4, micro_batch_size: 1 } as const;
    const mixed = plan({
      pipeline_parallel: 2,
      stages: [
        { ...stage, pool: 'b', node_count: 1, tensor_parallel: 4, data_parallel: 1 },
        { ...stage, pool: 'a', node_count: 2, tensor_parallel: 2, data_parallel: 2 },
      ] as never,
    });
    const seats = seatsOf(mixed, [...nodesOf(2, 2), { pool: 'b', devices: 4 }]);
    expect(seats.filter(({ stage: of }) => of === 0).map(({ node }) => node)).toEqual([2, 2, 2, 2]);
    expect(seats.filter(({ stage: of }) => of === 1).map(({ node }) => node)).toEqual([0, 0, 1, 1]);
    expect(find(groupsOf(seats, mixed), 'pipeline')).toBeUndefined();
  });
  it('are none for a plan that does not fill the nodes', () => {
    expect(seatsOf(small, nodesOf(3, 4))).toEqual([]);
    expect(seatsOf(plan({ data_parallel: 1_000_000 }), nodesOf(1, 8))).toEqual([]);
  });
});

describe('groups', () => {
  it('lie on as many nodes as the estimates count', () => {
    const groups = groupsOf(seatsOf(small, nodesOf(4, 4)), small);
    // A group of r ranks with stride w has gcd(r, devices/w) ranks in a node (placement.md): tensor 2 of
    // stride 1, experts 4 of stride 1, data 4 of stride 2. Stages are 8 devices apart.
    expect(groups.map(({ kind, size, count, mostNodes, inNode }) => [kind, size, count, mostNodes, inNode])).toEqual([
      ['tensor', 2, 8, 1, 2],
      ['expert', 4, 4, 1, 4],
      ['data', 4, 4, 2, 2],
      ['pipeline', 2, 8, 2, 1],
    ]);
  });
  it('of data ranks spread, and pipelines stay inside a node, in the other order', () => {
    const other = { ...small, rank_order: 'tp-cp-ep-pp-dp' };
    const groups = groupsOf(seatsOf(other, nodesOf(4, 4)), other);
    // A node holds min(d, node / (t c p)) = 1 data rank; t c p = 4 divides the node.
    expect(find(groups, 'data')).toMatchObject({ mostNodes: 4, inNode: 1 });
    expect(find(groups, 'expert')).toMatchObject({ mostNodes: 2, inNode: 2 });
    expect(find(groups, 'pipeline')).toMatchObject({ mostNodes: 1, inNode: 2 });
  });
  it('of experts and shards count inside a stage', () => {
    const wide = plan({
      tensor_parallel: 2, pipeline_parallel: 1, data_parallel: 8, context_parallel: 2, expert_parallel: 4,
      expert_tensor_parallel: 2, zero_group_size: 4,
    });
    const groups = groupsOf(seatsOf(wide, nodesOf(4, 8)), wide);
    expect(find(groups, 'expert')).toMatchObject({ size: 4, count: 8, inNode: 4 }); // stride 2
    expect(find(groups, 'expert_tensor')).toMatchObject({ size: 2, count: 16, inNode: 2 });
    expect(find(groups, 'sharding')).toMatchObject({ size: 4, count: 8, inNode: 4 });
    expect(find(groups, 'pipeline')).toBeUndefined();
  });
});

describe('equal nodes', () => {
  it('differ only in their copies', () => {
    const kinds = equalNodes(seatsOf(small, nodesOf(4, 4)), nodesOf(4, 4));
    expect(kinds.map(({ nodes, stages }) => [nodes, stages])).toEqual([
      [[0, 1], [0]],
      [[2, 3], [1]],
    ]);
  });
  it('are told by their numbers', () => {
    expect(rangesOf([2, 0, 1, 5])).toBe('1–3, 6');
    expect(rangesOf([0, 2, 4, 6])).toBe('1, 3, 5, …');
    expect(rangesOf([])).toBe('');
  });
  it('are left out in the middle if there are many kinds', () => {
    const deep = plan({ tensor_parallel: 1, data_parallel: 1, pipeline_parallel: 12 });
    const kinds = equalNodes(seatsOf(deep, nodesOf(12, 1)), nodesOf(12, 1));
    expect(drawnKinds(kinds).map(({ stages }) => stages[0])).toEqual([0, 1, 2, 3, 4, 5, 6, 11]);
  });
});

describe('the drawing', () => {
  const facts: ClusterFacts = clusterFacts(
    { name: 'x', pools: [{ name: 'a', chip: 'chip <1>', node_count: 4, devices_per_node: 4 }] },
    [
      { field: 'cluster.pools[0].intra_node.kind', value: 'nvlink4', source: '' },
      { field: 'cluster.pools[0].intra_node.bandwidth_bytes_per_second', value: '450000000000', source: '' },
      { field: 'cluster.pools[0].inter_node.nic_count', value: '4', source: '' },
      { field: 'cluster.pools[0].inter_node.nic_gigabits_per_second', value: '400', source: '' },
      { field: 'cluster.pools[0].inter_node.kind', value: 'infiniband', source: '' },
      { field: 'cluster.topology.nodes_per_segment', value: '2', source: '' },
    ],
    16,
  );
  const layout = layoutOf(facts, small);
  if (!layout) throw new Error('a layout');
  it('is the same as the last time', async () => {
    // After a change that is meant: npx vitest run -u tests/unit/cluster.test.ts, and look at the picture.
    await expect(svgText(clusterSpec(layout, text), paletteOf(false), true)).toMatchFileSnapshot('baselines/cluster.svg');
    await expect(svgText(clusterSpec(layout, textOf('zh-CN')), paletteOf(true), true)).toMatchFileSnapshot('baselines/cluster-dark.svg');
  });
  it('says what is where, and has every kind of node in its table', () => {
    const spec = clusterSpec(layout, text);
    expect(spec.sentence).toBe(
      'The 4 nodes are of 2 kinds, and each kind is drawn once, as its first node; pipeline stages: 2. ' +
        'Groups that stay inside a node: tensor, expert. Groups across nodes, with the nodes of one group: data (2), pipeline (2).',
    );
    expect(spec.table.rows.map((row) => row.map(({ value }) => value))).toEqual([
      ['1–2', 2, '1', '1–2', '1', '1–4', '1–2'],
      ['3–4', 2, '2', '1–2', '1', '1–4', '1–2'],
    ]);
  });
  it('takes what the server put in, and the devices of a node from their number', () => {
    const stated = clusterFacts({ pools: [{ chip: 'c', node_count: 2, inter_node: { nic_count: 0 } }] }, [], 16);
    expect(stated.pools[0]).toMatchObject({ devicesPerNode: 8, nicCount: 0, fabric: '' });
    expect(stated).toMatchObject({ nodesPerSegment: 128, oversubscription: 1 });
    expect(layoutOf(stated, small)).toBeDefined();
    expect(layoutOf(stated, plan({ data_parallel: 3 }))).toBeUndefined();
  });
  it('is safe with any text, and its numbers are short', () => {
    expect(escaped('<a & "b">')).toBe('&lt;a &amp; &quot;b&quot;&gt;');
    expect(element('rect', { x: 1 / 3, fill: '"' })).toBe('<rect x="0.33" fill="&quot;"/>\n');
  });
});

describe('the communication of a plan', () => {
  it('is told by group, with the link that it takes', () => {
    const facts = clusterFacts(
      { pools: [{ chip: 'x', node_count: 4, devices_per_node: 4, scale_up: { kind: 'nvlink4', bandwidth_bytes_per_second: 450e9 } }] } as never,
      [],
      16,
    );
    const layout = layoutOf(facts, small);
    if (!layout) throw new Error('a layout');
    const spec = communicationSpec(
      'Plan 1',
      estimate({ step_time_seconds: 10, breakdown_seconds: { matmul: 7, tensor_parallel: 2, pipeline_p2p: 1 } }),
      layout,
      text,
    );
    expect(spec?.sentence).toBe(
      'Communication that nothing hides takes 3.00\u00a0s of a step of Plan 1, 30.0\u00a0% of it; 1.00\u00a0s of that are in groups across nodes.',
    );
    // Tensor groups stay inside a node; stages are two nodes apart. Groups that are hidden are there, too.
    expect(spec?.table.rows.map((row) => [row[0]?.value, row[2]?.value, row[4]?.value])).toEqual([
      ['tensor', 1, 2],
      ['pipeline', 2, 1],
      ['expert', 1, 0],
      ['data', 2, 0],
    ]);
    expect(communicationSpec('Plan 1', estimate({ breakdown_seconds: {} }), { ...layout, groups: [] }, text)).toBeUndefined();
  });
});
