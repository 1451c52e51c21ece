// The stages of a plan by the pools of a mixed cluster: where its layers are, and what its devices hold.
import type { Estimate, GetStudyResponse, Heterogeneous, Plan, RecomputePlan, StagePlan } from '../api/wire';
import type { Text } from '../text/text';
import type { Alternative } from './alternatives';
import { rangesOf } from './rank_layout';

const sizeOf = (value: number | undefined) => Math.max(value ?? 1, 1);
const sumOf = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0);

/** Returns how many devices a plan uses: of a mixed cluster, those of the pools that it names. */
export function devicesOf(plan: Plan): number {
  const sizes = (part: Plan | StagePlan) =>
    sizeOf(part.tensor_parallel) * sizeOf(part.context_parallel) * sizeOf(part.data_parallel);
  return plan.stages.length > 0 ? sumOf(plan.stages.map(sizes)) : sizes(plan) * sizeOf(plan.pipeline_parallel);
}

/** Neighbouring stages of one pool with equal degrees. */
export interface Stretch {
  pool: string;
  stages: StagePlan[];
}

export function stretchesOf(plan: Plan): Stretch[] {
  const stretches: Stretch[] = [];
  const shapeOf = (stage: StagePlan | undefined) =>
    JSON.stringify([
      stage?.pool,
      sizeOf(stage?.tensor_parallel),
      sizeOf(stage?.context_parallel),
      sizeOf(stage?.data_parallel),
      sizeOf(stage?.micro_batch_size),
    ]);
  for (const stage of plan.stages) {
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
  /** From 1. */
  number: number;
  pool: string;
  nodeCount?: number;
  tensor: number;
  context: number;
  data: number;
  microBatch: number;
  layers: number;
  recompute?: RecomputePlan;
  peakBytes?: number;
  /** 0: unknown */
  capacityBytes: number;
}

export const deviceCountOf = ({ tensor, context, data }: StageRow): number => tensor * context * data;

/** Returns the stages of a plan; one without `stages` lies in the pool that it names. */
export function stageRows(plan: Plan, estimate: Estimate | undefined, study: GetStudyResponse): StageRow[] {
  const capacities = capacitiesOf(study);
  const only = plan.pools[0] ?? study.question?.cluster?.pools[0]?.name ?? '';
  const parts: (StagePlan | Plan)[] =
    plan.stages.length > 0 ? plan.stages : Array.from({ length: sizeOf(plan.pipeline_parallel) }, () => plan);
  return parts.map((part, at) => {
    const stage = plan.stages[at];
    const pool = stage?.pool ?? only;
    const peakBytes = estimate?.peak_memory_bytes_by_stage[at];
    return {
      number: at + 1,
      pool,
      ...(stage?.node_count === undefined ? {} : { nodeCount: stage.node_count }),
      tensor: sizeOf(part.tensor_parallel),
      context: sizeOf(part.context_parallel),
      data: sizeOf(part.data_parallel),
      microBatch: sizeOf(part.micro_batch_size),
      layers: stage?.layer_count ?? plan.layers_per_stage[at] ?? 0,
      ...(part.recompute ? { recompute: part.recompute } : {}),
      ...(peakBytes === undefined ? {} : { peakBytes }),
      capacityBytes: capacities[pool] ?? 0,
    };
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
  const parts = poolsOf(rows).map((pool) =>
    text.say('mix.stagesOf', {
      pool,
      stages: rangesOf(rows.filter((row) => row.pool === pool).map(({ number }) => number - 1)),
    }),
  );
  return text.say('mix.stages', { parts: parts.join(text.say('list.comma')) });
}

/** Says what tokens per second and device count: devices of idle pools do not. */
export function tokensNote(plan: Plan | undefined, study: GetStudyResponse, text: Text): string {
  const all = study.study?.device_count ?? 0;
  const used = plan ? devicesOf(plan) : all;
  return used < all ? text.say('mix.tokensNote', { count: used, all }) : text.say('tokens.note');
}
