// A plan in the field's short words: "TP 4 + SP · PP 4 × 5 · DP 8 · MBS 1 · ZeRO 1 · ...".
import type { Plan, RecomputePlan } from '../api/wire';
import type { Text } from '../text/text';
import { pipelinesOf, stretchesOf, type Pipeline, type Stretch } from './pools';

/** Returns "13×4 + 3×3" for thirteen stages of 4 and then three of 3. */
export function runsOf(counts: readonly number[]): string {
  const runs: [number, number][] = [];
  for (const count of counts) {
    const last = runs.at(-1);
    if (last && last[1] === count) last[0] += 1;
    else runs.push([1, count]);
  }
  return runs.map(([times, count]) => (times === 1 ? `${count}` : `${times}×${count}`)).join(' + ');
}

const scheduleWords: Record<string, string> = {
  gpipe: 'GPipe',
  '1f1b': '1F1B',
  interleaved_1f1b: 'interleaved 1F1B',
  zb_h1: 'ZB-H1',
  zb_v: 'ZB-V',
  dualpipe: 'DualPipe',
  dualpipe_v: 'DualPipe-V',
  chimera: 'Chimera',
};

export function recomputeWords(plan: Plan, text: Text): string {
  const recompute = plan.recompute;
  const granularity = recompute?.granularity ?? 'none';
  if (!recompute || granularity === 'none') return text.say('recompute.none');
  const layers = recompute.layer_counts.length > 0 ? ` ${runsOf(recompute.layer_counts)}` : '';
  const modules = recompute.modules.length > 0 ? ` ${recompute.modules.join(' + ')}` : '';
  return granularity === 'full'
    ? text.say('recompute.full') + layers
    : text.say('recompute.selective') + layers + modules;
}

/** Returns what one stage recomputes of its layers. */
export function stageRecompute(recompute: RecomputePlan | undefined, layers: number, text: Text): string {
  const kind = recompute?.granularity ?? 'none';
  if (!recompute || kind === 'none') return text.say('recompute.none');
  if (kind === 'full') return `${text.say('recompute.full')} ${recompute.layer_counts[0] ?? layers}`;
  return [text.say('recompute.selective'), recompute.modules.join(' + ')].filter((word) => word !== '').join(' ');
}

/** Returns what neighbouring stages recompute: "full recomputation 1 + 3×0", by stage. */
function stretchRecompute({ stages }: Stretch, text: Text): string {
  const kinds = [...new Set(stages.map(({ recompute }) => recompute?.granularity ?? 'none'))];
  const working = kinds.filter((kind) => kind !== 'none');
  return working
    .map((kind) => {
      const layers = stages.map(({ recompute, layer_count = 0 }) =>
        recompute?.granularity === kind ? (recompute.layer_counts[0] ?? layer_count) : 0,
      );
      const modules = stages.find(({ recompute }) => recompute?.granularity === kind)?.recompute?.modules ?? [];
      const name = text.say(kind === 'full' ? 'recompute.full' : 'recompute.selective');
      return [name, kind === 'full' ? runsOf(layers) : '', modules.join(' + ')].filter((word) => word !== '').join(' ');
    })
    .join(text.say('list.comma'));
}

/** Returns "ampere (PP 4, TP 2, DP 8, MBS 1, layers 3×6 + 5)". */
function stretchWords(stretch: Stretch, text: Text): string {
  const { pool, stages } = stretch;
  const first = stages[0];
  const words = [
    `PP ${stages.length}`,
    `TP ${first?.tensor_parallel ?? 1}`,
    (first?.context_parallel ?? 1) > 1 ? `CP ${first?.context_parallel}` : '',
    `DP ${first?.data_parallel ?? 1}`,
    `MBS ${first?.micro_batch_size ?? 1}`,
    (first?.device_count ?? 0) > 0 ? text.say('mix.partOfNode', { count: first?.device_count ?? 0 }) : '',
    text.say('mix.layers', { layers: runsOf(stages.map(({ layer_count = 0 }) => layer_count)) }),
    stretchRecompute(stretch, text),
  ];
  return text.say('mix.stretch', { pool, settings: words.filter((word) => word !== '').join(text.say('list.comma')) });
}

/** Returns "8 × [ampere (...) → hopper (...)], 16 micro-batches each" for a group of equal replicas. */
function groupWords({ replicas, microBatches = 1, stages }: Pipeline, text: Text): string {
  const shapes = stretchesOf(stages).map((stretch) => stretchWords(stretch, text));
  return text.say('mix.group', {
    replicas: text.format.count(replicas),
    stages: shapes.join(' → '),
    count: microBatches,
  });
}

/** Returns the words of each replica group, or of each stretch of stages if all replicas are alike. */
function pipelineWords(plan: Plan, text: Text): string[] {
  return pipelinesOf(plan).flatMap((pipeline) =>
    pipeline.group === undefined
      ? stretchesOf(pipeline.stages).map((stretch) => stretchWords(stretch, text))
      : [groupWords(pipeline, text)],
  );
}

/** Returns the words of a plan, the most important first. Sizes of 1 are left out. */
export function planWords(plan: Plan, text: Text): string[] {
  const words: string[] = [];
  const size = (name: string, value: number | undefined, more = '') => {
    if ((value ?? 1) > 1) words.push(`${name} ${value}${more}`);
  };
  // The stages of a mix have sizes of their own, in place of the plan's.
  const mixes = pipelinesOf(plan).length > 0;
  words.push(...pipelineWords(plan, text));
  if (!mixes) size('TP', plan.tensor_parallel, plan.sequence_parallel ? ' + SP' : '');
  else if (plan.sequence_parallel) words.push('SP');
  const isPiped =
    (plan.pipeline_parallel ?? 1) > 1 || (plan.replica_groups ?? []).some(({ stages }) => stages.length > 1);
  const virtual = plan.virtual_pipeline ?? 1;
  if (!mixes) {
    size('PP', plan.pipeline_parallel, virtual > 1 ? ` × ${virtual}` : '');
    size('CP', plan.context_parallel, ` ${plan.context_parallel_kind ?? ''}`);
  }
  size('EP', plan.expert_parallel);
  size('ETP', plan.expert_tensor_parallel);
  if (!mixes) words.push(`DP ${plan.data_parallel ?? 1}`, `MBS ${plan.micro_batch_size ?? 1}`);
  const group = plan.zero_group_size ?? 0;
  if ((plan.zero_stage ?? 0) > 0) words.push(`ZeRO ${plan.zero_stage}${group > 0 ? ` / ${group}` : ''}`);
  if (isPiped && plan.schedule) words.push(scheduleWords[plan.schedule] ?? plan.schedule);
  const granularity = plan.recompute?.granularity ?? 'none';
  if (!mixes && granularity !== 'none') words.push(recomputeWords(plan, text));
  const offload = plan.optimizer_offload_ratio ?? 0;
  if (offload > 0) words.push(text.say('plan.offload', { share: text.format.percent(offload) }));
  const activations = plan.activation_offload_ratio ?? 0;
  if (activations > 0) {
    words.push(text.say('plan.activationOffload', { share: text.format.percent(activations) }));
  }
  if (plan.pools.length > 0) words.push(text.say('mix.only', { pools: plan.pools.join(text.say('list.comma')) }));
  return words;
}

/** The fields that the stages of a mix state for themselves. */
const ownOfStages: readonly string[] = [
  'tensor_parallel',
  'data_parallel',
  'context_parallel',
  'micro_batch_size',
  'recompute',
  'layers_per_stage',
];

export const planLine = (plan: Plan, text: Text): string => planWords(plan, text).join(' · ');

/** Returns every field of a plan with its value in words, in the order of the schema. */
export function settingsOf(plan: Plan, text: Text): Record<string, string> {
  const settings: Record<string, string> = {};
  const pipelines = pipelinesOf(plan);
  const hasGroups = pipelines.some(({ group }) => group !== undefined);
  for (const [field, value] of Object.entries(plan) as [keyof Plan, unknown][]) {
    if (pipelines.length > 0 && ownOfStages.includes(field)) continue;
    if (hasGroups && field === 'pipeline_parallel') continue; // each group has its own number
    if (field === 'recompute') settings[field] = recomputeWords(plan, text);
    else if (field === 'stages') {
      if (plan.stages.length > 0) settings[field] = pipelineWords(plan, text).join(' → ');
    } else if (field === 'replica_groups') {
      if (hasGroups) settings[field] = pipelineWords(plan, text).join(' + ');
    } else if (field === 'pools') {
      if (plan.pools.length > 0) settings[field] = plan.pools.join(text.say('list.comma'));
    } else if (field === 'layers_per_stage') {
      settings[field] = runsOf(plan.layers_per_stage);
    } else if (field === 'schedule') {
      settings[field] = scheduleWords[String(value)] ?? String(value);
    } else if (typeof value === 'boolean') {
      settings[field] = text.say(value ? 'yes' : 'no');
    } else if (typeof value === 'number' && field.endsWith('_ratio')) {
      settings[field] = text.format.percent(value);
    } else if (field === 'zero_group_size' && value === 0) {
      settings[field] = text.say('plan.wholeGroup');
    } else if (typeof value === 'number') {
      settings[field] = text.format.count(value);
    } else {
      settings[field] = String(value);
    }
  }
  return settings;
}

export interface FieldDifference {
  field: string;
  first: string;
  second: string;
}

/** Returns the fields in which two plans differ, in the order of the schema. */
export function differencesOf(first: Plan, second: Plan, text: Text): FieldDifference[] {
  const a = settingsOf(first, text);
  const b = settingsOf(second, text);
  return [...new Set([...Object.keys(a), ...Object.keys(b)])]
    .filter((field) => a[field] !== b[field])
    .map((field) => ({ field, first: a[field] ?? '–', second: b[field] ?? '–' }));
}
