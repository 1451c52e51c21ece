// A study's question at several numbers of nodes or sequence lengths. The sizes stand in the address, so
// that the page can be sent; the answers are kept nowhere.
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
import { askSweep, numbersIn, pointLimit, usualSizes, type SweepKind, type SweptAnswer } from '../parts/sweep';
import { goTo, linkTo, type Place } from '../router';
import { useText } from '../text/text';

function Answer({ answer, kind, place }: { answer: SweptAnswer; kind: SweepKind; place: Place }) {
  const text = useText();
  const { format, say } = text;
  const spec = useMemo(() => scalingSpec(answer.points, kind, text), [answer, kind, text]);
  const cost = useMemo(() => (kind === 'nodes' ? costFrontSpec(answer.points, text) : undefined), [answer, kind, text]);
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

function Sizes({ study, kind, place }: { study: GetStudyResponse; kind: SweepKind; place: Place }) {
  const { say } = useText();
  const stated = place.query['values'] ?? usualSizes(study.question, kind).join(', ');
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
          {say(kind === 'nodes' ? 'scaling.nodes' : 'scaling.sequence')}
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

export function Scaling({ study, place }: { study: GetStudyResponse; place: Place }) {
  const { say } = useText();
  const kind: SweepKind = place.query['over'] === 'sequence' || isMixed(study) ? 'sequence' : 'nodes';
  const values = numbersIn(place.query['values'] ?? '');
  const reading = useRead(`sweep ${study.study?.id} ${kind} ${values?.join(',')}`, async (signal) => ({
    answer: values && (await askSweep(study, kind, values, api, signal)),
  }));
  if (embedded) return <p class="card empty">{say('scaling.notInFile')}</p>;
  const kinds: SweepKind[] = isMixed(study) ? ['sequence'] : ['nodes', 'sequence'];
  return (
    <div class="stack">
      <p class="measure">{say(kind === 'nodes' ? 'scaling.lead' : 'scaling.sequenceLead')}</p>
      <FilterBar label={say('scaling.over')}>
        <SelectFilter
          place={{ path: place.path, query: { over: kind } }}
          name="over"
          label={say('scaling.over')}
          none={null}
          options={kinds.map((name) => ({ value: name, label: say(name === 'nodes' ? 'scaling.nodes' : 'scaling.sequence') }))}
        />
      </FilterBar>
      <Sizes key={kind} study={study} kind={kind} place={{ ...place, query: { ...place.query, over: kind } }} />
      <Shown reading={reading}>
        {({ answer }) => (answer ? <Answer answer={answer} kind={kind} place={place} /> : null)}
      </Shown>
    </div>
  );
}
