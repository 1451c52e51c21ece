// The verdict of a study: what to launch, what it risks, and why the others lost.
import { useMemo } from 'preact/hooks';
import type { GetStudyResponse, Infeasible, TuneResult } from '../api/wire';
import { Chart } from '../charts/chart';
import { breakdownSpec, differenceSpec, intervalsSpec } from '../charts/step_time';
import { alternativesOf, judgedSeconds, type Alternative } from '../parts/alternatives';
import { LaunchBox } from '../parts/launch';
import { Gauge, ServerSentences, Tile, Value } from '../parts/pieces';
import { differencesOf, planLine, settingsOf } from '../parts/plan_words';
import { devicesOf, isMixed, tokensNote } from '../parts/pools';
import { goTo, linkTo, type Place } from '../router';
import { useText, type Text } from '../text/text';
import { PlanOnPools } from './plan_on_pools';
import { MixSummary } from './pools';

// `id` is empty if the answer is kept in no study.
function Verdict({ id, result, chosen }: { id: string; result: TuneResult; chosen: Alternative }) {
  const text = useText();
  const { format, say } = text;
  const estimate = chosen.plan.estimate;
  const keeps = result.recommendation === 'keep_yours';
  return (
    <section class="verdict" aria-labelledby="verdict">
      <h2 id="verdict">{say(keeps ? 'verdict.keep' : 'verdict.launch')}</h2>
      <p class="plan-line">{planLine(chosen.plan.plan ?? emptyPlan, text)}</p>
      {estimate && (
        <p>
          {text.join(
            chosen.measuredSeconds === undefined
              ? say('verdict.predicted', {
                  time: format.seconds(estimate.step_time_seconds),
                  range: format.secondsRange(estimate.step_time_low_seconds, estimate.step_time_high_seconds),
                })
              : say('verdict.measured', {
                  time: format.seconds(chosen.measuredSeconds),
                  predicted: format.seconds(chosen.expectedSeconds ?? 0),
                }),
            say('verdict.fit', { probability: format.probability(estimate.fit_probability_ratio) }),
          )}
        </p>
      )}
      {result.reason !== '' && (
        <p lang="en" class="reason">
          {result.reason}
        </p>
      )}
      <p class="links">
        {Object.keys(chosen.plan.exports).length > 0 && (
          <a href="#launch" onClick={scrollToLaunch}>
            {say('verdict.toFlags')}
          </a>
        )}
        {result.heterogeneous && id !== '' && (
          <a href={linkTo(['studies', id, 'pools'])}>{say('mix.toPools')}</a>
        )}
      </p>
    </section>
  );
}

// The address behind '#' is the place in the dashboard, so a link within a page moves by itself.
function scrollToLaunch(event: Event) {
  event.preventDefault();
  const launch = document.getElementById('launch');
  launch?.scrollIntoView();
  launch?.querySelector<HTMLElement>('button.primary')?.focus();
}

const emptyPlan = { layers_per_stage: [], stages: [], pools: [] };

function Figures({ study, result, chosen }: { study: GetStudyResponse; result: TuneResult; chosen: Alternative }) {
  const text = useText();
  const { format, say } = text;
  const estimate = chosen.plan.estimate;
  if (!estimate) return null;
  const used = estimate.reserved_memory_bytes / estimate.memory_capacity_bytes;
  const free = estimate.memory_capacity_bytes - estimate.reserved_memory_bytes;
  const baseline = result.baseline?.estimate;
  const isBaseline = result.baseline?.plan_digest === chosen.plan.plan_digest;
  return (
    <dl class="tiles">
      <Tile
        label={say('stepTime')}
        value={format.seconds(judgedSeconds(chosen))}
        note={format.secondsRange(estimate.step_time_low_seconds, estimate.step_time_high_seconds)}
      />
      <Tile
        label={say('tokens')}
        value={format.rate(estimate.tokens_per_second_per_device)}
        note={tokensNote(chosen.plan.plan, study, text)}
      />
      <Tile label={say('mfu')} value={format.percent(estimate.model_flops_utilization_ratio)} note={say('mfu.note')} />
      <div class="tile">
        <dt>{say('memory.inUse')}</dt>
        <dd>{format.gib(estimate.reserved_memory_bytes)}</dd>
        <dd class="note">
          <Gauge ratio={used} isBad={free < 0} label={format.percent(used)} />
          {say('memory.freeOf', {
            free: format.gib(Math.max(free, 0)),
            capacity: format.gib(estimate.memory_capacity_bytes),
          })}
        </dd>
      </div>
      <Tile
        label={say('fit')}
        value={format.probability(estimate.fit_probability_ratio)}
        note={say('fit.note')}
        tone={estimate.fit_probability_ratio < 0.95 ? 'warn' : ''}
      />
      {baseline && (
        <Tile
          label={say('gain')}
          value={
            isBaseline
              ? '±0'
              : format.change(baseline.step_time_seconds / estimate.step_time_seconds - 1)
          }
          note={
            isBaseline
              ? say('gain.isBaseline')
              : say('gain.note', { time: format.seconds(baseline.step_time_seconds) })
          }
        />
      )}
    </dl>
  );
}

interface KindRow {
  label: string;
  values: string[];
  isSetting: boolean;
}

/** The figures and the settings of each alternative; settings equal in all are told in one line. */
export function kindRows(
  alternatives: readonly Alternative[],
  text: Text,
  changeLabel = text.say('kinds.change'),
): { rows: KindRow[]; equal: string[] } {
  const { format, say } = text;
  const of = (show: (alternative: Alternative) => string) => alternatives.map(show);
  const chosen = alternatives[0];
  const figures: Omit<KindRow, 'isSetting'>[] = [
    {
      label: say('stepTime'),
      values: of(({ plan }) => format.seconds(plan.estimate?.step_time_seconds ?? 0)),
    },
    {
      label: say('interval'),
      values: of(({ plan }) =>
        format.secondsRange(
          plan.estimate?.step_time_low_seconds ?? 0,
          plan.estimate?.step_time_high_seconds ?? 0,
        ),
      ),
    },
    {
      label: say('measured'),
      values: of(({ measuredSeconds }) =>
        measuredSeconds === undefined ? '–' : format.seconds(measuredSeconds),
      ),
    },
    {
      label: say('trials.expected'),
      values: of(({ expectedSeconds }) =>
        expectedSeconds === undefined ? '–' : format.seconds(expectedSeconds),
      ),
    },
    {
      label: changeLabel,
      values: of((alternative) =>
        chosen === undefined || alternative === chosen
          ? '–'
          : format.change(judgedSeconds(alternative) / judgedSeconds(chosen) - 1),
      ),
    },
    {
      label: say('kinds.fastest'),
      values: of(({ plan }) =>
        plan.fastest_probability_ratio === undefined
          ? '–'
          : format.probability(plan.fastest_probability_ratio),
      ),
    },
    {
      label: say('fit'),
      values: of(({ plan }) => format.probability(plan.estimate?.fit_probability_ratio ?? 0)),
    },
    {
      label: say('memory.headroom'),
      values: of(({ plan }) =>
        format.gib(
          (plan.estimate?.memory_capacity_bytes ?? 0) - (plan.estimate?.reserved_memory_bytes ?? 0),
        ),
      ),
    },
    {
      label: say('tokens'),
      values: of(({ plan }) => format.rate(plan.estimate?.tokens_per_second_per_device ?? 0)),
    },
    // With idle pools, plans use unequally many devices.
    ...(new Set(alternatives.map(({ plan }) => devicesOf(plan.plan ?? emptyPlan))).size > 1
      ? [
          { label: say('mix.devices'), values: of(({ plan }) => format.count(devicesOf(plan.plan ?? emptyPlan))) },
          {
            label: say('mix.tokens'),
            values: of(({ plan }) =>
              format.rate((plan.estimate?.tokens_per_second_per_device ?? 0) * devicesOf(plan.plan ?? emptyPlan)),
            ),
          },
        ]
      : []),
    {
      label: say('kinds.alike'),
      values: of(({ plan }) => format.count(plan.like_count)),
    },
  ];
  const isEmpty = (row: { values: string[] }) => row.values.every((value) => value === '–');
  const rows: KindRow[] = figures
    .filter((row) => !isEmpty(row))
    .map((row) => ({ ...row, isSetting: false }));
  const settings = alternatives.map(({ plan }) => settingsOf(plan.plan ?? emptyPlan, text));
  const fields = [...new Set(settings.flatMap((map) => Object.keys(map)))];
  const equal: string[] = [];
  for (const field of fields) {
    const values = settings.map((map) => map[field] ?? '–');
    const label = text.word('field', field);
    if (values.every((value) => value === values[0])) equal.push(`${label} ${values[0]}`);
    else rows.push({ label, values, isSetting: true });
  }
  return { rows, equal };
}

// `id` is empty if the answer is kept in no study.
function Kinds({ id, alternatives }: { id: string; alternatives: readonly Alternative[] }) {
  const text = useText();
  const { rows, equal } = useMemo(() => kindRows(alternatives, text), [alternatives, text]);
  return (
    <section class="card">
      <h3>{text.say('kinds.title')}</h3>
      <p class="quiet">{text.say('kinds.lead')}</p>
      <div class="scroll" tabIndex={0} role="region" aria-label={text.say('kinds.title')}>
        <table class="kinds">
          <caption class="hidden">{text.say('kinds.title')}</caption>
          <thead>
            <tr>
              <th scope="col">{text.say('kinds.what')}</th>
              {alternatives.map(({ rank, name }, at) => (
                <th scope="col" key={rank} class={`number ${at === 0 ? 'chosen' : ''}`}>
                  {id === '' ? name : <a href={linkTo(['studies', id, 'plans', String(rank)])}>{name}</a>}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map(({ label, values, isSetting }, row) => (
              <tr
                key={label}
                class={isSetting && !rows[row - 1]?.isSetting ? 'first-setting' : ''}
              >
                <th scope="row">{label}</th>
                {values.map((value, at) => (
                  <td
                    key={at}
                    class={`number ${at === 0 ? 'chosen' : ''} ${isSetting && value !== values[0] ? 'differs' : ''}`}
                  >
                    <Value text={value} />
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {equal.length > 0 && (
        <details>
          <summary>{text.say('kinds.equal', { count: equal.length })}</summary>
          <p>{equal.join(' · ')}</p>
        </details>
      )}
    </section>
  );
}

function Changes({ result, chosen }: { result: TuneResult; chosen: Alternative }) {
  const text = useText();
  const { say } = text;
  const baseline = result.baseline?.plan;
  if (!baseline || !chosen.plan.plan) return null;
  const changes = differencesOf(baseline, chosen.plan.plan, text);
  return (
    <section class="card">
      <h3>{say('changes.title')}</h3>
      {changes.length === 0 ? (
        <p>{say('changes.none')}</p>
      ) : (
        <div class="scroll" tabIndex={0} role="region" aria-label={say('changes.title')}>
          <table>
            <caption class="hidden">{say('changes.title')}</caption>
            <thead>
              <tr>
                <th scope="col">{say('changes.field')}</th>
                <th scope="col" class="number">
                  {say('plan.baseline')}
                </th>
                <th scope="col" class="number">
                  {chosen.name}
                </th>
              </tr>
            </thead>
            <tbody>
              {changes.map(({ field, first, second }) => (
                <tr key={field}>
                  <th scope="row">{text.word('field', field)}</th>
                  <td class="number">
                    <Value text={first} />
                  </td>
                  <td class="number">
                    <Value text={second} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function NothingFits({ infeasible }: { infeasible: Infeasible }) {
  const text = useText();
  const { format, say } = text;
  const plan = infeasible.nearest?.plan;
  return (
    <div class="stack">
      <section class="verdict bad" aria-labelledby="verdict">
        <h2 id="verdict">{say('verdict.nothing')}</h2>
        {plan && (
          <p>
            {say('verdict.missing', {
              missing: format.gib(infeasible.missing_bytes),
              kind: text.word('memory', infeasible.binding_memory_kind),
            })}
          </p>
        )}
        {plan && (
          <p>
            {say('verdict.nearest')} <span class="plan-line">{planLine(plan, text)}</span>
          </p>
        )}
      </section>
      <ServerSentences title={say(plan ? 'verdict.remedies' : 'verdict.left_out')} sentences={infeasible.suggestions} />
    </div>
  );
}

export function Decision({ study, place }: { study: GetStudyResponse; place: Place }) {
  const text = useText();
  const { say } = text;
  const alternatives = useMemo(() => alternativesOf(study, text), [study, text]);
  const others = alternatives.slice(1);
  const other = others.find(({ rank }) => String(rank) === place.query['against']) ?? others[0];
  const charts = useMemo(() => {
    const chosen = alternatives[0];
    return {
      intervals: intervalsSpec(alternatives, text),
      difference: chosen && other ? differenceSpec(chosen, other, text) : undefined,
      breakdown: breakdownSpec(alternatives.slice(0, 6), text),
    };
  }, [alternatives, other, text]);
  if (study.infeasible) return <NothingFits infeasible={study.infeasible} />;
  const chosen = alternatives[0];
  const id = study.study?.id ?? '';
  const result = study.result;
  if (!result || !chosen) {
    const error = study.study?.error_message ?? '';
    return (
      <section class={`verdict ${error === '' ? 'quiet-verdict' : 'bad'}`} aria-labelledby="verdict">
        <h2 id="verdict">{say(error === '' ? 'verdict.notYet' : 'verdict.failed')}</h2>
        {error !== '' && <p lang="en">{error}</p>}
      </section>
    );
  }
  return (
    <div class="stack">
      <Verdict id={id} result={result} chosen={chosen} />
      <Figures study={study} result={result} chosen={chosen} />
      {result.heterogeneous && id === '' && <MixSummary study={study} answer={result.heterogeneous} />}
      <LaunchBox ranked={chosen.plan} />
      {isMixed(study) && chosen.plan.plan && (
        <PlanOnPools study={study} name={chosen.name} plan={chosen.plan.plan} estimate={chosen.plan.estimate} />
      )}
      <Kinds id={id} alternatives={alternatives} />
      <div class="pair">
        <Chart spec={charts.intervals} />
        {charts.difference && (
          <Chart spec={charts.difference}>
            <label>
              {say('difference.against')}{' '}
              <select
                value={String(other?.rank)}
                onChange={(event) =>
                  goTo(linkTo(place.path, { ...place.query, against: event.currentTarget.value }), true)
                }
              >
                {others.map(({ rank, name }) => (
                  <option key={rank} value={String(rank)}>
                    {name}
                  </option>
                ))}
              </select>
            </label>
          </Chart>
        )}
      </div>
      <Chart spec={charts.breakdown} />
      <Changes result={result} chosen={chosen} />
      <ServerSentences title={say('warnings')} sentences={result.warnings} />
    </div>
  );
}
