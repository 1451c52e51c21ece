// Every measured run: trials, reports of jobs, imports and replays, with what was expected of them.
import { useMemo } from 'preact/hooks';
import { api } from '../api/client';
import { useRead } from '../api/use_read';
import type { Measurement } from '../api/wire';
import { Chart } from '../charts/chart';
import { gainsSpec } from '../charts/gains';
import { FilterBar, optionsOf, PageLinks, SelectFilter } from '../parts/filters';
import { readGains, type Gain } from '../parts/gains';
import { ListTable } from '../parts/list_table';
import { ServerSentences, Shown } from '../parts/pieces';
import { linkTo, type Place } from '../router';
import { useText, type Text } from '../text/text';
import { RunPage } from './run';

const sources = ['trial', 'job_report', 'import', 'replay'];
const outcomes = ['ok', 'oom', 'crash', 'hang', 'timeout', 'cancelled'];
const pageSize = 100;
/** The newest runs, whose chips, frameworks and models can be chosen. */
const optionCount = 1000;

function Filters({ place, known }: { place: Place; known: readonly Measurement[] }) {
  const text = useText();
  const { say } = text;
  const among = (values: string[], name: string) => optionsOf(values, place.query[name]);
  return (
    <FilterBar>
      <SelectFilter
        place={place}
        name="source"
        label={say('runs.source')}
        options={sources.map((value) => ({ value, label: text.word('source', value) }))}
      />
      <SelectFilter
        place={place}
        name="outcome"
        label={say('outcome')}
        options={outcomes.map((value) => ({ value, label: text.word('trial', value) }))}
      />
      <SelectFilter
        place={place}
        name="chip"
        label={say('chip')}
        options={among(known.map(({ chip }) => chip), 'chip')}
      />
      <SelectFilter
        place={place}
        name="framework"
        label={say('framework')}
        options={among(known.map(({ framework }) => framework), 'framework')}
      />
      <SelectFilter
        place={place}
        name="model"
        label={say('model')}
        options={among(known.map(({ model_name }) => model_name), 'model')}
      />
      <SelectFilter
        place={place}
        name="retracted"
        label={say('quality.retracted')}
        options={[
          { value: 'false', label: say('no') },
          { value: 'true', label: say('yes') },
        ]}
      />
    </FilterBar>
  );
}

export function OutcomeBadge({ outcome }: { outcome: string }) {
  const text = useText();
  const shown = outcome || 'open';
  return (
    <span class={`badge trial-${shown}`}>
      <span class="dot" aria-hidden="true" />
      {text.word('trial', shown)}
    </span>
  );
}

function cellsOf(measurement: Measurement, text: Text) {
  const { format, say } = text;
  const { id, expected, outcome, step_time_ratio: ratio, is_within_interval: isInside } = measurement;
  return [
    <>
      <a class="whole" href={linkTo(['runs', id])}>
        {measurement.job_name || id.slice(0, 10)}
      </a>
      <span class="quiet block whole">{format.dateTime(measurement.create_time)}</span>
    </>,
    <span class="whole">{text.word('source', measurement.source)}</span>,
    <>
      {measurement.model_name}
      <span class="quiet block">{measurement.cluster_name}</span>
    </>,
    <>
      <span class="whole">{measurement.chip}</span>
      <span class="quiet block">
        {measurement.framework} {measurement.framework_version}
      </span>
    </>,
    <>
      <OutcomeBadge outcome={outcome} />
      {measurement.retraction && (
        <span class="retracted block">
          {say('quality.retracted')}: <span lang="en">{measurement.retraction.reason}</span>
        </span>
      )}
    </>,
    outcome === 'ok' ? format.seconds(measurement.step_time_seconds) : '–',
    expected ? (
      <>
        {format.seconds(expected.step_time_seconds)}
        <span class="quiet block">
          {format.secondsRange(expected.step_time_low_seconds, expected.step_time_high_seconds)}
        </span>
      </>
    ) : (
      '–'
    ),
    ratio === undefined ? (
      '–'
    ) : (
      <>
        {format.change(ratio - 1)}
        {isInside !== undefined && (
          <span class="quiet block">{say(isInside ? 'runs.inside' : 'runs.outside')}</span>
        )}
      </>
    ),
  ];
}

function RunList({ place }: { place: Place }) {
  const text = useText();
  const { say } = text;
  const { query } = place;
  const filter = {
    'filter.source': query['source'],
    'filter.outcome': query['outcome'],
    'filter.chip': query['chip'],
    'filter.framework': query['framework'],
    'filter.model_name': query['model'],
    'filter.is_retracted': query['retracted'],
  };
  const known = useRead('known runs', (signal) => api.measurements({ page_size: optionCount }, signal));
  const page = query['page'] ?? '';
  const reading = useRead(`runs ${JSON.stringify(filter)} ${page}`, (signal) =>
    api.measurements({ ...filter, page_size: pageSize, page_token: page }, signal),
  );
  // The list of reports says which chips have drifted.
  const reports = useRead(`reports ${query['chip']}`, (signal) =>
    api.jobReports({ 'filter.chip': query['chip'], page_size: 50 }, signal),
  );
  return (
    <>
      <Filters place={place} known={known.data?.measurements ?? []} />
      <div class="stack">
        <h2 class="hidden">{say('runs.list')}</h2>
        <ServerSentences title={say('runs.drift')} sentences={reports.data?.warnings ?? []} />
        <Shown reading={reading}>
          {({ measurements, next_page_token }) =>
            measurements.length === 0 ? (
              <div class="card empty">
                <h2>{say('runs.none')}</h2>
                <p>{say('quality.start')}</p>
                <a href={linkTo(['runs'])}>{say('quality.clear')}</a>
              </div>
            ) : (
              <>
                <ListTable
                  caption={say('runs.title')}
                  columns={[
                    { label: say('runs.run') },
                    { label: say('runs.source') },
                    { label: say('runs.modelAndCluster') },
                    { label: say('runs.chipAndFramework') },
                    { label: say('outcome') },
                    { label: say('measured'), isNumber: true },
                    { label: say('runs.expected'), isNumber: true },
                    { label: say('runs.error'), isNumber: true },
                  ]}
                  rows={measurements.map((measurement) => ({
                    key: measurement.id,
                    cells: cellsOf(measurement, text),
                    tone: measurement.retraction ? 'is-retracted' : '',
                  }))}
                />
                <PageLinks place={place} next={next_page_token} />
              </>
            )
          }
        </Shown>
      </div>
    </>
  );
}

function GainChart({ gains }: { gains: readonly Gain[] }) {
  const text = useText();
  const spec = useMemo(() => gainsSpec(gains, text), [gains, text]);
  return <Chart spec={spec} />;
}

function Gains() {
  const { say } = useText();
  const reading = useRead('gains', readGains);
  return (
    <Shown reading={reading}>
      {(gains) =>
        gains.length === 0 ? (
          <div class="card empty">
            <h2>{say('gains.none')}</h2>
            <p>{say('quality.start')}</p>
          </div>
        ) : (
          <div class="stack">
            <h2 class="hidden">{say('gains.tab')}</h2>
            <p class="lead">{say('gains.lead')}</p>
            <GainChart gains={gains} />
          </div>
        )
      }
    </Shown>
  );
}

export function Runs({ place }: { place: Place }) {
  const { say } = useText();
  const part = place.path[1];
  if (part !== undefined && part !== 'gains') return <RunPage id={part} />;
  const tabs = [
    { name: say('runs.list'), link: linkTo(['runs']), isCurrent: part === undefined },
    { name: say('gains.tab'), link: linkTo(['runs', 'gains']), isCurrent: part === 'gains' },
  ];
  return (
    <>
      <h1>{say('runs.title')}</h1>
      <p class="lead">{say('runs.lead')}</p>
      <nav class="tabs" aria-label={say('runs.parts')}>
        {tabs.map(({ name, link, isCurrent }) => (
          <a key={link} href={link} {...(isCurrent ? { 'aria-current': 'page' as const } : {})}>
            {name}
          </a>
        ))}
      </nav>
      {part === 'gains' ? <Gains /> : <RunList place={place} />}
    </>
  );
}
