// Step time against memory: which plans no other plan beats in both.
import type { GetStudyResponse, RankedPlan } from '../api/wire';
import { alternativesOf } from '../parts/alternatives';
import { planLine } from '../parts/plan_words';
import type { Text } from '../text/text';
import { tooltipOf, valueAxis } from './axes';
import type { Palette } from './palette';
import { numberCell, textCell, type ChartSpec } from './spec';

export interface FrontPoint {
  name: string;
  plan: string;
  digest: string;
  seconds: number;
  freeBytes: number;
  isBaseline: boolean;
  /** No other point is faster and leaves more memory. */
  isOnFront: boolean;
}

/** Marks the points that no other point beats in step time and free memory at once. */
export function markFront(points: readonly Omit<FrontPoint, 'isOnFront'>[]): FrontPoint[] {
  return points.map((point) => ({
    ...point,
    isOnFront: !points.some(
      (other) =>
        other.seconds <= point.seconds &&
        other.freeBytes >= point.freeBytes &&
        (other.seconds < point.seconds || other.freeBytes > point.freeBytes),
    ),
  }));
}

/** Returns the plans of an answer and of its front, each once, the fastest first. */
export function frontPoints(study: GetStudyResponse, text: Text): FrontPoint[] {
  const points: Omit<FrontPoint, 'isOnFront'>[] = [];
  const add = (name: string, ranked: RankedPlan | undefined, isBaseline: boolean) => {
    const estimate = ranked?.estimate;
    if (!ranked?.plan || !estimate || points.some(({ digest }) => digest === ranked.plan_digest)) return;
    points.push({
      name,
      plan: planLine(ranked.plan, text),
      digest: ranked.plan_digest,
      seconds: estimate.step_time_seconds,
      freeBytes: estimate.memory_capacity_bytes - estimate.reserved_memory_bytes,
      isBaseline,
    });
  };
  for (const { name, rank, plan } of alternativesOf(study, text)) add(name, plan, rank === 0);
  for (const { free_memory_ratio, plan } of study.result?.pareto_front ?? []) {
    add(text.say('front.leaves', { share: text.format.percent(free_memory_ratio) }), plan, false);
  }
  return markFront(points).sort((a, b) => a.seconds - b.seconds);
}

export function frontSpec(points: readonly FrontPoint[], text: Text): ChartSpec {
  const { format, say } = text;
  const front = points.filter(({ isOnFront }) => isOnFront);
  const fastest = front[0];
  const roomiest = front.at(-1);
  const series = (
    palette: Palette,
    name: string,
    chosen: readonly FrontPoint[],
    symbol: string,
    isFilled: boolean,
  ) => ({
    type: 'scatter' as const,
    name,
    symbol,
    symbolSize: 12,
    itemStyle: isFilled
      ? { color: palette.accent }
      : { color: 'transparent', borderColor: palette.muted, borderWidth: 2 },
    data: chosen.map((point) => ({ value: [point.seconds, point.freeBytes], point })),
  });
  const others = points.filter(({ isOnFront, isBaseline }) => !isOnFront && !isBaseline);
  return {
    name: 'time-and-memory',
    title: say('front.title'),
    sentence:
      fastest && roomiest && fastest !== roomiest
        ? say('front.sentence', {
            count: front.length,
            fastest: fastest.name,
            roomiest: roomiest.name,
            free: format.gib(roomiest.freeBytes - fastest.freeBytes),
            slower: format.percent(roomiest.seconds / fastest.seconds - 1),
          })
        : say('front.one', { name: fastest?.name ?? '' }),
    height: 320,
    legend: [
      { name: say('front.best'), color: (palette) => palette.accent, shape: 'circle' },
      { name: say('front.beaten'), color: (palette) => palette.muted, shape: 'ring' },
      { name: say('plan.baseline'), color: (palette) => palette.muted, shape: 'diamond' },
    ],
    table: {
      columns: [
        { label: say('plan') },
        { label: say('stepTime'), isNumber: true },
        { label: say('memory.headroom'), isNumber: true },
        { label: say('front.best') },
        { label: say('plans.settings') },
      ],
      keys: ['plan', 'step_time_seconds', 'free_memory_bytes', 'is_on_front', 'settings'],
      rows: points.map(({ name, plan, seconds, freeBytes, isOnFront }) => [
        textCell(name),
        numberCell(format.seconds(seconds), seconds),
        numberCell(format.gib(freeBytes), freeBytes),
        { text: say(isOnFront ? 'yes' : 'no'), value: isOnFront },
        textCell(plan),
      ]),
    },
    option: (palette) => ({
      grid: { left: 28, right: 24, top: 16, bottom: 36, containLabel: true },
      tooltip: tooltipOf(palette, ({ data }: { data?: { point?: FrontPoint } }) => {
        const point = data?.point;
        if (!point) return '';
        return `${point.name}\n${point.plan}\n${say('stepTime')}: ${format.seconds(point.seconds)}\n${say('memory.headroom')}: ${format.gib(point.freeBytes)}`;
      }),
      xAxis: { ...valueAxis(palette, say('stepTime'), (value) => format.axisSeconds(value)), scale: true },
      yAxis: {
        ...valueAxis(palette, say('memory.headroom'), (value) => format.gib(value)),
        nameGap: 64,
        scale: true,
      },
      series: [
        {
          type: 'line',
          step: 'end',
          symbol: 'none',
          silent: true,
          lineStyle: { color: palette.accent, width: 1, type: 'dashed' },
          data: front.map(({ seconds, freeBytes }) => [seconds, freeBytes]),
        },
        series(palette, say('front.best'), front.filter(({ isBaseline }) => !isBaseline), 'circle', true),
        series(palette, say('front.beaten'), others, 'circle', false),
        series(
          palette,
          say('plan.baseline'),
          points.filter(({ isBaseline }) => isBaseline),
          'diamond',
          false,
        ),
      ],
    }),
  };
}
