// A study's question at several sizes: numbers of nodes, of one pool if there are several, or sequence
// lengths.
import { ApiError } from '../api/client';
import type { GetStudyResponse, RankedPlan, RecommendResponse, SweepRequest, SweepResponse, TuneRequest } from '../api/wire';
import { clusterFacts } from '../charts/cluster';
import { isMixed } from './pools';
import { countOf } from './question';

export type SweepKind = 'nodes' | 'sequence';
/** More points would take longer than a page can wait. */
export const pointLimit = 12;

/** One size with the plan to take there; absent: none fits. */
export interface SweptPoint {
  value: number;
  /** The devices of the cluster. */
  deviceCount: number;
  best?: RankedPlan;
}

/** A sweep: the quantity that varies and, if it is the nodes of one of several pools, the pool's index. */
export interface Swept {
  kind: SweepKind;
  pool?: number;
}

export interface SweptAnswer {
  points: SweptPoint[];
  warnings: string[];
}

export interface SweepCalls {
  sweep: (request: SweepRequest, signal: AbortSignal) => Promise<SweepResponse>;
  recommend: (question: TuneRequest, signal: AbortSignal) => Promise<RecommendResponse>;
}

/** Returns the numbers of a list as typed, each once and in order; nothing if it is no such list. */
export function numbersIn(typed: string): number[] | undefined {
  const words = typed.split(/[\s,;、，]+/).filter((word) => word !== '');
  const numbers = words.map(countOf);
  const isGood = numbers.length > 0 && numbers.length <= pointLimit && numbers.every((number) => number > 0);
  return isGood ? [...new Set(numbers)].sort((a, b) => a - b) : undefined;
}

/** Returns the sizes to begin with: half, the same and twice the study's size, and so on. */
export function usualSizes(question: TuneRequest | undefined, { kind, pool = 0 }: Swept): number[] {
  if (kind === 'sequence') {
    const own = question?.workload?.sequence_length ?? 4096;
    return [1, 2, 4, 8].map((factor) => own * factor);
  }
  const own = question?.cluster?.pools[pool]?.node_count ?? 1;
  const sizes = [own / 4, own / 2, own, own * 2].filter((count) => Number.isInteger(count));
  return sizes.length > 0 ? sizes : [own];
}

/** Returns the question of a study without what belongs to that study only. No plan is run for it. */
export function sweptQuestion(question: TuneRequest): TuneRequest {
  const { trials: _trials, history_sequence: _sequence, pareto: _pareto, baseline: _baseline, ...rest } = question;
  return { ...rest, history: [] };
}

/** One size to ask for. */
interface SizedQuestion {
  value: number;
  deviceCount: number;
  question: TuneRequest;
}

/** Returns the questions for sequence lengths; the batch keeps its number of sequences. */
function bySequence(study: GetStudyResponse, base: TuneRequest, values: readonly number[]): SizedQuestion[] {
  const deviceCount = study.study?.device_count ?? 0;
  return values.map((value) => {
    const workload = { ...base.workload, sequence_length: value } as NonNullable<TuneRequest['workload']>;
    return { value, deviceCount, question: { ...base, workload } };
  });
}

/** Returns the questions for numbers of nodes of one pool; the other pools stay as they are. */
function byPool(study: GetStudyResponse, base: TuneRequest, values: readonly number[], swept: number): SizedQuestion[] {
  const { cluster } = base;
  if (!cluster) return [];
  const all = study.study?.device_count ?? 0;
  const facts = clusterFacts(cluster, study.result?.applied_defaults ?? [], all).pools[swept];
  const { nodeCount = 0, devicesPerNode = 0 } = facts ?? {};
  return values.map((value) => {
    const pools = cluster.pools.map((pool, at) => (at === swept ? { ...pool, node_count: value } : pool));
    const deviceCount = all + (value - nodeCount) * devicesPerNode;
    return { value, deviceCount, question: { ...base, cluster: { ...cluster, pools } } };
  });
}

/** Asks for one size after the other; that nothing fits is an answer. */
async function askEach(questions: readonly SizedQuestion[], calls: SweepCalls, signal: AbortSignal): Promise<SweptAnswer> {
  const answer: SweptAnswer = { points: [], warnings: [] };
  for (const { value, deviceCount, question } of questions) {
    try {
      const { result } = await calls.recommend(question, signal);
      const best = result?.plans[0];
      answer.points.push({ value, deviceCount, ...(best ? { best } : {}) });
      answer.warnings.push(...(result?.warnings ?? []));
    } catch (error) {
      if (!(error instanceof ApiError) || error.infeasible === undefined) throw error;
      answer.points.push({ value, deviceCount });
    }
  }
  return { ...answer, warnings: [...new Set(answer.warnings)] };
}

/** Asks the question of a study at several sizes, and keeps nothing. */
export async function askSweep(
  study: GetStudyResponse,
  { kind, pool }: Swept,
  values: readonly number[],
  calls: SweepCalls,
  signal: AbortSignal,
): Promise<SweptAnswer> {
  if (!study.question) return { points: [], warnings: [] };
  const question = sweptQuestion(study.question);
  if (kind === 'sequence') return askEach(bySequence(study, question, values), calls, signal);
  if (isMixed(study)) return askEach(byPool(study, question, values, pool ?? 0), calls, signal);
  const { points, warnings } = await calls.sweep(
    { question, node_counts: [...values], free_memory_ratios: [], clusters: [], device_counts: [] },
    signal,
  );
  // The points come in the order of their sizes, one for each.
  return {
    points: points.map(({ device_count, best, launch }, at) => {
      const plan = launch ?? best;
      return { value: values[at] ?? 0, deviceCount: device_count, ...(plan ? { best: plan } : {}) };
    }),
    warnings,
  };
}
