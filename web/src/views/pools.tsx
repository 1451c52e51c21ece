// A study of a mixed cluster: whether to mix its pools and why, and what each pool holds and does.
import { useMemo } from 'preact/hooks';
import { api } from '../api/client';
import { embedded } from '../api/embedded';
import { useRead } from '../api/use_read';
import type { GetStudyResponse, Heterogeneous } from '../api/wire';
import { Chart } from '../charts/chart';
import { stagesSpec } from '../charts/memory';
import { clusterFacts } from '../charts/cluster';
import { poolLinksSpec } from '../charts/pool_links';
import { poolSetsSpec, stageTimesSpec } from '../charts/pools';
import { alternativesOf } from '../parts/alternatives';
import { FilterBar, SelectFilter } from '../parts/filters';
import { ListTable } from '../parts/list_table';
import { Shown, Tile } from '../parts/pieces';
import { planLine } from '../parts/plan_words';
import { setName, shownPlans, stageName, stageRows, type ShownPlan } from '../parts/pools';
import { timelineOf } from '../parts/trace';
import { linkTo, type Place } from '../router';
import { useText, type Text } from '../text/text';
import { PlanOnPools } from './plan_on_pools';

/** Returns whether to mix, in a few words. */
export const mixWords = ({ mix_verdict }: Heterogeneous, text: Text): string =>
  mix_verdict === 'mix' ? text.say('mix.yes') : mix_verdict === 'one_pool' ? text.say('mix.no') : text.say('verdict.nothing');

/** The verdict about mixing with its figures, and the throughput of each set of pools. */
export function MixSummary({ study, answer }: { study: GetStudyResponse; answer: Heterogeneous }) {
  const text = useText();
  const { format, say } = text;
  const sets = useMemo(() => poolSetsSpec(answer, text), [answer, text]);
  const mix = answer.best_by_pool_set.find(({ pools }) => pools.length > 1);
  const hasAlone = answer.lower_bound_tokens_per_second > 0;
  const { bottleneck } = answer;
  const pools = study.question?.cluster?.pools ?? [];
  const left = pools.filter(({ name = '' }) => !(name in answer.tokens_per_second_by_pool)).map(({ name }) => name ?? '');
  return (
    <>
      <section class="verdict" aria-labelledby="mix">
        <h3 id="mix">{mixWords(answer, text)}</h3>
        {answer.reason !== '' && (
          <p lang="en" class="reason">
            {answer.reason}
          </p>
        )}
        {left.length > 0 && <p>{say('mix.cannotHold', { pools: left.join(say('list.comma')) })}</p>}
      </section>
      <dl class="tiles">
        {mix && (
          <Tile label={say('mix.tokens')} value={format.rate(mix.tokens_per_second)} note={say('mix.byFastest', { pools: setName(mix.pools) })} />
        )}
        {mix && hasAlone && (
          <Tile
            label={say('mix.gain')}
            value={format.change(answer.gain_ratio - 1)}
            note={
              answer.gain_low_ratio === undefined
                ? say('mix.gainNote')
                : say('mix.gainLow', { change: format.change(answer.gain_low_ratio - 1) })
            }
          />
        )}
        {mix && answer.upper_bound_tokens_per_second > 0 && (
          <Tile label={say('mix.efficiency')} value={format.percent(answer.efficiency_ratio)} note={say('mix.efficiencyNote')} />
        )}
        {bottleneck && (
          <Tile
            label={say('mix.limit')}
            value={bottleneck.pool}
            note={say('mix.limitNote', {
              number: String(bottleneck.stage + 1),
              cause: text.word('mixCause', bottleneck.cause),
            })}
          />
        )}
      </dl>
      <Chart spec={sets} />
    </>
  );
}

function Generations({ answer }: { answer: Heterogeneous }) {
  const text = useText();
  const { format, say } = text;
  if (answer.generations.length === 0) return null;
  return (
    <section class="card">
      <h3>{say('mix.generations')}</h3>
      {answer.generations.length > 1 && <p class="quiet">{say('mix.generationsNote')}</p>}
      <ListTable
        isInner
        caption={say('mix.generations')}
        columns={[
          { label: say('mix.generation') },
          { label: say('mix.tokens'), isNumber: true },
          { label: say('mix.efficiency'), isNumber: true },
        ]}
        rows={answer.generations.map(({ name, tokens_per_second, efficiency_ratio }) => ({
          key: name,
          cells: [text.word('generation', name), format.rate(tokens_per_second), format.percent(efficiency_ratio)],
        }))}
      />
    </section>
  );
}

/** How long the stages work and wait; the server simulates it for the plans of the answer. */
function Times({ study, shown }: { study: GetStudyResponse; shown: ShownPlan }) {
  const text = useText();
  const id = study.study?.id ?? '';
  const { rank } = shown;
  const reading = useRead(`trace ${id} ${rank}`, async (signal) => {
    if (rank === undefined || embedded || id === '') return { trace: undefined };
    return { trace: await api.trace(id, rank, signal) };
  });
  const spec = useMemo(() => {
    const trace = reading.data?.trace;
    return trace && stageTimesSpec(shown.name, stageRows(shown.plan, shown.estimate, study), timelineOf(trace), text);
  }, [reading.data, shown, study, text]);
  if (embedded) return <p class="card">{text.say('timeline.notInFile')}</p>;
  if (rank === undefined) return <p class="card">{text.say('mix.notInAnswer')}</p>;
  return <Shown reading={reading}>{() => (spec ? <Chart spec={spec} /> : null)}</Shown>;
}

export function PoolsPage({ study, place }: { study: GetStudyResponse; place: Place }) {
  const text = useText();
  const { say } = text;
  const answer = study.result?.heterogeneous;
  const plans = useMemo(
    () => (answer ? shownPlans(alternativesOf(study, text), answer, text) : []),
    [study, answer, text],
  );
  const shown = plans.find(({ key }) => key === place.query['plan']) ?? plans[0];
  const memory = useMemo(() => {
    if (!shown?.estimate) return undefined;
    const rows = stageRows(shown.plan, shown.estimate, study);
    return stagesSpec(shown.estimate, text, rows.map((row) => ({ ...row, name: stageName(row, text) })));
  }, [shown, study, text]);
  const links = useMemo(() => {
    const cluster = study.question?.cluster;
    if (!cluster || cluster.pools.length < 2) return undefined;
    const defaults = study.result?.applied_defaults ?? [];
    return poolLinksSpec(clusterFacts(cluster, defaults, study.study?.device_count ?? 0).links, text);
  }, [study, text]);
  if (!answer) return <p class="card empty">{say('mix.none')}</p>;
  return (
    <div class="stack">
      <MixSummary study={study} answer={answer} />
      {shown && (
        <>
          <FilterBar>
            <SelectFilter
              place={{ ...place, query: { ...place.query, plan: shown.key } }}
              name="plan"
              label={say('plan')}
              none={null}
              options={plans.map(({ key, name, plan }) => ({ value: key, label: `${name}: ${planLine(plan, text)}` }))}
            />
          </FilterBar>
          <p class="plan-line">{planLine(shown.plan, text)}</p>
          <PlanOnPools study={study} name={shown.name} plan={shown.plan} estimate={shown.estimate} />
          {memory && <Chart spec={memory} />}
          <Times study={study} shown={shown} />
          {shown.rank !== undefined && (
            <p class="links">
              <a href={linkTo(['studies', study.study?.id ?? '', 'plans', String(shown.rank)])}>{shown.name}</a>
            </p>
          )}
        </>
      )}
      {links && <Chart spec={links} />}
      <Generations answer={answer} />
    </div>
  );
}
