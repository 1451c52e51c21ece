// The drawing of a step over time, a row for each pipeline stage.
import { bucketsOf, pipelineKinds, spanKinds, timesOf, type Span, type SpanKind, type Timeline, type Window } from '../parts/trace';
import type { Text } from '../text/text';
import { element, label, type DrawingSpec } from './drawing';
import type { Palette } from './palette';
import { numberCell, textCell } from './spec';

const width = 960;
const left = 76;
const right = 8;
const rowHeight = 22;
const axisHeight = 30;
/** More operations than this are drawn as shares of time. */
const spanLimit = 1500;
const rowLimit = 64;
const bucketsInAll = 5000;

export const kindColours: Record<SpanKind, (palette: Palette) => string> = {
  forward: (palette) => palette.time['attention'] ?? palette.accent,
  backward: (palette) => palette.time['recompute'] ?? palette.accent,
  'weight gradient': (palette) => palette.time['memory_bound'] ?? palette.accent,
  'exposed data parallelism': (palette) => palette.time['data_parallel'] ?? palette.accent,
  optimizer: (palette) => palette.time['optimizer'] ?? palette.accent,
  fixed: (palette) => palette.time['fixed'] ?? palette.accent,
};
/** The colours on which white letters can be read. */
const isDeep = (kind: SpanKind) => kind === 'backward' || kind === 'exposed data parallelism' || kind === 'optimizer';

export const kindName = (kind: SpanKind, text: Text): string => text.word('span', kind.replaceAll(' ', '_'));

/** Returns a round step of time for about six marks. */
export function tickOf(seconds: number): number {
  const rough = seconds / 6;
  const power = 10 ** Math.floor(Math.log10(rough));
  return ([1, 2, 5].find((factor) => factor * power >= rough) ?? 10) * power;
}

interface Scale {
  from: number;
  to: number;
  x: (seconds: number) => number;
}

function drawSpans(spans: readonly Span[], y: number, scale: Scale, palette: Palette): string {
  return spans
    .map(({ kind, start, end, microBatch }) => {
      const x = scale.x(Math.max(start, scale.from));
      const size = Math.max(scale.x(Math.min(end, scale.to)) - x, 0.5);
      const box = element('rect', {
        x, y, width: size, height: rowHeight - 4, fill: kindColours[kind](palette), stroke: palette.surface, 'stroke-width': size > 4 ? 1 : 0.2,
      });
      if (microBatch === undefined || size < 4 + 7 * String(microBatch + 1).length) return box;
      return (
        box +
        label(x + size / 2, y + 13, String(microBatch + 1), {
          'font-size': 10, 'text-anchor': 'middle', fill: isDeep(kind) ? '#ffffff' : '#10161d',
        })
      );
    })
    .join('');
}

/** Each bar is a short time, filled from below by what the stage does in it. */
function drawShares(spans: readonly Span[], y: number, count: number, scale: Scale, palette: Palette): string {
  const span = (scale.to - scale.from) / count;
  const height = rowHeight - 4;
  return bucketsOf(spans, scale.from, scale.to, count)
    .map((times, at) => {
      let bottom = y + height;
      return spanKinds
        .map((kind) => {
          const share = Math.min((times[kind] ?? 0) / span, 1);
          if (share < 0.01) return '';
          bottom -= share * height;
          return element('rect', {
            x: scale.x(scale.from + at * span), y: bottom, width: (width - left - right) / count + 0.1, height: share * height, fill: kindColours[kind](palette),
          });
        })
        .join('');
    })
    .join('');
}

function drawAxis(height: number, scale: Scale, text: Text, palette: Palette): string {
  const tick = tickOf(scale.to - scale.from);
  let drawn = '';
  for (let count = Math.ceil(scale.from / tick); count * tick <= scale.to; ++count) {
    const x = scale.x(count * tick);
    drawn += element('line', { x1: x, y1: 0, x2: x, y2: height - axisHeight + 6, stroke: palette.line });
    drawn += label(x, height - 8, text.format.axisSeconds(Number((count * tick).toPrecision(6))), {
      fill: palette.muted, 'text-anchor': x > width - 40 ? 'end' : 'middle',
    });
  }
  return drawn;
}

const busyOf = (times: ReturnType<typeof timesOf>) =>
  pipelineKinds.reduce((sum, kind) => sum + (times[kind] ?? 0), 0);

function tableOf(timeline: Timeline, text: Text) {
  const { format, say } = text;
  return {
    columns: [
      { label: say('stage') },
      ...spanKinds.map((kind) => ({ label: kindName(kind, text), isNumber: true })),
      { label: say('timeline.waiting'), isNumber: true },
    ],
    keys: ['stage', ...spanKinds.map((kind) => `${kind.replaceAll(' ', '_')}_seconds`), 'waiting_seconds'],
    rows: timeline.stages.map((spans, stage) => {
      const times = timesOf(spans, 0, timeline.step);
      const waiting = timeline.pipeline - busyOf(times);
      return [
        textCell(say('stage.name', { number: String(stage + 1) })),
        ...spanKinds.map((kind) => numberCell(format.seconds(times[kind] ?? 0), times[kind] ?? 0)),
        numberCell(format.seconds(Math.max(waiting, 0)), waiting),
      ];
    }),
  };
}

export function timelineSpec(name: string, timeline: Timeline, window: Window, text: Text): DrawingSpec {
  const { format, say } = text;
  const from = window.from * timeline.step;
  const to = window.to * timeline.step;
  const scale: Scale = { from, to, x: (seconds) => left + ((seconds - from) / (to - from)) * (width - left - right) };
  const rows = timeline.stages.slice(0, rowLimit);
  const height = rows.length * rowHeight + axisHeight;
  const visible = rows.map((spans) => spans.filter(({ start, end }) => end > from && start < to));
  const isFine = visible.reduce((sum, spans) => sum + spans.length, 0) <= spanLimit;
  const buckets = Math.min(Math.max(Math.floor(bucketsInAll / rows.length), 60), 240);
  const waits = timeline.stages.map((spans) => 1 - busyOf(timesOf(spans, 0, timeline.pipeline)) / timeline.pipeline);
  const parts = [
    say('timeline.sentence', {
      name,
      step: format.seconds(timeline.step),
      pipeline: format.seconds(timeline.pipeline),
      least: format.percent(Math.max(Math.min(...waits), 0)),
      most: format.percent(Math.max(...waits, 0)),
    }),
    window.from > 0 || window.to < 1 ? say('timeline.window', { range: format.secondsRange(from, to) }) : '',
    isFine ? '' : say('timeline.shares'),
    rows.length < timeline.stages.length ? say('timeline.cut', { count: rows.length }) : '',
  ];
  return {
    name: 'timeline',
    title: say('timeline.title'),
    sentence: text.join(...parts),
    width,
    height,
    legend: spanKinds
      .filter((kind) => timeline.stages.some((spans) => spans.some((span) => span.kind === kind)))
      .map((kind) => ({ name: kindName(kind, text), color: kindColours[kind] })),
    table: tableOf(timeline, text),
    draw: (palette) =>
      [
        drawAxis(height, scale, text, palette),
        ...visible.map((spans, stage) => {
          const y = stage * rowHeight + 2;
          return (
            label(0, y + 13, say('stage.name', { number: String(stage + 1) }), { fill: palette.muted }) +
            (isFine ? drawSpans(spans, y, scale, palette) : drawShares(spans, y, buckets, scale, palette))
          );
        }),
      ].join(''),
  };
}
