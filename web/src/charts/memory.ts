// Charts about memory: what fills the busiest device, and each pipeline stage against its limit.
import type { Estimate } from '../api/wire';
import type { Alternative } from '../parts/alternatives';
import { bytesPerGib, gibOf } from '../text/format';
import type { Text } from '../text/text';
import { nameAxis, tooltipOf, valueAxis } from './axes';
import { numberCell, textCell, type ChartSpec } from './spec';
import { keysOf } from './step_time';

const memoryOrder = [
  'weights',
  'gradients',
  'optimizer_states',
  'activations',
  'transient',
  'framework_cache',
];

export interface MemoryPart {
  kind: string;
  bytes: number;
}

/**
 * Returns what fills a device: the kinds of the peak, then what the allocator and the runtime hold
 * beyond it ("overhead"), then what is free ("free"; absent if nothing is).
 */
export function memoryParts(estimate: Estimate): MemoryPart[] {
  const kinds = estimate.memory_breakdown_bytes;
  const parts = keysOf([kinds], memoryOrder).map((kind) => ({ kind, bytes: kinds[kind] ?? 0 }));
  const overhead = estimate.reserved_memory_bytes - estimate.peak_memory_bytes;
  const free = estimate.memory_capacity_bytes - estimate.reserved_memory_bytes;
  if (overhead > 0) parts.push({ kind: 'overhead', bytes: overhead });
  if (free > 0) parts.push({ kind: 'free', bytes: free });
  return parts;
}

export function memorySpec(estimate: Estimate, text: Text): ChartSpec {
  const { format, say } = text;
  const parts = memoryParts(estimate);
  const headroom = estimate.memory_capacity_bytes - estimate.reserved_memory_bytes;
  const share = (bytes: number) => bytes / estimate.memory_capacity_bytes;
  return {
    name: 'memory',
    title: say('memory.title'),
    sentence: say(headroom >= 0 ? 'memory.sentence' : 'memory.over', {
      used: format.gib(estimate.reserved_memory_bytes),
      capacity: format.gib(estimate.memory_capacity_bytes),
      free: format.gib(Math.abs(headroom)),
      probability: format.probability(estimate.fit_probability_ratio),
    }),
    height: 90,
    legend: parts.map(({ kind }) => ({
      name: text.word('memory', kind),
      color: (palette) => palette.memory[kind] ?? palette.quiet,
    })),
    table: {
      columns: [
        { label: say('memory.kind') },
        { label: say('memory.size'), isNumber: true },
        { label: say('memory.share'), isNumber: true },
      ],
      keys: ['kind', 'bytes', 'share_of_capacity_ratio'],
      rows: parts.map(({ kind, bytes }) => [
        { text: text.word('memory', kind), value: kind },
        numberCell(format.gib(bytes), bytes),
        numberCell(format.percent(share(bytes)), share(bytes)),
      ]),
    },
    option: (palette) => ({
      grid: { left: 8, right: 24, top: 8, bottom: 4, containLabel: true },
      tooltip: tooltipOf(
        palette,
        (item: { seriesName: string; value: number }) =>
          `${item.seriesName}: ${format.number(item.value, 1)} GiB`,
      ),
      xAxis: {
        ...valueAxis(palette, '', (value) => `${format.number(value, 0)} GiB`),
        max: Math.ceil(gibOf(Math.max(estimate.memory_capacity_bytes, estimate.reserved_memory_bytes))),
      },
      yAxis: { ...nameAxis(palette, ['']), axisLine: { show: false } },
      series: parts.map(({ kind, bytes }) => ({
        type: 'bar',
        stack: 'memory',
        name: text.word('memory', kind),
        barWidth: 38,
        itemStyle: {
          color: palette.memory[kind] ?? palette.quiet,
          borderColor: palette.surface,
          borderWidth: 1,
        },
        data: [gibOf(bytes)],
      })),
    }),
  };
}

/** A device of a stage, in a cluster of several pools. */
export interface StageRoom {
  /** The name of the stage; absent: its number. */
  name?: string;
  pool: string;
  capacityBytes: number;
}

/**
 * The peak of each pipeline stage against the device's limit. `rooms`: the devices of each stage, if
 * the cluster has several pools.
 */
export function stagesSpec(estimate: Estimate, text: Text, rooms?: readonly StageRoom[]): ChartSpec {
  const { format, say } = text;
  const stages = estimate.peak_memory_bytes_by_stage.map((bytes, at) => ({
    name: rooms?.[at]?.name ?? say('stage.name', { number: String(at + 1) }),
    pool: rooms?.[at]?.pool ?? '',
    bytes,
    capacity: rooms?.[at]?.capacityBytes || estimate.memory_capacity_bytes,
  }));
  const sizes = stages.map(({ bytes }) => bytes);
  const capacities = stages.map(({ capacity }) => capacity);
  const written = [...new Set(capacities.map((bytes) => format.gib(bytes)))];
  return {
    name: 'memory-by-stage',
    title: say('stage.title'),
    sentence: say('stage.sentence', {
      count: stages.length,
      least: format.gib(Math.min(...sizes)),
      most: format.gib(Math.max(...sizes)),
      capacity: written.join(say('list.comma')),
    }),
    height: 176,
    table: {
      columns: [
        { label: say('stage') },
        ...(rooms ? [{ label: say('mix.pool') }] : []),
        { label: say('memory.peak'), isNumber: true },
        { label: say('memory.share'), isNumber: true },
      ],
      keys: ['stage', ...(rooms ? ['pool'] : []), 'peak_memory_bytes', 'share_of_capacity_ratio'],
      rows: stages.map(({ name, pool, bytes, capacity }) => [
        textCell(name),
        ...(rooms ? [textCell(pool)] : []),
        numberCell(format.gib(bytes), bytes),
        numberCell(format.percent(bytes / capacity), bytes / capacity),
      ]),
    },
    option: (palette) => ({
      grid: { left: 8, right: 88, top: 16, bottom: 24, containLabel: true },
      tooltip: tooltipOf(palette, ({ dataIndex }: { dataIndex: number }) => {
        const stage = stages[dataIndex];
        if (!stage) return '';
        return `${[stage.name, stage.pool].filter(Boolean).join(' · ')}: ${format.gib(stage.bytes)} / ${format.gib(stage.capacity)}`;
      }),
      xAxis: {
        ...nameAxis(palette, stages.map(({ name, pool }) => (pool === '' ? name : `${name}\n${pool}`))),
        inverse: false,
        axisLabel: { color: palette.muted, hideOverlap: true, lineHeight: 15 },
      },
      yAxis: {
        ...valueAxis(palette, '', (value) => `${format.number(value, 0)} GiB`),
        max: Math.ceil(gibOf(Math.max(...capacities, ...sizes)) * 1.05),
      },
      series: [
        {
          type: 'bar',
          barMaxWidth: 40,
          itemStyle: { color: palette.time['matmul'] },
          data: sizes.map(gibOf),
          ...(rooms
            ? {}
            : {
                markLine: {
                  symbol: 'none',
                  silent: true,
                  label: { formatter: say('memory.capacity'), color: palette.text },
                  lineStyle: { color: palette.bad, type: 'dashed' },
                  data: [{ yAxis: gibOf(estimate.memory_capacity_bytes) }],
                },
              }),
        },
        ...(rooms
          ? [
              {
                type: 'line',
                step: 'middle',
                symbol: 'none',
                silent: true,
                name: say('memory.capacity'),
                endLabel: { show: true, formatter: say('memory.capacity'), color: palette.text },
                lineStyle: { color: palette.bad, type: 'dashed', width: 1 },
                data: capacities.map(gibOf),
              },
            ]
          : []),
      ],
    }),
  };
}

/** The memory of the busiest device of two plans, one below the other. */
export function memoryPairSpec(alternatives: readonly [Alternative, Alternative], text: Text): ChartSpec {
  const { format, say } = text;
  const rows = alternatives.flatMap(({ name, plan }) =>
    plan.estimate
      ? [
          {
            name,
            estimate: plan.estimate,
            parts: Object.fromEntries(memoryParts(plan.estimate).map(({ kind, bytes }) => [kind, bytes])),
          },
        ]
      : [],
  );
  const kinds = keysOf(rows.map(({ parts }) => parts), [...memoryOrder, 'overhead', 'free']);
  const used = (at: number) => format.gib(rows[at]?.estimate.reserved_memory_bytes ?? 0);
  return {
    name: 'memory-of-two-plans',
    title: say('compare.memoryTitle'),
    sentence: say('compare.memorySentence', {
      first: alternatives[0].name,
      firstUsed: used(0),
      second: alternatives[1].name,
      secondUsed: used(1),
      capacity: format.gib(rows[0]?.estimate.memory_capacity_bytes ?? 0),
    }),
    height: 32 + 40 * rows.length,
    legend: kinds.map((kind) => ({
      name: text.word('memory', kind),
      color: (palette) => palette.memory[kind] ?? palette.quiet,
    })),
    table: {
      columns: [{ label: say('memory.kind') }, ...rows.map(({ name }) => ({ label: name, isNumber: true }))],
      keys: ['kind', ...rows.map(({ name }) => `${name} bytes`)],
      rows: kinds.map((kind) => [
        { text: text.word('memory', kind), value: kind },
        ...rows.map(({ parts }) => numberCell(format.gib(parts[kind] ?? 0), parts[kind] ?? 0)),
      ]),
    },
    option: (palette) => ({
      grid: { left: 8, right: 24, top: 4, bottom: 4, containLabel: true },
      tooltip: tooltipOf(
        palette,
        (item: { name: string; seriesName: string; value: number }) =>
          `${item.name}\n${item.seriesName}: ${format.gib(item.value * bytesPerGib)}`,
      ),
      xAxis: valueAxis(palette, '', (value) => format.gib(value * bytesPerGib)),
      yAxis: nameAxis(palette, rows.map(({ name }) => name)),
      series: kinds.map((kind) => ({
        type: 'bar',
        stack: 'memory',
        name: text.word('memory', kind),
        barMaxWidth: 28,
        itemStyle: {
          color: palette.memory[kind] ?? palette.quiet,
          borderColor: palette.surface,
          borderWidth: 1,
        },
        data: rows.map(({ parts }) => gibOf(parts[kind] ?? 0)),
      })),
    }),
  };
}
