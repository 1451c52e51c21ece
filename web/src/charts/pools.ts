// Charts about the pools of a mixed cluster: the throughput of each set of pools, and where the layers
// and the time of a plan are.
import type { Heterogeneous } from '../api/wire';
import { planLine, stageRecompute } from '../parts/plan_words';
import { deviceCountOf, poolsOf, setName, stageName, tracedRows, type StageRow } from '../parts/pools';
import { pipelineKinds, timesOf, type SpanKind, type Timeline } from '../parts/trace';
import type { Text } from '../text/text';
import { nameAxis, tooltipOf, valueAxis } from './axes';
import type { Palette } from './palette';
import { numberCell, textCell, type Cell, type ChartSpec } from './spec';
import { kindColours, kindName } from './timeline';

const poolHues = ['matmul', 'tensor_parallel', 'optimizer', 'host', 'data_parallel', 'attention'];
export const poolColour = (at: number, palette: Palette) => palette.time[poolHues[at % poolHues.length] ?? ''] ?? palette.accent;

interface SetRow {
  pools: string[];
  tokens: number;
  plan: string;
}

/** Returns the throughput of each set of pools, the fastest first. */
function setRows(answer: Heterogeneous, text: Text): SetRow[] {
  const rows = answer.best_by_pool_set.map(({ pools, tokens_per_second, plan }) => ({
    pools,
    tokens: tokens_per_second,
    plan: plan ? planLine(plan, text) : '–',
  }));
  return rows.sort((a, b) => b.tokens - a.tokens);
}

/** The fastest plan of each set of pools, between the best pool alone and the sum of all alone. */
export function poolSetsSpec(answer: Heterogeneous, text: Text): ChartSpec {
  const { format, say } = text;
  const rows = setRows(answer, text);
  const mix = rows.find(({ pools }) => pools.length > 1);
  const alone = rows.find(({ pools }) => pools.length === 1);
  const low = answer.lower_bound_tokens_per_second;
  const high = answer.upper_bound_tokens_per_second;
  const sentence = !mix
    ? say('mix.noMix', { pool: alone ? setName(alone.pools) : '–', tokens: format.rate(low) })
    : !alone
      ? say('mix.onlyMix', { pools: setName(mix.pools), tokens: format.rate(mix.tokens) })
      : say('mix.sentence', {
          pools: setName(mix.pools),
          tokens: format.rate(mix.tokens),
          pool: setName(alone.pools),
          alone: format.rate(low),
          change: format.change(answer.gain_ratio - 1),
          share: format.percent(answer.efficiency_ratio),
        });
  return {
    name: 'pool-sets',
    title: say('mix.sets'),
    sentence,
    height: 64 + 36 * rows.length,
    legend: [
      { name: say('mix.several'), color: (palette) => palette.accent },
      { name: say('mix.alone'), color: (palette) => palette.quiet },
      ...(low > 0 ? [{ name: say('mix.lower'), color: (palette: Palette) => palette.muted, shape: 'line' as const }] : []),
      ...(high > 0 ? [{ name: say('mix.upper'), color: (palette: Palette) => palette.warn, shape: 'line' as const }] : []),
    ],
    table: {
      columns: [
        { label: say('mix.set') },
        { label: say('mix.tokens'), isNumber: true },
        { label: say('mix.ofBest'), isNumber: true },
        { label: say('mix.ofSum'), isNumber: true },
        { label: say('plan') },
      ],
      keys: ['pools', 'tokens_per_second', 'best_pool_alone_ratio', 'sum_of_pools_ratio', 'plan'],
      rows: rows.map(({ pools, tokens, plan }): Cell[] => [
        textCell(setName(pools)),
        numberCell(format.rate(tokens), tokens),
        low > 0 ? numberCell(format.percent(tokens / low), tokens / low) : { text: '–', value: null },
        high > 0 ? numberCell(format.percent(tokens / high), tokens / high) : { text: '–', value: null },
        textCell(plan),
      ]),
    },
    option: (palette) => ({
      grid: { left: 8, right: 32, top: 8, bottom: 36, containLabel: true },
      tooltip: tooltipOf(palette, ({ dataIndex }: { dataIndex: number }) => {
        const row = rows[dataIndex];
        return row ? `${setName(row.pools)}\n${say('mix.tokens')}: ${format.rate(row.tokens)}\n${row.plan}` : '';
      }),
      xAxis: {
        ...valueAxis(palette, say('mix.tokens'), (value) => format.rate(value)),
        axisLabel: {
          color: palette.muted,
          formatter: (value: number) => format.rate(value),
          hideOverlap: true,
          showMaxLabel: false,
        },
        max: Math.max(high, ...rows.map(({ tokens }) => tokens)) * 1.02,
      },
      yAxis: nameAxis(palette, rows.map(({ pools }) => setName(pools))),
      series: [
        {
          type: 'bar',
          barMaxWidth: 22,
          data: rows.map(({ pools, tokens }) => ({
            value: tokens,
            itemStyle: { color: pools.length > 1 ? palette.accent : palette.quiet },
          })),
          markLine: {
            symbol: 'none',
            silent: true,
            label: { show: false },
            data: [
              ...(low > 0 ? [{ xAxis: low, lineStyle: { color: palette.muted, type: 'dotted', width: 2 } }] : []),
              ...(high > 0 ? [{ xAxis: high, lineStyle: { color: palette.warn, type: 'dashed', width: 2 } }] : []),
            ],
          },
        },
      ],
    }),
  };
}

/** Returns what a plan splits, for all replicas alike or for each group of them. */
function layersSentence(name: string, rows: readonly StageRow[], text: Text): string {
  const { format, say } = text;
  const groups = [...new Set(rows.map(({ group }) => group))];
  const holdings = (own: readonly StageRow[], message: 'mix.holds' | 'mix.holdsLayers') =>
    poolsOf(own)
      .map((pool) => {
        const inPool = own.filter((row) => row.pool === pool);
        return say(message, {
          pool,
          layers: format.count(inPool.reduce((sum, { layers }) => sum + layers, 0)),
          count: inPool.reduce((sum, row) => sum + deviceCountOf(row), 0),
        });
      })
      .join(say('list.comma'));
  const first = rows[0];
  const whole = rows.filter(({ group }) => group === first?.group);
  const total = format.count(whole.reduce((sum, { layers }) => sum + layers, 0));
  if (first?.group === undefined) {
    const batch = format.count(first ? first.microBatch * first.data : 0);
    return say('mix.layersSentence', { name, total, parts: holdings(rows, 'mix.holds'), batch });
  }
  const parts = groups.map((group) => {
    const own = rows.filter((row) => row.group === group);
    return say('mix.groupHolds', {
      group: String(group),
      count: own[0]?.replicas ?? 1,
      microBatches: format.count(own[0]?.microBatches ?? 0),
      size: format.count(own[0]?.microBatch ?? 1),
      parts: holdings(own, 'mix.holdsLayers'),
    });
  });
  return say('mix.groupsSentence', { name, total, count: groups.length, parts: parts.join(say('list.semicolon')) });
}

/** The layers of each stage of a plan, by the pool that it is on. */
export function stageLayersSpec(name: string, rows: readonly StageRow[], text: Text): ChartSpec {
  const { format, say } = text;
  const pools = poolsOf(rows);
  const hasGroups = rows.some(({ group }) => group !== undefined);
  const hasParts = rows.some(({ partDevices }) => partDevices !== undefined);
  const counted = (count: number | undefined): Cell =>
    count === undefined ? { text: '–', value: null } : numberCell(format.count(count), count);
  const columns: { label: string; key: string; isNumber?: boolean; cell: (row: StageRow) => Cell }[] = [
    { label: say('stage'), key: 'stage', cell: (row) => textCell(stageName(row, text)) },
    { label: say('mix.pool'), key: 'pool', cell: ({ pool }) => textCell(pool) },
    ...(hasGroups
      ? [{ label: say('mix.replicas'), key: 'replica_count', isNumber: true, cell: (row: StageRow) => counted(row.replicas) }]
      : []),
    { label: say('mix.devices'), key: 'device_count', isNumber: true, cell: (row) => counted(deviceCountOf(row)) },
    ...(hasParts
      ? [{ label: say('mix.partDevices'), key: 'node_part_device_count', isNumber: true, cell: (row: StageRow) => counted(row.partDevices) }]
      : []),
    { label: 'TP', key: 'tensor_parallel', isNumber: true, cell: (row) => counted(row.tensor) },
    { label: 'CP', key: 'context_parallel', isNumber: true, cell: (row) => counted(row.context) },
    { label: 'DP', key: 'data_parallel', isNumber: true, cell: (row) => counted(row.data) },
    { label: say('mix.microBatch'), key: 'micro_batch_size', isNumber: true, cell: (row) => counted(row.microBatch) },
    { label: say('mix.microBatches'), key: 'micro_batch_count', isNumber: true, cell: (row) => counted(row.microBatches) },
    { label: say('mix.layersColumn'), key: 'layer_count', isNumber: true, cell: (row) => counted(row.layers) },
    { label: say('field.recompute'), key: 'recompute', cell: (row) => textCell(stageRecompute(row.recompute, row.layers, text)) },
  ];
  return {
    name: 'layers-by-stage',
    title: say('mix.layersTitle'),
    sentence: layersSentence(name, rows, text),
    height: 190,
    legend: pools.map((pool, at) => ({ name: pool, color: (palette) => poolColour(at, palette) })),
    table: {
      columns: columns.map(({ label, isNumber }) => ({ label, ...(isNumber ? { isNumber } : {}) })),
      keys: columns.map(({ key }) => key),
      rows: rows.map((row) => columns.map(({ cell }) => cell(row))),
    },
    option: (palette) => ({
      grid: { left: 8, right: 24, top: 24, bottom: 28, containLabel: true },
      tooltip: tooltipOf(palette, ({ dataIndex }: { dataIndex: number }) => {
        const row = rows[dataIndex];
        if (!row) return '';
        return `${stageName(row, text)} · ${row.pool}\n${say('mix.layersColumn')}: ${row.layers}\nTP ${row.tensor} · CP ${row.context} · DP ${row.data}`;
      }),
      xAxis: {
        ...nameAxis(palette, rows.map((row) => stageName(row, text))),
        inverse: false,
        axisLabel: { color: palette.muted, hideOverlap: true },
      },
      yAxis: { ...valueAxis(palette, '', (value) => format.count(value)), minInterval: 1 },
      series: [
        {
          type: 'bar',
          barMaxWidth: 48,
          label: { show: rows.length <= 24, position: 'top', color: palette.text },
          data: rows.map(({ layers, pool }) => ({
            value: layers,
            itemStyle: { color: poolColour(pools.indexOf(pool), palette) },
          })),
        },
      ],
    }),
  };
}

/** Says whose stages a timeline has, if replicas differ. */
export const slowestWords = (rows: readonly StageRow[], text: Text): string =>
  rows[0]?.group === undefined ? '' : text.say('mix.slowest', { group: String(rows[0].group) });

/** How long each stage computes and waits in the simulated step, with the pool that it is on. */
export function stageTimesSpec(name: string, all: readonly StageRow[], timeline: Timeline, text: Text): ChartSpec {
  const { format, say } = text;
  const rows = tracedRows(all, timeline);
  const stages = timeline.stages.map((spans, at) => {
    const times = timesOf(spans, 0, timeline.step);
    const busy = pipelineKinds.reduce((sum, kind) => sum + (times[kind] ?? 0), 0);
    return { row: rows[at], times, waiting: Math.max(timeline.pipeline - busy, 0) };
  });
  const kinds = (Object.keys(kindColours) as SpanKind[]).filter((kind) =>
    stages.some(({ times }) => (times[kind] ?? 0) > 0),
  );
  const shares = poolsOf(rows).map((pool) => {
    const waits = stages.filter(({ row }) => row?.pool === pool).map(({ waiting }) => waiting / timeline.pipeline);
    const mean = waits.reduce((sum, wait) => sum + wait, 0) / Math.max(waits.length, 1);
    return say('mix.waitsOf', { pool, share: format.percent(mean) });
  });
  const label = (row: StageRow | undefined, at: number) =>
    row ? stageName(row, text) : say('stage.name', { number: String(at + 1) });
  const series = [
    ...kinds.map((kind) => ({
      name: kindName(kind, text),
      colour: kindColours[kind],
      values: stages.map(({ times }) => times[kind] ?? 0),
    })),
    {
      name: say('timeline.waiting'),
      colour: (palette: Palette) => palette.quiet,
      values: stages.map(({ waiting }) => waiting),
    },
  ];
  return {
    name: 'time-by-stage',
    title: say('mix.timesTitle'),
    sentence: [
      say('mix.timesSentence', { name, step: format.seconds(timeline.step), parts: shares.join(say('list.comma')) }),
      slowestWords(rows, text),
    ]
      .filter((part) => part !== '')
      .join(say('sentence.space')),
    height: 220,
    legend: series.map(({ name: said, colour }) => ({ name: said, color: colour })),
    table: {
      columns: [
        { label: say('stage') },
        { label: say('mix.pool') },
        ...series.map((one) => ({ label: one.name, isNumber: true })),
      ],
      keys: ['stage', 'pool', ...kinds.map((kind) => `${kind.replaceAll(' ', '_')}_seconds`), 'waiting_seconds'],
      rows: stages.map(({ row }, at) => [
        textCell(label(row, at)),
        textCell(row?.pool ?? ''),
        ...series.map(({ values }) => numberCell(format.seconds(values[at] ?? 0), values[at] ?? 0)),
      ]),
    },
    option: (palette) => ({
      grid: { left: 8, right: 24, top: 16, bottom: 40, containLabel: true },
      tooltip: tooltipOf(
        palette,
        (item: { name: string; seriesName: string; value: number }) =>
          `${item.name.replace('\n', ' · ')}\n${item.seriesName}: ${format.seconds(item.value)}`,
      ),
      xAxis: {
        ...nameAxis(palette, stages.map(({ row }, at) => `${label(row, at)}\n${row?.pool ?? ''}`)),
        inverse: false,
        axisLabel: { color: palette.muted, hideOverlap: true, lineHeight: 15 },
      },
      yAxis: valueAxis(palette, '', (value) => format.axisSeconds(value)),
      series: series.map(({ name: said, colour, values }) => ({
        type: 'bar',
        stack: 'time',
        name: said,
        barMaxWidth: 48,
        itemStyle: { color: colour(palette) },
        data: values,
      })),
    }),
  };
}
