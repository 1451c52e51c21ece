// The plans of an answer as a reader compares them: those ranked, then the baseline unless it is one
// of them.
import type { GetStudyResponse, RankedPlan, Trial } from '../api/wire';
import type { Text } from '../text/text';

export interface Alternative {
  /** From 1; 0: the baseline. */
  rank: number;
  name: string;
  plan: RankedPlan;
  /** The median of the plan's measured step times; absent if it did not run well. */
  measuredSeconds?: number;
  /** The time that was expected before the first of those runs; the estimate knows them by now. */
  expectedSeconds?: number;
}

export function medianOf(values: readonly number[]): number | undefined {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle];
  const lower = sorted[middle - 1];
  if (upper === undefined) return undefined;
  return sorted.length % 2 === 1 || lower === undefined ? upper : (lower + upper) / 2;
}

export function measuredOf(digest: string, trials: readonly Trial[]): number | undefined {
  return medianOf(
    trials
      .filter((trial) => trial.plan_digest === digest && trial.outcome === 'ok')
      .map((trial) => trial.step_time_seconds),
  );
}

export function alternativesOf(study: GetStudyResponse, text: Text): Alternative[] {
  const result = study.result;
  if (!result) return [];
  const withMeasured = (rank: number, name: string, plan: RankedPlan): Alternative => {
    const measured = measuredOf(plan.plan_digest, result.trials);
    if (measured === undefined) return { rank, name, plan };
    const first = result.trials.find(({ plan_digest }) => plan_digest === plan.plan_digest);
    return {
      rank,
      name,
      plan,
      measuredSeconds: measured,
      expectedSeconds: first?.expected_step_time_seconds ?? 0,
    };
  };
  const ranked = result.plans.map((plan, at) => {
    const isBaseline = result.baseline?.plan_digest === plan.plan_digest;
    const name = text.say(isBaseline ? 'plan.nameBaseline' : 'plan.name', { rank: String(at + 1) });
    return withMeasured(at + 1, name, plan);
  });
  const baseline = result.baseline;
  const hasBaseline = ranked.some(({ plan }) => plan.plan_digest === baseline?.plan_digest);
  return baseline && !hasBaseline
    ? [...ranked, withMeasured(0, text.say('plan.baseline'), baseline)]
    : ranked;
}

/** The time to judge a plan by: measured if it ran, else predicted. */
export const judgedSeconds = (alternative: Alternative): number =>
  alternative.measuredSeconds ?? alternative.plan.estimate?.step_time_seconds ?? 0;
