// A plan on the pools of a mixed cluster: its stages with their figures, and the nodes that it leaves idle.
import { useMemo } from 'preact/hooks';
import type { Estimate, GetStudyResponse, Plan } from '../api/wire';
import { Chart } from '../charts/chart';
import { poolUseSpec } from '../charts/pool_links';
import { stageLayersSpec } from '../charts/pools';
import { stageFiguresSpec } from '../charts/stages';
import { poolUse, stageRows } from '../parts/pools';
import { useText } from '../text/text';

export function PlanOnPools(props: { study: GetStudyResponse; name: string; plan: Plan; estimate: Estimate | undefined }) {
  const { study, name, plan, estimate } = props;
  const text = useText();
  const charts = useMemo(() => {
    const rows = stageRows(plan, estimate, study);
    const use = poolUse(plan, estimate, study);
    return {
      layers: stageLayersSpec(name, rows, text),
      figures: stageFiguresSpec(name, rows, text),
      use: use.some(({ idleNodes }) => idleNodes > 0) ? poolUseSpec(name, use, text) : undefined,
    };
  }, [study, name, plan, estimate, text]);
  return (
    <>
      <div class={charts.figures ? 'pair' : ''}>
        <Chart spec={charts.layers} />
        {charts.figures && <Chart spec={charts.figures} />}
      </div>
      {charts.use && <Chart spec={charts.use} />}
    </>
  );
}
