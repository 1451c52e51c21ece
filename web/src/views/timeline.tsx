// The pipeline of a plan over time, stage by stage, which the server simulates. The part that is shown
// stands in the address.
import { useMemo } from 'preact/hooks';
import { api } from '../api/client';
import { embedded } from '../api/embedded';
import type { Trace } from '../api/trace';
import { useRead } from '../api/use_read';
import type { GetStudyResponse } from '../api/wire';
import { Drawing } from '../charts/chart';
import { slowestWords } from '../charts/pools';
import { timelineSpec } from '../charts/timeline';
import { alternativesOf } from '../parts/alternatives';
import { FilterBar, SelectFilter } from '../parts/filters';
import { Shown } from '../parts/pieces';
import { planLine } from '../parts/plan_words';
import { isMixed, poolStages, stageRows, tracedRows, type StageRow } from '../parts/pools';
import { moved, timelineOf, wholeStep, windowIn, zoomed, type Window } from '../parts/trace';
import { goTo, linkTo, type Place } from '../router';
import { useText } from '../text/text';

function Zoomed({ name, trace, place }: { name: string; trace: Trace; place: Place }) {
  const text = useText();
  const { say } = text;
  const timeline = useMemo(() => timelineOf(trace), [trace]);
  const window = windowIn(place.query);
  const spec = useMemo(
    () => timelineSpec(name, timeline, window, text),
    [name, timeline, window.from, window.to, text],
  );
  const show = ({ from, to }: Window) => {
    const isWhole = from <= 0 && to >= 1;
    const written = (share: number) => (isWhole ? '' : String(Number(share.toFixed(7))));
    goTo(linkTo(place.path, { ...place.query, from: written(from), to: written(to) }), true);
  };
  const keys: Record<string, () => Window> = {
    '+': () => zoomed(window, 0.5),
    '-': () => zoomed(window, 2),
    ArrowLeft: () => moved(window, -0.25),
    ArrowRight: () => moved(window, 0.25),
    '0': () => wholeStep,
  };
  const isWhole = window.from === 0 && window.to === 1;
  const buttons: [string, string, () => Window, boolean][] = [
    ['+', say('timeline.in'), () => zoomed(window, 0.5), false],
    ['−', say('timeline.out'), () => zoomed(window, 2), isWhole],
    ['←', say('timeline.earlier'), () => moved(window, -0.25), window.from === 0],
    ['→', say('timeline.later'), () => moved(window, 0.25), window.to === 1],
    [say('timeline.whole'), say('timeline.whole'), () => wholeStep, isWhole],
  ];
  return (
    <div
      onKeyDown={(event) => {
        const next = keys[event.key];
        if (!next || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        show(next());
      }}
    >
      <Drawing spec={spec}>
        {buttons.map(([sign, label, next, isIdle]) => (
          <button
            type="button"
            key={label}
            aria-label={label}
            title={label}
            aria-disabled={isIdle}
            onClick={() => {
              if (!isIdle) show(next());
            }}
          >
            {sign}
          </button>
        ))}
      </Drawing>
      <p class="quiet measure">{say('timeline.hint')}</p>
    </div>
  );
}

/** Says on which pool each stage of the timeline is. */
function StagesOfPools({ rows, trace }: { rows: readonly StageRow[]; trace: Trace }) {
  const text = useText();
  const shown = useMemo(() => tracedRows(rows, timelineOf(trace)), [rows, trace]);
  return (
    <p class="quiet">
      {poolStages(shown, text)} {slowestWords(shown, text)}
    </p>
  );
}

export function TimelinePage({ study, place }: { study: GetStudyResponse; place: Place }) {
  const text = useText();
  const { say } = text;
  const id = study.study?.id ?? '';
  const plans = useMemo(() => alternativesOf(study, text), [study, text]);
  const chosen = plans.find(({ rank }) => String(rank) === place.query['rank']) ?? plans[0];
  const rank = chosen?.rank;
  const reading = useRead(`trace ${id} ${rank}`, async (signal) =>
    rank === undefined || embedded ? undefined : api.trace(id, rank, signal),
  );
  if (!chosen) return <p class="card empty">{say('plans.none')}</p>;
  if (embedded) return <p class="card empty">{say('timeline.notInFile')}</p>;
  return (
    <div class="stack">
      <FilterBar>
        <SelectFilter
          place={{ ...place, query: { ...place.query, rank: String(chosen.rank), from: '', to: '' } }}
          name="rank"
          label={say('plan')}
          none={null}
          options={plans.map((one) => ({
            value: String(one.rank),
            label: `${one.name}: ${one.plan.plan ? planLine(one.plan.plan, text) : ''}`,
          }))}
        />
      </FilterBar>
      <Shown reading={reading}>
        {(trace) =>
          trace ? (
            <>
              <Zoomed name={chosen.name} trace={trace} place={place} />
              {isMixed(study) && chosen.plan.plan && (
                <StagesOfPools rows={stageRows(chosen.plan.plan, chosen.plan.estimate, study)} trace={trace} />
              )}
            </>
          ) : null
        }
      </Shown>
      <p class="links">
        <a href={linkTo(['studies', id, 'plans', String(chosen.rank)])}>{chosen.name}</a>
        <a href={`v1/studies/${encodeURIComponent(id)}/plans/${chosen.rank}:trace`} download={`${id}-${chosen.rank}.json`}>
          {say('timeline.perfetto')}
        </a>
      </p>
    </div>
  );
}
