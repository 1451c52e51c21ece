// The evaluated plans of a study by their dimensions: parallel coordinates that are narrowed with a
// brush or with controls, what each dimension explains of the step time, and the plans chosen.
import { useMemo, useState } from 'preact/hooks';
import { api } from '../api/client';
import { embedded } from '../api/embedded';
import { useRead } from '../api/use_read';
import type { RankedPlan } from '../api/wire';
import { Chart } from '../charts/chart';
import { choiceAfter, dimensionsSpec, figureText, importanceSpec } from '../charts/dimensions';
import { ListTable } from '../parts/list_table';
import { Shown } from '../parts/pieces';
import {
  choiceIn,
  figureOf,
  figures,
  importanceOf,
  isChosen,
  listedPlans,
  planAxes,
  queryOfChoice,
  type Choice,
  type Figure,
  type ListedPlan,
  type PlanAxis,
} from '../parts/plan_axes';
import { goTo, linkTo, type Place } from '../router';
import { useText } from '../text/text';

/** As many lines as a chart can show; a file to send has the first page of the list of plans. */
const planLimit = 1000;
const planQuery = embedded ? { page_size: 100 } : { page_size: planLimit, view: 'basic' };
const shownLimit = 10;

/** Two sliders, over the values that the plans have. */
function RangeControl(props: {
  figure: Figure;
  plans: readonly ListedPlan[];
  choice: Choice;
  onChoice: (choice: Choice) => void;
}) {
  const text = useText();
  const { figure, plans, choice, onChoice } = props;
  const values = useMemo(
    () => [...new Set(plans.map((plan) => figureOf(plan, figure)))].sort((a, b) => a - b),
    [plans, figure],
  );
  const last = values.length - 1;
  const range = choice.ranges[figure];
  const stated = {
    low: range ? Math.max(values.findIndex((value) => value >= range[0]), 0) : 0,
    high: range ? Math.max(values.filter((value) => value <= range[1]).length - 1, 0) : last,
  };
  const [moving, setMoving] = useState<Partial<typeof stated>>({});
  const at = { ...stated, ...moving };
  const set = (end: 'low' | 'high', index: number) => {
    setMoving({});
    const low = end === 'low' ? index : Math.min(stated.low, index);
    const high = end === 'high' ? index : Math.max(stated.high, index);
    const ranges = { ...choice.ranges };
    delete ranges[figure];
    if (low > 0 || high < last) ranges[figure] = [values[low] ?? 0, values[high] ?? 0];
    onChoice({ ...choice, ranges });
  };
  return (
    <fieldset>
      <legend>{text.say(figure === 'step_time_seconds' ? 'stepTime' : 'memory.headroom')}</legend>
      {(['low', 'high'] as const).map((end) => {
        const said = figureText(figure, values[at[end]] ?? 0, text);
        return (
          <label key={end}>
            {text.say(end === 'low' ? 'dimensions.atLeast' : 'dimensions.atMost')} <b aria-hidden="true">{said}</b>
            <input
              type="range"
              min={0}
              max={last}
              value={at[end]}
              aria-valuetext={said}
              onInput={(event) => setMoving({ [end]: Number(event.currentTarget.value) })}
              onChange={(event) => set(end, Number(event.currentTarget.value))}
            />
          </label>
        );
      })}
    </fieldset>
  );
}

function ValuesControl(props: { axis: PlanAxis; choice: Choice; onChoice: (choice: Choice) => void }) {
  const text = useText();
  const { axis, choice, onChoice } = props;
  const chosen = choice.values[axis.field] ?? axis.values;
  const toggle = (value: string) => {
    const next = axis.values.filter((other) => chosen.includes(other) !== (other === value));
    const values = { ...choice.values };
    delete values[axis.field];
    // Nothing chosen would choose no plan at all; it means all, as an axis without a mark does.
    if (next.length > 0 && next.length < axis.values.length) values[axis.field] = next;
    onChoice({ ...choice, values });
  };
  return (
    <fieldset>
      <legend>{text.word('field', axis.field)}</legend>
      <div class="checks">
        {axis.values.map((value, at) => (
          <label key={value}>
            <input type="checkbox" checked={chosen.includes(value)} onChange={() => toggle(value)} /> {axis.words[at]}
          </label>
        ))}
      </div>
    </fieldset>
  );
}

function ChosenPlans({ id, plans }: { id: string; plans: readonly ListedPlan[] }) {
  const text = useText();
  const { format, say } = text;
  const shown = plans.slice(0, shownLimit);
  return (
    <section class="card">
      <h3>{say('dimensions.chosenTitle')}</h3>
      <ListTable
        isInner
        caption={say('dimensions.chosenTitle')}
        columns={[
          { label: say('plan') },
          { label: say('stepTime'), isNumber: true },
          { label: say('memory.headroom'), isNumber: true },
          { label: say('plans.settings'), isWide: true },
        ]}
        rows={shown.map(({ rank, name, seconds, freeBytes, line }) => ({
          key: String(rank),
          cells: [
            <a class="whole" href={linkTo(['studies', id, 'plans', String(rank)])}>
              {name}
            </a>,
            format.seconds(seconds),
            format.gib(freeBytes),
            line,
          ],
        }))}
      />
      {plans.length > shown.length && <p class="quiet">{say('dimensions.cut', { count: shown.length, total: plans.length })}</p>}
    </section>
  );
}

function Explored({ id, ranked, isCut, place }: { id: string; ranked: readonly RankedPlan[]; isCut: boolean; place: Place }) {
  const text = useText();
  const { say } = text;
  const plans = useMemo(() => listedPlans(ranked, text), [ranked, text]);
  const axes = useMemo(() => planAxes(plans), [plans]);
  const stated = JSON.stringify(place.query);
  const choice = useMemo(() => choiceIn(place.query, axes), [stated, axes]);
  const chosen = useMemo(
    () => plans.filter((plan) => isChosen(plan, choice)).sort((a, b) => a.seconds - b.seconds),
    [plans, choice],
  );
  const dimensions = useMemo(() => dimensionsSpec(plans, axes, choice, text), [plans, axes, choice, text]);
  const importance = useMemo(() => {
    const among = chosen.filter(({ rank }) => rank > 0);
    return importanceSpec(importanceOf(among, axes), among.length, text);
  }, [chosen, axes, text]);
  const choose = (next: Choice) => goTo(linkTo(place.path, { ...place.query, ...queryOfChoice(next, axes) }), true);
  const isNarrowed = chosen.length < plans.length;
  return (
    <div class="stack">
      {isCut && <p class="quiet">{say('dimensions.listCut', { count: plans.length })}</p>}
      <Chart
        spec={dimensions}
        onMark={(axis, intervals) => choose(choiceAfter(choice, axes, plans, axis, intervals))}
      >
        {isNarrowed && (
          <button type="button" onClick={() => choose({ values: {}, ranges: {} })}>
            {say('dimensions.all')}
          </button>
        )}
      </Chart>
      <section class="card">
        <h3>{say('dimensions.narrow')}</h3>
        <p class="quiet">{say('dimensions.hint')}</p>
        <form class="narrow" onSubmit={(event) => event.preventDefault()}>
          {figures.map((figure) => (
            <RangeControl key={figure} figure={figure} plans={plans} choice={choice} onChoice={choose} />
          ))}
          {axes.map((axis) => (
            <ValuesControl key={axis.field} axis={axis} choice={choice} onChoice={choose} />
          ))}
        </form>
        <p role="status" class="chosen-count">
          {say('dimensions.count', { count: chosen.length, total: plans.length })}
        </p>
      </section>
      <ChosenPlans id={id} plans={chosen} />
      <div>
        <Chart spec={importance} />
        <p class="quiet measure">{say('importance.measure')}</p>
      </div>
    </div>
  );
}

export function Dimensions({ id, place }: { id: string; place: Place }) {
  const { say } = useText();
  const reading = useRead(`dimensions ${id}`, (signal) => api.plans(id, planQuery, signal));
  return (
    <Shown reading={reading}>
      {({ plans, next_page_token }) =>
        plans.length < 2 ? (
          <p class="card empty">{say('dimensions.few')}</p>
        ) : (
          <Explored id={id} ranked={plans} isCut={next_page_token !== ''} place={place} />
        )
      }
    </Shown>
  );
}
