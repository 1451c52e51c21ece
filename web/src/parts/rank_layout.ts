// This layout says where the ranks of a plan sit, as the estimates place them
// (docs/cost_model/placement.md, "Groups" and "Rank order"; estimator/model/stage_devices.cc): tensor,
// context, expert/data, pipeline, the first changing fastest, or with `rank_order` tp-cp-ep-pp-dp the
// stages between the data ranks. Expert ranks count among the tensor, context and data ranks of a stage.
import type { Plan } from '../api/wire';

export interface NodeKind {
  pool: string;
  devices: number;
}

export interface Seat {
  node: number;
  /** Within its node. */
  device: number;
  /** The pipeline's stage, from 0. */
  stage: number;
  tensor: number;
  context: number;
  data: number;
  expert: number;
  expertTensor: number;
}

interface StageSizes {
  tensor: number;
  context: number;
  data: number;
}

/** Drawing more would take seconds; no plan of a larger cluster was ever asked for. */
export const seatLimit = 262_144;

const sizeOf = (value: number | undefined) => Math.max(value ?? 1, 1);

/** Returns the sizes of each stage; the stages of mixed clusters have their own. */
function stageSizes(plan: Plan): StageSizes[] {
  if (plan.stages.length > 0) {
    return plan.stages.map((stage) => ({
      tensor: sizeOf(stage.tensor_parallel),
      context: sizeOf(stage.context_parallel),
      data: sizeOf(stage.data_parallel),
    }));
  }
  const sizes = {
    tensor: sizeOf(plan.tensor_parallel),
    context: sizeOf(plan.context_parallel),
    data: sizeOf(plan.data_parallel),
  };
  return Array.from({ length: sizeOf(plan.pipeline_parallel) }, () => sizes);
}

/** Returns the devices in the order in which ranks take them: those of the pools that the plan names. */
function deviceOrder(plan: Plan, nodes: readonly NodeKind[]): [number, number][] {
  const devicesOf = (chosen: readonly number[]) =>
    chosen.flatMap((node) =>
      Array.from({ length: nodes[node]?.devices ?? 0 }, (_, device): [number, number] => [node, device]),
    );
  if (plan.stages.length === 0) {
    // A plan for one pool of several leaves the others idle.
    const isUsed = ({ pool }: NodeKind) => plan.pools.length === 0 || plan.pools.includes(pool);
    return devicesOf(nodes.flatMap((kind, node) => (isUsed(kind) ? [node] : [])));
  }
  const taken = new Set<number>();
  return plan.stages.flatMap((stage) => {
    const free = nodes.flatMap(({ pool }, node) => (pool === stage.pool && !taken.has(node) ? [node] : []));
    const chosen = free.slice(0, stage.node_count ?? 0);
    for (const node of chosen) taken.add(node);
    return devicesOf(chosen);
  });
}

/** Returns the seat of every rank; empty if the plan does not fill the nodes, or they are too many. */
export function seatsOf(plan: Plan, nodes: readonly NodeKind[]): Seat[] {
  const sizes = stageSizes(plan);
  const total = sizes.reduce((sum, { tensor, context, data }) => sum + tensor * context * data, 0);
  if (total > seatLimit || nodes.length > seatLimit) return [];
  const devices = deviceOrder(plan, nodes);
  if (devices.length !== total) return [];
  const experts = sizeOf(plan.expert_parallel);
  const expertTensor = sizeOf(plan.expert_tensor_parallel);
  const isStageInside = plan.rank_order === 'tp-cp-ep-pp-dp' && plan.stages.length === 0;
  const seats: Seat[] = [];
  let first = 0;
  sizes.forEach(({ tensor, context, data }, stage) => {
    const block = tensor * context;
    for (let within = 0; within < block * data; ++within) {
      const copy = Math.floor(within / block);
      const rank = isStageInside ? (copy * sizes.length + stage) * block + (within % block) : first + within;
      const [node = 0, device = 0] = devices[rank] ?? [];
      seats.push({
        node,
        device,
        stage,
        tensor: within % tensor,
        context: Math.floor(within / tensor) % context,
        data: copy,
        expert: Math.floor(within / expertTensor) % experts,
        expertTensor: within % expertTensor,
      });
    }
    first += block * data;
  });
  return seats;
}

export const groupKinds = [
  'tensor',
  'context',
  'expert',
  'expert_tensor',
  'data',
  'sharding',
  'pipeline',
] as const;
export type GroupKind = (typeof groupKinds)[number];

/** The groups of one kind: how many there are, and on how many nodes one lies. */
export interface Groups {
  kind: GroupKind;
  size: number;
  count: number;
  leastNodes: number;
  mostNodes: number;
  /** The most ranks of one group in one node. */
  inNode: number;
}

/** Returns the names of the groups that a seat belongs to; ranks with equal names form a group. */
function groupNames(seat: Seat, plan: Plan): Partial<Record<GroupKind, string>> {
  const { stage, tensor, context, data, expert, expertTensor } = seat;
  const sizes = plan.stages[stage] ?? plan;
  const contexts = sizeOf(sizes.context_parallel);
  const tensors = sizeOf(sizes.tensor_parallel);
  const within = tensor + tensors * (context + contexts * data);
  const experts = sizeOf(plan.expert_parallel);
  const expertTensors = sizeOf(plan.expert_tensor_parallel);
  const sharding = plan.zero_group_size ?? 0;
  const names: Partial<Record<GroupKind, string>> = {
    tensor: `${stage} ${context} ${data}`,
    context: `${stage} ${tensor} ${data}`,
    data: `${stage} ${tensor} ${context}`,
    expert: `${stage} ${expertTensor} ${Math.floor(within / (experts * expertTensors))}`,
    expert_tensor: `${stage} ${expert} ${Math.floor(within / (experts * expertTensors))}`,
  };
  // Stages of mixed clusters have other sizes than their neighbours, so that no ranks correspond.
  if (plan.stages.length === 0) names.pipeline = `${tensor} ${context} ${data}`;
  if (sharding > 0) names.sharding = `${stage} ${tensor} ${Math.floor((context + contexts * data) / sharding)}`;
  return names;
}

/** Returns the kinds of groups with more than one rank. */
export function groupsOf(seats: readonly Seat[], plan: Plan): Groups[] {
  const found = new Map<GroupKind, Map<string, Map<number, number>>>();
  for (const seat of seats) {
    for (const [kind, name] of Object.entries(groupNames(seat, plan)) as [GroupKind, string][]) {
      const groups = found.get(kind) ?? new Map<string, Map<number, number>>();
      found.set(kind, groups);
      const nodes = groups.get(name) ?? new Map<number, number>();
      groups.set(name, nodes);
      nodes.set(seat.node, (nodes.get(seat.node) ?? 0) + 1);
    }
  }
  return groupKinds.flatMap((kind) => {
    const groups = [...(found.get(kind)?.values() ?? [])];
    let size = 0;
    let inNode = 0;
    let leastNodes = Infinity;
    let mostNodes = 0;
    for (const nodes of groups) {
      const ranks = [...nodes.values()];
      size = Math.max(size, ranks.reduce((sum, count) => sum + count, 0));
      inNode = Math.max(inNode, ...ranks);
      leastNodes = Math.min(leastNodes, nodes.size);
      mostNodes = Math.max(mostNodes, nodes.size);
    }
    return size > 1 ? [{ kind, size, count: groups.length, leastNodes, mostNodes, inNode }] : [];
  });
}

/** Nodes that hold the same ranks but for their data-parallel copies and experts; idle ones hold none. */
export interface EqualNodes {
  nodes: number[];
  pool: string;
  stages: number[];
  /** The seats of the first node. */
  seats: Seat[];
}

/** Returns the nodes, with equal ones together, in the order of the first of each. */
export function equalNodes(seats: readonly Seat[], nodes: readonly NodeKind[]): EqualNodes[] {
  const byNode = new Map<number, Seat[]>();
  for (const seat of seats) byNode.set(seat.node, [...(byNode.get(seat.node) ?? []), seat]);
  const found = new Map<string, EqualNodes>();
  for (const [node, { pool }] of nodes.entries()) {
    const own = (byNode.get(node) ?? []).sort((a, b) => a.device - b.device);
    const first = Math.min(...own.map(({ data }) => data));
    const key = JSON.stringify([
      pool,
      own.map(({ stage, tensor, context, data }) => [stage, tensor, context, data - first]),
    ]);
    const equal = found.get(key);
    if (equal) equal.nodes.push(node);
    else found.set(key, { nodes: [node], pool, stages: [...new Set(own.map(({ stage }) => stage))], seats: own });
  }
  return [...found.values()];
}

/** Returns "1–4, 9–12, …": ranges of numbers counted from 1, at most `limit` of them. */
export function rangesOf(numbers: readonly number[], limit = 3): string {
  const ranges: [number, number][] = [];
  for (const number of [...numbers].sort((a, b) => a - b)) {
    const last = ranges.at(-1);
    if (last && last[1] === number - 1) last[1] = number;
    else ranges.push([number, number]);
  }
  const shown = ranges.slice(0, limit).map(([low, high]) => (low === high ? `${low + 1}` : `${low + 1}–${high + 1}`));
  return [...shown, ...(ranges.length > limit ? ['…'] : [])].join(', ');
}
