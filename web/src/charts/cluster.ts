// The drawing of a cluster: its network, its nodes with their devices and links, and where the ranks
// of a plan sit. Equal nodes are drawn once.
import type { AppliedDefault, Cluster, Plan } from '../api/wire';
import {
  equalNodes,
  groupsOf,
  rangesOf,
  seatsOf,
  type EqualNodes,
  type Groups,
  type NodeKind,
  type Seat,
} from '../parts/rank_layout';
import type { Text } from '../text/text';
import { element, label, type DrawingSpec } from './drawing';
import type { Palette } from './palette';
import { numberCell, textCell } from './spec';

export interface PoolFacts {
  name: string;
  chip: string;
  nodeCount: number;
  devicesPerNode: number;
  fabric: string;
  fabricBytesPerSecond: number;
  network: string;
  nicCount: number;
  nicGigabits: number;
}

/** The link between two pools, in both directions. */
export interface LinkFacts {
  from: string;
  to: string;
  /** A node's. */
  bytesPerSecond: number;
  latencySeconds: number;
  /** direct: from device to device; host: through the memory of the hosts. */
  path: string;
  /** False if it is the link that the cluster has between all pools. */
  isStated: boolean;
}

export interface ClusterFacts {
  pools: PoolFacts[];
  nodesPerSegment: number;
  oversubscription: number;
  /** The link of each pair of pools; empty if there is one pool only. */
  links: LinkFacts[];
}

// The link between pools if neither the question nor the answer states one: InterPoolLink in
// proto/meshwright/v1/problem.proto.
const usualBytesPerSecond = 25e9;
const usualLatencySeconds = 30e-6;

/** Returns the link of each pair of pools, in the order of the pools. */
function linksOf(cluster: Cluster, applied: ReadonlyMap<string, string>): LinkFacts[] {
  const number = (stated: number | undefined, field: string, usual: number) =>
    stated ?? Number(applied.get(`cluster.${field}`) ?? usual);
  const between = cluster.inter_pool;
  const rateField = 'bandwidth_bytes_per_second_per_node';
  const usualRate = number(between?.[rateField], `inter_pool.${rateField}`, usualBytesPerSecond);
  const usualLatency = number(between?.latency_seconds, 'inter_pool.latency_seconds', usualLatencySeconds);
  const stated = cluster.pool_links ?? [];
  const names = cluster.pools.map(({ name = '' }) => name);
  return names.flatMap((from, first) =>
    names.slice(first + 1).map((to): LinkFacts => {
      const at = stated.findIndex((link) => (link.from === from && link.to === to) || (link.from === to && link.to === from));
      const own = stated[at];
      const pathField = own ? `cluster.pool_links[${at}].path` : `cluster.pool_links[${from} - ${to}].path`;
      return {
        from,
        to,
        bytesPerSecond: own?.bandwidth_bytes_per_second_per_node ?? usualRate,
        latencySeconds: own?.latency_seconds ?? usualLatency,
        path: own?.path ?? applied.get(pathField) ?? 'direct',
        isStated: own !== undefined,
      };
    }),
  );
}

/** Returns a cluster with the values that the server has put in where the question states none. */
export function clusterFacts(cluster: Cluster, defaults: readonly AppliedDefault[], deviceCount: number): ClusterFacts {
  const applied = new Map(defaults.map(({ field, value }) => [field, value]));
  const word = (stated: string | undefined, field: string) => stated || (applied.get(`cluster.${field}`) ?? '');
  const number = (stated: number | undefined, field: string) => stated ?? Number(applied.get(`cluster.${field}`) ?? 0);
  const nodes = cluster.pools.reduce((sum, { node_count = 0 }) => sum + node_count, 0);
  return {
    nodesPerSegment: number(cluster.topology?.nodes_per_segment, 'topology.nodes_per_segment') || 128,
    oversubscription: number(cluster.topology?.oversubscription_ratio, 'topology.oversubscription_ratio') || 1,
    links: linksOf(cluster, applied),
    pools: cluster.pools.map((pool, at) => {
      const field = (name: string) => `pools[${at}].${name}`;
      const devices = number(pool.devices_per_node, field('devices_per_node'));
      return {
        name: pool.name ?? '',
        chip: pool.chip ?? '',
        nodeCount: pool.node_count ?? 0,
        devicesPerNode: devices || Math.round(deviceCount / Math.max(nodes, 1)),
        fabric: word(pool.intra_node?.kind, field('intra_node.kind')),
        fabricBytesPerSecond: number(pool.intra_node?.bandwidth_bytes_per_second, field('intra_node.bandwidth_bytes_per_second')),
        network: word(pool.inter_node?.kind, field('inter_node.kind')),
        nicCount: number(pool.inter_node?.nic_count, field('inter_node.nic_count')),
        nicGigabits: number(pool.inter_node?.nic_gigabits_per_second, field('inter_node.nic_gigabits_per_second')),
      };
    }),
  };
}

export interface ClusterLayout {
  facts: ClusterFacts;
  kinds: EqualNodes[];
  groups: Groups[];
  stageCount: number;
  /** The number of stages of a replica of each group; empty if all replicas are alike. */
  groupStages: number[];
}

/** Returns where a plan sits; nothing if it does not fill the cluster, or the cluster is too large. */
export function layoutOf(facts: ClusterFacts, plan: Plan): ClusterLayout | undefined {
  const nodes = facts.pools.flatMap(({ name, nodeCount, devicesPerNode }) =>
    Array.from({ length: nodeCount }, (): NodeKind => ({ pool: name, devices: devicesPerNode })),
  );
  const seats = seatsOf(plan, nodes);
  if (seats.length === 0) return undefined;
  return {
    facts,
    kinds: equalNodes(seats, nodes),
    groups: groupsOf(seats, plan),
    groupStages: (plan.replica_groups ?? []).map(({ stages }) => stages.length),
    stageCount: seats.reduce((most, { stage }) => Math.max(most, stage + 1), 0),
  };
}

// Hues of stages by their number; a stage's name always stands beside its colour.
const stageHues = ['#1f5fbf', '#c45a11', '#1f7a3d', '#7a4fb5', '#0b6e69', '#b3261e', '#8a5200', '#566373'];

const width = 960;
const gap = 16;
const cardWidth = (width - gap) / 2;
const seatWidth = 54;
const seatHeight = 62;
const seatsInRow = 8;
const rowLimit = 4;
const drawnLimit = 8;
const networkHeight = 64;

const rowsOf = (kind: EqualNodes) => Math.min(Math.ceil(kind.seats.length / seatsInRow), rowLimit);
const cardHeight = (kind: EqualNodes) => 40 + rowsOf(kind) * (seatHeight + 8) + 44;

/** Returns the kinds of nodes that are drawn: all, or the first ones and the last. */
export function drawnKinds(kinds: readonly EqualNodes[]): EqualNodes[] {
  const last = kinds.at(-1);
  return kinds.length <= drawnLimit || !last ? [...kinds] : [...kinds.slice(0, drawnLimit - 1), last];
}

const numbers = (values: readonly number[]) => rangesOf([...new Set(values)]);

/** Returns the numbers of stages, within the groups of replicas if there are any. */
function stageNumbers(stages: readonly number[], { groupStages }: ClusterLayout, text: Text): string {
  if (groupStages.length === 0) return rangesOf(stages);
  let first = 0;
  const parts = groupStages.flatMap((count, at) => {
    const own = stages.filter((stage) => stage >= first && stage < first + count).map((stage) => stage - first);
    first += count;
    return own.length === 0 ? [] : [text.say('mix.groupStages', { group: String(at + 1), stages: rangesOf(own) })];
  });
  return parts.join(text.say('list.comma'));
}

export function stagesText({ stages }: EqualNodes, layout: ClusterLayout, text: Text): string {
  if (stages.length === 0) return text.say('cluster.idle');
  const numbered = stageNumbers(stages, layout, text);
  if (layout.groupStages.length > 0) return numbered;
  return text.say(stages.length === 1 ? 'stage.name' : 'cluster.stages', { number: numbered, stages: numbered });
}

function seatText(seat: Seat, kinds: ReadonlySet<string>): string[] {
  const lines: [string, string, number][] = [
    ['tensor', 'TP', seat.tensor],
    ['context', 'CP', seat.context],
    ['expert', 'EP', seat.expert],
    ['data', 'DP', seat.data],
  ];
  const shown = lines.filter(([kind]) => kinds.has(kind)).map(([, name, index]) => `${name} ${index + 1}`);
  return seat.replica === undefined ? shown : [...shown, `R ${seat.replica + 1}`];
}

/** Draws lines behind neighbours that form one tensor-parallel group. */
function tensorFrames(seats: readonly Seat[], left: number, top: number, palette: Palette): string {
  let drawn = '';
  let begin = 0;
  const same = (a: Seat | undefined, b: Seat | undefined) =>
    a !== undefined && b !== undefined && a.stage === b.stage && a.replica === b.replica && a.context === b.context && a.data === b.data;
  for (let at = 1; at <= seats.length; ++at) {
    if (same(seats[begin], seats[at]) && at % seatsInRow !== 0) continue;
    const row = Math.floor(begin / seatsInRow);
    drawn += element('rect', {
      x: left + (begin % seatsInRow) * seatWidth - 1,
      y: top + row * (seatHeight + 8) - 3,
      width: (at - begin) * seatWidth - 2,
      height: seatHeight + 6,
      rx: 8,
      fill: 'none',
      stroke: palette.text,
      'stroke-width': 1.5,
    });
    begin = at;
  }
  return drawn;
}

function drawSeat(seat: Seat, x: number, y: number, lines: readonly string[], palette: Palette): string {
  const hue = stageHues[seat.stage % stageHues.length] ?? palette.accent;
  const box = element('rect', {
    x, y, width: seatWidth - 6, height: seatHeight, rx: 6, fill: hue, 'fill-opacity': palette.isDark ? 0.35 : 0.16, stroke: hue,
  });
  const texts = lines.map((line, at) =>
    label(x + (seatWidth - 6) / 2, y + 15 + at * 14, line, { 'font-size': 11, 'text-anchor': 'middle' }),
  );
  return box + texts.join('');
}

/** Returns which nodes a card stands for; its pool is named if there are several. */
function nodesText({ nodes, pool }: EqualNodes, { facts }: ClusterLayout, text: Text): string {
  const numbered = text.say('cluster.nodes', { count: nodes.length, nodes: rangesOf(nodes) });
  return facts.pools.length > 1 ? `${pool} · ${numbered}` : numbered;
}

function drawNode(kind: EqualNodes, pool: PoolFacts, x: number, y: number, layout: ClusterLayout, text: Text, palette: Palette): string {
  const { say } = text;
  const kinds = new Set<string>(layout.groups.map((group) => group.kind));
  const top = y + 42;
  const left = x + 16;
  const shown = kind.seats.slice(0, rowLimit * seatsInRow);
  const rest = kind.seats.length - shown.length;
  const fabricTop = top + rowsOf(kind) * (seatHeight + 8);
  const parts = [
    element('rect', { x, y, width: cardWidth, height: cardHeight(kind), rx: 10, fill: palette.surface, stroke: palette.line }),
    label(x + 16, y + 22, nodesText(kind, layout, text), { 'font-weight': 'bold' }),
    label(x + cardWidth - 16, y + 22, stagesText(kind, layout, text), { 'text-anchor': 'end', fill: palette.muted }),
    kinds.has('tensor') ? tensorFrames(shown, left, top, palette) : '',
    ...shown.map((seat, at) =>
      drawSeat(seat, left + (at % seatsInRow) * seatWidth + 2, top + Math.floor(at / seatsInRow) * (seatHeight + 8), seatText(seat, kinds), palette),
    ),
    element('rect', { x: left, y: fabricTop, width: cardWidth - 32, height: 3, fill: palette.accent }),
    label(left, fabricTop + 20, fabricText(pool, text), { fill: palette.muted }),
    label(x + cardWidth - 16, fabricTop + 20, rest > 0 ? say('cluster.more', { count: rest }) : nicText(pool, text), { 'text-anchor': 'end', fill: palette.muted }),
  ];
  return element('g', {}, '\n' + parts.join(''));
}

export function fabricText(pool: PoolFacts, text: Text): string {
  const rate = pool.fabricBytesPerSecond > 0 ? ` ${text.format.count(pool.fabricBytesPerSecond / 1e9)} GB/s` : '';
  return pool.fabric === '' ? text.say('cluster.fabric') : `${pool.fabric}${rate}`;
}

export function nicText(pool: PoolFacts, text: Text): string {
  if (pool.nicCount === 0) return text.say('cluster.noNetwork');
  return `${pool.nicCount} × ${text.format.count(pool.nicGigabits)} Gbit/s ${pool.network}`;
}

function drawNetwork({ facts }: ClusterLayout, text: Text, palette: Palette): string {
  const nodes = facts.pools.reduce((sum, { nodeCount }) => sum + nodeCount, 0);
  const segments = Math.ceil(nodes / facts.nodesPerSegment);
  const box = (y: number, said: string) =>
    element('rect', { x: 0.5, y, width: width - 1, height: 24, rx: 6, fill: palette.surface, stroke: palette.muted }) +
    label(width / 2, y + 16, said, { 'text-anchor': 'middle' });
  const line = (x: number, from: number, to: number) =>
    element('line', { x1: x, y1: from, x2: x, y2: to, stroke: palette.muted });
  const columns = [cardWidth / 2, cardWidth + gap + cardWidth / 2];
  return [
    box(0.5, text.say('cluster.network', { count: segments, nodes: facts.nodesPerSegment, ratio: text.format.number(facts.oversubscription, 1) })),
    ...columns.map((x) => line(x, 24.5, networkHeight - 16)),
    element('line', { x1: columns[0] ?? 0, y1: networkHeight - 16, x2: columns[1] ?? 0, y2: networkHeight - 16, stroke: palette.muted }),
    ...columns.map((x) => line(x, networkHeight - 16, networkHeight)),
  ].join('');
}

/** Returns where each card stands, two in a row. */
function placesOf(kinds: readonly EqualNodes[]): { x: number; y: number; bottom: number }[] {
  let y = networkHeight;
  return kinds.map((_, at) => {
    const height = Math.max(...kinds.slice(at - (at % 2), at - (at % 2) + 2).map(cardHeight));
    const place = { x: (at % 2) * (cardWidth + gap), y, bottom: y + height };
    if (at % 2 === 1) y += height + gap;
    return place;
  });
}

export const groupName = ({ kind }: Groups, text: Text): string => text.word('group', kind);

function sentenceOf(layout: ClusterLayout, text: Text): string {
  const { say } = text;
  const { pools } = layout.facts;
  const nodes = pools.reduce((sum, { nodeCount }) => sum + nodeCount, 0);
  const inside = layout.groups.filter(({ mostNodes }) => mostNodes === 1);
  const idle = layout.kinds.filter(({ seats }) => seats.length === 0).reduce((sum, kind) => sum + kind.nodes.length, 0);
  const across = layout.groups.filter(({ mostNodes }) => mostNodes > 1);
  const parts = [
    say('cluster.sentence', { count: nodes, kinds: layout.kinds.length, stages: layout.stageCount }),
    inside.length > 0 ? say('cluster.inside', { groups: inside.map((group) => groupName(group, text)).join(say('list.comma')) }) : '',
    across.length > 0
      ? say('cluster.across', {
          groups: across.map((group) => `${groupName(group, text)} (${text.format.count(group.mostNodes)})`).join(say('list.comma')),
        })
      : '',
    idle > 0 ? say('cluster.idleNodes', { count: idle }) : '',
    layout.groupStages.length > 0 ? say('cluster.replicas', { count: layout.groupStages.length }) : '',
  ];
  return text.join(...parts);
}

export function clusterSpec(layout: ClusterLayout, text: Text): DrawingSpec {
  const { say } = text;
  const drawn = drawnKinds(layout.kinds);
  const places = placesOf(drawn);
  const isCut = drawn.length < layout.kinds.length;
  const hasPools = layout.facts.pools.length > 1;
  const bottom = Math.max(networkHeight, ...places.map((place) => place.bottom));
  return {
    name: 'cluster',
    title: say('cluster.title'),
    sentence: sentenceOf(layout, text),
    width,
    height: bottom + (isCut ? 28 : 2),
    table: {
      columns: [
        { label: say('cluster.nodesColumn') },
        ...(hasPools ? [{ label: say('mix.pool') }] : []),
        { label: say('cluster.count'), isNumber: true },
        { label: say('cluster.stagesColumn') },
        { label: 'TP' },
        { label: 'CP' },
        { label: 'EP' },
        { label: 'DP' },
      ],
      keys: ['nodes', ...(hasPools ? ['pool'] : []), 'node_count', 'stages', 'tensor_ranks', 'context_ranks', 'expert_ranks', 'data_ranks'],
      rows: layout.kinds.map(({ nodes, pool, stages, seats }) => [
        textCell(rangesOf(nodes)),
        ...(hasPools ? [textCell(pool)] : []),
        numberCell(text.format.count(nodes.length), nodes.length),
        textCell(stages.length === 0 ? say('cluster.idle') : stageNumbers(stages, layout, text)),
        textCell(numbers(seats.map(({ tensor }) => tensor))),
        textCell(numbers(seats.map(({ context }) => context))),
        textCell(numbers(seats.map(({ expert }) => expert))),
        textCell(numbers(seats.map(({ data }) => data))),
      ]),
    },
    draw: (palette) =>
      [
        drawNetwork(layout, text, palette),
        ...drawn.map((kind, at) => {
          const pool = layout.facts.pools.find(({ name }) => name === kind.pool);
          const { x = 0, y = 0 } = places[at] ?? {};
          return pool ? drawNode(kind, pool, x, y, layout, text, palette) : '';
        }),
        isCut ? label(0, bottom + 18, say('cluster.cut', { count: layout.kinds.length - drawn.length }), { fill: palette.muted }) : '',
      ].join(''),
  };
}
