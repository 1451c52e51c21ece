// The interval of a step time by source: what can make the step longer than predicted.
import type { Estimate } from '../api/wire';
import type { Text } from '../text/text';
import { nameAxis, tooltipOf, valueAxis } from './axes';
import { numberCell, type ChartSpec } from './spec';
import { timeOrder } from './step_time';

/** Returns the name of a source: a cause of time, or what lies outside the constants of the chip. */
function sourceName(source: string, text: Text): string {
  return timeOrder.includes(source) ? text.word('time', source) : text.word('uncertaintySource', source);
}

/** The share of each source in the variance above a step time; undefined if they are not known. */
export function uncertaintySpec(name: string, estimate: Estimate, text: Text): ChartSpec | undefined {
  const { format, say } = text;
  const rows = Object.entries(estimate.uncertainty_ratio_by_source ?? {})
    .map(([source, share]) => ({ source, share, provenance: estimate.breakdown_provenance?.[source] }))
    .sort((a, b) => b.share - a.share || a.source.localeCompare(b.source));
  if (rows.length === 0) return undefined;
  const names = rows.map(({ source }) => sourceName(source, text));
  return {
    name: 'uncertainty',
    title: say('uncertainty.title'),
    sentence: say('uncertainty.sentence', {
      name,
      range: format.secondsRange(estimate.step_time_low_seconds, estimate.step_time_high_seconds),
      parts: rows
        .slice(0, 2)
        .map(({ share }, at) => say('list.share', { name: names[at] ?? '', share: format.percent(share) }))
        .join(say('list.comma')),
    }),
    height: 24 + 34 * rows.length,
    table: {
      columns: [
        { label: say('uncertainty.source') },
        { label: say('uncertainty.share'), isNumber: true },
        { label: say('provenance') },
      ],
      keys: ['source', 'variance_share_ratio', 'provenance'],
      rows: rows.map(({ source, share, provenance }, at) => [
        { text: names[at] ?? source, value: source },
        numberCell(format.percent(share), share),
        provenance === undefined
          ? { text: '–', value: null }
          : { text: text.word('provenance', provenance), value: provenance },
      ]),
    },
    option: (palette) => ({
      grid: { left: 8, right: 72, top: 4, bottom: 4, containLabel: true },
      tooltip: tooltipOf(palette, ({ name: source, value }: { name: string; value: number }) =>
        `${source}: ${format.percent(value)}`,
      ),
      xAxis: valueAxis(palette, '', (value) => format.percent(value)),
      yAxis: nameAxis(palette, names),
      series: [
        {
          type: 'bar',
          barMaxWidth: 18,
          label: {
            show: true,
            position: 'right',
            color: palette.text,
            formatter: (item: { value: number }) => format.percent(item.value),
          },
          data: rows.map(({ source, share }) => ({
            value: share,
            itemStyle: { color: palette.time[source] ?? palette.quiet },
          })),
        },
      ],
    }),
  };
}
