// Charts about predictions: predicted against measured, errors by group and in order of time, and how
// often the interval was right.
import type { CustomSeriesRenderItemAPI, CustomSeriesRenderItemParams } from 'echarts';
import { summaryOf, type ErrorGroup, type Run, type RunDimension } from '../parts/run_errors';
import type { Text } from '../text/text';
import { nameAxis, tooltipOf, valueAxis } from './axes';
import type { Palette } from './palette';
import { numberCell, textCell, type Cell, type ChartSpec, type LegendItem } from './spec';

/** The share of runs that should lie inside their interval. */
const wantedCoverage = 0.8;
const crossSymbol = 'path://M2 0 L5 3 L8 0 L10 2 L7 5 L10 8 L8 10 L5 7 L2 10 L0 8 L3 5 L0 2 Z';
/** Groups that a chart draws; its table has all. */
const groupLimit = 24;

const insideColor = (palette: Palette) => palette.accent;
const outsideColor = (palette: Palette) => palette.warn;
const retractedColor = (palette: Palette) => palette.quiet;

function runLegend(runs: readonly Run[], retracted: readonly Run[], text: Text): LegendItem[] {
  const items: LegendItem[] = [];
  if (runs.some(({ isInside }) => isInside)) {
    items.push({ name: text.say('quality.inside'), color: insideColor, shape: 'circle' });
  }
  if (runs.some(({ isInside }) => !isInside)) {
    items.push({ name: text.say('quality.outside'), color: outsideColor, shape: 'diamond' });
  }
  if (retracted.length > 0) {
    items.push({ name: text.say('quality.retracted'), color: retractedColor, shape: 'cross' });
  }
  return items;
}

function runCells({ measurement, predictedSeconds, measuredSeconds, error, isInside }: Run, text: Text): Cell[] {
  const { format, say } = text;
  const isRetracted = measurement.retraction !== undefined;
  return [
    { text: format.dateTime(measurement.create_time), value: measurement.create_time },
    textCell(measurement.model_name),
    textCell(measurement.cluster_name),
    numberCell(format.seconds(predictedSeconds), predictedSeconds),
    numberCell(format.seconds(measuredSeconds), measuredSeconds),
    numberCell(format.change(error), error),
    { text: say(isInside ? 'yes' : 'no'), value: isInside },
    { text: say(isRetracted ? 'yes' : 'no'), value: isRetracted },
  ];
}

function runTable(runs: readonly Run[], retracted: readonly Run[], text: Text) {
  const { say } = text;
  return {
    columns: [
      { label: say('runs.time') },
      { label: say('model') },
      { label: say('cluster') },
      { label: say('predicted'), isNumber: true },
      { label: say('measured'), isNumber: true },
      { label: say('quality.error'), isNumber: true },
      { label: say('quality.inside') },
      { label: say('quality.retracted') },
    ],
    keys: [
      'create_time',
      'model',
      'cluster',
      'predicted_step_time_seconds',
      'measured_step_time_seconds',
      'error_ratio',
      'is_within_interval',
      'is_retracted',
    ],
    rows: [...runs, ...retracted].map((run) => runCells(run, text)),
  };
}

function runTip(run: Run, text: Text): string {
  const { format, say } = text;
  const { measurement } = run;
  const lines = [
    `${measurement.model_name} · ${measurement.cluster_name}`,
    format.dateTime(measurement.create_time),
    `${say('predicted')}: ${format.seconds(run.predictedSeconds)}`,
    `${say('measured')}: ${format.seconds(run.measuredSeconds)} (${format.change(run.error)})`,
  ];
  if (measurement.retraction) lines.push(say('quality.retracted'));
  return lines.join('\n');
}

type Placed = { value: number[]; run: Run };

/** The series of the runs inside, outside and retracted, each placed by `at`. */
function runSeries(
  palette: Palette,
  text: Text,
  groups: { runs: readonly Run[]; retracted: readonly Run[]; at: (run: Run) => number[] },
) {
  const placed = (runs: readonly Run[]): Placed[] =>
    runs.map((run) => ({ value: groups.at(run), run }));
  return [
    {
      type: 'scatter' as const,
      name: text.say('quality.inside'),
      symbol: 'circle',
      symbolSize: 9,
      itemStyle: { color: insideColor(palette), opacity: 0.8 },
      data: placed(groups.runs.filter(({ isInside }) => isInside)),
    },
    {
      type: 'scatter' as const,
      name: text.say('quality.outside'),
      symbol: 'diamond',
      symbolSize: 12,
      itemStyle: { color: outsideColor(palette), opacity: 0.9 },
      data: placed(groups.runs.filter(({ isInside }) => !isInside)),
    },
    {
      type: 'scatter' as const,
      name: text.say('quality.retracted'),
      symbol: crossSymbol,
      symbolSize: 10,
      itemStyle: { color: retractedColor(palette) },
      data: placed(groups.retracted),
    },
  ];
}

/** Returns the range of both axes, from the runs that count. */
function rangeOf(runs: readonly Run[]): [number, number] {
  let low = Infinity;
  let high = 0;
  for (const { predictedSeconds, measuredSeconds } of runs) {
    low = Math.min(low, predictedSeconds, measuredSeconds);
    high = Math.max(high, predictedSeconds, measuredSeconds);
  }
  return high === 0 ? [0.1, 1] : [roundOut(low / 1.05, Math.floor), roundOut(high * 1.05, Math.ceil)];
}

/** Returns the next number with one digit, so that the ends of an axis can be read. */
function roundOut(value: number, round: (value: number) => number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  // 3 x 0.1 is 0.30000000000000004.
  return Number((round(value / power) * power).toPrecision(2));
}

/** Predicted against measured step time, with the diagonal on which both are equal. */
export function scatterSpec(runs: readonly Run[], retracted: readonly Run[], text: Text): ChartSpec {
  const { format, say } = text;
  const summary = summaryOf(runs);
  const [low, high] = rangeOf(runs);
  const isWide = high / low > 20;
  // A retracted time is often far off; it stands at the edge then.
  const shown = (seconds: number) => Math.min(Math.max(seconds, low), high);
  return {
    name: 'predicted-against-measured',
    title: say('quality.scatterTitle'),
    sentence:
      summary.count === 0
        ? say('quality.none')
        : say(summary.median >= 0 ? 'quality.scatterSlower' : 'quality.scatterFaster', {
            count: summary.count,
            median: format.percent(Math.abs(summary.median)),
            size: format.percent(summary.size),
          }),
    height: 360,
    legend: [
      ...runLegend(runs, retracted, text),
      { name: say('quality.diagonal'), color: (palette) => palette.muted, shape: 'line' },
    ],
    table: runTable(runs, retracted, text),
    option: (palette) => {
      const axis = (name: string) => ({
        ...valueAxis(palette, name, (value) => format.axisSeconds(value)),
        type: isWide ? ('log' as const) : ('value' as const),
        min: low,
        max: high,
      });
      return {
        grid: { left: 28, right: 24, top: 16, bottom: 28, containLabel: true },
        tooltip: tooltipOf(palette, ({ data }: { data?: Placed }) => (data?.run ? runTip(data.run, text) : '')),
        xAxis: axis(say('predicted')),
        yAxis: { ...axis(say('measured')), nameGap: 54 },
        series: [
          {
            type: 'line',
            name: say('quality.diagonal'),
            symbol: 'none',
            silent: true,
            lineStyle: { color: palette.muted, width: 1, type: 'dashed' },
            itemStyle: { color: palette.muted },
            data: [
              [low, low],
              [high, high],
            ],
          },
          ...runSeries(palette, text, {
            runs,
            retracted,
            at: (run) => [shown(run.predictedSeconds), shown(run.measuredSeconds)],
          }),
        ],
      };
    },
  };
}

/** The error of each run in the order in which they were measured: bursts and gaps take equal room. */
export function errorOverTimeSpec(runs: readonly Run[], text: Text): ChartSpec {
  const { format, say } = text;
  const half = Math.floor(runs.length / 2);
  const orderOf = new Map(runs.map((run, at) => [run, at]));
  const dateOf = (at: number) => format.dateTime(runs[at - 1]?.measurement.create_time ?? '');
  return {
    name: 'errors-over-time',
    title: say('quality.timeTitle'),
    sentence:
      half === 0
        ? say('quality.none')
        : say('quality.timeSentence', {
            before: format.change(summaryOf(runs.slice(0, half)).median),
            after: format.change(summaryOf(runs.slice(half)).median),
          }),
    height: 280,
    legend: runLegend(runs, [], text),
    table: runTable(runs, [], text),
    option: (palette) => ({
      grid: { left: 8, right: 24, top: 16, bottom: 28, containLabel: true },
      tooltip: tooltipOf(palette, ({ data }: { data?: Placed }) => (data?.run ? runTip(data.run, text) : '')),
      xAxis: {
        ...valueAxis(palette, say('quality.order'), (value) =>
          Number.isInteger(value) && value >= 1 && value <= runs.length ? dateOf(value) : '',
        ),
        min: 0,
        max: runs.length + 1,
        minInterval: 1,
        splitNumber: 4,
        splitLine: { show: false },
      },
      yAxis: {
        ...valueAxis(palette, '', (value) => format.axisChange(value)),
        min: ({ min }: { min: number }) => Math.min(min, 0) * 1.1,
        max: ({ max }: { max: number }) => Math.max(max, 0) * 1.1,
        axisLabel: {
          color: palette.muted,
          showMinLabel: false,
          showMaxLabel: false,
          formatter: (value: number) => format.axisChange(value),
        },
      },
      series: [
        {
          type: 'line',
          symbol: 'none',
          silent: true,
          lineStyle: { color: palette.muted, width: 1, type: 'dashed' },
          data: [
            [0, 0],
            [runs.length + 1, 0],
          ],
        },
        ...runSeries(palette, text, {
          runs,
          retracted: [],
          at: (run) => [(orderOf.get(run) ?? 0) + 1, run.error],
        }),
      ],
    }),
  };
}

/** The median error of each group with the bounds of its central 80 %. */
export function errorGroupsSpec(groups: readonly ErrorGroup[], by: RunDimension, text: Text): ChartSpec {
  const { format, say } = text;
  const drawn = groups.slice(0, groupLimit);
  const worst = [...groups].sort((a, b) => Math.abs(b.summary.median) - Math.abs(a.summary.median))[0];
  return {
    name: 'errors-by-group',
    title: say('quality.groupsTitle', { dimension: text.word('dimension', by) }),
    sentence: worst
      ? say('quality.groupsSentence', {
          count: groups.length,
          name: worst.name,
          median: format.change(worst.summary.median),
          runs: format.count(worst.summary.count),
        })
      : say('quality.none'),
    height: 40 + 30 * drawn.length,
    legend: [
      { name: say('quality.median'), color: (palette) => palette.accent, shape: 'circle' },
      { name: say('quality.spread'), color: (palette) => palette.accent, shape: 'bar' },
    ],
    table: {
      columns: [
        { label: say('quality.group') },
        { label: say('runs.count'), isNumber: true },
        { label: say('quality.median'), isNumber: true },
        { label: say('quality.spread'), isNumber: true },
        { label: say('quality.size'), isNumber: true },
      ],
      keys: ['group', 'run_count', 'median_error_ratio', 'central_80_percent', 'median_error_size_ratio'],
      rows: groups.map(({ name, summary }) => [
        textCell(name),
        numberCell(format.count(summary.count), summary.count),
        numberCell(format.change(summary.median), summary.median),
        textCell(`${format.change(summary.low)} … ${format.change(summary.high)}`),
        numberCell(format.percent(summary.size), summary.size),
      ]),
    },
    option: (palette) => ({
      grid: { left: 8, right: 24, top: 4, bottom: 4, containLabel: true },
      tooltip: tooltipOf(palette, ({ name }: { name: string }) => {
        const summary = drawn.find((group) => group.name === name)?.summary;
        if (!summary) return name;
        return `${name}\n${say('quality.median')}: ${format.change(summary.median)} (${format.change(summary.low)} … ${format.change(summary.high)})\n${say('runs.count')}: ${format.count(summary.count)}`;
      }),
      xAxis: valueAxis(palette, '', (value) => format.axisChange(value)),
      yAxis: {
        ...nameAxis(palette, drawn.map(({ name }) => name)),
        axisLine: { onZero: false, lineStyle: { color: palette.line } },
      },
      series: [
        {
          type: 'custom',
          name: say('quality.spread'),
          itemStyle: { color: palette.accent },
          encode: { x: [0, 1], y: 2 },
          data: drawn.map(({ name, summary }, at) => ({ name, value: [summary.low, summary.high, at] })),
          renderItem: (_: CustomSeriesRenderItemParams, at: CustomSeriesRenderItemAPI) => {
            const [x1 = 0, y = 0] = at.coord([at.value(0), at.value(2)]);
            const [x2 = 0] = at.coord([at.value(1), at.value(2)]);
            return {
              type: 'rect',
              shape: { x: x1, y: y - 5, width: Math.max(x2 - x1, 1), height: 10, r: 5 },
              style: { fill: palette.accent, opacity: 0.25 },
            };
          },
        },
        {
          type: 'scatter',
          name: say('quality.median'),
          symbol: 'circle',
          symbolSize: 11,
          itemStyle: { color: palette.accent },
          data: drawn.map(({ name, summary }, at) => ({ name, value: [summary.median, at] })),
        },
      ],
    }),
  };
}

/** The share of runs inside their interval by group, against the 80 % that are promised. */
export function coverageSpec(groups: readonly ErrorGroup[], by: RunDimension, text: Text): ChartSpec {
  const { format, say } = text;
  const drawn = groups.slice(0, groupLimit);
  const count = groups.reduce((sum, { summary }) => sum + summary.count, 0);
  const inside = groups.reduce((sum, { summary }) => sum + summary.insideCount, 0);
  const shareOf = ({ summary }: ErrorGroup) => summary.insideCount / summary.count;
  return {
    name: 'interval-coverage',
    title: say('quality.coverageTitle', { dimension: text.word('dimension', by) }),
    sentence:
      count === 0
        ? say('quality.none')
        : say('quality.coverageSentence', { inside, count, share: format.percent(inside / count) }),
    height: 40 + 30 * drawn.length,
    legend: [
      { name: say('quality.insideShare'), color: (palette) => palette.accent, shape: 'bar' },
      { name: say('quality.promised'), color: (palette) => palette.text, shape: 'line' },
    ],
    table: {
      columns: [
        { label: say('quality.group') },
        { label: say('runs.count'), isNumber: true },
        { label: say('quality.inside'), isNumber: true },
        { label: say('quality.insideShare'), isNumber: true },
      ],
      keys: ['group', 'run_count', 'inside_count', 'inside_ratio'],
      rows: groups.map((group) => [
        textCell(group.name),
        numberCell(format.count(group.summary.count), group.summary.count),
        numberCell(format.count(group.summary.insideCount), group.summary.insideCount),
        numberCell(format.percent(shareOf(group)), shareOf(group)),
      ]),
    },
    option: (palette) => ({
      grid: { left: 8, right: 24, top: 4, bottom: 4, containLabel: true },
      tooltip: tooltipOf(
        palette,
        ({ name, value }: { name: string; value: number }) => `${name}: ${format.percent(value)}`,
      ),
      xAxis: { ...valueAxis(palette, '', (value) => format.axisPercent(value)), min: 0, max: 1 },
      yAxis: nameAxis(palette, drawn.map(({ name }) => name)),
      series: [
        {
          type: 'bar',
          name: say('quality.insideShare'),
          barMaxWidth: 16,
          itemStyle: { color: palette.accent },
          data: drawn.map(shareOf),
          markLine: {
            symbol: 'none',
            silent: true,
            lineStyle: { color: palette.text, type: 'dashed', width: 1.5 },
            label: { show: false },
            data: [{ xAxis: wantedCoverage }],
          },
        },
      ],
    }),
  };
}
