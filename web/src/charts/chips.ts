// Charts about a chip: what its figures rest on, its collectives, how far runs and fits were off, and
// how it compares with another one.
import type { Chip, ChipCalibration, GroupBandwidth, PastRun } from '../api/wire';
import { coverageOf, halfPrecisionPeak, provenanceOrder } from '../parts/chip_figures';
import { operatorName } from '../parts/operators';
import type { Text } from '../text/text';
import { nameAxis, tooltipOf, valueAxis } from './axes';
import type { Palette } from './palette';
import { numberCell, textCell, type Cell, type ChartSpec } from './spec';

const provenanceColor = (provenance: string) => (palette: Palette) =>
  ({
    measured: palette.good,
    fitted: palette.accent,
    transferred: palette.time['attention'],
    published: palette.time['memory_bound'],
    assumed: palette.warn,
  })[provenance] ?? palette.quiet;

interface Hovered {
  name: string;
  seriesName: string;
  value: number;
}

/** The coverage grid: how many figures of each area were measured, fitted, published or assumed. */
export function figureCoverageSpec(chip: Chip, text: Text): ChartSpec {
  const { format, say } = text;
  const areas = coverageOf(chip.figures);
  const used = provenanceOrder.filter((word) => areas.some(({ counts }) => (counts[word] ?? 0) > 0));
  const total = chip.figures.length;
  const count = (word: string) => areas.reduce((sum, { counts }) => sum + (counts[word] ?? 0), 0);
  return {
    name: 'figure-coverage',
    title: say('chip.coverageTitle'),
    sentence: say('chip.coverageSentence', {
      measured: count('measured') + count('fitted'),
      count: total,
      assumed: count('assumed'),
    }),
    height: 24 + 32 * areas.length,
    legend: used.map((word) => ({ name: text.word('provenance', word), color: provenanceColor(word) })),
    table: {
      columns: [
        { label: say('chip.area') },
        ...used.map((word) => ({ label: text.word('provenance', word), isNumber: true })),
      ],
      keys: ['area', ...used.map((word) => `${word}_figure_count`)],
      rows: areas.map(({ area, counts }) => [
        { text: text.word('area', area), value: area },
        ...used.map((word) => numberCell(format.count(counts[word] ?? 0), counts[word] ?? 0)),
      ]),
    },
    option: (palette) => ({
      grid: { left: 8, right: 24, top: 4, bottom: 4, containLabel: true },
      tooltip: tooltipOf(palette, (item: Hovered) => `${item.name}\n${item.seriesName}: ${item.value}`),
      xAxis: { ...valueAxis(palette, '', (value) => format.count(value)), minInterval: 1 },
      yAxis: nameAxis(palette, areas.map(({ area }) => text.word('area', area))),
      series: used.map((word) => ({
        type: 'bar',
        stack: 'figures',
        name: text.word('provenance', word),
        barMaxWidth: 18,
        itemStyle: { color: provenanceColor(word)(palette), borderColor: palette.surface, borderWidth: 1 },
        data: areas.map(({ counts }) => counts[word] ?? 0),
      })),
    }),
  };
}

const gigabytes = (bytes: number, text: Text) =>
  `${text.format.number(bytes / 1e9, bytes === 0 || bytes >= 1e11 ? 0 : 1)}\u00a0GB/s`;

/** The bandwidth of collectives by the number of ranks in a scale-up domain, of one or two chips. */
export function groupBandwidthSpec(chips: readonly Chip[], text: Text): ChartSpec {
  const { say } = text;
  const kinds = [
    { key: 'all_reduce_bytes_per_second', name: say('chip.allReduce') },
    { key: 'all_to_all_bytes_per_second', name: say('chip.allToAll') },
  ] as const;
  const several = chips.length > 1;
  const lines = chips.flatMap((chip, at) =>
    kinds.map(({ key, name }, kind) => ({
      name: several ? `${chip.name}: ${name}` : name,
      chip,
      key,
      isSecond: at > 0,
      isDashed: kind > 0,
    })),
  );
  const ranks = [...new Set(chips.flatMap(({ group_bandwidths }) => group_bandwidths.map(({ rank_count }) => rank_count)))];
  ranks.sort((a, b) => a - b);
  const valueOf = (groups: readonly GroupBandwidth[], rank: number, key: (typeof kinds)[number]['key']) =>
    groups.find(({ rank_count }) => rank_count === rank)?.[key];
  const largest = ranks.at(-1) ?? 0;
  const color = (isSecond: boolean) => (palette: Palette) => (isSecond ? palette.warn : palette.accent);
  return {
    name: 'group-bandwidths',
    title: say('chip.groupsTitle'),
    sentence: say('chip.groupsSentence', {
      count: largest,
      values: chips
        .map(({ name, group_bandwidths }) => {
          const value = valueOf(group_bandwidths, largest, 'all_reduce_bytes_per_second');
          return `${several ? `${name} ` : ''}${value === undefined ? '–' : gigabytes(value, text)}`;
        })
        .join(say('list.comma')),
    }),
    height: 240,
    legend: lines.map(({ name, isSecond, isDashed }) => ({
      name,
      color: color(isSecond),
      shape: isDashed ? ('ring' as const) : ('circle' as const),
    })),
    table: {
      columns: [
        { label: say('chip.ranks'), isNumber: true },
        ...lines.map(({ name }) => ({ label: name, isNumber: true })),
      ],
      keys: ['rank_count', ...lines.map(({ chip, key }) => (several ? `${chip.id} ${key}` : key))],
      rows: ranks.map((rank) => [
        numberCell(String(rank), rank),
        ...lines.map(({ chip, key }): Cell => {
          const value = valueOf(chip.group_bandwidths, rank, key);
          return value === undefined ? { text: '–', value: null } : numberCell(gigabytes(value, text), value);
        }),
      ]),
    },
    option: (palette) => ({
      grid: { left: 8, right: 24, top: 16, bottom: 28, containLabel: true },
      tooltip: tooltipOf(
        palette,
        ({ seriesName, name, value }: Hovered) => `${seriesName}\n${name}: ${gigabytes(value, text)}`,
      ),
      xAxis: {
        ...nameAxis(palette, ranks.map(String)),
        inverse: false,
        name: say('chip.ranks'),
        nameLocation: 'middle',
        nameGap: 28,
        nameTextStyle: { color: palette.muted },
      },
      yAxis: valueAxis(palette, '', (value) => gigabytes(value, text)),
      series: lines.map(({ name, chip, key, isSecond, isDashed }) => ({
        type: 'line',
        name,
        symbol: isDashed ? 'emptyCircle' : 'circle',
        symbolSize: 8,
        lineStyle: { color: color(isSecond)(palette), width: 2, type: isDashed ? 'dashed' : 'solid' },
        itemStyle: { color: color(isSecond)(palette) },
        data: ranks.map((rank) => valueOf(chip.group_bandwidths, rank, key) ?? null),
      })),
    }),
  };
}

/** How far each run of a calibration was from the model, by how alike its job is. */
export function residualsSpec(evidence: readonly PastRun[], text: Text): ChartSpec {
  const { format, say } = text;
  const used = evidence.filter(({ time_ratio }) => time_ratio !== undefined);
  const errors = used.map(({ time_ratio = 1 }) => time_ratio - 1);
  const nameOf = ({ model_name, cluster_name }: PastRun, at: number) => `${at + 1}: ${model_name}, ${cluster_name}`;
  return {
    name: 'calibration-residuals',
    title: say('chip.residualsTitle'),
    sentence:
      used.length === 0
        ? say('chip.residualsNone')
        : say('chip.residualsSentence', {
            count: used.length,
            low: format.change(Math.min(...errors)),
            high: format.change(Math.max(...errors)),
          }),
    height: 24 + 24 * Math.max(used.length, 1),
    table: {
      columns: [
        { label: say('runs.run') },
        { label: say('chip.timeRatio'), isNumber: true },
        { label: say('chip.alike'), isNumber: true },
        { label: say('frameworkVersion') },
      ],
      keys: ['run', 'measured_over_modelled_ratio', 'similarity_ratio', 'framework_version'],
      rows: used.map((run, at) => [
        { text: nameOf(run, at), value: run.measurement_id ?? at },
        numberCell(format.change(errors[at] ?? 0), run.time_ratio ?? 1),
        numberCell(format.percent(run.similarity_ratio), run.similarity_ratio),
        textCell(run.framework_version),
      ]),
    },
    option: (palette) => ({
      grid: { left: 8, right: 24, top: 4, bottom: 4, containLabel: true },
      tooltip: tooltipOf(palette, (item: Hovered) => `${item.name}: ${format.change(item.value)}`),
      xAxis: valueAxis(palette, '', (value) => format.axisChange(value)),
      yAxis: {
        ...nameAxis(palette, used.map(nameOf)),
        axisLine: { onZero: false, lineStyle: { color: palette.line } },
      },
      series: [
        {
          type: 'bar',
          barMaxWidth: 14,
          data: errors.map((value) => ({ value, itemStyle: { color: value > 0 ? palette.warn : palette.accent } })),
        },
      ],
    }),
  };
}

/** The held-out error of each operator that a calibration has fitted, against its limit. */
export function fitsSpec(calibration: ChipCalibration, text: Text): ChartSpec {
  const { format, say } = text;
  const nameOf = (operator: ChipCalibration['operators'][number]) => operatorName(operator, text);
  const fitted = calibration.operators.filter(({ held_out }) => (held_out?.point_count ?? 0) > 0);
  const good = calibration.operators.filter(({ verdict }) => verdict === 'good').length;
  const ratio = (value: number | undefined): Cell =>
    value === undefined ? { text: '–', value: null } : numberCell(format.percent(value), value);
  return {
    name: 'operator-fits',
    title: say('fits.title'),
    sentence: say('fits.sentence', { good, count: calibration.operators.length, fitted: fitted.length }),
    height: 24 + 34 * Math.max(fitted.length, 1),
    legend: [
      { name: say('fits.before'), color: (palette) => palette.quiet },
      { name: say('fits.heldOut'), color: (palette) => palette.accent },
      { name: say('fits.limit'), color: (palette) => palette.bad, shape: 'diamond' },
    ],
    table: {
      columns: [
        { label: say('fits.operator') },
        { label: say('fits.points'), isNumber: true },
        { label: say('fits.before'), isNumber: true },
        { label: say('fits.heldOut'), isNumber: true },
        { label: say('fits.p90'), isNumber: true },
        { label: say('fits.limit'), isNumber: true },
        { label: say('fits.verdict') },
        { label: say('fits.advice') },
      ],
      keys: [
        'operator',
        'point_count',
        'before_median_ratio',
        'held_out_median_ratio',
        'held_out_p90_ratio',
        'limit_ratio',
        'verdict',
        'advice',
      ],
      rows: calibration.operators.map((operator) => [
        textCell(nameOf(operator)),
        numberCell(format.count(operator.point_count), operator.point_count),
        ratio(operator.before?.median_ratio),
        ratio(operator.held_out?.median_ratio),
        ratio(operator.held_out?.p90_ratio),
        ratio(operator.limit_ratio || undefined),
        { text: text.word('verdict', operator.verdict), value: operator.verdict },
        textCell(operator.advice),
      ]),
    },
    option: (palette) => ({
      grid: { left: 8, right: 24, top: 4, bottom: 4, containLabel: true },
      tooltip: tooltipOf(
        palette,
        (item: Hovered) =>
          `${item.name}\n${item.seriesName}: ${format.percent(Number([item.value].flat()[0]))}`,
      ),
      xAxis: { ...valueAxis(palette, '', (value) => format.axisPercent(value)), min: 0 },
      yAxis: nameAxis(palette, fitted.map(nameOf)),
      series: [
        {
          type: 'bar',
          name: say('fits.before'),
          barMaxWidth: 9,
          itemStyle: { color: palette.quiet },
          data: fitted.map(({ before }) => before?.median_ratio ?? null),
        },
        {
          type: 'bar',
          name: say('fits.heldOut'),
          barMaxWidth: 9,
          itemStyle: { color: palette.accent },
          data: fitted.map(({ held_out }) => held_out?.median_ratio ?? null),
        },
        {
          type: 'scatter',
          name: say('fits.limit'),
          symbol: 'diamond',
          symbolSize: 11,
          itemStyle: { color: palette.bad },
          data: fitted.flatMap((operator, at) =>
            operator.limit_ratio > 0 ? [{ name: nameOf(operator), value: [operator.limit_ratio, at] }] : [],
          ),
        },
      ],
    }),
  };
}

/** The main figures of one chip as multiples of those of another. */
export function chipRatiosSpec(first: Chip, second: Chip, text: Text): ChartSpec {
  const { format, say } = text;
  const teraflops = (value: number) => `${format.number(value / 1e12, 1)}\u00a0TFLOP/s`;
  const shared = Object.keys(first.peak_flops_per_second).filter((name) => second.peak_flops_per_second[name]);
  const reduce = ({ group_bandwidths }: Chip) => group_bandwidths.at(-1)?.all_reduce_bytes_per_second ?? 0;
  const figures = [
    ...shared.map((name) => ({
      name: say('chip.peakOf', { precision: name }),
      values: [first, second].map((chip) => chip.peak_flops_per_second[name] ?? 0),
      show: teraflops,
    })),
    {
      name: say('chip.memory'),
      values: [first, second].map((chip) => chip.memory_capacity_bytes),
      show: format.gib,
    },
    {
      name: say('chip.bandwidth'),
      values: [first, second].map((chip) => chip.memory_bandwidth_bytes_per_second),
      show: (value: number) => gigabytes(value, text),
    },
    { name: say('chip.domainAllReduce'), values: [first, second].map(reduce), show: (value: number) => gigabytes(value, text) },
  ].flatMap(({ name, values: [a = 0, b = 0], show }) => (a > 0 && b > 0 ? [{ name, a, b, show, ratio: b / a }] : []));
  const half = halfPrecisionPeak(first) > 0 ? halfPrecisionPeak(second) / halfPrecisionPeak(first) : 0;
  const times = (value: number) => `${format.number(value, 2)}\u00a0×`;
  return {
    name: 'chip-ratios',
    title: say('chip.ratiosTitle', { first: first.name, second: second.name }),
    sentence: say('chip.ratiosSentence', {
      first: first.name,
      second: second.name,
      peak: times(half),
      bandwidth: times(second.memory_bandwidth_bytes_per_second / first.memory_bandwidth_bytes_per_second),
      memory: times(second.memory_capacity_bytes / first.memory_capacity_bytes),
    }),
    height: 24 + 30 * figures.length,
    table: {
      columns: [
        { label: say('chip.figure') },
        { label: first.name, isNumber: true },
        { label: second.name, isNumber: true },
        { label: say('chip.ratio'), isNumber: true },
      ],
      keys: ['figure', first.id, second.id, 'ratio'],
      rows: figures.map(({ name, a, b, show, ratio }) => [
        textCell(name),
        numberCell(show(a), a),
        numberCell(show(b), b),
        numberCell(times(ratio), ratio),
      ]),
    },
    option: (palette) => ({
      grid: { left: 8, right: 72, top: 4, bottom: 4, containLabel: true },
      tooltip: tooltipOf(palette, (item: Hovered) => `${item.name}: ${times(item.value)}`),
      xAxis: { ...valueAxis(palette, '', times), min: 0 },
      yAxis: nameAxis(palette, figures.map(({ name }) => name)),
      series: [
        {
          type: 'bar',
          barMaxWidth: 16,
          itemStyle: { color: palette.accent },
          label: {
            show: true,
            position: 'right',
            color: palette.text,
            // The line at 1 would cross the figure otherwise.
            backgroundColor: palette.surface,
            padding: [1, 3],
            formatter: (item: Hovered) => times(item.value),
          },
          data: figures.map(({ ratio }) => ratio),
          markLine: {
            symbol: 'none',
            silent: true,
            z: 1,
            lineStyle: { color: palette.text, type: 'dashed', width: 1.5 },
            label: { show: false },
            data: [{ xAxis: 1 }],
          },
        },
      ],
    }),
  };
}
