// One measured run: its result, what was expected, its plan and, if it was marked as wrong, why.
import { api } from '../api/client';
import { useRead } from '../api/use_read';
import type { Measurement } from '../api/wire';
import { Shown, Tile } from '../parts/pieces';
import { planLine, settingsOf } from '../parts/plan_words';
import { linkTo } from '../router';
import { useText } from '../text/text';
import { OutcomeBadge } from './runs';

function Facts({ facts }: { facts: [string, string][] }) {
  return (
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
  );
}

function Retracted({ measurement }: { measurement: Measurement }) {
  const { format, say } = useText();
  const retraction = measurement.retraction;
  if (!retraction) return null;
  return (
    <section class="verdict bad" aria-labelledby="retracted">
      <h2 id="retracted">{say('run.retracted')}</h2>
      <p lang="en">{retraction.reason}</p>
      <p>
        {say('run.retractedAt', {
          time: format.dateTime(retraction.create_time),
          number: String(retraction.sequence),
        })}
      </p>
    </section>
  );
}

function Detail({ measurement }: { measurement: Measurement }) {
  const text = useText();
  const { format, say } = text;
  const { expected, outcome, plan } = measurement;
  const isInside = measurement.is_within_interval;
  return (
    <div class="stack">
      <header class="study-head">
        <p class="crumbs">
          <a href={linkTo(['runs'])}>{say('runs.title')}</a> <span aria-hidden="true">/</span> {measurement.id}
        </p>
        <h1>
          {say('study.title', { model: measurement.model_name, cluster: measurement.cluster_name })}
        </h1>
        <p class="facts">
          <OutcomeBadge outcome={outcome} />
          <span>{text.word('source', measurement.source)}</span>
          <span>{say('devices', { count: measurement.device_count })}</span>
          <span>{format.dateTime(measurement.create_time)}</span>
        </p>
      </header>
      <Retracted measurement={measurement} />
      <dl class="tiles">
        <Tile
          label={say('measured')}
          value={outcome === 'ok' ? format.seconds(measurement.step_time_seconds) : '–'}
          {...(isInside === undefined
            ? {}
            : { note: say(isInside ? 'quality.inside' : 'quality.outside') })}
        />
        {expected && (
          <Tile
            label={say('trials.expected')}
            value={format.seconds(expected.step_time_seconds)}
            note={format.secondsRange(expected.step_time_low_seconds, expected.step_time_high_seconds)}
          />
        )}
        {measurement.step_time_ratio !== undefined && (
          <Tile label={say('trials.off')} value={format.change(measurement.step_time_ratio - 1)} />
        )}
        {measurement.peak_memory_bytes > 0 && (
          <Tile label={say('run.peak')} value={format.gib(measurement.peak_memory_bytes)} />
        )}
        {expected && expected.peak_memory_bytes > 0 && (
          <Tile label={say('run.expectedPeak')} value={format.gib(expected.peak_memory_bytes)} />
        )}
      </dl>
      <section class="card">
        <h2>{say('run.facts')}</h2>
        <Facts
          facts={[
            [say('chip'), measurement.chip],
            [say('framework'), `${measurement.framework} ${measurement.framework_version}`.trim()],
            [say('run.job'), measurement.job_name],
            [say('run.note'), measurement.note],
            [say('run.number'), String(measurement.sequence)],
            [say('run.calibration'), expected?.calibration_id ?? ''],
          ]}
        />
        <p class="links">
          {measurement.study_id !== '' && (
            <a href={linkTo(['studies', measurement.study_id])}>{say('run.study')}</a>
          )}{' '}
          <a href={linkTo(['chips', measurement.chip])}>{say('run.chip')}</a>
        </p>
      </section>
      {plan && (
        <section class="card">
          <h2>{say('plan')}</h2>
          <p class="plan-line">{planLine(plan, text)}</p>
          <Facts
            facts={Object.entries(settingsOf(plan, text)).map(([field, value]) => [
              text.word('field', field),
              value,
            ])}
          />
        </section>
      )}
    </div>
  );
}

export function RunPage({ id }: { id: string }) {
  const reading = useRead(`run ${id}`, (signal) => api.measurement(id, signal));
  return (
    <Shown reading={reading}>
      {({ measurement }) => (measurement ? <Detail measurement={measurement} /> : null)}
    </Shown>
  );
}
