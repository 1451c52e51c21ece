// Charts of plans by their dimensions: parallel coordinates, and what each dimension explains.
import { figureOf, figures, isChosen, type Choice, type Figure, type Importance, type ListedPlan, type PlanAxis } from '../parts/plan_axes';
import type { Text } from '../text/text';
import { nameAxis, tooltipOf } from './axes';
import type { Palette } from './palette';
import { numberCell, textCell, type ChartSpec } from './spec';

/** Pixels of an axis with its labels; narrower pages scroll. */
const axisWidth = 96;
/** More labels would cover one another. */
const labelLimit = 12;

const figureName = (figure: Figure, text: Text) =>
  text.say(figure === 'step_time_seconds' ? 'stepTime' : 'memory.headroom');
export const figureText = (figure: Figure, value: number, text: Text) =>
  figure === 'step_time_seconds' ? text.format.seconds(value) : text.format.gib(value);

/** Breaks a name into lines that fit above an axis; where there are no spaces, names are short. */
export function linesOf(name: string, limit = 13): string {
  const lines: string[] = [];
  for (const word of name.split(' ')) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= limit) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines.join('\n');
}

/** Returns the indices of the values that have a label: all of them, or every second, third, ... */
export function labelledOf(count: number): number[] {
  const step = Math.ceil(count / labelLimit);
  return Array.from({ length: count }, (_, at) => at).filter((at) => at % step === 0);
}

/** Returns the intervals that neighbouring indices cover, half a step beyond the first and the last. */
export function intervalsOf(indices: readonly number[]): [number, number][] {
  const intervals: [number, number][] = [];
  for (const index of [...indices].sort((a, b) => a - b)) {
    const last = intervals.at(-1);
    if (last && index - last[1] < 1) last[1] = index + 0.4;
    else intervals.push([index - 0.4, index + 0.4]);
  }
  return intervals;
}

/** Returns the choice after intervals of one axis were marked; no interval chooses all. */
export function choiceAfter(
  choice: Choice,
  axes: readonly PlanAxis[],
  plans: readonly ListedPlan[],
  id: string,
  intervals: readonly (readonly [number, number])[],
): Choice {
  const values = { ...choice.values };
  const ranges = { ...choice.ranges };
  const isMarked = (value: number) => intervals.some(([low, high]) => low <= value && value <= high);
  const axis = axes.find(({ field }) => field === id);
  const figure = figures.find((name) => name === id);
  if (axis) {
    const marked = axis.values.filter((_, at) => isMarked(at));
    delete values[id];
    if (marked.length > 0 && marked.length < axis.values.length) values[id] = marked;
  } else if (figure) {
    const marked = plans.map((plan) => figureOf(plan, figure)).filter(isMarked);
    delete ranges[figure];
    if (marked.length > 0) ranges[figure] = [Math.min(...marked), Math.max(...marked)];
  }
  return { values, ranges };
}

function tableOf(plans: readonly ListedPlan[], axes: readonly PlanAxis[], choice: Choice, text: Text) {
  const { say } = text;
  return {
    columns: [
      { label: say('plan') },
      { label: say('dimensions.chosen') },
      ...axes.map(({ field }) => ({ label: text.word('field', field) })),
      ...figures.map((figure) => ({ label: figureName(figure, text), isNumber: true })),
    ],
    keys: ['plan', 'is_chosen', ...axes.map(({ field }) => field), ...figures],
    rows: plans.map((plan) => [
      textCell(plan.name),
      { text: say(isChosen(plan, choice) ? 'yes' : 'no'), value: isChosen(plan, choice) },
      ...axes.map(({ field }) => ({ text: plan.words[field] ?? '–', value: plan.values[field] ?? '' })),
      ...figures.map((figure) =>
        numberCell(figureText(figure, figureOf(plan, figure), text), figureOf(plan, figure)),
      ),
    ]),
  };
}

function sentenceOf(plans: readonly ListedPlan[], axes: readonly PlanAxis[], choice: Choice, text: Text): string {
  const bySpeed = [...plans].sort((a, b) => a.seconds - b.seconds);
  const chosen = bySpeed.filter((plan) => isChosen(plan, choice));
  const [first] = chosen;
  const all = text.say('dimensions.sentence', {
    count: plans.length,
    dimensions: axes.map(({ field }) => text.word('field', field)).join(text.say('list.comma')),
    least: text.format.seconds(bySpeed[0]?.seconds ?? 0),
    most: text.format.seconds(bySpeed.at(-1)?.seconds ?? 0),
  });
  if (chosen.length === plans.length) return all;
  const more = first
    ? text.say('dimensions.narrowed', {
        count: chosen.length,
        name: first.name,
        time: text.format.seconds(first.seconds),
      })
    : text.say('dimensions.none');
  return `${all} ${more}`;
}

/** A range that is a single value is widened, so that its mark can be seen. */
function marksOf(plans: readonly ListedPlan[], figure: Figure, choice: Choice): [number, number][] {
  const range = choice.ranges[figure];
  if (!range) return [];
  const values = plans.map((plan) => figureOf(plan, figure));
  const more = (Math.max(...values) - Math.min(...values)) / 100;
  return [[range[0] - more, range[1] + more]];
}

/** Each plan is a line across an axis for each dimension, the free memory and the step time. */
export function dimensionsSpec(
  plans: readonly ListedPlan[],
  axes: readonly PlanAxis[],
  choice: Choice,
  text: Text,
): ChartSpec {
  const { say } = text;
  const parts: { name: string; color: (palette: Palette) => string; width: number; opacity: number; plans: ListedPlan[] }[] = [
    { name: say('dimensions.other'), color: (palette) => palette.quiet, width: 1, opacity: 0.3, plans: plans.filter((plan) => !isChosen(plan, choice)) },
    { name: say('dimensions.chosen'), color: (palette) => palette.accent, width: 1.5, opacity: 0.6, plans: plans.filter((plan) => isChosen(plan, choice) && plan.rank > 1) },
    { name: say('plan.baseline'), color: (palette) => palette.warn, width: 2.5, opacity: 1, plans: plans.filter((plan) => isChosen(plan, choice) && plan.rank === 0) },
    { name: say('plan.name', { rank: '1' }), color: (palette) => palette.text, width: 3, opacity: 1, plans: plans.filter((plan) => isChosen(plan, choice) && plan.rank === 1) },
  ];
  return {
    name: 'dimensions',
    title: say('dimensions.title'),
    sentence: sentenceOf(plans, axes, choice, text),
    height: 380,
    minWidth: axisWidth * (axes.length + figures.length),
    legend: parts.map(({ name, color }) => ({ name, color, shape: 'line' })),
    table: tableOf(plans, axes, choice, text),
    marked: Object.fromEntries([
      ...axes.map(({ field, values }) => [
        field,
        intervalsOf((choice.values[field] ?? []).map((value) => values.indexOf(value))),
      ]),
      ...figures.map((figure) => [figure, marksOf(plans, figure, choice)]),
    ]) as Record<string, [number, number][]>,
    option: (palette) => {
      const common = {
        type: 'value' as const,
        realtime: false,
        nameLocation: 'end' as const,
        nameTextStyle: { color: palette.text, lineHeight: 14 },
        nameTruncate: { maxWidth: axisWidth },
        nameGap: 12,
        axisLine: { lineStyle: { color: palette.muted } },
        axisTick: { show: false },
        splitLine: { show: false },
        areaSelectStyle: { color: palette.accent, borderColor: palette.accent, opacity: 0.25, width: 16 },
      };
      // The words of the last axis stand beside it.
      const longest = Math.max(0, ...(axes.at(-1)?.words ?? []).map((word) => word.length));
      const lastWidth = Math.max(axisWidth - 8, Math.min(7 * longest, 150) + 14);
      const label = { color: palette.text, width: axisWidth - 22, overflow: 'truncate' as const, hideOverlap: true };
      return {
        parallel: { left: axisWidth / 2, right: lastWidth, top: 64, bottom: 16, parallelAxisDefault: common },
        tooltip: tooltipOf(palette, ({ data }: { data?: { plan?: ListedPlan } }) =>
          data?.plan ? `${data.plan.name}\n${data.plan.line}` : '',
        ),
        parallelAxis: [
          ...figures.map((figure, dim) => ({
            ...common,
            id: figure,
            dim,
            name: linesOf(figureName(figure, text)),
            scale: true,
            axisLabel: {
              ...label,
              formatter: (value: number) =>
                figure === 'step_time_seconds' ? text.format.axisSeconds(value) : text.format.gib(value),
            },
          })),
          ...axes.map(({ field, words }, at) => ({
            ...common,
            id: field,
            dim: figures.length + at,
            name: linesOf(text.word('field', field)),
            min: -0.5,
            max: words.length - 0.5,
            axisLabel: {
              ...label,
              ...(at === axes.length - 1 ? { width: lastWidth - 14 } : {}),
              customValues: labelledOf(words.length),
              formatter: (value: number) => words[value] ?? '',
            },
          })),
        ],
        series: parts.map(({ name, color, width, opacity, plans: drawn }) => ({
          type: 'parallel' as const,
          name,
          color: color(palette),
          activeOpacity: opacity,
          inactiveOpacity: opacity,
          lineStyle: { color: color(palette), width, opacity },
          data: drawn.map((plan) => ({
            plan,
            value: [
              ...figures.map((figure) => figureOf(plan, figure)),
              ...axes.map(({ field, values }) => values.indexOf(plan.values[field] ?? '')),
            ],
          })),
        })),
      };
    },
  };
}

/** How much each dimension explains of the step time; `plans` are those that it is among. */
export function importanceSpec(importance: readonly Importance[], planCount: number, text: Text): ChartSpec {
  const { format, say } = text;
  const [first] = importance;
  return {
    name: 'importance',
    title: say('importance.title'),
    sentence: first
      ? say('importance.sentence', {
          count: planCount,
          name: text.word('field', first.field),
          share: format.percent(first.share),
        })
      : say('importance.none'),
    height: 24 + 30 * importance.length,
    table: {
      columns: [
        { label: say('importance.dimension') },
        { label: say('importance.share'), isNumber: true },
        { label: say('importance.values'), isNumber: true },
      ],
      keys: ['dimension', 'explained_variance_ratio', 'value_count'],
      rows: importance.map(({ field, share, valueCount }) => [
        { text: text.word('field', field), value: field },
        numberCell(format.percent(share), share),
        numberCell(format.count(valueCount), valueCount),
      ]),
    },
    option: (palette) => ({
      grid: { left: 8, right: 72, top: 4, bottom: 4, containLabel: true },
      tooltip: tooltipOf(palette, (item: { name: string; value: number }) => `${item.name}: ${format.percent(item.value)}`),
      xAxis: { type: 'value', min: 0, max: 1, axisLabel: { show: false }, splitLine: { show: false } },
      yAxis: nameAxis(palette, importance.map(({ field }) => text.word('field', field))),
      series: [
        {
          type: 'bar',
          barMaxWidth: 18,
          itemStyle: { color: palette.accent },
          label: {
            show: true,
            position: 'right',
            color: palette.text,
            formatter: (item: { value: number }) => format.percent(item.value),
          },
          data: importance.map(({ share }) => share),
        },
      ],
    }),
  };
}
