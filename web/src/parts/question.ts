// A question as the form states it: what a reader types, and the message that is made of it.
import type { TuneRequest, Workload } from '../api/wire';

/** The inputs of the form. Their texts stand in the address as they are typed, if anything was. */
export const askFields = [
  'chip',
  'nodes',
  'devices',
  'framework',
  'version',
  'sequence',
  'batch',
  'precision',
] as const;
export type AskField = (typeof askFields)[number];
export type Typed = Record<AskField, string>;

/** The path of the question's field that each input is for. */
export const pathsOf: Record<AskField, string> = {
  chip: 'cluster.pools[0].chip',
  nodes: 'cluster.pools[0].node_count',
  devices: 'cluster.pools[0].devices_per_node',
  framework: 'workload.framework.name',
  version: 'workload.framework.version',
  sequence: 'workload.sequence_length',
  batch: 'workload.global_batch_size',
  precision: 'workload.precision',
};

/** The part of a question that a model file gives. */
export type AskedModel = Pick<TuneRequest, 'model' | 'hugging_face_config_json'>;

/**
 * Returns the model of a file: a config.json of Hugging Face, or a model in Meshwright's own keys;
 * absent if the text is not a JSON object.
 */
export function modelIn(text: string): AskedModel | undefined {
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof read !== 'object' || read === null || Array.isArray(read)) return undefined;
  // Only our own files name the number of layers so.
  return 'layer_count' in read
    ? { model: read as NonNullable<TuneRequest['model']> }
    : { hugging_face_config_json: text };
}

const textOr = (value: string | number | undefined): string => (value === undefined ? '' : String(value));

/** Returns what a question states of the form's fields. */
export function typedOf(question: TuneRequest | undefined): Typed {
  const pool = question?.cluster?.pools[0];
  const workload = question?.workload;
  return {
    chip: pool?.chip ?? '',
    nodes: textOr(pool?.node_count),
    devices: textOr(pool?.devices_per_node),
    framework: workload?.framework?.name ?? '',
    version: workload?.framework?.version ?? '',
    sequence: textOr(workload?.sequence_length),
    batch: textOr(workload?.global_batch_size),
    precision: workload?.precision ?? '',
  };
}

// In the address, this stands for an input that was emptied though the study states a value.
const emptied = '-';

/** Returns the texts of the inputs: those of the address, else those of the study asked again. */
export function typedIn(query: Record<string, string>, base: TuneRequest | undefined): Typed {
  const typed = typedOf(base);
  for (const field of askFields) {
    const stated = query[field];
    if (stated !== undefined) typed[field] = stated === emptied ? '' : stated;
  }
  return typed;
}

/** Returns the query of an address that fills the inputs so; what it has of other things stays. */
export function queryOf(
  typed: Typed,
  base: TuneRequest | undefined,
  query: Record<string, string>,
): Record<string, string> {
  const known = typedOf(base);
  const changed = (field: AskField) => (typed[field] === known[field] ? '' : typed[field] || emptied);
  return { ...query, ...Object.fromEntries(askFields.map((field) => [field, changed(field)])) };
}

/** A whole number, as typed, with or without separators; anything else as NaN. */
export function countOf(typed: string): number {
  const digits = typed.replace(/[\s,_]/g, '');
  return /^\d{1,15}$/.test(digits) ? Number(digits) : Number.NaN;
}

/** The inputs that hold no whole number, though they must. */
export function notCounts(typed: Typed): AskField[] {
  return (['nodes', 'devices', 'sequence', 'batch'] as const).filter(
    (field) => typed[field].trim() !== '' && Number.isNaN(countOf(typed[field])),
  );
}

/** Leaves out what is empty, so that the server applies its default and says so. */
function stated<T extends object>(fields: T): T {
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== undefined && value !== ''),
  ) as T;
}

/**
 * Returns the question of the form. `base` is the question of a study that is asked again with
 * changes: what the form has no input for stays as it is there, but no plan is run for it.
 */
export function questionOf(typed: Typed, model: AskedModel | undefined, base?: TuneRequest): TuneRequest {
  const count = (field: AskField) => (typed[field].trim() === '' ? undefined : countOf(typed[field]));
  const word = (field: AskField) => typed[field].trim();
  const { framework: baseFramework, ...baseWorkload }: Partial<Workload> = base?.workload ?? {};
  const framework = stated({
    ...(baseFramework ?? {}),
    name: word('framework'),
    version: word('version'),
  });
  const basePool = base?.cluster?.pools[0];
  // The links and the memory that another chip's node states say nothing of this one's.
  const kept = basePool?.chip === word('chip') ? basePool : stated({ name: basePool?.name });
  const pool = stated({
    ...kept,
    chip: word('chip'),
    node_count: count('nodes'),
    devices_per_node: count('devices'),
  });
  // As the command line names a cluster that is stated by chip and nodes.
  const isSame = basePool?.chip === pool.chip && basePool?.node_count === pool.node_count;
  const name = isSame ? base?.cluster?.name : `${typed.nodes.trim()} nodes of ${word('chip')}`;
  const {
    model: baseModel,
    hugging_face_config_json: baseConfig,
    trials: _trials,
    history: _history,
    history_sequence: _sequence,
    ...rest
  } = base ?? ({} as Partial<TuneRequest>);
  return {
    ...rest,
    ...(model ?? stated({ model: baseModel, hugging_face_config_json: baseConfig })),
    workload: stated({
      ...baseWorkload,
      sequence_length: count('sequence'),
      global_batch_size: count('batch'),
      precision: word('precision'),
      framework: Object.keys(framework).length > 0 ? framework : undefined,
    }),
    cluster: { ...(base?.cluster ?? {}), ...stated({ name }), pools: [pool, ...(base?.cluster?.pools.slice(1) ?? [])] },
  } as TuneRequest;
}
