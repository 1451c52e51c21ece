// The plans that a study ran, in the order begun.
import { useMemo } from 'preact/hooks';
import { api } from '../api/client';
import { useRead } from '../api/use_read';
import type { ListTrialsResponse } from '../api/wire';
import { Chart } from '../charts/chart';
import { trialsSpec } from '../charts/search';
import { Shown } from '../parts/pieces';
import { planLine } from '../parts/plan_words';
import { linkTo } from '../router';
import { useText } from '../text/text';

const pageSize = 1000;

function Listed(props: { id: string; trials: ListTrialsResponse['trials']; isCut: boolean }) {
  const { id, trials, isCut } = props;
  const text = useText();
  const { format, say } = text;
  const spec = useMemo(() => trialsSpec(trials, text), [trials, text]);
  return (
    <div class="stack">
      <Chart spec={spec} />
      {isCut && <p class="note-box">{say('trials.cut', { count: trials.length })}</p>}
      <div class="card scroll" tabIndex={0} role="region" aria-label={say('tab.trials')}>
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
            {trials.map((trial, at) => (
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

export function Trials({ id }: { id: string }) {
  const text = useText();
  const reading = useRead(`trials ${id}`, (signal) => api.trials(id, { page_size: pageSize }, signal));
  return (
    <Shown reading={reading}>
      {({ trials, next_page_token }) =>
        trials.length === 0 ? (
          <p class="card empty">{text.say('trials.none')}</p>
        ) : (
          <Listed id={id} trials={trials} isCut={next_page_token !== ''} />
        )
      }
    </Shown>
  );
}
