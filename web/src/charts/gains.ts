// The gain of each study, in the order of the studies.
import type { Gain } from '../parts/gains';
import type { Text } from '../text/text';
import { tooltipOf, valueAxis } from './axes';
import { numberCell, textCell, type ChartSpec } from './spec';

interface Placed {
  value: number[];
  gain: Gain;
}

export function gainsSpec(gains: readonly Gain[], text: Text): ChartSpec {
  const { format, say } = text;
  const best = [...gains].sort((a, b) => b.gain - a.gain)[0];
  const faster = gains.filter(({ gain }) => gain > 0);
  const placed = (isMeasured: boolean): Placed[] =>
    gains.flatMap((gain, at) =>
      gain.isBaselineMeasured === isMeasured ? [{ value: [at + 1, gain.gain], gain }] : [],
    );
  const dateOf = (at: number) => format.dateTime(gains[at - 1]?.study.create_time ?? '');
  return {
    name: 'gains-over-time',
    title: say('gains.title'),
    sentence: best
      ? say('gains.sentence', {
          faster: faster.length,
          count: gains.length,
          best: format.change(best.gain),
          name: `${best.study.model_name} (${best.study.cluster_name})`,
        })
      : say('gains.none'),
    height: 280,
    legend: [
      { name: say('gains.measured'), color: (palette) => palette.accent, shape: 'circle' },
      { name: say('gains.predicted'), color: (palette) => palette.muted, shape: 'ring' },
    ],
    table: {
      columns: [
        { label: say('gains.study') },
        { label: say('overview.created') },
        { label: say('model') },
        { label: say('cluster') },
        { label: say('plan.baseline'), isNumber: true },
        { label: say('gains.baselineRan') },
        { label: say('gains.best'), isNumber: true },
        { label: say('overview.gain'), isNumber: true },
        { label: say('runs.count'), isNumber: true },
      ],
      keys: [
        'study_id',
        'create_time',
        'model',
        'cluster',
        'baseline_step_time_seconds',
        'is_baseline_measured',
        'best_measured_step_time_seconds',
        'gain_ratio',
        'run_count',
      ],
      rows: gains.map(({ study, baselineSeconds, isBaselineMeasured, bestSeconds, gain, runCount }) => [
        textCell(study.id),
        { text: format.dateTime(study.create_time), value: study.create_time },
        textCell(study.model_name),
        textCell(study.cluster_name),
        numberCell(format.seconds(baselineSeconds), baselineSeconds),
        { text: say(isBaselineMeasured ? 'yes' : 'no'), value: isBaselineMeasured },
        numberCell(format.seconds(bestSeconds), bestSeconds),
        numberCell(format.change(gain), gain),
        numberCell(format.count(runCount), runCount),
      ]),
    },
    option: (palette) => ({
      grid: { left: 8, right: 24, top: 16, bottom: 28, containLabel: true },
      tooltip: tooltipOf(palette, ({ data }: { data?: Placed }) => {
        const gain = data?.gain;
        if (!gain) return '';
        return `${gain.study.model_name} · ${gain.study.cluster_name}\n${say('plan.baseline')}: ${format.seconds(gain.baselineSeconds)}\n${say('gains.best')}: ${format.seconds(gain.bestSeconds)} (${format.change(gain.gain)})`;
      }),
      xAxis: {
        ...valueAxis(palette, say('gains.order'), (value) =>
          Number.isInteger(value) && value >= 1 && value <= gains.length ? dateOf(value) : '',
        ),
        min: 0,
        max: gains.length + 1,
        minInterval: 1,
        splitNumber: 4,
        splitLine: { show: false },
      },
      yAxis: valueAxis(palette, '', (value) => format.axisChange(value)),
      series: [
        {
          type: 'scatter',
          name: say('gains.measured'),
          symbol: 'circle',
          symbolSize: 12,
          itemStyle: { color: palette.accent },
          data: placed(true),
        },
        {
          type: 'scatter',
          name: say('gains.predicted'),
          symbol: 'circle',
          symbolSize: 11,
          itemStyle: { color: 'transparent', borderColor: palette.muted, borderWidth: 2 },
          data: placed(false),
        },
      ],
    }),
  };
}
