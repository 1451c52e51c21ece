// A question as the form states it: what a reader types, and the message that is made of it.
import type { Cluster, NodePool, TuneRequest, Workload } from '../api/wire';

/** The inputs of each pool of the cluster. */
export const poolFields = ['name', 'chip', 'nodes', 'devices'] as const;
export type PoolField = (typeof poolFields)[number];
export type TypedPool = Record<PoolField, string>;

/** The other inputs of the form. */
export const askFields = ['between', 'framework', 'version', 'sequence', 'batch', 'precision'] as const;
export type AskField = (typeof askFields)[number];

/** The texts of the fields. They stand in the address as they are typed, if anything was. */
export interface Typed extends Record<AskField, string> {
  pools: TypedPool[];
}

/** The most pools that are mixed: docs/mixed-clusters.md. */
export const poolLimit = 6;

/** Returns the name of a pool's input, and of its field in the address: chip, chip2, chip3, ... */
export const poolKey = (field: PoolField, at: number): string => (at === 0 ? field : `${field}${at + 1}`);

const poolPaths: Record<PoolField, string> = {
  name: 'name',
  chip: 'chip',
  nodes: 'node_count',
  devices: 'devices_per_node',
};
const paths: Record<AskField, string> = {
  between: 'cluster.inter_pool.bandwidth_bytes_per_second_per_node',
  framework: 'workload.framework.name',
  version: 'workload.framework.version',
  sequence: 'workload.sequence_length',
  batch: 'workload.global_batch_size',
  precision: 'workload.precision',
};

/** Returns the name of the input for a field of the question, as its path is; absent if there is none. */
export function inputOf(path: string): string | undefined {
  const inPool = /^cluster\.pools\[(\d+)\]\.(\w+)$/.exec(path);
  const field = poolFields.find((name) => poolPaths[name] === inPool?.[2]);
  if (inPool && field) return poolKey(field, Number(inPool[1]));
  return askFields.find((name) => paths[name] === path);
}

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

const emptyPool: TypedPool = { name: '', chip: '', nodes: '', devices: '' };
const bytesPerGigabyte = 1e9;

/** Returns what a question states of the form's fields. */
export function typedOf(question: TuneRequest | undefined): Typed {
  const workload = question?.workload;
  const pools = (question?.cluster?.pools ?? []).map(({ name, chip, node_count, devices_per_node }) => ({
    name: name ?? '',
    chip: chip ?? '',
    nodes: textOr(node_count),
    devices: textOr(devices_per_node),
  }));
  const between = question?.cluster?.inter_pool?.bandwidth_bytes_per_second_per_node;
  return {
    pools: pools.length > 0 ? pools : [emptyPool],
    between: textOr(between === undefined ? undefined : between / bytesPerGigabyte),
    framework: workload?.framework?.name ?? '',
    version: workload?.framework?.version ?? '',
    sequence: textOr(workload?.sequence_length),
    batch: textOr(workload?.global_batch_size),
    precision: workload?.precision ?? '',
  };
}

/** Returns the pools with one more; several pools need names. */
export function withPool(pools: readonly TypedPool[]): TypedPool[] {
  const named = [...pools, emptyPool].map((pool, at) => ({ pool, name: pool.name.trim() || `pool${at + 1}` }));
  const taken = new Set<string>();
  return named.map(({ pool, name }) => {
    let own = name;
    for (let more = 2; taken.has(own); ++more) own = `${name}-${more}`;
    taken.add(own);
    return { ...pool, name: own };
  });
}

// In the address, this stands for an input that was emptied though the study states a value.
const emptied = '-';
const countKey = 'pools';

/** Returns the texts of the inputs: those of the address, else those of the study asked again. */
export function typedIn(query: Record<string, string>, base: TuneRequest | undefined): Typed {
  const known = typedOf(base);
  const read = (key: string, otherwise: string) => {
    const stated = query[key];
    return stated === undefined ? otherwise : stated === emptied ? '' : stated;
  };
  const stated = countOf(query[countKey] ?? '');
  const count = stated >= 1 && stated <= poolLimit ? stated : known.pools.length;
  const pools = Array.from({ length: count }, (_, at) => {
    const own = known.pools[at] ?? emptyPool;
    return Object.fromEntries(poolFields.map((field) => [field, read(poolKey(field, at), own[field])])) as TypedPool;
  });
  const others = Object.fromEntries(askFields.map((field) => [field, read(field, known[field])]));
  return { ...(others as Record<AskField, string>), pools };
}

/** Returns the query of an address that fills the inputs so; what it has of other things stays. */
export function queryOf(
  typed: Typed,
  base: TuneRequest | undefined,
  query: Record<string, string>,
): Record<string, string> {
  const known = typedOf(base);
  const changed = (own: string, before: string) => (own === before ? '' : own || emptied);
  const result = { ...query };
  for (let at = 0; at < poolLimit; ++at) {
    const own = typed.pools[at];
    for (const field of poolFields) {
      result[poolKey(field, at)] = own ? changed(own[field], known.pools[at]?.[field] ?? '') : '';
    }
  }
  for (const field of askFields) result[field] = changed(typed[field], known[field]);
  result[countKey] = typed.pools.length === known.pools.length ? '' : String(typed.pools.length);
  return result;
}

/** A whole number, as typed, with or without separators; anything else as NaN. */
export function countOf(typed: string): number {
  const digits = typed.replace(/[\s,_]/g, '');
  return /^\d{1,15}$/.test(digits) ? Number(digits) : Number.NaN;
}

/** A number above 0, as typed; anything else as NaN. */
export function numberOf(typed: string): number {
  const word = typed.trim();
  return /^\d{1,9}([.,]\d{1,9})?$/.test(word) && Number(word.replace(',', '.')) > 0
    ? Number(word.replace(',', '.'))
    : Number.NaN;
}

export type Mistake = 'ask.notCount' | 'ask.notNumber';

/** Returns the inputs that hold no number, though they must, in the order of the form. */
export function mistakesIn(typed: Typed): Map<string, Mistake> {
  const found = new Map<string, Mistake>();
  const isWrong = (word: string, read: (word: string) => number) => word.trim() !== '' && Number.isNaN(read(word));
  typed.pools.forEach((pool, at) => {
    for (const field of ['nodes', 'devices'] as const) {
      if (isWrong(pool[field], countOf)) found.set(poolKey(field, at), 'ask.notCount');
    }
  });
  if (typed.pools.length > 1 && isWrong(typed.between, numberOf)) found.set('between', 'ask.notNumber');
  for (const field of ['sequence', 'batch'] as const) {
    if (isWrong(typed[field], countOf)) found.set(field, 'ask.notCount');
  }
  return found;
}

/** Leaves out what is empty, so that the server applies its default and says so. */
function stated<T extends object>(fields: T): T {
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== undefined && value !== ''),
  ) as T;
}

const countIn = (word: string) => (word.trim() === '' ? undefined : countOf(word));

/** Returns the pool of a study that a typed one goes back to: the one of its name, else of its place. */
function basePoolOf(typed: Typed, at: number, base: TuneRequest | undefined): NodePool | undefined {
  const pools = base?.cluster?.pools ?? [];
  const names = typed.pools.map(({ name }) => name.trim());
  const named = pools.find(({ name = '' }) => name !== '' && name === names[at]);
  const inPlace = pools[at];
  return named ?? (names.includes(inPlace?.name || '\u0000') ? undefined : inPlace);
}

/** Returns a pool as it is typed, with what the study states beyond the form's inputs. */
function poolOf(typed: Typed, at: number, base: TuneRequest | undefined): NodePool {
  const own = typed.pools[at] ?? emptyPool;
  const before = basePoolOf(typed, at, base);
  // The links and the memory that another chip's node states say nothing of this one's.
  const kept: Partial<NodePool> = before?.chip === own.chip.trim() ? before : {};
  return stated({
    ...kept,
    // One pool needs no name, and its input is not shown.
    name: typed.pools.length > 1 ? own.name.trim() : (before?.name ?? own.name.trim()),
    chip: own.chip.trim(),
    node_count: countIn(own.nodes),
    devices_per_node: countIn(own.devices),
  }) as NodePool;
}

/** True if the pools are those of the study, so that its cluster's name and its own plan still hold. */
export function isSameCluster(typed: Typed, base: TuneRequest | undefined): boolean {
  const known = typedOf(base);
  return base !== undefined && JSON.stringify(known.pools) === JSON.stringify(typed.pools);
}

function clusterOf(typed: Typed, base: TuneRequest | undefined): Cluster {
  const pools = typed.pools.map((_, at) => poolOf(typed, at, base));
  const names = new Set(pools.map(({ name }) => name));
  // As the command line names a cluster that is stated by chip and nodes.
  const words = pools.map(({ chip = '' }, at) => `${typed.pools[at]?.nodes.trim()} nodes of ${chip}`);
  const known = base?.cluster;
  const isSameSize =
    known !== undefined &&
    known.pools.length === pools.length &&
    pools.every(({ chip, node_count }, at) => known.pools[at]?.chip === chip && known.pools[at]?.node_count === node_count);
  const links = known?.pool_links?.filter(({ from, to }) => names.has(from) && names.has(to)) ?? [];
  const { pool_links: _links, inter_pool: between, ...rest } = known ?? ({} as Partial<Cluster>);
  const rate = numberOf(typed.between) * bytesPerGigabyte;
  const { bandwidth_bytes_per_second_per_node: _rate, ...otherBetween } = between ?? {};
  const ownBetween = {
    ...otherBetween,
    ...(Number.isNaN(rate) ? {} : { bandwidth_bytes_per_second_per_node: rate }),
  };
  return {
    ...rest,
    ...(isSameSize ? {} : { name: words.join(' + ') }),
    ...(pools.length > 1 && Object.keys(ownBetween).length > 0 ? { inter_pool: ownBetween } : {}),
    ...(links.length > 0 ? { pool_links: links } : {}),
    pools,
  };
}

/**
 * Returns the question of the form. `base` is the question of a study that is asked again with
 * changes: what the form has no input for stays as it is there, but no plan is run for it. The plan
 * that the study compares with is left out if the cluster is another one.
 */
export function questionOf(typed: Typed, model: AskedModel | undefined, base?: TuneRequest): TuneRequest {
  const word = (field: AskField) => typed[field].trim();
  const { framework: baseFramework, ...baseWorkload }: Partial<Workload> = base?.workload ?? {};
  const framework = stated({
    ...(baseFramework ?? {}),
    name: word('framework'),
    version: word('version'),
  });
  const {
    model: baseModel,
    hugging_face_config_json: baseConfig,
    trials: _trials,
    history: _history,
    history_sequence: _sequence,
    baseline,
    ...rest
  } = base ?? ({} as Partial<TuneRequest>);
  return {
    ...rest,
    ...(baseline && isSameCluster(typed, base) ? { baseline } : {}),
    ...(model ?? stated({ model: baseModel, hugging_face_config_json: baseConfig })),
    workload: stated({
      ...baseWorkload,
      sequence_length: countIn(typed.sequence),
      global_batch_size: countIn(typed.batch),
      precision: word('precision'),
      framework: Object.keys(framework).length > 0 ? framework : undefined,
    }),
    cluster: clusterOf(typed, base),
  } as TuneRequest;
}
