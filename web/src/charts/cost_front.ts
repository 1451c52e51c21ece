// Step time against cost: which sizes of a cluster no other size beats in both.
import type { SweptPoint } from '../parts/sweep';
import type { Text } from '../text/text';
import { tooltipOf, valueAxis } from './axes';
import type { Palette } from './palette';
import { numberCell, type ChartSpec } from './spec';

interface CostPoint {
  nodes: number;
  seconds: number;
  cost: number;
  /** No other size is faster and costs less. */
  isOnFront: boolean;
}

/** Cost is the price of the whole run if every point has one, else device-hours for a billion tokens. */
interface Cost {
  points: CostPoint[];
  isPrice: boolean;
}

const billion = 1e9;
const secondsPerHour = 3600;

/** Returns the sizes at which a plan fits, the fastest first. */
export function costPoints(points: readonly SweptPoint[]): Cost {
  const fitting = points.flatMap(({ value, best }) => (best?.estimate ? [{ value, best, estimate: best.estimate }] : []));
  const isPrice = fitting.length > 0 && fitting.every(({ best }) => best.run?.price !== undefined);
  const bare = fitting.map(({ value, best, estimate }) => ({
    nodes: value,
    seconds: estimate.step_time_seconds,
    cost: isPrice
      ? (best.run?.price ?? 0)
      : billion / estimate.tokens_per_second_per_device / secondsPerHour,
  }));
  const beats = (a: Omit<CostPoint, 'isOnFront'>, b: Omit<CostPoint, 'isOnFront'>) =>
    a.seconds <= b.seconds && a.cost <= b.cost && (a.seconds < b.seconds || a.cost < b.cost);
  return {
    isPrice,
    points: bare
      .map((point) => ({ ...point, isOnFront: !bare.some((other) => beats(other, point)) }))
      .sort((a, b) => a.seconds - b.seconds),
  };
}

/** Returns the chart; absent if a plan fits at fewer than two sizes. */
export function costFrontSpec(swept: readonly SweptPoint[], text: Text): ChartSpec | undefined {
  const { format, say } = text;
  const { points, isPrice } = costPoints(swept);
  const front = points.filter(({ isOnFront }) => isOnFront);
  const fastest = front[0];
  const cheapest = front.at(-1);
  if (points.length < 2 || !fastest || !cheapest) return undefined;
  const axis = say(isPrice ? 'studies.price' : 'cost.deviceHours');
  const written = (cost: number) => (cost >= 100 ? format.count(cost) : format.number(cost, 1));
  const series = (palette: Palette, name: string, chosen: readonly CostPoint[], isFilled: boolean) => ({
    type: 'scatter' as const,
    name,
    symbolSize: 12,
    itemStyle: isFilled
      ? { color: palette.accent }
      : { color: 'transparent', borderColor: palette.muted, borderWidth: 2 },
    label: {
      show: true,
      position: 'top' as const,
      color: palette.text,
      formatter: ({ data }: { data: { point: CostPoint } }) => format.count(data.point.nodes),
    },
    data: chosen.map((point) => ({ value: [point.seconds, point.cost], point })),
  });
  return {
    name: 'time-and-cost',
    title: say('cost.title'),
    sentence:
      fastest === cheapest
        ? say('cost.one', { count: fastest.nodes })
        : say('cost.sentence', {
            count: front.length,
            all: format.count(points.length),
            cheapest: format.count(cheapest.nodes),
            fastest: format.count(fastest.nodes),
            faster: format.percent(1 - fastest.seconds / cheapest.seconds),
            dearer: format.percent(fastest.cost / cheapest.cost - 1),
          }),
    height: 300,
    legend: [
      { name: say('cost.best'), color: (palette) => palette.accent, shape: 'circle' },
      { name: say('cost.beaten'), color: (palette) => palette.muted, shape: 'ring' },
    ],
    table: {
      columns: [
        { label: say('scaling.nodes'), isNumber: true },
        { label: say('stepTime'), isNumber: true },
        { label: axis, isNumber: true },
        { label: say('cost.best') },
      ],
      keys: [
        'node_count',
        'step_time_seconds',
        isPrice ? 'run_price' : 'device_hours_per_billion_tokens',
        'is_on_front',
      ],
      rows: points.map(({ nodes, seconds, cost, isOnFront }) => [
        numberCell(format.count(nodes), nodes),
        numberCell(format.seconds(seconds), seconds),
        numberCell(written(cost), cost),
        { text: say(isOnFront ? 'yes' : 'no'), value: isOnFront },
      ]),
    },
    option: (palette) => ({
      grid: { left: 32, right: 32, top: 28, bottom: 36, containLabel: true },
      tooltip: tooltipOf(palette, ({ data }: { data?: { point?: CostPoint } }) => {
        const point = data?.point;
        if (!point) return '';
        return [
          `${say('scaling.nodes')}: ${format.count(point.nodes)}`,
          `${say('stepTime')}: ${format.seconds(point.seconds)}`,
          `${axis}: ${written(point.cost)}`,
        ].join('\n');
      }),
      xAxis: { ...valueAxis(palette, say('stepTime'), (value) => format.axisSeconds(value)), scale: true },
      yAxis: { ...valueAxis(palette, axis, written), nameGap: 56, scale: true },
      series: [
        {
          type: 'line',
          symbol: 'none',
          silent: true,
          lineStyle: { color: palette.accent, width: 1, type: 'dashed' },
          data: front.map(({ seconds, cost }) => [seconds, cost]),
        },
        series(palette, say('cost.best'), front, true),
        series(palette, say('cost.beaten'), points.filter(({ isOnFront }) => !isOnFront), false),
      ],
    }),
  };
}
