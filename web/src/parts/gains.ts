// The gain from tuning: the best measured plan of each study against the study's baseline.
import { api } from '../api/client';
import { newestMeasurements } from '../api/measurements';
import type { Measurement, RankedPlan, Study } from '../api/wire';
import { medianOf } from './alternatives';

/** Studies that are asked for their baselines, each with a request of its own. */
const studyLimit = 50;

export interface Gain {
  study: Study;
  baselineSeconds: number;
  /** The baseline itself ran; else its predicted time is compared. */
  isBaselineMeasured: boolean;
  bestSeconds: number;
  /** Baseline / best - 1. */
  gain: number;
  runCount: number;
}

/** Returns the gain from the runs of a study; absent if none has a step time that counts. */
export function gainOf(
  study: Study,
  baseline: RankedPlan | undefined,
  measurements: readonly Measurement[],
): Gain | undefined {
  const times = new Map<string, number[]>();
  for (const { outcome, plan_digest, step_time_seconds, retraction } of measurements) {
    if (outcome !== 'ok' || retraction) continue;
    times.set(plan_digest, [...(times.get(plan_digest) ?? []), step_time_seconds]);
  }
  const medians = [...times.values()].flatMap((values) => medianOf(values) ?? []);
  const measured = medianOf(times.get(baseline?.plan_digest ?? '') ?? []);
  const baselineSeconds = measured ?? baseline?.estimate?.step_time_seconds ?? 0;
  if (medians.length === 0 || baselineSeconds <= 0) return undefined;
  const bestSeconds = Math.min(...medians);
  return {
    study,
    baselineSeconds,
    isBaselineMeasured: measured !== undefined,
    bestSeconds,
    gain: baselineSeconds / bestSeconds - 1,
    runCount: [...times.values()].reduce((sum, values) => sum + values.length, 0),
  };
}

/** Returns the gains of the newest studies that have measured runs, the oldest study first. */
export async function readGains(signal: AbortSignal): Promise<Gain[]> {
  const [{ measurements }, { studies }] = await Promise.all([
    newestMeasurements({ 'filter.outcome': 'ok', 'filter.is_retracted': 'false' }, signal),
    api.studies({ page_size: 1000 }, signal),
  ]);
  const byStudy = new Map<string, Measurement[]>();
  for (const measurement of measurements) {
    const known = byStudy.get(measurement.study_id);
    if (known) known.push(measurement);
    else byStudy.set(measurement.study_id, [measurement]);
  }
  const measured = studies.filter(({ id }) => byStudy.has(id)).slice(0, studyLimit);
  const gains = await Promise.all(
    measured.map(async (study) => {
      // The baseline has the rank 0, and so comes first.
      const { plans } = await api.plans(study.id, { page_size: 1 }, signal);
      return gainOf(study, plans.find(({ rank }) => rank === 0), byStudy.get(study.id) ?? []);
    }),
  );
  return gains.flatMap((gain) => gain ?? []).reverse();
}
