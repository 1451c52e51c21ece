// Measured step time against measured peak memory: the trials that no other trial beats in both.
import type { Trial } from '../api/wire';
import { planLine } from '../parts/plan_words';
import type { Text } from '../text/text';
import { tooltipOf, valueAxis } from './axes';
import type { Palette } from './palette';
import { numberCell, textCell, type ChartSpec } from './spec';

/** Trials whose times and memory were measured, as points. */
function pointsOf(trials: readonly Trial[], text: Text) {
  return trials.flatMap(({ number = 0, plan, outcome, step_time_seconds, peak_memory_bytes }) =>
    outcome === 'ok' && peak_memory_bytes > 0
      ? [{ number, plan: plan ? planLine(plan, text) : '', seconds: step_time_seconds, bytes: peak_memory_bytes }]
      : [],
  );
}

/**
 * `front` are the trials of the front, the fastest first; `trials` are others to show beside them. Undefined if
 * no trial has both figures.
 */
export function measuredFrontSpec(
  front: readonly Trial[],
  trials: readonly Trial[],
  text: Text,
): ChartSpec | undefined {
  const { format, say } = text;
  const best = pointsOf(front, text);
  const fastest = best[0];
  const smallest = best.at(-1);
  if (!fastest || !smallest) return undefined;
  const numbers = new Set(best.map(({ number }) => number));
  const beaten = pointsOf(trials, text).filter(({ number }) => !numbers.has(number));
  const nameOf = (number: number) => say('measuredFront.trial', { number: String(number) });
  type Point = (typeof best)[number];
  const scatter = (palette: Palette, name: string, points: readonly Point[], isFilled: boolean) => ({
    type: 'scatter',
    name,
    symbol: 'circle',
    symbolSize: 11,
    itemStyle: isFilled
      ? { color: palette.accent }
      : { color: 'transparent', borderColor: palette.muted, borderWidth: 2 },
    data: points.map((point) => ({ value: [point.seconds, point.bytes], point })),
  });
  return {
    name: 'measured-front',
    title: say('measuredFront.title'),
    sentence:
      best.length > 1
        ? say('measuredFront.sentence', {
            count: best.length,
            fastest: nameOf(fastest.number),
            smallest: nameOf(smallest.number),
            less: format.gib(fastest.bytes - smallest.bytes),
            slower: format.percent(smallest.seconds / fastest.seconds - 1),
          })
        : say('measuredFront.one', { name: nameOf(fastest.number) }),
    height: 300,
    legend: [
      { name: say('measuredFront.best'), color: (palette) => palette.accent, shape: 'circle' },
      ...(beaten.length > 0
        ? [{ name: say('measuredFront.beaten'), color: (palette: Palette) => palette.muted, shape: 'ring' as const }]
        : []),
    ],
    table: {
      columns: [
        { label: say('trials.number'), isNumber: true },
        { label: say('measured'), isNumber: true },
        { label: say('run.peak'), isNumber: true },
        { label: say('plans.settings') },
      ],
      keys: ['trial_number', 'step_time_seconds', 'peak_memory_bytes', 'settings'],
      rows: best.map(({ number, plan, seconds, bytes }) => [
        numberCell(String(number), number),
        numberCell(format.seconds(seconds), seconds),
        numberCell(format.gib(bytes), bytes),
        textCell(plan),
      ]),
    },
    option: (palette) => ({
      grid: { left: 28, right: 24, top: 16, bottom: 36, containLabel: true },
      tooltip: tooltipOf(palette, ({ data }: { data?: { point?: Point } }) => {
        const point = data?.point;
        if (!point) return '';
        return `${nameOf(point.number)}\n${point.plan}\n${say('measured')}: ${format.seconds(point.seconds)}\n${say('run.peak')}: ${format.gib(point.bytes)}`;
      }),
      xAxis: { ...valueAxis(palette, say('measured'), (value) => format.axisSeconds(value)), scale: true },
      yAxis: { ...valueAxis(palette, say('run.peak'), (value) => format.gib(value)), nameGap: 64, scale: true },
      series: [
        {
          type: 'line',
          step: 'end',
          symbol: 'none',
          silent: true,
          lineStyle: { color: palette.accent, width: 1, type: 'dashed' },
          data: best.map(({ seconds, bytes }) => [seconds, bytes]),
        },
        scatter(palette, say('measuredFront.best'), best, true),
        scatter(palette, say('measuredFront.beaten'), beaten, false),
      ],
    }),
  };
}
