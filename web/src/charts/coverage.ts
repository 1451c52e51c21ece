// The points that a chip was measured at: those of each operator by their size.
import type { CustomSeriesRenderItemAPI, CustomSeriesRenderItemParams } from 'echarts';
import type { OperatorCoverage } from '../api/wire';
import { operatorName } from '../parts/operators';
import type { Text } from '../text/text';
import { nameAxis, tooltipOf } from './axes';
import { numberCell, textCell, type ChartSpec } from './spec';

/** Sizes of one unit: FLOPs come in powers of ten, bytes in powers of sixteen. */
interface SizeUnit {
  base: number;
  names: string[];
  step: number;
}
const units: Record<string, SizeUnit> = {
  flops: { base: 10, names: ['FLOP', 'kFLOP', 'MFLOP', 'GFLOP', 'TFLOP', 'PFLOP'], step: 1000 },
  bytes: { base: 16, names: ['B', 'KiB', 'MiB', 'GiB', 'TiB'], step: 1024 },
};

/** Returns the number of the range of sizes that a size lies in: 2 for 100 to 999 of base 10. */
export function rangeOf(size: number, base: number): number {
  const at = Math.floor(Math.log(size) / Math.log(base));
  // Logarithms of powers are not exact.
  return size >= base ** (at + 1) ? at + 1 : size < base ** at ? at - 1 : at;
}

/** Writes a size in the largest unit of which there is one. */
export function sizeText(size: number, unit: string, text: Text): string {
  const { names, step } = units[unit] ?? { names: [''], step: 1000 };
  let at = 0;
  while (at + 1 < names.length && size >= step ** (at + 1)) at += 1;
  const value = size / step ** at;
  return `${text.format.number(value, Number.isInteger(value) ? 0 : 1)}\u00a0${names[at] ?? ''}`;
}

/** Returns the least and the greatest size of all rows; undefined without points. */
export function sizesOf(rows: readonly OperatorCoverage[]): [number, number] | undefined {
  const all = rows.flatMap(({ sizes }) => sizes);
  return all.length === 0 ? undefined : [Math.min(...all), Math.max(...all)];
}

/** The grid of the points of some operators by size; undefined if the chip's file keeps none. */
export function operatorGridSpec(
  rows: readonly OperatorCoverage[],
  unit: 'flops' | 'bytes',
  text: Text,
): ChartSpec | undefined {
  const { say } = text;
  const { base } = units[unit] ?? { base: 10 };
  const extent = sizesOf(rows);
  if (!extent) return undefined;
  const [first, last] = extent.map((size) => rangeOf(size, base)) as [number, number];
  const ranges = Array.from({ length: last - first + 1 }, (_, at) => first + at);
  const names = rows.map((row) => operatorName(row, text));
  const counts = rows.map(({ sizes }) =>
    ranges.map((range) => sizes.filter((size) => rangeOf(size, base) === range).length),
  );
  const most = Math.max(...counts.flat());
  const edge = (range: number) => sizeText(base ** range, unit, text);
  const rangeName = (range: number) => `${edge(range)} –\n${edge(range + 1)}`;
  const total = counts.flat().reduce((sum, count) => sum + count, 0);
  const cells = counts.flatMap((row, y) => row.map((count, x) => ({ name: names[y] ?? '', value: [x, y, count] })));
  return {
    name: unit === 'flops' ? 'gemm-points' : 'collective-points',
    title: say(unit === 'flops' ? 'coverage.gemmTitle' : 'coverage.collectiveTitle'),
    sentence: say(unit === 'flops' ? 'coverage.gemmSentence' : 'coverage.collectiveSentence', {
      count: total,
      low: sizeText(extent[0], unit, text),
      high: sizeText(extent[1], unit, text),
      rows: rows.filter(({ sizes }) => sizes.length > 0).length,
      all: rows.length,
    }),
    height: 52 + 28 * rows.length,
    minWidth: 180 + 76 * ranges.length,
    table: {
      columns: [
        { label: say('fits.operator') },
        ...ranges.map((range) => ({ label: rangeName(range).replace('\n', ' '), isNumber: true })),
      ],
      keys: ['operator', ...ranges.map((range) => `point_count_from_${base ** range}_${unit}`)],
      rows: counts.map((row, at) => [
        textCell(names[at] ?? ''),
        ...row.map((count) => numberCell(text.format.count(count), count)),
      ]),
    },
    option: (palette) => ({
      grid: { left: 8, right: 8, top: 4, bottom: 4, containLabel: true },
      tooltip: tooltipOf(palette, ({ name, value: [x = 0, , count = 0] }: { name: string; value: number[] }) =>
        `${name}\n${rangeName(first + x).replace('\n', ' ')}: ${say('coverage.points', { count })}`,
      ),
      xAxis: { ...nameAxis(palette, ranges.map(rangeName)), inverse: false, axisLine: { show: false } },
      yAxis: { ...nameAxis(palette, names), axisLine: { show: false } },
      series: [
        {
          type: 'custom',
          name: say('fits.points'),
          encode: { x: 0, y: 1 },
          data: cells,
          renderItem: (_: CustomSeriesRenderItemParams, at: CustomSeriesRenderItemAPI) => {
            const [x = 0, y = 0] = at.coord([at.value(0), at.value(1)]);
            const [width = 0, height = 0] = (at.size?.([1, 1]) ?? []) as number[];
            const count = Number(at.value(2));
            const share = count === 0 ? 0 : 0.12 + (0.4 * Math.log1p(count)) / Math.log1p(most);
            return {
              type: 'group',
              children: [
                {
                  type: 'rect',
                  shape: { x: x - width / 2 + 2, y: y - height / 2 + 2, width: width - 4, height: height - 4, r: 4 },
                  style: { fill: palette.accent, fillOpacity: share, stroke: palette.line, lineWidth: 1 },
                },
                {
                  type: 'text',
                  style: {
                    text: count === 0 ? '' : text.format.count(count),
                    x,
                    y,
                    align: 'center',
                    verticalAlign: 'middle',
                    fill: palette.text,
                    fontSize: 12,
                  },
                },
              ],
            };
          },
        },
      ],
    }),
  };
}
