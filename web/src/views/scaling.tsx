// A study's question at several numbers of nodes, of one pool if there are several, or sequence lengths.
// The sizes stand in the address, so that the page can be sent; the answers are kept nowhere.
import { useMemo, useState } from 'preact/hooks';
import { api } from '../api/client';
import { embedded } from '../api/embedded';
import { useRead } from '../api/use_read';
import type { GetStudyResponse } from '../api/wire';
import { Chart } from '../charts/chart';
import { costFrontSpec } from '../charts/cost_front';
import { scalingSpec } from '../charts/throughput';
import { FilterBar, SelectFilter } from '../parts/filters';
import { LaunchBox } from '../parts/launch';
import { ServerSentences, Shown } from '../parts/pieces';
import { planLine } from '../parts/plan_words';
import { isMixed } from '../parts/pools';
import { askSweep, numbersIn, pointLimit, usualSizes, type SweepKind, type Swept, type SweptAnswer } from '../parts/sweep';
import { goTo, linkTo, type Place } from '../router';
import { useText } from '../text/text';

/** `pool` names the pool whose nodes are counted, if there are several. */
function Answer(props: { answer: SweptAnswer; kind: SweepKind; pool: string | undefined; place: Place }) {
  const { answer, kind, pool, place } = props;
  const text = useText();
  const { format, say } = text;
  const spec = useMemo(() => scalingSpec(answer.points, kind, text, pool), [answer, kind, text, pool]);
  // An hour of one pool's device costs something else than that of another's.
  const hasCost = kind === 'nodes' && pool === undefined;
  const cost = useMemo(() => (hasCost ? costFrontSpec(answer.points, text) : undefined), [answer, hasCost, text]);
  const fitting = answer.points.filter(({ best }) => best !== undefined);
  const shown = fitting.find(({ value }) => String(value) === place.query['point']) ?? fitting[0];
  return (
    <>
      <Chart spec={spec} />
      {cost && <Chart spec={cost} />}
      {shown?.best && (
        <>
          <FilterBar label={say('scaling.point')}>
            <SelectFilter
              place={{ ...place, query: { ...place.query, point: String(shown.value) } }}
              name="point"
              label={say('scaling.point')}
              none={null}
              options={fitting.map(({ value, best }) => ({
                value: String(value),
                label: `${format.count(value)}: ${best?.plan ? planLine(best.plan, text) : ''}`,
              }))}
            />
          </FilterBar>
          <LaunchBox key={shown.value} ranked={shown.best} />
        </>
      )}
      <ServerSentences title={say('warnings')} sentences={answer.warnings} />
    </>
  );
}

function Sizes(props: { study: GetStudyResponse; swept: Swept; label: string; place: Place }) {
  const { study, swept, label, place } = props;
  const { say } = useText();
  const stated = place.query['values'] ?? usualSizes(study.question, swept).join(', ');
  const [typed, setTyped] = useState(stated);
  const isWrong = numbersIn(typed) === undefined;
  return (
    <form
      class="card ask"
      onSubmit={(event) => {
        event.preventDefault();
        const numbers = numbersIn(typed);
        if (numbers) goTo(linkTo(place.path, { ...place.query, values: numbers.join(','), point: '' }), true);
      }}
    >
      <div class="field">
        <label>
          {label}
          <input
            value={typed}
            aria-invalid={isWrong}
            aria-describedby="scaling-hint"
            onInput={(event) => setTyped(event.currentTarget.value)}
          />
        </label>
      </div>
      <p id="scaling-hint" class={isWrong ? 'mistake' : 'quiet'}>
        {say('scaling.hint', { count: pointLimit })}
      </p>
      <p class="links">
        <button type="submit" class="primary">
          {say('ask.ask')}
        </button>
      </p>
    </form>
  );
}

/** Returns the pools of a mixed cluster, in its order; none of others. */
const poolNames = (study: GetStudyResponse): string[] =>
  isMixed(study) ? (study.question?.cluster?.pools ?? []).map(({ name = '' }) => name) : [];

/** Returns the sweep that an address asks for: over sequence lengths, or nodes, of a pool if there are several. */
function sweptIn(place: Place, pools: readonly string[]): Swept {
  if (place.query['over'] === 'sequence') return { kind: 'sequence' };
  const pool = pools.indexOf(place.query['pool'] ?? '');
  return pools.length > 0 ? { kind: 'nodes', pool: Math.max(pool, 0) } : { kind: 'nodes' };
}

export function Scaling({ study, place }: { study: GetStudyResponse; place: Place }) {
  const { say } = useText();
  const pools = poolNames(study);
  const swept = sweptIn(place, pools);
  const { kind } = swept;
  const pool = swept.pool === undefined ? undefined : pools[swept.pool];
  const values = numbersIn(place.query['values'] ?? '');
  const reading = useRead(`sweep ${study.study?.id} ${kind} ${pool} ${values?.join(',')}`, async (signal) => ({
    answer: values && (await askSweep(study, swept, values, api, signal)),
  }));
  if (embedded) return <p class="card empty">{say('scaling.notInFile')}</p>;
  const lead = pool !== undefined ? 'scaling.poolLead' : kind === 'nodes' ? 'scaling.lead' : 'scaling.sequenceLead';
  const label =
    pool !== undefined ? say('scaling.poolNodes', { pool }) : say(kind === 'nodes' ? 'scaling.nodes' : 'scaling.sequence');
  return (
    <div class="stack">
      <p class="measure">{say(lead)}</p>
      <FilterBar label={say('scaling.over')}>
        <SelectFilter
          place={{ path: place.path, query: { over: kind } }}
          name="over"
          label={say('scaling.over')}
          none={null}
          options={(['nodes', 'sequence'] as const).map((name) => ({
            value: name,
            label: say(name === 'nodes' ? 'scaling.nodes' : 'scaling.sequence'),
          }))}
        />
        {pool !== undefined && (
          <SelectFilter
            place={{ path: place.path, query: { over: kind, pool } }}
            name="pool"
            label={say('mix.pool')}
            none={null}
            options={pools.map((name) => ({ value: name, label: name }))}
          />
        )}
      </FilterBar>
      <Sizes
        key={`${kind} ${pool}`}
        study={study}
        swept={swept}
        label={label}
        place={{ ...place, query: { ...place.query, over: kind, pool: pool ?? '' } }}
      />
      <Shown reading={reading}>
        {({ answer }) => (answer ? <Answer answer={answer} kind={kind} pool={pool} place={place} /> : null)}
      </Shown>
    </div>
  );
}
