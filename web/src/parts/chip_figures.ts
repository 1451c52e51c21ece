// The facts that are known about a chip: whether plans can be made with it, and what its figures rest on.
import type { Chip, Figure } from '../api/wire';
import type { ErrorSummary } from './run_errors';

export const readinessWords = ['checked', 'ready', 'low_confidence', 'unmodelled'] as const;
export type Readiness = (typeof readinessWords)[number];

/** Runs from which on the estimates of a chip count as checked; drift needs as many. */
const checkedRunCount = 3;

/** A chip of low confidence makes every answer warn; measured runs show what its estimates are worth. */
export function readinessOf(chip: Chip, runs: ErrorSummary | undefined): Readiness {
  if ((runs?.count ?? 0) >= checkedRunCount) return 'checked';
  return chip.confidence === 'low' ? 'low_confidence' : 'ready';
}

/** Returns the nominal dense peak in half precision; 0 if there is none. */
export const halfPrecisionPeak = (chip: Chip): number =>
  chip.peak_flops_per_second['bf16'] ?? chip.peak_flops_per_second['fp16'] ?? 0;

/** From the strongest source of a figure to the weakest. */
export const provenanceOrder = ['measured', 'fitted', 'transferred', 'published', 'assumed'];

/** The parts of a step that figures are about, each with the beginnings of their names. */
const areas: [string, string[]][] = [
  ['gemm', ['gemm_', 'peak_', 'measured_peak_', 'vector_peak', 'sustained_', 'core_count']],
  ['attention', ['attention_']],
  ['memory_bound', ['memory_bandwidth', 'measured_memory_bandwidth', 'memory_bound_', 'stream_', 'cache_', 'permutation_']],
  ['capacity', ['memory_capacity', 'reported_memory', 'runtime_context']],
  ['collectives', ['collective_', 'scale_up_', 'usual_node_', 'overlap_', 'all_']],
];

export function areaOf(figure: string): string {
  return areas.find(([, starts]) => starts.some((start) => figure.startsWith(start)))?.[0] ?? 'other';
}

export interface AreaCoverage {
  area: string;
  /** The number of figures by provenance. */
  counts: Record<string, number>;
}

/** Returns how many figures of each area rest on what; areas without a figure are there, too. */
export function coverageOf(figures: readonly Figure[]): AreaCoverage[] {
  const names = [...areas.map(([area]) => area), 'other'];
  return names.map((area) => {
    const counts: Record<string, number> = {};
    for (const { name, provenance } of figures) {
      if (areaOf(name) === area) counts[provenance] = (counts[provenance] ?? 0) + 1;
    }
    return { area, counts };
  });
}

/** Returns a figure as people read it: long digits in groups, texts as they are. */
export function figureText(value: string, number: (value: number) => string): string {
  const parsed = Number(value);
  return value === '' || !Number.isFinite(parsed) || Math.abs(parsed) < 1000 ? value : number(parsed);
}

export interface FigurePair {
  name: string;
  first?: Figure;
  second?: Figure;
}

/** Returns the figures of two chips by name, in the order of the first. */
export function figurePairs(first: readonly Figure[], second: readonly Figure[]): FigurePair[] {
  const find = (figures: readonly Figure[], name: string) => figures.find((figure) => figure.name === name);
  const names = [...new Set([...first, ...second].map(({ name }) => name))];
  return names.map((name) => {
    const a = find(first, name);
    const b = find(second, name);
    return { name, ...(a ? { first: a } : {}), ...(b ? { second: b } : {}) };
  });
}
