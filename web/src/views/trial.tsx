// One trial of a study: its plan, each of its jobs with the reason for its end, and their output.
import { api, ApiError } from '../api/client';
import { embedded } from '../api/embedded';
import { useRead } from '../api/use_read';
import type { Attempt, GetStudyResponse, GetTrialResponse, JobTemplate, Trial } from '../api/wire';
import { planLine } from '../parts/plan_words';
import { CopyButton, ServerSentences, Shown, Tile } from '../parts/pieces';
import { hasFailed, RetryButton, type Changes } from '../parts/study_state';
import { linkTo } from '../router';
import { useText } from '../text/text';
import { OutcomeBadge } from './runs';

/** Returns the words of a command so that a shell reads them as they are. */
export function shellLine(words: readonly string[]): string {
  const quoted = (word: string) =>
    /^[\w@%+=:,./{}-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
  return words.map(quoted).join(' ');
}

/** Returns the values of a JSON object as lines of text, in its order; none if it is not one. */
export function environmentLines(json: string): [string, string][] {
  try {
    const read: unknown = JSON.parse(json);
    if (typeof read !== 'object' || read === null || Array.isArray(read)) return [];
    return Object.entries(read).map(([name, value]) => [
      name,
      typeof value === 'string' ? value : JSON.stringify(value),
    ]);
  } catch {
    return [];
  }
}

function Log({ title, text }: { title: string; text: string }) {
  if (text === '') return null;
  return (
    <details>
      <summary>{title}</summary>
      <pre tabIndex={0} aria-label={title} lang="en">
        <code>{text}</code>
      </pre>
    </details>
  );
}

function AttemptCard({ attempt }: { attempt: Attempt }) {
  const text = useText();
  const { format, say } = text;
  const environment = environmentLines(attempt.environment);
  const facts: [string, string][] = [
    [say('attempt.launcher'), `${attempt.launcher} ${attempt.external_id}`.trim()],
    [say('attempt.nodes'), attempt.nodes.join(', ')],
    [say('attempt.begun'), attempt.start_time === '' ? '' : format.dateTime(attempt.start_time)],
    [say('attempt.ended'), attempt.end_time === '' ? '' : format.dateTime(attempt.end_time)],
    [say('attempt.deviceTime'), format.duration(attempt.device_seconds)],
    [say('attempt.steps'), attempt.step_count === undefined ? '' : format.count(attempt.step_count)],
    [
      say('attempt.range'),
      attempt.step_time_low_seconds === undefined || attempt.step_time_high_seconds === undefined
        ? ''
        : format.secondsRange(attempt.step_time_low_seconds, attempt.step_time_high_seconds),
    ],
    [say('attempt.spread'), attempt.spread_ratio === undefined ? '' : format.percent(attempt.spread_ratio)],
    [say('attempt.failure'), attempt.failure_class],
    [say('attempt.harness'), attempt.harness_state],
  ];
  return (
    <section class="card">
      <div class="chart-head">
        <h3>{say('attempt.title', { number: String(attempt.number) })}</h3>
        <OutcomeBadge outcome={attempt.outcome} />
      </div>
      {attempt.message !== '' && <p lang="en">{attempt.message}</p>}
      <dl class="settings">
        {facts
          .filter(([, value]) => value !== '')
          .map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
      </dl>
      {attempt.suspect_reasons.length > 0 && (
        <>
          <p class="retracted">{say('attempt.doubts')}</p>
          <ul class="sentences" lang="en">
            {attempt.suspect_reasons.map((reason) => (
              <li key={reason}>{reason}</li>
            ))}
          </ul>
        </>
      )}
      <Log title={say('attempt.logTail')} text={attempt.log_tail} />
      <Log title={say('attempt.logHead')} text={attempt.log_head} />
      {environment.length > 0 && (
        <details>
          <summary>{say('attempt.environment')}</summary>
          <dl class="settings">
            {environment.map(([name, value]) => (
              <div key={name}>
                <dt>{name}</dt>
                <dd>{value}</dd>
              </div>
            ))}
          </dl>
        </details>
      )}
    </section>
  );
}

function Job({ job }: { job: JobTemplate }) {
  const { say } = useText();
  const command = shellLine(job.command);
  return (
    <section class="card">
      <div class="chart-head">
        <h3>{say('attempt.job')}</h3>
        {command !== '' && <CopyButton text={command} label={say('launch.copy')} />}
      </div>
      {command === '' ? (
        <p>{say('attempt.ownCommand')}</p>
      ) : (
        <pre tabIndex={0} aria-label={say('attempt.job')}>
          <code>{command}</code>
        </pre>
      )}
      {job.environment.length > 0 && (
        <>
          <p class="quiet">{say('attempt.variables')}</p>
          <pre tabIndex={0} aria-label={say('attempt.variables')}>
            <code>{job.environment.join('\n')}</code>
          </pre>
        </>
      )}
    </section>
  );
}

function Figures({ trial }: { trial: Trial }) {
  const text = useText();
  const { format, say } = text;
  const hasRun = trial.outcome === 'ok';
  return (
    <dl class="tiles">
      <Tile label={say('measured')} value={hasRun ? format.seconds(trial.step_time_seconds) : '–'} />
      <Tile label={say('trials.expected')} value={format.seconds(trial.expected_step_time_seconds)} />
      <Tile
        label={say('trials.off')}
        value={
          hasRun && trial.expected_step_time_seconds > 0
            ? format.change(trial.step_time_seconds / trial.expected_step_time_seconds - 1)
            : '–'
        }
      />
      <Tile
        label={say('trial.toRun')}
        value={format.probability(trial.success_probability_ratio)}
        note={say('trial.toRunNote')}
      />
      <Tile
        label={say('run.peak')}
        value={trial.peak_memory_bytes > 0 ? format.gib(trial.peak_memory_bytes) : '–'}
      />
      <Tile label={say('attempt.deviceTime')} value={format.duration(trial.device_seconds)} />
    </dl>
  );
}

function Detail(props: {
  study: GetStudyResponse;
  trial: Trial;
  attempts: readonly Attempt[];
  changes: Changes | undefined;
}) {
  const text = useText();
  const { say } = text;
  const { study, trial, attempts, changes } = props;
  const job = study.question?.trials?.job;
  return (
    <div class="stack">
      <div>
        <p class="crumbs">
          <a href={linkTo(['studies', study.study?.id ?? '', 'trials'])}>{say('tab.trials')}</a>
        </p>
        <h2>
          {say('trial.title', { number: String(trial.number ?? 0) })} <OutcomeBadge outcome={trial.outcome} />
        </h2>
        <p class="plan-line">{trial.plan ? planLine(trial.plan, text) : ''}</p>
        {trial.failure_message !== '' && <p lang="en">{trial.failure_message}</p>}
        {changes && hasFailed(trial) && trial.number !== undefined && (
          <p class="links">
            <RetryButton {...changes} numbers={[trial.number]} />
          </p>
        )}
      </div>
      <Figures trial={trial} />
      <ServerSentences title={say('attempt.doubts')} sentences={trial.suspect_reasons} />
      {attempts.length === 0 && <p class="card">{say('attempt.none')}</p>}
      {attempts.map((attempt) => (
        <AttemptCard key={attempt.id} attempt={attempt} />
      ))}
      {embedded && attempts.length > 0 && <p class="quiet">{say('attempt.notInFile')}</p>}
      {job && <Job job={job} />}
    </div>
  );
}

/** Returns a trial with its attempts; without a trial if the study has none of this number. */
async function trialOf(id: string, number: string, signal: AbortSignal): Promise<GetTrialResponse> {
  if (embedded) return trialInFile(id, number, signal);
  if (!/^[1-9]\d*$/.test(number)) return { attempts: [] };
  try {
    const { trial } = await api.trial(id, number, signal);
    if (!trial) return { attempts: [] };
    // Only the list of one trial's attempts has the ends of their logs.
    const { attempts } = await api.attempts(id, { trial_number: number }, signal);
    return { trial, attempts };
  } catch (error) {
    if (error instanceof ApiError && error.isAbsent) return { attempts: [] };
    throw error;
  }
}

/** A file has the first thousand trials in a list, and the attempts of all of them, without logs. */
async function trialInFile(id: string, number: string, signal: AbortSignal): Promise<GetTrialResponse> {
  const { trials } = await api.trials(id, { page_size: 1000 }, signal);
  const trial = trials.find((listed) => String(listed.number) === number);
  if (!trial) return { attempts: [] };
  const { attempts } = await api.attempts(id, {}, signal);
  return { trial, attempts: attempts.filter(({ trial_number }) => String(trial_number) === number) };
}

export function TrialPage(props: { study: GetStudyResponse; number: string; changes?: Changes }) {
  const { study, number, changes } = props;
  const { say } = useText();
  const id = study.study?.id ?? '';
  const reading = useRead(`trial ${id} ${number} ${study.study?.state}`, (signal) => trialOf(id, number, signal));
  return (
    <Shown reading={reading}>
      {({ trial, attempts }) =>
        trial ? (
          <Detail study={study} trial={trial} attempts={attempts} changes={changes} />
        ) : (
          <div class="card empty">
            <h2>{say('trial.unknown', { number })}</h2>
            <a href={linkTo(['studies', id, 'trials'])}>{say('tab.trials')}</a>
          </div>
        )
      }
    </Shown>
  );
}
