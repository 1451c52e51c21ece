// Two plans of a study side by side: figures, settings, and where their times and memory differ.
import { useMemo } from 'preact/hooks';
import { api } from '../api/client';
import { useRead } from '../api/use_read';
import type { GetStudyResponse, RankedPlan } from '../api/wire';
import { Chart } from '../charts/chart';
import { memoryPairSpec } from '../charts/memory';
import { breakdownSpec, differenceSpec, intervalsSpec } from '../charts/step_time';
import { alternativesOf, type Alternative } from '../parts/alternatives';
import { FilterBar, SelectFilter } from '../parts/filters';
import { ListTable } from '../parts/list_table';
import { Shown, Value } from '../parts/pieces';
import { planLine } from '../parts/plan_words';
import { linkTo, type Place } from '../router';
import { useText, type Text } from '../text/text';
import { kindRows } from './decision';

/** Plans that can be chosen beyond those of the answer. */
const listedCount = 100;

/** Returns the plans of the answer, then those that were only listed, by rank. */
export function comparable(study: GetStudyResponse, listed: readonly RankedPlan[], text: Text): Alternative[] {
  const answered = alternativesOf(study, text);
  const known = new Set(answered.map(({ plan }) => plan.plan_digest));
  const others = listed
    .filter(({ plan_digest, rank }) => !known.has(plan_digest) && rank !== undefined)
    .map((plan) => {
      const rank = plan.rank ?? 0;
      return { rank, name: text.say('plan.name', { rank: String(rank) }), plan };
    });
  return [...answered, ...others];
}

function Sides({ id, first, second }: { id: string; first: Alternative; second: Alternative }) {
  const text = useText();
  const { say } = text;
  const shown = useMemo(
    () => ({
      rows: kindRows([first, second], text, say('compare.change', { name: first.name })),
      difference: differenceSpec(first, second, text),
      intervals: intervalsSpec([first, second], text),
      breakdown: breakdownSpec([first, second], text),
      memory: memoryPairSpec([first, second], text),
    }),
    [first, second, text],
  );
  const { rows, equal } = shown.rows;
  return (
    <div class="stack">
      <section class="card">
        <h3>{say('compare.table')}</h3>
        <ListTable
          isInner
          caption={say('compare.table')}
          columns={[
            { label: say('kinds.what') },
            { label: first.name, isNumber: true },
            { label: second.name, isNumber: true },
          ]}
          rows={rows.map(({ label, values, isSetting }) => ({
            key: label,
            cells: [label, ...values.map((value, at) => <Value key={at} text={value} />)],
            tone: isSetting ? 'differs' : '',
          }))}
        />
        {equal.length > 0 && (
          <details>
            <summary>{say('kinds.equal', { count: equal.length })}</summary>
            <p>{equal.join(' · ')}</p>
          </details>
        )}
        <p class="links">
          {[first, second].map(({ rank, name }) => (
            <a key={rank} href={linkTo(['studies', id, 'plans', String(rank)])}>
              {name}
            </a>
          ))}
        </p>
      </section>
      <div class="pair">
        <Chart spec={shown.difference} />
        <Chart spec={shown.intervals} />
      </div>
      <div class="pair">
        <Chart spec={shown.breakdown} />
        <Chart spec={shown.memory} />
      </div>
    </div>
  );
}

export function Compare({ study, place }: { study: GetStudyResponse; place: Place }) {
  const text = useText();
  const { say } = text;
  const id = study.study?.id ?? '';
  const reading = useRead(`plans of ${id}`, (signal) => api.plans(id, { page_size: listedCount }, signal));
  const listed = reading.data?.plans;
  const plans = useMemo(() => comparable(study, listed ?? [], text), [study, listed, text]);
  const first = plans.find(({ rank }) => String(rank) === place.query['first']) ?? plans[0];
  const others = plans.filter((plan) => plan !== first);
  const second = others.find(({ rank }) => String(rank) === place.query['second']) ?? others[0];
  const option = ({ rank, name, plan }: Alternative) => ({
    value: String(rank),
    label: `${name}: ${plan.plan ? planLine(plan.plan, text) : ''}`,
  });
  const chosen = { ...place, query: { ...place.query, first: String(first?.rank ?? ''), second: String(second?.rank ?? '') } };
  return (
    <Shown reading={reading}>
      {() =>
        !first || !second ? (
          <p class="card empty">{say('compare.none')}</p>
        ) : (
          <>
            <FilterBar>
              <SelectFilter
                place={chosen}
                name="first"
                label={say('compare.first')}
                none={null}
                options={plans.map(option)}
              />
              <SelectFilter
                place={chosen}
                name="second"
                label={say('compare.second')}
                none={null}
                options={others.map(option)}
              />
            </FilterBar>
            <Sides id={id} first={first} second={second} />
          </>
        )
      }
    </Shown>
  );
}
