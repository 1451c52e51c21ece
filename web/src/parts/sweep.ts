// A study's question at several sizes: numbers of nodes, or sequence lengths.
import { ApiError } from '../api/client';
import type { GetStudyResponse, RankedPlan, RecommendResponse, SweepRequest, SweepResponse, TuneRequest } from '../api/wire';
import { countOf } from './question';

export type SweepKind = 'nodes' | 'sequence';
/** More points would take longer than a page can wait. */
export const pointLimit = 12;

/** One size with the plan to take there; absent: none fits. */
export interface SweptPoint {
  value: number;
  deviceCount: number;
  best?: RankedPlan;
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
export function usualSizes(question: TuneRequest | undefined, kind: SweepKind): number[] {
  if (kind === 'sequence') {
    const own = question?.workload?.sequence_length ?? 4096;
    return [1, 2, 4, 8].map((factor) => own * factor);
  }
  const own = question?.cluster?.pools[0]?.node_count ?? 1;
  const sizes = [own / 4, own / 2, own, own * 2].filter((count) => Number.isInteger(count));
  return sizes.length > 0 ? sizes : [own];
}

/** Returns the question of a study without what belongs to that study only. No plan is run for it. */
export function sweptQuestion(question: TuneRequest): TuneRequest {
  const { trials: _trials, history_sequence: _sequence, pareto: _pareto, baseline: _baseline, ...rest } = question;
  return { ...rest, history: [] };
}

/** Sequence lengths are asked one after the other; the batch keeps its number of sequences. */
async function sweepSequence(study: GetStudyResponse, base: TuneRequest, values: readonly number[], calls: SweepCalls, signal: AbortSignal): Promise<SweptAnswer> {
  const answer: SweptAnswer = { points: [], warnings: [] };
  const deviceCount = study.study?.device_count ?? 0;
  for (const value of values) {
    try {
      const workload = { ...base.workload, sequence_length: value } as NonNullable<TuneRequest['workload']>;
      const { result } = await calls.recommend({ ...base, workload }, signal);
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
export async function askSweep(study: GetStudyResponse, kind: SweepKind, values: readonly number[], calls: SweepCalls, signal: AbortSignal): Promise<SweptAnswer> {
  if (!study.question) return { points: [], warnings: [] };
  const question = sweptQuestion(study.question);
  if (kind === 'sequence') return sweepSequence(study, question, values, calls, signal);
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
