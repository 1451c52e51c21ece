// The links that join the pools of a cluster, and the number of nodes of each that a plan uses.
import type { PoolUse } from '../parts/pools';
import type { Text } from '../text/text';
import { nameAxis, tooltipOf, valueAxis } from './axes';
import type { LinkFacts } from './cluster';
import type { Palette } from './palette';
import { numberCell, textCell, type ChartSpec } from './spec';

const pathColour = (path: string, palette: Palette) =>
  path === 'host' ? (palette.time['tensor_parallel'] ?? palette.warn) : palette.accent;

/** The bandwidth between each pair of pools, and whether messages pass through the hosts. */
export function poolLinksSpec(links: readonly LinkFacts[], text: Text): ChartSpec {
  const { format, say } = text;
  const pair = ({ from, to }: LinkFacts) => `${from} – ${to}`;
  const rate = (bytes: number) => `${format.number(bytes / 1e9, bytes % 1e9 === 0 ? 0 : 1)}\u00a0GB/s`;
  const slowest = [...links].sort((a, b) => a.bytesPerSecond - b.bytesPerSecond)[0];
  const through = links.filter(({ path }) => path === 'host');
  const sentence = [
    slowest ? say('links.sentence', { count: links.length, pair: pair(slowest), rate: rate(slowest.bytesPerSecond) }) : '',
    through.length > 0 ? say('links.host', { pairs: through.map(pair).join(say('list.comma')) }) : say('links.allDirect'),
  ];
  const paths = [...new Set(links.map(({ path }) => path))];
  return {
    name: 'pool-links',
    title: say('links.title'),
    sentence: sentence.filter((part) => part !== '').join(say('sentence.space')),
    height: 56 + 32 * links.length,
    legend: paths.map((path) => ({ name: text.word('linkPath', path), color: (palette) => pathColour(path, palette) })),
    table: {
      columns: [
        { label: say('links.from') },
        { label: say('links.to') },
        { label: say('links.rate'), isNumber: true },
        { label: say('links.latency'), isNumber: true },
        { label: say('links.path') },
        { label: say('links.source') },
      ],
      keys: ['from', 'to', 'bandwidth_bytes_per_second_per_node', 'latency_seconds', 'path', 'is_stated_for_the_pair'],
      rows: links.map((link) => [
        textCell(link.from),
        textCell(link.to),
        numberCell(rate(link.bytesPerSecond), link.bytesPerSecond),
        numberCell(format.seconds(link.latencySeconds), link.latencySeconds),
        { text: text.word('linkPath', link.path), value: link.path },
        { text: say(link.isStated ? 'links.own' : 'links.usual'), value: link.isStated },
      ]),
    },
    option: (palette) => ({
      grid: { left: 8, right: 88, top: 8, bottom: 36, containLabel: true },
      tooltip: tooltipOf(palette, ({ dataIndex }: { dataIndex: number }) => {
        const link = links[dataIndex];
        if (!link) return '';
        return [
          pair(link),
          `${say('links.rate')}: ${rate(link.bytesPerSecond)}`,
          `${say('links.latency')}: ${format.seconds(link.latencySeconds)}`,
          `${say('links.path')}: ${text.word('linkPath', link.path)}`,
        ].join('\n');
      }),
      xAxis: valueAxis(palette, say('links.rate'), (value) => rate(value)),
      yAxis: nameAxis(palette, links.map(pair)),
      series: [
        {
          type: 'bar',
          barMaxWidth: 22,
          label: {
            show: true,
            position: 'right',
            color: palette.text,
            formatter: ({ dataIndex }: { dataIndex: number }) => text.word('linkPath', links[dataIndex]?.path ?? ''),
          },
          data: links.map(({ bytesPerSecond, path }) => ({
            value: bytesPerSecond,
            itemStyle: { color: pathColour(path, palette) },
          })),
        },
      ],
    }),
  };
}

/** How many nodes of each pool a plan uses and leaves idle. */
export function poolUseSpec(name: string, use: readonly PoolUse[], text: Text): ChartSpec {
  const { format, say } = text;
  const idle = use.filter(({ idleNodes }) => idleNodes > 0);
  const total = use.reduce((sum, { nodeCount }) => sum + nodeCount, 0);
  const left = idle.reduce((sum, { idleNodes }) => sum + idleNodes, 0);
  const sentence =
    left === 0
      ? say('use.all', { name, count: total })
      : say('use.some', {
          name,
          count: total,
          used: format.count(total - left),
          idle: idle.map(({ pool, idleNodes }) => say('use.idleOf', { pool, count: idleNodes })).join(say('list.comma')),
        });
  const series = [
    { said: say('use.used'), colour: (palette: Palette) => palette.accent, of: (one: PoolUse) => one.nodeCount - one.idleNodes },
    { said: say('use.idle'), colour: (palette: Palette) => palette.quiet, of: (one: PoolUse) => one.idleNodes },
  ];
  return {
    name: 'nodes-by-pool',
    title: say('use.title'),
    sentence,
    height: 56 + 30 * use.length,
    legend: series.map(({ said, colour }) => ({ name: said, color: colour })),
    table: {
      columns: [
        { label: say('mix.pool') },
        { label: say('chip') },
        { label: say('cluster.count'), isNumber: true },
        ...series.map(({ said }) => ({ label: said, isNumber: true })),
      ],
      keys: ['pool', 'chip', 'node_count', 'used_node_count', 'idle_node_count'],
      rows: use.map((one) => [
        textCell(one.pool),
        textCell(one.chip),
        ...[one.nodeCount, ...series.map(({ of }) => of(one))].map((count) => numberCell(format.count(count), count)),
      ]),
    },
    option: (palette) => ({
      grid: { left: 8, right: 24, top: 4, bottom: 36, containLabel: true },
      tooltip: tooltipOf(
        palette,
        (item: { name: string; seriesName: string; value: number }) =>
          `${item.name}\n${item.seriesName}: ${format.count(item.value)}`,
      ),
      xAxis: { ...valueAxis(palette, say('cluster.count'), (value) => format.count(value)), minInterval: 1 },
      yAxis: nameAxis(palette, use.map(({ pool }) => pool)),
      series: series.map(({ said, colour, of }) => ({
        type: 'bar',
        stack: 'nodes',
        name: said,
        barMaxWidth: 20,
        itemStyle: { color: colour(palette) },
        data: use.map(of),
      })),
    }),
  };
}
