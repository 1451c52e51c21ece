// One plan of a study: where its time and memory go, its settings, and what its figures rest on.
import { useMemo } from 'preact/hooks';
import { api } from '../api/client';
import { useRead } from '../api/use_read';
import type { GetStudyResponse, RankedPlan } from '../api/wire';
import { Chart } from '../charts/chart';
import { clusterFacts, layoutOf } from '../charts/cluster';
import { communicationSpec } from '../charts/communication';
import { memorySpec, stagesSpec } from '../charts/memory';
import { breakdownSpec } from '../charts/step_time';
import { uncertaintySpec } from '../charts/uncertainty';
import { alternativesOf, judgedSeconds } from '../parts/alternatives';
import { LaunchBox } from '../parts/launch';
import { ServerSentences, Shown, Tile } from '../parts/pieces';
import { isMixed, stageName, stageRows, tokensNote } from '../parts/pools';
import { planLine, settingsOf } from '../parts/plan_words';
import { linkTo } from '../router';
import { useText } from '../text/text';
import { PlanOnPools } from './plan_on_pools';

/** Returns the plan of a rank as the study's answer has it, which also has its flags. */
function inAnswer(study: GetStudyResponse, rank: number): RankedPlan | undefined {
  return rank === 0 ? study.result?.baseline : study.result?.plans[rank - 1];
}

export function PlanPage({ study, rank }: { study: GetStudyResponse; rank: string }) {
  const text = useText();
  const number = Number(rank);
  const id = study.study?.id ?? '';
  const isRank = Number.isInteger(number) && number >= 0;
  const answered = isRank ? inAnswer(study, number) : undefined;
  const reading = useRead(`plan ${id} ${rank} ${answered !== undefined}`, async (signal) => {
    if (answered || !isRank) return { found: answered };
    // Plans are listed in the order of their ranks, the baseline (0) first.
    const page = await api.plans(id, { page_size: number < 100 ? 100 : Math.min(number + 1, 1000) }, signal);
    return { found: page.plans.find((plan) => plan.rank === number) };
  });
  return (
    <Shown reading={reading}>
      {({ found }) =>
        found ? (
          <Detail study={study} ranked={found} rank={number} />
        ) : (
          <div class="card empty">
            <h2>{text.say('plan.unknown', { rank })}</h2>
            <a href={linkTo(['studies', id, 'plans'])}>{text.say('tab.plans')}</a>
          </div>
        )
      }
    </Shown>
  );
}

function Detail({ study, ranked, rank }: { study: GetStudyResponse; ranked: RankedPlan; rank: number }) {
  const text = useText();
  const { format, say } = text;
  const estimate = ranked.estimate;
  const alternatives = useMemo(() => alternativesOf(study, text), [study, text]);
  const name =
    alternatives.find(({ plan }) => plan.plan_digest === ranked.plan_digest)?.name ??
    say('plan.name', { rank: String(rank) });
  const self = alternatives.find(({ plan }) => plan.plan_digest === ranked.plan_digest) ?? {
    rank,
    name,
    plan: ranked,
  };
  const chosen = alternatives[0];
  const isChosen = chosen?.plan.plan_digest === ranked.plan_digest;
  const charts = useMemo(() => {
    if (!estimate) return undefined;
    const rows = isMixed(study) && ranked.plan ? stageRows(ranked.plan, estimate, study) : undefined;
    const rooms = rows?.map((row) => ({ ...row, name: stageName(row, text) }));
    return {
      breakdown: breakdownSpec(chosen && !isChosen ? [self, chosen] : [self], text),
      uncertainty: uncertaintySpec(name, estimate, text),
      memory: memorySpec(estimate, text),
      stages: estimate.peak_memory_bytes_by_stage.length > 1 ? stagesSpec(estimate, text, rooms) : undefined,
    };
  }, [ranked, study, text]);
  const communication = useMemo(() => {
    const cluster = study.question?.cluster;
    if (!estimate || !cluster || !ranked.plan) return undefined;
    const facts = clusterFacts(cluster, study.result?.applied_defaults ?? [], study.study?.device_count ?? 0);
    const layout = layoutOf(facts, ranked.plan);
    return layout && communicationSpec(name, estimate, layout, text);
  }, [ranked, study, name, text]);
  const settings = ranked.plan ? Object.entries(settingsOf(ranked.plan, text)) : [];
  if (!estimate || !charts) return null;
  const defaults = study.result?.applied_defaults ?? [];
  return (
    <div class="stack">
      <div>
        <h2>
          {name}
          {isChosen && <span class="badge chosen-badge">{say('plan.chosen')}</span>}
        </h2>
        <p class="plan-line">{ranked.plan ? planLine(ranked.plan, text) : ''}</p>
      </div>
      <dl class="tiles">
        <Tile
          label={say('stepTime')}
          value={format.seconds(judgedSeconds(self))}
          note={format.secondsRange(estimate.step_time_low_seconds, estimate.step_time_high_seconds)}
        />
        <Tile label={say('tokens')} value={format.rate(estimate.tokens_per_second_per_device)} note={tokensNote(ranked.plan, study, text)} />
        <Tile label={say('mfu')} value={format.percent(estimate.model_flops_utilization_ratio)} note={say('mfu.note')} />
        <Tile
          label={say('fit')}
          value={format.probability(estimate.fit_probability_ratio)}
          note={say('fit.note')}
          tone={estimate.fit_probability_ratio < 0.95 ? 'warn' : ''}
        />
        <Tile label={say('provenance')} value={text.word('provenance', estimate.provenance)} note={say('provenance.note')} />
        <Tile label={say('tier')} value={text.word('provenance', estimate.tier)} note={say('tier.note')} />
      </dl>
      <Chart spec={charts.breakdown} />
      {charts.uncertainty && <Chart spec={charts.uncertainty} />}
      {communication && <Chart spec={communication} />}
      <div class={charts.stages ? 'pair' : ''}>
        <Chart spec={charts.memory} />
        {charts.stages && <Chart spec={charts.stages} />}
      </div>
      {isMixed(study) && ranked.plan && (
        <PlanOnPools study={study} name={name} plan={ranked.plan} estimate={estimate} />
      )}
      <section class="card">
        <h3>{say('plan.settings')}</h3>
        <dl class="settings">
          {settings.map(([field, value]) => (
            <div key={field}>
              <dt>{text.word('field', field)}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
      </section>
      {Object.keys(ranked.exports).length > 0 && <LaunchBox ranked={ranked} />}
      <ServerSentences title={say('warnings')} sentences={estimate.warnings} />
      {defaults.length > 0 && (
        <section class="card">
          <details>
            <summary>{say('defaults.title', { count: defaults.length })}</summary>
            <div class="scroll" tabIndex={0} role="region" aria-label={say('defaults.title', { count: defaults.length })}>
              <table>
                <caption class="hidden">{say('defaults.title', { count: defaults.length })}</caption>
                <thead>
                  <tr>
                    <th scope="col">{say('changes.field')}</th>
                    <th scope="col">{say('defaults.value')}</th>
                    <th scope="col">{say('defaults.source')}</th>
                  </tr>
                </thead>
                <tbody>
                  {defaults.map(({ field, value, source }) => (
                    <tr key={field}>
                      <th scope="row">{field}</th>
                      <td>{value}</td>
                      <td lang="en">{source}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          </details>
        </section>
      )}
    </div>
  );
}
