// How far predictions were off: the runs that have both a measured and an expected step time.
import type { Measurement } from '../api/wire';

export interface Run {
  measurement: Measurement;
  predictedSeconds: number;
  measuredSeconds: number;
  /** Measured / predicted - 1: positive if the run was slower than predicted. */
  error: number;
  isInside: boolean;
}

/** Returns the runs, oldest first. Retracted measurements and failures have no part in errors. */
export function runsOf(measurements: readonly Measurement[], retracted = false): Run[] {
  return measurements
    .flatMap((measurement): Run[] => {
      const expected = measurement.expected;
      if ((measurement.retraction !== undefined) !== retracted) return [];
      if (measurement.outcome !== 'ok' || !expected || expected.step_time_seconds <= 0) return [];
      return [
        {
          measurement,
          predictedSeconds: expected.step_time_seconds,
          measuredSeconds: measurement.step_time_seconds,
          error: measurement.step_time_seconds / expected.step_time_seconds - 1,
          isInside:
            measurement.is_within_interval ??
            (measurement.step_time_seconds >= expected.step_time_low_seconds &&
              measurement.step_time_seconds <= expected.step_time_high_seconds),
        },
      ];
    })
    .sort(
      (a, b) =>
        Date.parse(a.measurement.create_time) - Date.parse(b.measurement.create_time) ||
        a.measurement.sequence - b.measurement.sequence,
    );
}

/** Returns a quantile between the two nearest values; 0 if there are none. */
export function quantileOf(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const at = share * (sorted.length - 1);
  const low = sorted[Math.floor(at)] ?? 0;
  const high = sorted[Math.ceil(at)] ?? 0;
  return low + (high - low) * (at - Math.floor(at));
}

export interface ErrorSummary {
  count: number;
  /** The median of the signed error, and the bounds of its central 80 %. */
  median: number;
  low: number;
  high: number;
  /** The median of the error without its sign. */
  size: number;
  insideCount: number;
}

export function summaryOf(runs: readonly Run[]): ErrorSummary {
  const errors = runs.map(({ error }) => error);
  return {
    count: runs.length,
    median: quantileOf(errors, 0.5),
    low: quantileOf(errors, 0.1),
    high: quantileOf(errors, 0.9),
    size: quantileOf(errors.map(Math.abs), 0.5),
    insideCount: runs.filter(({ isInside }) => isInside).length,
  };
}

export const dimensions = ['chip', 'model', 'framework', 'version'] as const;
export type RunDimension = (typeof dimensions)[number];

/** Returns the value of a measurement by which runs are grouped and filtered. */
export function groupOf(measurement: Measurement, dimension: RunDimension): string {
  const { framework, framework_version: version } = measurement;
  if (dimension === 'chip') return measurement.chip;
  if (dimension === 'model') return measurement.model_name;
  return dimension === 'framework' || version === '' ? framework : `${framework} ${version}`;
}

export interface ErrorGroup {
  name: string;
  summary: ErrorSummary;
}

/** Returns the groups with the most runs first; equal ones by name. */
export function groupsOf(runs: readonly Run[], dimension: RunDimension): ErrorGroup[] {
  const groups = new Map<string, Run[]>();
  for (const run of runs) {
    const name = groupOf(run.measurement, dimension);
    groups.set(name, [...(groups.get(name) ?? []), run]);
  }
  return [...groups]
    .map(([name, members]) => ({ name, summary: summaryOf(members) }))
    .sort((a, b) => b.summary.count - a.summary.count || (a.name < b.name ? -1 : 1));
}
