// The communication of a plan: the time that each kind of group adds to a step, and its link.
import type { Estimate } from '../api/wire';
import type { GroupKind, Groups } from '../parts/rank_layout';
import type { Text } from '../text/text';
import { nameAxis, tooltipOf, valueAxis } from './axes';
import { fabricText, groupName, nicText, type ClusterLayout } from './cluster';
import { numberCell, textCell, type ChartSpec } from './spec';

/** The lines of the breakdown that groups of a kind cause; groups of other kinds have no line of their own. */
const causes: Partial<Record<GroupKind, string>> = {
  tensor: 'tensor_parallel',
  context: 'context_parallel',
  expert: 'expert_parallel',
  data: 'data_parallel',
  pipeline: 'pipeline_p2p',
};

export interface GroupTraffic {
  group: Groups;
  seconds: number;
  crossesNodes: boolean;
}

/** Returns the kinds of groups that add time to a step, the most first. */
export function trafficOf(groups: readonly Groups[], breakdown: Record<string, number>): GroupTraffic[] {
  return groups
    .flatMap((group) => {
      const cause = causes[group.kind];
      return cause === undefined ? [] : [{ group, seconds: breakdown[cause] ?? 0, crossesNodes: group.mostNodes > 1 }];
    })
    .filter(({ group, seconds }) => seconds > 0 || group.size > 1)
    .sort((a, b) => b.seconds - a.seconds);
}

/** Returns the links of the pools in words; several pools have several. */
function linkText({ crossesNodes }: GroupTraffic, layout: ClusterLayout, text: Text): string {
  const links = layout.facts.pools.map((pool) => (crossesNodes ? nicText(pool, text) : fabricText(pool, text)));
  return [...new Set(links)].join(text.say('list.comma'));
}

/** The communication of each kind of group that nothing hides; undefined if no group communicates. */
export function communicationSpec(
  name: string,
  estimate: Estimate,
  layout: ClusterLayout,
  text: Text,
): ChartSpec | undefined {
  const { format, say } = text;
  const rows = trafficOf(layout.groups, estimate.breakdown_seconds);
  if (rows.length === 0) return undefined;
  const step = estimate.step_time_seconds;
  const total = rows.reduce((sum, { seconds }) => sum + seconds, 0);
  const across = rows.filter(({ crossesNodes }) => crossesNodes).reduce((sum, { seconds }) => sum + seconds, 0);
  const names = rows.map(({ group }) => groupName(group, text));
  const nodesOf = ({ leastNodes, mostNodes }: Groups) =>
    leastNodes === mostNodes ? format.count(mostNodes) : `${format.count(leastNodes)} – ${format.count(mostNodes)}`;
  return {
    name: 'communication',
    title: say('communication.title'),
    sentence: say('communication.sentence', {
      name,
      share: format.percent(step > 0 ? total / step : 0),
      time: format.seconds(total),
      across: format.seconds(across),
    }),
    height: 24 + 34 * rows.length,
    legend: [
      { name: say('communication.inside'), color: (palette) => palette.accent },
      { name: say('communication.across'), color: (palette) => palette.time['tensor_parallel'] ?? palette.warn },
    ],
    table: {
      columns: [
        { label: say('cluster.group') },
        { label: say('cluster.size'), isNumber: true },
        { label: say('cluster.groupNodes'), isNumber: true },
        { label: say('communication.link') },
        { label: say('communication.time'), isNumber: true },
        { label: say('communication.share'), isNumber: true },
      ],
      keys: ['group', 'rank_count', 'most_node_count', 'link', 'exposed_seconds', 'share_of_step_ratio'],
      rows: rows.map((row) => [
        { text: groupName(row.group, text), value: row.group.kind },
        numberCell(format.count(row.group.size), row.group.size),
        { text: nodesOf(row.group), value: row.group.mostNodes },
        textCell(linkText(row, layout, text)),
        numberCell(format.seconds(row.seconds), row.seconds),
        numberCell(format.percent(step > 0 ? row.seconds / step : 0), step > 0 ? row.seconds / step : 0),
      ]),
    },
    option: (palette) => ({
      grid: { left: 8, right: 72, top: 4, bottom: 4, containLabel: true },
      tooltip: tooltipOf(palette, ({ name: group, dataIndex }: { name: string; dataIndex: number }) => {
        const row = rows[dataIndex];
        return row ? `${group}: ${format.seconds(row.seconds)}\n${linkText(row, layout, text)}` : group;
      }),
      xAxis: valueAxis(palette, '', (value) => format.axisSeconds(value)),
      yAxis: nameAxis(palette, names),
      series: [
        {
          type: 'bar',
          barMaxWidth: 18,
          label: {
            show: true,
            position: 'right',
            color: palette.text,
            formatter: (item: { value: number }) => format.seconds(item.value),
          },
          data: rows.map(({ seconds, crossesNodes }) => ({
            value: seconds,
            itemStyle: { color: crossesNodes ? palette.time['tensor_parallel'] : palette.accent },
          })),
        },
      ],
    }),
  };
}
