// Tokens per second and device with their interval: over the sizes of a sweep, or by study.
import type { CustomSeriesRenderItemAPI, CustomSeriesRenderItemParams } from 'echarts';
import type { Estimate, RankedPlan } from '../api/wire';
import { planLine } from '../parts/plan_words';
import { devicesOf } from '../parts/pools';
import type { SweepKind, SweptPoint } from '../parts/sweep';
import type { Text } from '../text/text';
import { tooltipOf, valueAxis } from './axes';
import type { Palette } from './palette';
import { numberCell, textCell, type Cell, type ChartSpec } from './spec';

/** A throughput with its central 80 %, which follows from that of the step time. */
export interface Throughput {
  tokens: number;
  low: number;
  high: number;
}

export function throughputOf(estimate: Estimate): Throughput {
  const tokens = estimate.tokens_per_second_per_device;
  const inStep = tokens * estimate.step_time_seconds;
  return { tokens, low: inStep / estimate.step_time_high_seconds, high: inStep / estimate.step_time_low_seconds };
}

interface Named extends Throughput {
  name: string;
  tip: string;
}

interface Axes {
  /** The name of the horizontal axis. */
  name: string;
  tokens: string;
  /** A line shows how one point leads to the next. */
  joins: boolean;
  /** The tokens have six digits or more. */
  isWide?: boolean;
}

/** Draws points with whiskers over names. */
function optionOf(points: readonly (Named | undefined)[], names: string[], axes: Axes, text: Text) {
  const { format, say } = text;
  const placed = points.flatMap((point, at) => (point ? [{ at, point }] : []));
  return (palette: Palette) => ({
    grid: { left: axes.isWide ? 40 : 32, right: 24, top: 20, bottom: 36, containLabel: true },
    tooltip: tooltipOf(palette, ({ data }: { data?: { tip?: string } }) => data?.tip ?? ''),
    xAxis: {
      type: 'category' as const,
      data: names,
      name: axes.name,
      nameLocation: 'middle' as const,
      nameGap: 28,
      nameTextStyle: { color: palette.muted },
      axisLabel: { color: palette.text, hideOverlap: true },
      axisLine: { lineStyle: { color: palette.line } },
      axisTick: { show: false },
    },
    yAxis: { ...valueAxis(palette, axes.tokens, (value) => format.rate(value)), nameGap: axes.isWide ? 72 : 48 },
    series: [
      {
        type: 'custom',
        name: say('interval'),
        silent: true,
        encode: { x: 0, y: [1, 2] },
        data: placed.map(({ at, point }) => [at, point.low, point.high]),
        renderItem: (_: CustomSeriesRenderItemParams, item: CustomSeriesRenderItemAPI) => {
          const [x = 0, bottom = 0] = item.coord([item.value(0), item.value(1)]);
          const [, top = 0] = item.coord([item.value(0), item.value(2)]);
          return {
            type: 'rect',
            shape: { x: x - 5, y: top, width: 10, height: bottom - top, r: 5 },
            style: { fill: palette.accent, opacity: 0.25 },
          };
        },
      },
      {
        type: 'line',
        name: say('predicted'),
        symbol: 'circle',
        symbolSize: 11,
        itemStyle: { color: palette.accent },
        lineStyle: { color: palette.accent, width: axes.joins ? 1.5 : 0 },
        data: points.map((point) => (point ? { value: point.tokens, tip: point.tip } : { value: '-', tip: '' })),
      },
    ],
  });
}

function rangeText({ low, high }: Throughput, text: Text): string {
  return `${text.format.rate(low)} – ${text.format.rate(high)}`;
}

const absent: Cell = { text: '–', value: null };

/** Returns the throughput of all devices that a plan uses. */
function wholeThroughput({ plan, estimate }: RankedPlan): Throughput | undefined {
  if (!plan || !estimate) return undefined;
  const { tokens, low, high } = throughputOf(estimate);
  const count = devicesOf(plan);
  return { tokens: tokens * count, low: low * count, high: high * count };
}

/**
 * The throughput of each point of a sweep. `pool` names the pool whose nodes are counted, if there are
 * several: devices differ then, so the throughput is that of all of them together.
 */
export function scalingSpec(points: readonly SweptPoint[], kind: SweepKind, text: Text, pool?: string): ChartSpec {
  const { format, say } = text;
  const axisName =
    pool !== undefined ? say('scaling.poolNodes', { pool }) : say(kind === 'nodes' ? 'scaling.nodes' : 'scaling.sequence');
  const tokens = say(pool === undefined ? 'tokens' : 'mix.tokens');
  const rows = points.map((point) => ({
    ...point,
    throughput:
      pool !== undefined
        ? point.best && wholeThroughput(point.best)
        : point.best?.estimate && throughputOf(point.best.estimate),
    line: point.best?.plan ? planLine(point.best.plan, text) : say('verdict.nothing'),
  }));
  const fitting = rows.filter(({ throughput }) => throughput !== undefined);
  const first = fitting[0];
  const last = fitting.at(-1);
  const sentence =
    !first || !last
      ? say('scaling.nothing')
      : first === last
        ? say(pool === undefined ? 'scaling.one' : 'scaling.oneWhole', { value: format.count(first.value), axis: axisName, tokens: format.rate(first.throughput?.tokens ?? 0) })
        : say(pool === undefined ? 'scaling.sentence' : 'scaling.sentenceWhole', {
            first: format.count(first.value),
            last: format.count(last.value),
            axis: axisName,
            from: format.rate(first.throughput?.tokens ?? 0),
            to: format.rate(last.throughput?.tokens ?? 0),
            change: format.change((last.throughput?.tokens ?? 0) / (first.throughput?.tokens ?? 1) - 1),
          });
  const missing = rows.length - fitting.length;
  return {
    name: `scaling-by-${kind}`,
    title:
      pool !== undefined
        ? say('scaling.byPool', { pool })
        : say(kind === 'nodes' ? 'scaling.byNodes' : 'scaling.bySequence'),
    sentence: text.join(sentence, missing > 0 ? say('scaling.missing', { count: missing }) : ''),
    height: 300,
    legend: [
      { name: say('predicted'), color: (palette) => palette.accent, shape: 'circle' },
      { name: say('interval'), color: (palette) => palette.accent },
    ],
    table: {
      columns: [
        { label: axisName, isNumber: true },
        { label: say('mix.devices'), isNumber: true },
        { label: tokens, isNumber: true },
        { label: say('interval'), isNumber: true },
        { label: say('stepTime'), isNumber: true },
        { label: say('fit'), isNumber: true },
        { label: say('plan') },
      ],
      keys: [
        kind === 'nodes' ? 'node_count' : 'sequence_length',
        'device_count',
        ...(pool === undefined
          ? ['tokens_per_second_per_device', 'tokens_per_second_per_device_interval']
          : ['tokens_per_second', 'tokens_per_second_interval']),
        'step_time_seconds',
        'fit_probability_ratio',
        'plan',
      ],
      rows: rows.map(({ value, deviceCount, best, throughput, line }) => [
        numberCell(format.count(value), value),
        numberCell(format.count(deviceCount), deviceCount),
        throughput ? numberCell(format.rate(throughput.tokens), throughput.tokens) : absent,
        throughput ? textCell(rangeText(throughput, text)) : absent,
        best?.estimate ? numberCell(format.seconds(best.estimate.step_time_seconds), best.estimate.step_time_seconds) : absent,
        best?.estimate
          ? numberCell(format.probability(best.estimate.fit_probability_ratio), best.estimate.fit_probability_ratio)
          : absent,
        textCell(line),
      ]),
    },
    option: optionOf(
      rows.map(({ value, throughput, line }) =>
        throughput && {
          ...throughput,
          name: format.count(value),
          tip: `${axisName}: ${format.count(value)}\n${tokens}: ${format.rate(throughput.tokens)} (${rangeText(throughput, text)})\n${line}`,
        },
      ),
      rows.map(({ value }) => format.count(value)),
      { name: axisName, tokens, joins: true, isWide: pool !== undefined },
      text,
    ),
  };
}

export interface NamedEstimate {
  name: string;
  estimate?: Estimate;
}

/** The throughput of the plan to launch of each of several studies. */
export function studiesSpec(studies: readonly NamedEstimate[], text: Text): ChartSpec {
  const { format, say } = text;
  const rows = studies.map(({ name, estimate }) => ({ name, throughput: estimate && throughputOf(estimate) }));
  const known = rows.flatMap(({ name, throughput }) => (throughput ? [{ name, throughput }] : []));
  const sorted = [...known].sort((a, b) => b.throughput.tokens - a.throughput.tokens);
  const [best, next] = sorted;
  return {
    name: 'studies-side-by-side',
    title: say('studies.throughput'),
    sentence: !best
      ? say('scaling.nothing')
      : !next
        ? say('studies.oneFits', { name: best.name, tokens: format.rate(best.throughput.tokens) })
        : say(best.throughput.low > next.throughput.high ? 'studies.apart' : 'studies.overlap', {
            best: best.name,
            tokens: format.rate(best.throughput.tokens),
            next: next.name,
            others: format.rate(next.throughput.tokens),
          }),
    height: 260,
    legend: [
      { name: say('predicted'), color: (palette) => palette.accent, shape: 'circle' },
      { name: say('interval'), color: (palette) => palette.accent },
    ],
    table: {
      columns: [
        { label: say('study') },
        { label: say('tokens'), isNumber: true },
        { label: say('interval'), isNumber: true },
      ],
      keys: ['study', 'tokens_per_second_per_device', 'tokens_per_second_per_device_interval'],
      rows: rows.map(({ name, throughput }) => [
        textCell(name),
        throughput ? numberCell(format.rate(throughput.tokens), throughput.tokens) : absent,
        throughput ? textCell(rangeText(throughput, text)) : absent,
      ]),
    },
    option: optionOf(
      rows.map(({ name, throughput }) =>
        throughput && {
          ...throughput,
          name,
          tip: `${name}\n${say('tokens')}: ${format.rate(throughput.tokens)} (${rangeText(throughput, text)})`,
        },
      ),
      rows.map(({ name }) => name),
      { name: '', tokens: say('tokens'), joins: false },
      text,
    ),
  };
}
