// The figures that an estimate has for each stage of a mixed plan: the time of one micro-batch, and how
// much of the step the stage is idle.
import { poolsOf, stageName, type StageRow } from '../parts/pools';
import type { StageEstimate } from '../api/wire';
import type { Text } from '../text/text';
import { nameAxis, tooltipOf, valueAxis } from './axes';
import type { Palette } from './palette';
import { numberCell, textCell, type ChartSpec } from './spec';

type Part = 'forward_seconds' | 'backward_seconds' | 'message_seconds';

const parts: { key: Part; said: 'stage.forward' | 'stage.backward' | 'stage.messages'; colour: (palette: Palette) => string }[] = [
  { key: 'forward_seconds', said: 'stage.forward', colour: (palette) => palette.time['attention'] ?? palette.accent },
  { key: 'backward_seconds', said: 'stage.backward', colour: (palette) => palette.time['recompute'] ?? palette.accent },
  { key: 'message_seconds', said: 'stage.messages', colour: (palette) => palette.time['expert_parallel'] ?? palette.accent },
];

const wholeOf = (figures: StageEstimate) => parts.reduce((sum, { key }) => sum + figures[key], 0);

/** Returns the chart; absent if the estimate has no figures of stages. */
export function stageFiguresSpec(name: string, rows: readonly StageRow[], text: Text): ChartSpec | undefined {
  const { format, say } = text;
  const stages = rows.flatMap((row) => (row.figures ? [{ row, figures: row.figures }] : []));
  const slowest = [...stages].sort((a, b) => wholeOf(b.figures) - wholeOf(a.figures))[0];
  if (!slowest) return undefined;
  const idle = poolsOf(rows).flatMap((pool) => {
    const own = stages.filter(({ row }) => row.pool === pool).map(({ figures }) => figures.idle_ratio);
    const mean = own.reduce((sum, ratio) => sum + ratio, 0) / own.length;
    return own.length === 0 ? [] : [say('mix.waitsOf', { pool, share: format.percent(mean) })];
  });
  const full = stages.filter(({ figures }) => !figures.fits);
  const label = (row: StageRow) => stageName(row, text);
  const sentence = [
    say('stage.figuresSentence', {
      name,
      stage: label(slowest.row),
      pool: slowest.row.pool,
      time: format.seconds(wholeOf(slowest.figures)),
      parts: idle.join(say('list.comma')),
    }),
    full.length > 0
      ? say('stage.overfull', { stages: full.map(({ row }) => label(row)).join(say('list.comma')) })
      : '',
  ];
  return {
    name: 'figures-by-stage',
    title: say('stage.figuresTitle'),
    sentence: sentence.filter((part) => part !== '').join(say('sentence.space')),
    height: 220,
    legend: parts.map(({ said, colour }) => ({ name: say(said), color: colour })),
    table: {
      columns: [
        { label: say('stage') },
        { label: say('mix.pool') },
        ...parts.map(({ said }) => ({ label: say(said), isNumber: true })),
        { label: say('stage.idle'), isNumber: true },
        { label: say('memory.inUse'), isNumber: true },
        { label: say('memory.share'), isNumber: true },
        { label: say('stage.fits') },
      ],
      keys: [
        'stage',
        'pool',
        ...parts.map(({ key }) => key),
        'idle_ratio',
        'reserved_memory_bytes',
        'share_of_capacity_ratio',
        'fits',
      ],
      rows: stages.map(({ row, figures }) => {
        const share = figures.reserved_memory_bytes / figures.memory_capacity_bytes;
        return [
          textCell(label(row)),
          textCell(row.pool),
          ...parts.map(({ key }) => numberCell(format.seconds(figures[key]), figures[key])),
          numberCell(format.percent(figures.idle_ratio), figures.idle_ratio),
          numberCell(format.gib(figures.reserved_memory_bytes), figures.reserved_memory_bytes),
          numberCell(format.percent(share), share),
          { text: say(figures.fits ? 'yes' : 'no'), value: figures.fits },
        ];
      }),
    },
    option: (palette) => ({
      grid: { left: 8, right: 24, top: 16, bottom: 40, containLabel: true },
      tooltip: tooltipOf(palette, ({ dataIndex, seriesName, value }: { dataIndex: number; seriesName: string; value: number }) => {
        const stage = stages[dataIndex];
        if (!stage) return '';
        return [
          `${label(stage.row)} · ${stage.row.pool}`,
          `${seriesName}: ${format.seconds(value)}`,
          `${say('stage.idle')}: ${format.percent(stage.figures.idle_ratio)}`,
        ].join('\n');
      }),
      xAxis: {
        ...nameAxis(palette, stages.map(({ row }) => `${label(row)}\n${row.pool}`)),
        inverse: false,
        axisLabel: { color: palette.muted, hideOverlap: true, lineHeight: 15 },
      },
      yAxis: valueAxis(palette, '', (value) => format.axisSeconds(value)),
      series: parts.map(({ key, said, colour }) => ({
        type: 'bar',
        stack: 'time',
        name: say(said),
        barMaxWidth: 48,
        itemStyle: { color: colour(palette) },
        data: stages.map(({ figures }) => figures[key]),
      })),
    }),
  };
}
