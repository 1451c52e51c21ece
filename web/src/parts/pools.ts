// The stages of a plan by the pools of a mixed cluster: where its layers are, and what its devices hold.
import type {
  Estimate,
  GetStudyResponse,
  Heterogeneous,
  Plan,
  RecomputePlan,
  StageEstimate,
  StagePlan,
} from '../api/wire';
import type { Text } from '../text/text';
import type { Alternative } from './alternatives';
import { rangesOf } from './rank_layout';
import type { Timeline } from './trace';

const sizeOf = (value: number | undefined) => Math.max(value ?? 1, 1);
const sumOf = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0);

/** The stages of one replica of a plan whose stages name their pools. */
export interface Pipeline {
  /** The replica group, from 1; absent if all replicas are alike. */
  group?: number;
  /** The number of equal replicas; 1 without groups, whose stages count theirs themselves. */
  replicas: number;
  /** The micro-batches of one replica in a step; absent without groups. */
  microBatches?: number;
  stages: StagePlan[];
}

/** Returns the pipelines of a plan: one for each replica group; none if no stage names its pool. */
export function pipelinesOf(plan: Plan): Pipeline[] {
  const groups = plan.replica_groups ?? [];
  if (groups.length > 0) {
    return groups.map(({ replica_count, micro_batch_count, stages }, at) => ({
      group: at + 1,
      replicas: sizeOf(replica_count),
      microBatches: sizeOf(micro_batch_count),
      stages,
    }));
  }
  return plan.stages.length > 0 ? [{ replicas: 1, stages: plan.stages }] : [];
}

/** Returns how many devices a plan uses: of a mixed cluster, those of the pools that it names. */
export function devicesOf(plan: Plan): number {
  const sizes = (part: Plan | StagePlan) =>
    sizeOf(part.tensor_parallel) * sizeOf(part.context_parallel) * sizeOf(part.data_parallel);
  const pipelines = pipelinesOf(plan);
  return pipelines.length > 0
    ? sumOf(pipelines.map(({ replicas, stages }) => replicas * sumOf(stages.map(sizes))))
    : sizes(plan) * sizeOf(plan.pipeline_parallel);
}

/** Neighbouring stages of one pool with equal degrees. */
export interface Stretch {
  pool: string;
  stages: StagePlan[];
}

export function stretchesOf(stages: readonly StagePlan[]): Stretch[] {
  const stretches: Stretch[] = [];
  const shapeOf = (stage: StagePlan | undefined) =>
    JSON.stringify([
      stage?.pool,
      sizeOf(stage?.tensor_parallel),
      sizeOf(stage?.context_parallel),
      sizeOf(stage?.data_parallel),
      sizeOf(stage?.micro_batch_size),
      stage?.device_count ?? 0,
    ]);
  for (const stage of stages) {
    const last = stretches.at(-1);
    if (last && shapeOf(last.stages[0]) === shapeOf(stage)) last.stages.push(stage);
    else stretches.push({ pool: stage.pool ?? '', stages: [stage] });
  }
  return stretches;
}

/** The memory of a device of each pool in bytes, as stated or as the server has put it in. */
export function capacitiesOf(study: GetStudyResponse): Record<string, number> {
  const applied = new Map((study.result?.applied_defaults ?? []).map(({ field, value }) => [field, value]));
  return Object.fromEntries(
    (study.question?.cluster?.pools ?? []).map((pool, at) => [
      pool.name ?? '',
      pool.memory_capacity_bytes ?? Number(applied.get(`cluster.pools[${at}].memory_capacity_bytes`) ?? 0),
    ]),
  );
}

/** A stage of a plan. Figures that nobody has estimated are absent. */
export interface StageRow {
  /** The replica group, from 1; absent if all replicas are alike. */
  group?: number;
  /** The number of equal replicas that have such a stage; 1 without groups. */
  replicas: number;
  /** From 1, within its pipeline. */
  number: number;
  pool: string;
  nodeCount?: number;
  /** The devices of a stage that is a part of one node; absent for whole nodes. */
  partDevices?: number;
  tensor: number;
  context: number;
  data: number;
  microBatch: number;
  /** The micro-batches of one replica in a step. */
  microBatches?: number;
  layers: number;
  recompute?: RecomputePlan;
  peakBytes?: number;
  /** 0: unknown */
  capacityBytes: number;
  /** The stage's own figures; absent in answers that have none. */
  figures?: StageEstimate;
}

/** Returns the devices of a stage in all its replicas. */
export const deviceCountOf = ({ replicas, tensor, context, data }: StageRow): number =>
  replicas * tensor * context * data;

export const stageName = ({ group, number }: StageRow, text: Text): string =>
  group === undefined
    ? text.say('stage.name', { number: String(number) })
    : text.say('stage.inGroup', { group: String(group), number: String(number) });

/** Returns the micro-batches of a step if all replicas are alike. */
function microBatchesOf(part: Plan | StagePlan, study: GetStudyResponse): number | undefined {
  const batch = study.question?.workload?.global_batch_size ?? 0;
  const count = batch / (sizeOf(part.micro_batch_size) * sizeOf(part.data_parallel));
  return batch > 0 && Number.isInteger(count) ? count : undefined;
}

/** Returns the stages of a plan; one whose stages name no pools lies in the pool that it names. */
export function stageRows(plan: Plan, estimate: Estimate | undefined, study: GetStudyResponse): StageRow[] {
  const capacities = capacitiesOf(study);
  const only = plan.pools[0] ?? study.question?.cluster?.pools[0]?.name ?? '';
  const named = pipelinesOf(plan).flatMap(({ stages, ...pipeline }) =>
    stages.map((stage, at) => ({ pipeline, stage, part: stage as StagePlan | Plan, number: at + 1 })),
  );
  const parts =
    named.length > 0
      ? named
      : Array.from({ length: sizeOf(plan.pipeline_parallel) }, (_, at) => ({
          pipeline: { replicas: 1 } as Omit<Pipeline, 'stages'>,
          stage: undefined,
          part: plan as StagePlan | Plan,
          number: at + 1,
        }));
  // The estimate lists the stages of all groups in this order.
  return parts.map(({ pipeline, stage, part, number }, at) => {
    const pool = stage?.pool ?? only;
    const peakBytes = estimate?.peak_memory_bytes_by_stage[at];
    const figures = estimate?.stages?.[at];
    const microBatches = pipeline.microBatches ?? microBatchesOf(part, study);
    return {
      ...(pipeline.group === undefined ? {} : { group: pipeline.group }),
      replicas: pipeline.replicas,
      number,
      pool,
      ...(stage?.node_count === undefined ? {} : { nodeCount: stage.node_count }),
      ...((stage?.device_count ?? 0) > 0 ? { partDevices: stage?.device_count ?? 0 } : {}),
      tensor: sizeOf(part.tensor_parallel),
      context: sizeOf(part.context_parallel),
      data: sizeOf(part.data_parallel),
      microBatch: sizeOf(part.micro_batch_size),
      ...(microBatches === undefined ? {} : { microBatches }),
      layers: stage?.layer_count ?? plan.layers_per_stage[at] ?? 0,
      ...(part.recompute ? { recompute: part.recompute } : {}),
      ...(peakBytes === undefined ? {} : { peakBytes }),
      capacityBytes: figures?.memory_capacity_bytes ?? capacities[pool] ?? 0,
      ...(figures ? { figures } : {}),
    };
  });
}

/**
 * Returns the stages that a timeline has: all, or with replica groups those of the slowest replica,
 * which the server simulates. They are told by the times of their forward passes.
 */
export function tracedRows(rows: readonly StageRow[], { stages }: Timeline): readonly StageRow[] {
  const groups = [...new Set(rows.map(({ group }) => group))].map((group) => rows.filter((row) => row.group === group));
  const forward = stages.map((spans) => spans.find(({ kind }) => kind === 'forward')).map((span) => (span ? span.end - span.start : 0));
  const off = (own: readonly StageRow[]) =>
    own.length === stages.length
      ? sumOf(own.map(({ figures }, at) => Math.abs((figures?.forward_seconds ?? 0) - (forward[at] ?? 0))))
      : Infinity;
  return groups.length < 2 ? rows : ([...groups].sort((a, b) => off(a) - off(b))[0] ?? rows);
}

/** How many nodes of a pool a plan uses. */
export interface PoolUse {
  pool: string;
  chip: string;
  nodeCount: number;
  idleNodes: number;
}

/** Returns the use of each pool of the cluster; nothing if no estimate says which nodes are idle. */
export function poolUse(plan: Plan, estimate: Estimate | undefined, study: GetStudyResponse): PoolUse[] {
  const pools = study.question?.cluster?.pools ?? [];
  const idle = estimate?.idle_nodes_by_pool ?? {};
  const isKnown = plan.pools.length > 0 || pipelinesOf(plan).length > 0;
  if (pools.length < 2 || !isKnown || !estimate) return [];
  return pools.map(({ name = '', chip = '', node_count = 0 }) => {
    const isLeftOut = plan.pools.length > 0 && !plan.pools.includes(name);
    return { pool: name, chip, nodeCount: node_count, idleNodes: idle[name] ?? (isLeftOut ? node_count : 0) };
  });
}

/** Returns the pools of some stages, each once, in the order of the pipeline. */
export const poolsOf = (rows: readonly { pool: string }[]): string[] => [...new Set(rows.map(({ pool }) => pool))];

/** True if a cluster has several pools, so that a plan's stages may differ in their devices. */
export const isMixed = (study: GetStudyResponse): boolean => (study.question?.cluster?.pools.length ?? 0) > 1;

export const setName = (pools: readonly string[]): string => pools.join(' + ');

/** A plan that the pages about pools can show. The best of a set of pools may have a throughput only. */
export interface ShownPlan {
  key: string;
  name: string;
  plan: Plan;
  estimate?: Estimate;
  rank?: number;
}

/** Returns the plans of the answer, then the best of each set of pools that is not among them. */
export function shownPlans(
  alternatives: readonly Alternative[],
  answer: Heterogeneous,
  text: Text,
): ShownPlan[] {
  const shown: ShownPlan[] = alternatives.flatMap(({ rank, name, plan: { plan, estimate } }) =>
    plan ? [{ key: String(rank), name, rank, plan, ...(estimate ? { estimate } : {}) }] : [],
  );
  const known = new Set(shown.map(({ plan }) => JSON.stringify(plan)));
  for (const { pools, plan } of answer.best_by_pool_set) {
    if (!plan || known.has(JSON.stringify(plan))) continue;
    shown.push({
      key: pools.join('+'),
      name: text.say('mix.fastestOf', { pools: setName(pools) }),
      plan,
    });
  }
  return shown;
}

/** Returns the stages of each pool in a sentence: "Stages 1–4 are on ampere, ...". */
export function poolStages(rows: readonly StageRow[], text: Text): string {
  const parts = poolsOf(rows).map((pool) => {
    const own = rows.filter((row) => row.pool === pool);
    const groups = [...new Set(own.map(({ group }) => group))];
    const names = groups.map((group) => {
      const stages = rangesOf(own.filter((row) => row.group === group).map(({ number }) => number - 1));
      return group === undefined ? stages : text.say('mix.groupStages', { group: String(group), stages });
    });
    return text.say('mix.stagesOf', { pool, stages: names.join(text.say('list.comma')) });
  });
  return text.say('mix.stages', { parts: parts.join(text.say('list.comma')) });
}

/** Says what tokens per second and device count: devices of idle pools do not. */
export function tokensNote(plan: Plan | undefined, study: GetStudyResponse, text: Text): string {
  const all = study.study?.device_count ?? 0;
  const used = plan ? devicesOf(plan) : all;
  return used < all ? text.say('mix.tokensNote', { count: used, all }) : text.say('tokens.note');
}
