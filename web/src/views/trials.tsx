// The plans that a study ran, in the order begun or the fastest first, page by page.
import { useMemo } from 'preact/hooks';
import { api } from '../api/client';
import { embedded } from '../api/embedded';
import { useRead } from '../api/use_read';
import type { ListTrialsResponse } from '../api/wire';
import { Chart } from '../charts/chart';
import { hasDeviceTime, trialsSpec } from '../charts/search';
import { measuredFrontSpec } from '../charts/measured_front';
import { FilterBar, PageLinks, SelectFilter } from '../parts/filters';
import { useGradually } from '../parts/gradually';
import { Shown } from '../parts/pieces';
import { planLine } from '../parts/plan_words';
import { hasFailed, RetryButton, type Changes } from '../parts/study_state';
import { linkTo, type Place } from '../router';
import { useText } from '../text/text';

/** A file to send has the first thousand; a page of a server draws in a moment. */
const trialQuery = embedded ? { page_size: 1000 } : { page_size: 200 };
const outcomes = ['ok', 'oom', 'crash', 'hang', 'timeout', 'cancelled'];

/** The front of all measured trials of a study, with those of the page beside it. */
function MeasuredFront({ id, trials }: { id: string; trials: ListTrialsResponse['trials'] }) {
  const text = useText();
  const { data } = useRead(`front ${id} ${trials.length}`, (signal) => api.paretoTrials(id, signal));
  const spec = useMemo(
    () => data && measuredFrontSpec(data.trials, trials, text),
    [data, trials, text],
  );
  return spec ? <Chart spec={spec} /> : null;
}

function Listed(props: { id: string; place: Place; trials: ListTrialsResponse['trials']; isPart: boolean }) {
  const { id, place, trials, isPart } = props;
  const by = place.query['by'] === 'device_time' ? 'device_time' : 'trial';
  const text = useText();
  const { format, say } = text;
  const spec = useMemo(() => {
    const begun = [...trials].sort((a, b) => (a.number ?? 0) - (b.number ?? 0));
    return trialsSpec(begun, text, by);
  }, [trials, by, text]);
  const { shown, isBusy } = useGradually(trials);
  return (
    <div class="stack">
      <Chart spec={spec}>
        {hasDeviceTime(trials) && (
          <SelectFilter
            place={place}
            name="by"
            label={say('trials.along')}
            none={say('trials.number')}
            options={[{ value: 'device_time', label: say('trials.deviceTime') }]}
          />
        )}
      </Chart>
      <MeasuredFront id={id} trials={trials} />
      {isPart && (
        <p class="note-box">
          {say('trials.part', { count: trials.length })}
        </p>
      )}
      <div class="card scroll" tabIndex={0} role="region" aria-label={say('tab.trials')} aria-busy={isBusy}>
        <table class="wide">
          <caption class="hidden">{say('tab.trials')}</caption>
          <thead>
            <tr>
              <th scope="col" class="number">
                {say('trials.number')}
              </th>
              <th scope="col">{say('outcome')}</th>
              <th scope="col" class="number">
                {say('measured')}
              </th>
              <th scope="col" class="number">
                {say('trials.expected')}
              </th>
              <th scope="col" class="number">
                {say('trials.off')}
              </th>
              <th scope="col">{say('plans.settings')}</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((trial, at) => (
              <tr key={trial.number ?? at}>
                <th scope="row" class="number">
                  <a href={linkTo(['studies', id, 'trials', String(trial.number ?? at + 1)])}>
                    {trial.number ?? at + 1}
                  </a>
                </th>
                <td>
                  <span class={`badge trial-${trial.outcome || 'open'}`}>
                    <span class="dot" aria-hidden="true" />
                    {text.word('trial', trial.outcome || 'open')}
                  </span>
                  {trial.failure_message !== '' && (
                    <span class="quiet block" lang="en">
                      {trial.failure_message}
                    </span>
                  )}
                </td>
                <td class="number">
                  {trial.outcome === 'ok' ? format.seconds(trial.step_time_seconds) : '–'}
                </td>
                <td class="number">{format.seconds(trial.expected_step_time_seconds)}</td>
                <td class="number">
                  {trial.outcome === 'ok' && trial.expected_step_time_seconds > 0
                    ? format.change(trial.step_time_seconds / trial.expected_step_time_seconds - 1)
                    : '–'}
                </td>
                <td class="plan-cell">{trial.plan ? planLine(trial.plan, text) : '–'}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}

export function Trials({ id, place, changes }: { id: string; place: Place; changes?: Changes }) {
  const text = useText();
  const { say } = text;
  const { order = '', outcome = '', page = '' } = place.query;
  const isFiltered = order !== '' || outcome !== '';
  const query = embedded ? trialQuery : { ...trialQuery, order, outcome, page_token: page };
  const state = changes?.study.state ?? '';
  const reading = useRead(`trials ${id} ${order} ${outcome} ${page} ${state}`, (signal) => api.trials(id, query, signal));
  return (
    <>
      {!embedded && (
        <FilterBar>
          <SelectFilter
            place={place}
            name="outcome"
            label={say('outcome')}
            options={outcomes.map((value) => ({ value, label: text.word('trial', value) }))}
          />
          <SelectFilter
            place={place}
            name="order"
            label={say('trials.order')}
            none={say('trials.asBegun')}
            options={[{ value: 'fastest', label: say('trials.fastest') }]}
          />
        </FilterBar>
      )}
      <Shown reading={reading}>
        {({ trials, next_page_token }) => (
          <>
            {changes && trials.some(hasFailed) && (
              <p class="links">
                <RetryButton {...changes} numbers={[]} />
              </p>
            )}
            {trials.length === 0 ? (
              <p class="card empty">{say(isFiltered ? 'trials.noMatch' : 'trials.none')}</p>
            ) : (
              <Listed id={id} place={place} trials={trials} isPart={isFiltered || page !== '' || next_page_token !== ''} />
            )}
            {!embedded && <PageLinks place={place} next={next_page_token} />}
          </>
        )}
      </Shown>
    </>
  );
}
