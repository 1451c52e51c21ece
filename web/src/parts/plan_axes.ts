// The evaluated plans of a study by the dimensions in which they differ, which of them are chosen,
// and how much each dimension explains of the step time.
import type { Plan, RankedPlan } from '../api/wire';
import type { Text } from '../text/text';
import { planLine, settingsOf } from './plan_words';

export interface ListedPlan {
  rank: number;
  name: string;
  line: string;
  digest: string;
  seconds: number;
  freeBytes: number;
  /** The plan's values by dimension, as they stand on the wire. */
  values: Record<string, string>;
  /** The same values in the reader's words. */
  words: Record<string, string>;
}

/** A dimension of the plans with the values that they take, in order. */
export interface PlanAxis {
  field: string;
  values: string[];
  words: string[];
}

/** The figures that plans are chosen by, beside their dimensions. */
export const figures = ['step_time_seconds', 'free_memory_bytes'] as const;
export type Figure = (typeof figures)[number];

export interface Choice {
  /** The chosen values by dimension; a dimension that is absent chooses all. */
  values: Record<string, string[]>;
  /** The least and the largest chosen value by figure; a figure that is absent chooses all. */
  ranges: Partial<Record<Figure, [number, number]>>;
}

/** These follow from other dimensions, or belong to mixed clusters. */
const leftOut = ['layers_per_stage', 'stages', 'replica_groups'];

const sumOf = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0);

/** Recomputation is two dimensions: what is recomputed, and in how many layers. */
function recomputeOf({ recompute, layers_per_stage }: Plan, text: Text): Record<string, [string, string]> {
  const { granularity = 'none', layer_counts = [], modules = [], selective_layer_counts = [] } = recompute ?? {};
  const kinds: Record<string, string> = {
    none: text.say('recompute.none'),
    full: text.say('recompute.full'),
    selective: text.say('recompute.selective'),
  };
  const stated = sumOf(layer_counts) + sumOf(selective_layer_counts);
  const count = granularity === 'none' ? 0 : layer_counts.length > 0 ? stated : sumOf(layers_per_stage);
  return {
    recompute: [
      [granularity, ...modules].join('+'),
      [kinds[granularity] ?? granularity, modules.join(' + ')].filter((part) => part !== '').join(': '),
    ],
    recomputed_layers: [String(count), text.format.count(count)],
  };
}

/** Returns the plan's value by dimension, as it stands on the wire and in words. */
function dimensionsOf(plan: Plan, text: Text): Record<string, [string, string]> {
  const found: Record<string, [string, string]> = {};
  for (const [field, words] of Object.entries(settingsOf(plan, text))) {
    if (field === 'recompute') Object.assign(found, recomputeOf(plan, text));
    else if (!leftOut.includes(field)) found[field] = [String(plan[field as keyof Plan]), words];
  }
  return found;
}

export const figureOf = (plan: ListedPlan, figure: Figure): number =>
  figure === 'step_time_seconds' ? plan.seconds : plan.freeBytes;

/** Returns the plans that were estimated, in the order of the list. */
export function listedPlans(plans: readonly RankedPlan[], text: Text): ListedPlan[] {
  return plans.flatMap(({ plan, estimate, rank = 0, plan_digest }) => {
    if (!plan || !estimate) return [];
    const dimensions = Object.entries(dimensionsOf(plan, text));
    return [
      {
        rank,
        name: rank === 0 ? text.say('plan.baseline') : text.say('plan.name', { rank: String(rank) }),
        line: planLine(plan, text),
        digest: plan_digest,
        seconds: estimate.step_time_seconds,
        freeBytes: estimate.memory_capacity_bytes - estimate.reserved_memory_bytes,
        values: Object.fromEntries(dimensions.map(([field, [value]]) => [field, value])),
        words: Object.fromEntries(dimensions.map(([field, [, words]]) => [field, words])),
      },
    ];
  });
}

/** Orders numbers by size and words by their letters. */
function byValue(a: string, b: string): number {
  const difference = Number(a) - Number(b);
  return Number.isNaN(difference) ? (a < b ? -1 : a > b ? 1 : 0) : difference;
}

/** Returns the dimensions in which plans differ, in the order of the schema. */
export function planAxes(plans: readonly ListedPlan[]): PlanAxis[] {
  const fields = [...new Set(plans.flatMap(({ values }) => Object.keys(values)))];
  return fields.flatMap((field) => {
    const words = new Map(plans.map((plan) => [plan.values[field] ?? '', plan.words[field] ?? '–']));
    if (words.size < 2) return [];
    const values = [...words.keys()].sort(byValue);
    return [{ field, values, words: values.map((value) => words.get(value) ?? '') }];
  });
}

export function isChosen(plan: ListedPlan, choice: Choice): boolean {
  return (
    Object.entries(choice.values).every(([field, values]) => values.includes(plan.values[field] ?? '')) &&
    figures.every((figure) => {
      const [low, high] = choice.ranges[figure] ?? [-Infinity, Infinity];
      const value = figureOf(plan, figure);
      return low <= value && value <= high;
    })
  );
}

/** Reads a choice from the fields of an address: expert_parallel=8,16&step_time_seconds=30..40. */
export function choiceIn(query: Record<string, string>, axes: readonly PlanAxis[]): Choice {
  const choice: Choice = { values: {}, ranges: {} };
  for (const { field, values } of axes) {
    const stated = (query[field] ?? '').split(',').filter((value) => values.includes(value));
    if (stated.length > 0) choice.values[field] = stated;
  }
  for (const figure of figures) {
    const [low = NaN, high = NaN] = (query[figure] ?? '').split('..').map(Number);
    if (low <= high) choice.ranges[figure] = [low, high];
  }
  return choice;
}

/** Returns the fields of an address that state the choice; those that choose all are empty. */
export function queryOfChoice(choice: Choice, axes: readonly PlanAxis[]): Record<string, string> {
  const query: Record<string, string> = {};
  for (const { field, values } of axes) {
    const chosen = choice.values[field] ?? values;
    query[field] = chosen.length === values.length ? '' : values.filter((value) => chosen.includes(value)).join(',');
  }
  for (const figure of figures) query[figure] = choice.ranges[figure]?.join('..') ?? '';
  return query;
}

export interface Importance {
  field: string;
  /** The share of the variance of the step time that the dimension explains, from 0 to 1. */
  share: number;
  valueCount: number;
}

/**
 * Returns how much each dimension explains of the step time by itself, the largest share first: the
 * epsilon squared of a one-way grouping (Kelley, 1935), 1 - (n - 1) / (n - k) * within / total for n
 * plans with k values. It is the share of the variance between the groups, less what k groups explain
 * by chance. A dimension whose values are all different cannot be judged and is left out.
 */
export function importanceOf(plans: readonly ListedPlan[], axes: readonly PlanAxis[]): Importance[] {
  const spread = (values: readonly number[]) => {
    const middle = sumOf(values) / values.length;
    return sumOf(values.map((value) => (value - middle) ** 2));
  };
  const total = spread(plans.map(({ seconds }) => seconds));
  if (plans.length === 0 || !(total > 0)) return [];
  const found = axes.flatMap(({ field }) => {
    const groups = new Map<string, number[]>();
    for (const { values, seconds } of plans) {
      const value = values[field] ?? '';
      groups.set(value, [...(groups.get(value) ?? []), seconds]);
    }
    const count = groups.size;
    if (count < 2 || count === plans.length) return [];
    const within = sumOf([...groups.values()].map(spread));
    const share = 1 - (((plans.length - 1) / (plans.length - count)) * within) / total;
    return [{ field, share: Math.min(Math.max(share, 0), 1), valueCount: count }];
  });
  return found.sort((a, b) => b.share - a.share);
}
