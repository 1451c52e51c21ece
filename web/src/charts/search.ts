// Charts about a search: what the rules removed, the best so far, and the trials.
import type { Search, Trial, WatchStudyResponse } from '../api/wire';
import type { Text } from '../text/text';
import { nameAxis, tooltipOf, valueAxis } from './axes';
import type { Palette } from './palette';
import { numberCell, type ChartSpec } from './spec';

/** How many plans each rule removed, and how many were left to estimate. */
export function funnelSpec(search: Search, text: Text): ChartSpec {
  const { format, say } = text;
  const rules = Object.entries(search.pruned_count_by_rule)
    .filter(([, count]) => count > 0)
    .sort((a, b) => b[1] - a[1]);
  const rows = [
    { key: 'space', name: say('funnel.space'), count: search.space_count },
    ...rules.map(([rule, count]) => ({ key: rule, name: text.word('rule', rule), count })),
    { key: 'evaluated', name: say('funnel.evaluated'), count: search.evaluated_count },
  ];
  const share = (count: number) => (search.space_count > 0 ? count / search.space_count : 0);
  return {
    name: 'prune-funnel',
    title: say('funnel.title'),
    sentence: text.join(
      say('funnel.sentence', { count: search.evaluated_count, space: format.count(search.space_count) }),
      rules[0]
        ? say('funnel.most', {
            rule: text.word('rule', rules[0][0]),
            share: format.percent(share(rules[0][1])),
          })
        : '',
      say('funnel.scale'),
    ),
    height: 20 + 30 * rows.length,
    table: {
      columns: [
        { label: say('funnel.step') },
        { label: say('funnel.plans'), isNumber: true },
        { label: say('funnel.share'), isNumber: true },
      ],
      keys: ['step', 'plan_count', 'share_of_space_ratio'],
      rows: rows.map(({ key, name, count }) => [
        { text: name, value: key },
        numberCell(format.count(count), count),
        numberCell(format.percent(share(count)), share(count)),
      ]),
    },
    option: (palette) => ({
      grid: { left: 8, right: 120, top: 4, bottom: 4, containLabel: true },
      tooltip: tooltipOf(
        palette,
        (item: { name: string; value: number }) => `${item.name}: ${format.count(item.value)}`,
      ),
      xAxis: {
        type: 'log',
        min: 1,
        max: Math.max(search.space_count, 10),
        axisLabel: { show: false },
        splitLine: { show: false },
      },
      yAxis: nameAxis(palette, rows.map(({ name }) => name)),
      series: [
        {
          type: 'bar',
          barMaxWidth: 18,
          label: {
            show: true,
            position: 'right',
            color: palette.text,
            formatter: (item: { value: number }) => format.count(item.value),
          },
          data: rows.map(({ key, count }) => ({
            value: count,
            itemStyle: {
              color:
                key === 'space' ? palette.quiet : key === 'evaluated' ? palette.accent : palette.time['attention'],
            },
          })),
        },
      ],
    }),
  };
}

export interface ProgressPoint {
  seconds: number;
  bestSeconds: number;
  considered: number;
}

/**
 * Returns the best step time against the time since the first event: whenever it changed, and last.
 * A search tells its progress several times a second for days.
 */
export function progressPoints(events: readonly WatchStudyResponse[]): ProgressPoint[] {
  const start = events[0] ? Date.parse(events[0].time) : 0;
  const all = events.flatMap(({ time, progress }) =>
    progress && progress.best_step_time_seconds > 0
      ? [
          {
            seconds: (Date.parse(time) - start) / 1000,
            bestSeconds: progress.best_step_time_seconds,
            considered: progress.considered_count,
          },
        ]
      : [],
  );
  return all.filter(
    ({ bestSeconds }, at) => at === all.length - 1 || bestSeconds !== all[at - 1]?.bestSeconds,
  );
}

export function progressSpec(events: readonly WatchStudyResponse[], text: Text): ChartSpec {
  const { format, say } = text;
  const points = progressPoints(events);
  const first = points[0];
  const last = points.at(-1);
  return {
    name: 'best-so-far',
    title: say('progress.title'),
    sentence:
      first && last
        ? say('progress.sentence', {
            first: format.seconds(first.bestSeconds),
            last: format.seconds(last.bestSeconds),
            time: format.duration(last.seconds),
          })
        : say('progress.none'),
    height: 260,
    table: {
      columns: [
        { label: say('progress.after'), isNumber: true },
        { label: say('progress.best'), isNumber: true },
        { label: say('progress.considered'), isNumber: true },
      ],
      keys: ['after_seconds', 'best_step_time_seconds', 'considered_plan_count'],
      rows: points.map(({ seconds, bestSeconds, considered }) => [
        numberCell(format.duration(seconds), seconds),
        numberCell(format.seconds(bestSeconds), bestSeconds),
        numberCell(format.count(considered), considered),
      ]),
    },
    option: (palette) => ({
      grid: { left: 8, right: 24, top: 16, bottom: 28, containLabel: true },
      tooltip: tooltipOf(
        palette,
        (item: { value: [number, number] }) =>
          `${format.duration(item.value[0])}: ${format.seconds(item.value[1])}`,
      ),
      xAxis: valueAxis(palette, say('progress.after'), (value) =>
        value < 60 ? format.axisSeconds(value) : format.duration(value),
      ),
      yAxis: { ...valueAxis(palette, '', (value) => format.axisSeconds(value)), scale: true },
      series: [
        {
          type: 'line',
          step: 'end',
          symbolSize: 7,
          lineStyle: { color: palette.accent, width: 2 },
          itemStyle: { color: palette.accent },
          data: points.map(({ seconds, bestSeconds }) => [seconds, bestSeconds]),
        },
      ],
    }),
  };
}

/** The axis that trials stand along: their numbers, or the device time that they have taken until then. */
export type TrialAxis = 'trial' | 'device_time';

/** Returns true if the trials say how much device time they took: replays take none. */
export const hasDeviceTime = (trials: readonly Trial[]): boolean =>
  trials.some(({ device_seconds }) => device_seconds > 0);

/** Measured against expected step time of each trial, with the best so far. */
export function trialsSpec(trials: readonly Trial[], text: Text, by: TrialAxis = 'trial'): ChartSpec {
  const { format, say } = text;
  const rows = trials.map((trial, at) => ({ trial, number: trial.number ?? at + 1 }));
  const ran = rows.filter(({ trial }) => trial.outcome === 'ok');
  const failed = rows.filter(({ trial }) => trial.outcome !== 'ok' && trial.outcome !== '');
  let best = Infinity;
  let deviceSeconds = 0;
  const bestSoFar = rows.map(({ trial, number }) => {
    deviceSeconds += trial.device_seconds;
    if (trial.outcome === 'ok') best = Math.min(best, trial.step_time_seconds);
    return { number, best: Number.isFinite(best) ? best : null, deviceSeconds };
  });
  const takenAt = new Map(bestSoFar.map(({ number, deviceSeconds: taken }) => [number, taken]));
  const placeOf = (number: number) => (by === 'trial' ? number : (takenAt.get(number) ?? 0));
  const ceiling = Math.max(...ran.map(({ trial }) => trial.step_time_seconds), 0);
  return {
    name: 'trials',
    title: say('trials.title'),
    sentence: say('trials.sentence', {
      count: rows.length,
      ran: ran.length,
      failed: failed.length,
      best: Number.isFinite(best) ? format.seconds(best) : '–',
    }),
    height: 260,
    legend: [
      { name: say('measured'), color: (palette) => palette.warn, shape: 'diamond' },
      { name: say('trials.expected'), color: (palette) => palette.muted, shape: 'ring' },
      { name: say('trials.best'), color: (palette) => palette.accent, shape: 'line' },
      ...(failed.length > 0
        ? [{ name: say('trials.failed'), color: (palette: Palette) => palette.bad, shape: 'cross' as const }]
        : []),
    ],
    table: {
      columns: [
        { label: say('trials.number'), isNumber: true },
        { label: say('outcome') },
        { label: say('measured'), isNumber: true },
        { label: say('trials.expected'), isNumber: true },
        { label: say('trials.best'), isNumber: true },
        { label: say('trials.deviceTime'), isNumber: true },
      ],
      keys: [
        'trial',
        'outcome',
        'step_time_seconds',
        'expected_step_time_seconds',
        'best_so_far_seconds',
        'device_seconds_so_far',
      ],
      rows: rows.map(({ trial, number }, at) => [
        numberCell(String(number), number),
        { text: text.word('trial', trial.outcome || 'open'), value: trial.outcome },
        trial.outcome === 'ok'
          ? numberCell(format.seconds(trial.step_time_seconds), trial.step_time_seconds)
          : { text: '–', value: null },
        numberCell(
          format.seconds(trial.expected_step_time_seconds),
          trial.expected_step_time_seconds,
        ),
        bestSoFar[at]?.best == null
          ? { text: '–', value: null }
          : numberCell(format.seconds(bestSoFar[at].best), bestSoFar[at].best),
        numberCell(
          format.duration(bestSoFar[at]?.deviceSeconds ?? 0),
          bestSoFar[at]?.deviceSeconds ?? 0,
        ),
      ]),
    },
    option: (palette) => ({
      grid: { left: 36, right: 24, top: 16, bottom: 28, containLabel: true },
      tooltip: tooltipOf(
        palette,
        (item: { seriesName: string; value: [number, number] }) =>
          `${
            by === 'trial'
              ? `${say('trials.number')} ${item.value[0]}`
              : `${say('trials.deviceTime')}: ${format.duration(item.value[0])}`
          }\n${item.seriesName}: ${format.seconds(item.value[1])}`,
      ),
      xAxis:
        by === 'trial'
          ? {
              ...valueAxis(palette, say('trials.number'), (value) =>
                rows.some(({ number }) => number === value) ? format.count(value) : '',
              ),
              minInterval: 1,
              min: Math.min(...rows.map(({ number }) => number)) - 1,
              max: Math.max(...rows.map(({ number }) => number)) + 1,
            }
          : {
              ...valueAxis(palette, say('trials.deviceTime'), (value) =>
                value < 60 ? format.axisSeconds(value) : format.duration(value),
              ),
              min: 0,
            },
      yAxis: {
        ...valueAxis(palette, say('stepTime'), (value) => format.axisSeconds(value)),
        nameGap: 54,
        scale: true,
      },
      series: [
        {
          type: 'line',
          name: say('trials.best'),
          step: 'end',
          symbol: 'none',
          lineStyle: { color: palette.accent, width: 2 },
          itemStyle: { color: palette.accent },
          data: bestSoFar.map(({ number, best: value }) => [placeOf(number), value]),
        },
        {
          type: 'scatter',
          name: say('measured'),
          symbol: 'diamond',
          symbolSize: 11,
          itemStyle: { color: palette.warn },
          data: ran.map(({ trial, number }) => [placeOf(number), trial.step_time_seconds]),
        },
        {
          type: 'scatter',
          name: say('trials.expected'),
          symbol: 'circle',
          symbolSize: 8,
          itemStyle: { color: 'transparent', borderColor: palette.muted, borderWidth: 1.5 },
          data: rows.map(({ trial, number }) => [placeOf(number), trial.expected_step_time_seconds]),
        },
        {
          type: 'scatter',
          name: say('trials.failed'),
          symbol: 'path://M2 0 L5 3 L8 0 L10 2 L7 5 L10 8 L8 10 L5 7 L2 10 L0 8 L3 5 L0 2 Z',
          symbolSize: 11,
          itemStyle: { color: palette.bad },
          data: failed.map(({ number }) => [placeOf(number), ceiling]),
        },
      ],
    }),
  };
}

export const eventText = (event: WatchStudyResponse, text: Text): string => {
  const { format, say } = text;
  if (event.kind === 'state') return say('event.state', { state: text.word('state', event.state) });
  const progress = event.progress;
  if (!progress) return text.word('trial', event.kind);
  const done = say('event.progress', {
    phase: progress.phase,
    considered: format.count(progress.considered_count),
    space: format.count(progress.space_count),
  });
  const best =
    progress.best_step_time_seconds > 0
      ? say('event.best', { time: format.seconds(progress.best_step_time_seconds) })
      : '';
  return [done, best, progress.job_status].filter((part) => part !== '').join('; ');
};
