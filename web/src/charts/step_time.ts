// Charts about the time of a step: intervals of several plans, its causes, and where two plans differ.
import type { CustomSeriesRenderItemAPI, CustomSeriesRenderItemParams } from 'echarts';
import type { Alternative } from '../parts/alternatives';
import type { Text } from '../text/text';
import { nameAxis, tooltipOf, valueAxis } from './axes';
import type { Palette } from './palette';
import { numberCell, textCell, type ChartSpec } from './spec';

interface Hovered {
  name: string;
  seriesName: string;
  value: number | number[];
}

interface Extent {
  min: number;
  max: number;
}

/** Step times with their central 80 %, and the measured ones beside them. */
export function intervalsSpec(alternatives: readonly Alternative[], text: Text): ChartSpec {
  const { format, say } = text;
  const rows = alternatives.flatMap(({ name, plan, measuredSeconds }) =>
    plan.estimate ? [{ name, estimate: plan.estimate, measuredSeconds }] : [],
  );
  const measured = rows.filter((row) => row.measuredSeconds !== undefined);
  const first = rows[0];
  const sentence = !first
    ? say('intervals.none')
    : say('intervals.sentence', {
        name: first.name,
        time: format.seconds(first.estimate.step_time_seconds),
        range: format.secondsRange(
          first.estimate.step_time_low_seconds,
          first.estimate.step_time_high_seconds,
        ),
      }) +
      (measured.length > 0
        ? ' ' + say('intervals.measured', { count: measured.length })
        : '');
  return {
    name: 'step-times',
    title: say('intervals.title'),
    sentence,
    height: 32 + 32 * rows.length,
    legend: [
      { name: say('predicted'), color: (palette) => palette.accent, shape: 'circle' },
      ...(measured.length > 0
        ? [{ name: say('measured'), color: (palette: Palette) => palette.warn, shape: 'diamond' as const }]
        : []),
    ],
    table: {
      columns: [
        { label: say('plan') },
        { label: say('stepTime'), isNumber: true },
        { label: say('interval'), isNumber: true },
        { label: say('measured'), isNumber: true },
      ],
      keys: ['plan', 'step_time_seconds', 'step_time_interval_seconds', 'measured_step_time_seconds'],
      rows: rows.map(({ name, estimate, measuredSeconds }) => [
        textCell(name),
        numberCell(format.seconds(estimate.step_time_seconds), estimate.step_time_seconds),
        textCell(
          format.secondsRange(estimate.step_time_low_seconds, estimate.step_time_high_seconds),
        ),
        measuredSeconds === undefined
          ? { text: '–', value: null }
          : numberCell(format.seconds(measuredSeconds), measuredSeconds),
      ]),
    },
    option: (palette) => ({
      grid: { left: 8, right: 24, top: 4, bottom: 4, containLabel: true },
      tooltip: tooltipOf(palette, (item: Hovered) => {
        const row = rows.find(({ name }) => name === item.name);
        if (!row) return item.name;
        const { estimate } = row;
        return `${row.name}\n${say('predicted')}: ${format.seconds(estimate.step_time_seconds)} (${format.secondsRange(estimate.step_time_low_seconds, estimate.step_time_high_seconds)})${row.measuredSeconds === undefined ? '' : `\n${say('measured')}: ${format.seconds(row.measuredSeconds)}`}`;
      }),
      xAxis: { ...valueAxis(palette, '', (value) => format.axisSeconds(value)), scale: true },
      yAxis: nameAxis(palette, rows.map(({ name }) => name)),
      series: [
        {
          type: 'custom',
          name: say('interval'),
          itemStyle: { color: palette.accent },
          encode: { x: [0, 1], y: 2 },
          data: rows.map(({ name, estimate }, at) => ({
            name,
            value: [estimate.step_time_low_seconds, estimate.step_time_high_seconds, at],
          })),
          renderItem: (_: CustomSeriesRenderItemParams, at: CustomSeriesRenderItemAPI) => {
            const [x1 = 0, y = 0] = at.coord([at.value(0), at.value(2)]);
            const [x2 = 0] = at.coord([at.value(1), at.value(2)]);
            return {
              type: 'rect',
              shape: { x: x1, y: y - 5, width: x2 - x1, height: 10, r: 5 },
              style: { fill: palette.accent, opacity: 0.25 },
            };
          },
        },
        {
          type: 'scatter',
          name: say('predicted'),
          symbol: 'circle',
          symbolSize: 11,
          itemStyle: { color: palette.accent },
          data: rows.map(({ name, estimate }, at) => ({
            name,
            value: [estimate.step_time_seconds, at],
          })),
        },
        {
          type: 'scatter',
          name: say('measured'),
          symbol: 'diamond',
          symbolSize: 14,
          itemStyle: { color: palette.warn, borderColor: palette.surface, borderWidth: 1 },
          data: rows.flatMap(({ name, measuredSeconds }, at) =>
            measuredSeconds === undefined ? [] : [{ name, value: [measuredSeconds, at] }],
          ),
        },
      ],
    }),
  };
}

/** The order in which causes stand: computing, communicating, waiting, everything else. */
export const timeOrder = [
  'matmul',
  'attention',
  'memory_bound',
  'vocabulary',
  'recompute',
  'tensor_parallel',
  'context_parallel',
  'expert_parallel',
  'pipeline_p2p',
  'data_parallel',
  'pipeline_bubble',
  'optimizer',
  'activation_offload',
  'host',
  'fixed',
];

/** Returns the keys of several maps that are not 0 everywhere; known ones first, in their order. */
export function keysOf(maps: readonly Record<string, number>[], order: readonly string[]): string[] {
  const used = new Set(maps.flatMap((map) => Object.keys(map).filter((key) => map[key] !== 0)));
  const known = order.filter((key) => used.has(key));
  return [...known, ...[...used].filter((key) => !order.includes(key)).sort()];
}

/** The causes of the step time of each plan, stacked. */
export function breakdownSpec(alternatives: readonly Alternative[], text: Text): ChartSpec {
  const { format, say } = text;
  const rows = alternatives.flatMap(({ name, plan }) =>
    plan.estimate
      ? [{ name, parts: plan.estimate.breakdown_seconds, provenances: plan.estimate.breakdown_provenance ?? {} }]
      : [],
  );
  const keys = keysOf(rows.map(({ parts }) => parts), timeOrder);
  const founded = rows.filter(({ provenances }) => Object.keys(provenances).length > 0);
  const first = rows[0];
  const total = first ? Object.values(first.parts).reduce((sum, part) => sum + part, 0) : 0;
  const largest = first
    ? Object.entries(first.parts).sort((a, b) => b[1] - a[1]).slice(0, 2)
    : [];
  const sentence =
    first && largest.length > 0 && total > 0
      ? say('breakdown.sentence', {
          name: first.name,
          parts: largest
            .map(([key, part]) => say('list.share', { name: text.word('time', key), share: format.percent(part / total) }))
            .join(say('list.comma')),
        })
      : say('breakdown.none');
  return {
    name: 'step-breakdown',
    title: say('breakdown.title'),
    sentence,
    height: 32 + 40 * rows.length,
    legend: keys.map((key) => ({
      name: text.word('time', key),
      color: (palette) => palette.time[key] ?? palette.quiet,
    })),
    table: {
      columns: [
        { label: say('cause') },
        ...rows.map(({ name }) => ({ label: name, isNumber: true })),
        ...founded.map(({ name }) => ({ label: say('breakdown.provenance', { name }) })),
      ],
      keys: [
        'cause',
        ...rows.map(({ name }) => `${name} seconds`),
        ...founded.map(({ name }) => `${name} provenance`),
      ],
      rows: keys.map((key) => [
        { text: text.word('time', key), value: key },
        ...rows.map(({ parts }) => numberCell(format.seconds(parts[key] ?? 0), parts[key] ?? 0)),
        ...founded.map(({ provenances }) => {
          const provenance = provenances[key];
          return provenance === undefined
            ? { text: '–', value: null }
            : { text: text.word('provenance', provenance), value: provenance };
        }),
      ]),
    },
    option: (palette) => ({
      grid: { left: 8, right: 24, top: 4, bottom: 4, containLabel: true },
      tooltip: tooltipOf(
        palette,
        (item: Hovered) => `${item.name}\n${item.seriesName}: ${format.seconds(Number(item.value))}`,
      ),
      xAxis: valueAxis(palette, '', (value) => format.axisSeconds(value)),
      yAxis: nameAxis(palette, rows.map(({ name }) => name)),
      series: keys.map((key) => ({
        type: 'bar',
        stack: 'step',
        name: text.word('time', key),
        barMaxWidth: 28,
        itemStyle: {
          color: palette.time[key] ?? palette.quiet,
          borderColor: palette.surface,
          borderWidth: 1,
        },
        data: rows.map(({ parts }) => parts[key] ?? 0),
      })),
    }),
  };
}

export interface CauseDifference {
  cause: string;
  seconds: number;
}

/** Returns what `other` takes longer than `chosen` by cause, the largest change first. */
export function causeDifferences(chosen: Alternative, other: Alternative): CauseDifference[] {
  const a = chosen.plan.estimate?.breakdown_seconds ?? {};
  const b = other.plan.estimate?.breakdown_seconds ?? {};
  return keysOf([a, b], timeOrder)
    .map((cause) => ({ cause, seconds: (b[cause] ?? 0) - (a[cause] ?? 0) }))
    .filter(({ seconds }) => seconds !== 0)
    .sort((x, y) => Math.abs(y.seconds) - Math.abs(x.seconds));
}

/** Why one plan is slower than another: the difference by cause. */
export function differenceSpec(chosen: Alternative, other: Alternative, text: Text): ChartSpec {
  const { format, say } = text;
  const all = causeDifferences(chosen, other);
  const sum = all.reduce((total, { seconds }) => total + seconds, 0);
  const size = Math.max(...all.map(({ seconds }) => Math.abs(seconds)), 0);
  const shown = all.filter(({ seconds }) => Math.abs(seconds) >= size / 100);
  const signed = (seconds: number) => `${seconds > 0 ? '+' : '−'}${format.seconds(Math.abs(seconds))}`;
  const sentence = say(sum === 0 ? 'difference.equal' : sum > 0 ? 'difference.slower' : 'difference.faster', {
    name: other.name,
    chosen: chosen.name,
    time: format.seconds(Math.abs(sum)),
    parts: shown
      .slice(0, 3)
      .map(({ cause, seconds }) => `${text.word('time', cause)} ${signed(seconds)}`)
      .join(say('list.comma')),
  });
  return {
    name: 'step-difference',
    title: say('difference.title', { name: other.name, chosen: chosen.name }),
    sentence,
    height: 16 + 28 * Math.max(shown.length, 1),
    table: {
      columns: [{ label: say('cause') }, { label: say('difference'), isNumber: true }],
      keys: ['cause', 'difference_seconds'],
      rows: all.map(({ cause, seconds }) => [
        { text: text.word('time', cause), value: cause },
        numberCell(signed(seconds), seconds),
      ]),
    },
    option: (palette) => ({
      grid: { left: 8, right: 24, top: 4, bottom: 4, containLabel: true },
      tooltip: tooltipOf(palette, (item: Hovered) => `${item.name}: ${signed(Number(item.value))}`),
      xAxis: {
        ...valueAxis(palette, '', (value) => format.axisSeconds(value)),
        // Leaves room for the labels at the ends of the bars.
        min: ({ min, max }: Extent) => (min < 0 ? min - (max - min) * 0.3 : 0),
        max: ({ min, max }: Extent) => (max > 0 ? max + (max - min) * 0.3 : 0),
        axisLabel: { show: false },
      },
      yAxis: {
        ...nameAxis(palette, shown.map(({ cause }) => text.word('time', cause))),
        axisLine: { onZero: false, lineStyle: { color: palette.line } },
      },
      series: [
        {
          type: 'bar',
          barMaxWidth: 18,
          label: {
            show: true,
            position: 'right',
            color: palette.text,
            formatter: (item: Hovered) => signed(Number(item.value)),
          },
          data: shown.map(({ seconds }) => ({
            value: seconds,
            itemStyle: { color: seconds > 0 ? palette.bad : palette.good },
            label: { position: seconds > 0 ? 'right' : 'left' },
          })),
        },
      ],
    }),
  };
}
