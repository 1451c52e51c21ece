// This layout says where the ranks of a plan sit, as the estimates place them
// (docs/cost_model/placement.md, "Groups" and "Rank order"; estimator/model/stage_devices.cc): tensor,
// context, expert/data, pipeline, the first changing fastest, or with `rank_order` tp-cp-ep-pp-dp the
// stages between the data ranks. Expert ranks count among the tensor, context and data ranks of a stage.
import type { Plan, StagePlan } from '../api/wire';

export interface NodeKind {
  pool: string;
  devices: number;
}

export interface Seat {
  node: number;
  /** Within its node. */
  device: number;
  /** The pipeline's stage, from 0; with replica groups, the stages of all groups are counted. */
  stage: number;
  /** The replica, from 0; absent if all replicas are alike, which `data` counts then. */
  replica?: number;
  tensor: number;
  context: number;
  data: number;
  expert: number;
  expertTensor: number;
}

/** Drawing more would take seconds; no plan of a larger cluster was ever asked for. */
export const seatLimit = 262_144;

const sizeOf = (value: number | undefined) => Math.max(value ?? 1, 1);

interface StageSizes {
  tensor: number;
  context: number;
  data: number;
}

const sizesOf = (part: Plan | StagePlan): StageSizes => ({
  tensor: sizeOf(part.tensor_parallel),
  context: sizeOf(part.context_parallel),
  data: sizeOf(part.data_parallel),
});

const deviceNumbers = (node: number, kind: NodeKind | undefined, from = 0, count = (kind?.devices ?? 0) - from) =>
  Array.from({ length: count }, (_, at): [number, number] => [node, from + at]);

/** The nodes of one pool, as stages take them: search_space/spec/stage_places.h. */
class TakenNodes {
  private count = 0;
  private freeDevices = 0; // of the last node

  constructor(
    private readonly own: readonly number[],
    private readonly kinds: readonly NodeKind[],
  ) {}

  /** Returns the node and the device of each rank of a stage; too few if the pool has no more nodes. */
  take(stage: StagePlan): [number, number][] {
    const part = stage.device_count ?? 0;
    if (part === 0) {
      const chosen = this.own.slice(this.count, this.count + (stage.node_count ?? 0));
      this.count += stage.node_count ?? 0;
      this.freeDevices = 0;
      return chosen.flatMap((node) => deviceNumbers(node, this.kinds[node]));
    }
    if (this.freeDevices < part) {
      this.count += 1;
      this.freeDevices = this.kinds[this.own[this.count - 1] ?? -1]?.devices ?? 0;
    }
    const node = this.own[this.count - 1];
    if (node === undefined || this.freeDevices < part) return [];
    const kind = this.kinds[node];
    const from = (kind?.devices ?? 0) - this.freeDevices;
    this.freeDevices -= part;
    return deviceNumbers(node, kind, from, part);
  }
}

/** A stage of one replica, with the devices that its ranks take. */
interface PlacedStage {
  stage: number;
  replica?: number;
  sizes: StageSizes;
  devices: [number, number][];
}

interface StatedGroup {
  replicas: number;
  microBatches: number;
  stages: readonly StagePlan[];
  /** The number of its first stage among those of all groups as they are listed. */
  first: number;
}

/** Returns the groups in the order in which they take nodes, which does not depend on how they are listed. */
function groupOrder(plan: Plan): StatedGroup[] {
  let first = 0;
  const groups = (plan.replica_groups ?? []).map(({ replica_count, micro_batch_count, stages }): StatedGroup => {
    const group = { replicas: sizeOf(replica_count), microBatches: sizeOf(micro_batch_count), stages, first };
    first += stages.length;
    return group;
  });
  const wordOf = ({ stages }: StatedGroup) => stages.map(({ pool = '' }) => pool).join('\u0000');
  return groups.sort(
    (a, b) =>
      a.replicas - b.replicas ||
      a.microBatches - b.microBatches ||
      (wordOf(a) < wordOf(b) ? -1 : wordOf(a) > wordOf(b) ? 1 : 0),
  );
}

/** Returns the stages of a plan whose stages name their pools, replica by replica. */
function placedStages(plan: Plan, nodes: readonly NodeKind[]): PlacedStage[] {
  const pools = new Map<string, TakenNodes>();
  for (const name of new Set(nodes.map(({ pool }) => pool))) {
    const own = nodes.flatMap(({ pool }, node) => (pool === name ? [node] : []));
    pools.set(name, new TakenNodes(own, nodes));
  }
  const place = (stage: StagePlan, at: number, replica?: number): PlacedStage => ({
    stage: at,
    ...(replica === undefined ? {} : { replica }),
    sizes: sizesOf(stage),
    devices: pools.get(stage.pool ?? '')?.take(stage) ?? [],
  });
  const groups = groupOrder(plan);
  if (groups.length === 0) return plan.stages.map((stage, at) => place(stage, at));
  let replica = -1;
  return groups.flatMap(({ replicas, stages, first }) =>
    Array.from({ length: replicas }, () => {
      replica += 1;
      return stages.map((stage, at) => place(stage, first + at, replica));
    }).flat(),
  );
}

/** Returns the seats of a stage that has its devices to itself. */
function seatsOfStage({ stage, replica, sizes, devices }: PlacedStage, plan: Plan): Seat[] {
  const experts = sizeOf(plan.expert_parallel);
  const expertTensor = sizeOf(plan.expert_tensor_parallel);
  return devices.map(([node, device], within) => ({
    node,
    device,
    stage,
    ...(replica === undefined ? {} : { replica }),
    tensor: within % sizes.tensor,
    context: Math.floor(within / sizes.tensor) % sizes.context,
    data: Math.floor(within / (sizes.tensor * sizes.context)),
    expert: Math.floor(within / expertTensor) % experts,
    expertTensor: within % expertTensor,
  }));
}

/** Returns the seat of every rank; empty if the plan does not fill the nodes, or they are too many. */
export function seatsOf(plan: Plan, nodes: readonly NodeKind[]): Seat[] {
  if (nodes.length > seatLimit) return [];
  const groups = plan.replica_groups ?? [];
  const ranks = ({ tensor, context, data }: StageSizes) => tensor * context * data;
  if (plan.stages.length > 0 || groups.length > 0) {
    const sum = (stages: readonly StagePlan[]) => stages.reduce((all, stage) => all + ranks(sizesOf(stage)), 0);
    const inGroups = groups.reduce((all, { replica_count, stages }) => all + sizeOf(replica_count) * sum(stages), 0);
    if (sum(plan.stages) + inGroups > seatLimit) return [];
    const placed = placedStages(plan, nodes);
    const isFilled = placed.every(({ sizes, devices }) => devices.length === ranks(sizes));
    return isFilled ? placed.flatMap((stage) => seatsOfStage(stage, plan)) : [];
  }
  const sizes = sizesOf(plan);
  const stageCount = sizeOf(plan.pipeline_parallel);
  // A plan for one pool of several leaves the others idle.
  const isUsed = ({ pool }: NodeKind) => plan.pools.length === 0 || plan.pools.includes(pool);
  if (ranks(sizes) * stageCount > seatLimit) return [];
  const devices = nodes.flatMap((kind, node) => (isUsed(kind) ? deviceNumbers(node, kind) : []));
  if (devices.length !== ranks(sizes) * stageCount) return [];
  const block = sizes.tensor * sizes.context;
  const isStageInside = plan.rank_order === 'tp-cp-ep-pp-dp';
  return Array.from({ length: stageCount }, (_, stage) => {
    const own = Array.from({ length: block * sizes.data }, (_, within): [number, number] => {
      const copy = Math.floor(within / block);
      const rank = isStageInside ? (copy * stageCount + stage) * block + (within % block) : stage * block * sizes.data + within;
      return devices[rank] ?? [0, 0];
    });
    return seatsOfStage({ stage, sizes, devices: own }, plan);
  }).flat();
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
  const { tensor, context, data, expert, expertTensor } = seat;
  const groupStages = (plan.replica_groups ?? []).flatMap(({ stages }) => stages);
  const sizes = plan.stages[seat.stage] ?? groupStages[seat.stage] ?? plan;
  const stage = seat.replica === undefined ? String(seat.stage) : `${seat.replica}:${seat.stage}`;
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
  if (plan.stages.length === 0 && groupStages.length === 0) names.pipeline = `${tensor} ${context} ${data}`;
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
    const firstReplica = Math.min(...own.map(({ replica = 0 }) => replica));
    const key = JSON.stringify([
      pool,
      own.map(({ device, stage, tensor, context, data, replica = 0 }) => [
        device, stage, tensor, context, data - first, replica - firstReplica,
      ]),
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
