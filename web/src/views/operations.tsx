// The server itself: its versions, what it can do, its store, its queue and the vendors' models; and who
// calls it.
import { useEffect } from 'preact/hooks';
import { api } from '../api/client';
import { useRead } from '../api/use_read';
import type { CostModel, CostModelCheck, GetServerInfoResponse, LauncherLoad, Measurement, ServerLimit, Study } from '../api/wire';
import { ListTable } from '../parts/list_table';
import { Shown, StateBadge, Tile } from '../parts/pieces';
import { linkTo, type Place } from '../router';
import { useText, type Text } from '../text/text';
import { Callers } from './callers';

/** States of studies that use the server or wait for it. */
const aliveStates = ['running', 'queued', 'paused', 'cancelling', 'interrupted'];
const refreshMilliseconds = 5000;

interface Queue {
  studies: Study[];
  newest: Measurement | undefined;
}

async function readQueue(signal: AbortSignal): Promise<Queue> {
  const [newest, ...lists] = await Promise.all([
    api.measurements({ page_size: 1 }, signal),
    ...aliveStates.map((state) => api.studies({ page_size: 100, 'filter.state': state }, signal)),
  ]);
  return {
    studies: lists.flatMap(({ studies }) => studies),
    newest: newest.measurements[0],
  };
}

function Words({ title, words }: { title: string; words: readonly string[] }) {
  const { say } = useText();
  return (
    <section class="card">
      <h3>{title}</h3>
      {words.length === 0 ? (
        <p class="quiet">{say('operations.nothing')}</p>
      ) : (
        <ul class="words">
          {words.map((word) => (
            <li key={word}>
              <code>{word}</code>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function QueueTable({ studies }: { studies: readonly Study[] }) {
  const text = useText();
  const { format, say } = text;
  if (studies.length === 0) return <p class="card">{say('operations.idle')}</p>;
  // Columns that all studies leave empty are left out.
  const hasCreators = studies.some(({ creator }) => creator !== '');
  const hasServers = studies.some(({ server }) => server !== '');
  return (
    <ListTable
      caption={say('operations.queue')}
      columns={[
        { label: say('gains.study') },
        { label: say('filter.state') },
        { label: say('model') },
        { label: say('cluster') },
        { label: say('overview.created') },
        ...(hasCreators ? [{ label: say('filter.creator') }] : []),
        ...(hasServers ? [{ label: say('operations.server') }] : []),
        { label: say('overview.best'), isNumber: true },
      ]}
      rows={studies.map((study) => ({
        key: study.id,
        cells: [
          <a href={linkTo(['studies', study.id])}>{study.display_name || study.id}</a>,
          <StateBadge state={study.state} />,
          study.model_name,
          study.cluster_name,
          format.dateTime(study.create_time),
          ...(hasCreators ? [study.creator || '–'] : []),
          ...(hasServers ? [study.server || '–'] : []),
          study.best_step_time_seconds > 0 ? format.seconds(study.best_step_time_seconds) : '–',
        ],
      }))}
    />
  );
}

/** The launchers of jobs, and the jobs of the store that they have not ended. */
function Launchers({ launchers }: { launchers: readonly LauncherLoad[] }) {
  const { format, say } = useText();
  const count = (value: number | undefined) => (value === undefined ? '–' : format.count(value));
  if (launchers.length === 0) return null;
  return (
    <>
      <h2>{say('operations.engines')}</h2>
      {launchers.every(({ is_allowed }) => !is_allowed) && <p class="card">{say('operations.noJobs')}</p>}
      <ListTable
        caption={say('operations.engines')}
        columns={[
          { label: say('operations.launcher') },
          { label: say('operations.jobsWaiting'), isNumber: true },
          { label: say('operations.jobsRunning'), isNumber: true },
        ]}
        rows={launchers.map(({ launcher, waiting_job_count, running_job_count }) => ({
          key: launcher,
          cells: [<code>{launcher}</code>, count(waiting_job_count), count(running_job_count)],
        }))}
      />
    </>
  );
}

/** The result of the last conformance check of a model that is kept in the folder of models. */
function KeptCheck({ check }: { check: CostModelCheck | undefined }) {
  const { format, say } = useText();
  if (check === undefined) return <span class="quiet">{say('operations.neverChecked')}</span>;
  if (check.error !== '') return <span class="retracted" lang="en">{check.error}</span>;
  if (!check.is_current) return <span class="retracted">{say('operations.checkedBefore')}</span>;
  const failed = check.failed_checks;
  const counts = { passed: check.passed_count, failed: failed.length, skipped: check.skipped_count };
  return (
    <>
      <span class={failed.length === 0 ? 'good' : 'retracted'}>{say('operations.checkCounts', counts)}</span>
      {failed.length > 0 && <span class="block" lang="en">{failed.join(', ')}</span>}
      <span class="quiet block">{say('operations.checkedFor', { chip: check.chip, time: format.dateTime(check.time) })}</span>
    </>
  );
}

function CostModels({ models }: { models: readonly CostModel[] }) {
  const text = useText();
  const { say } = text;
  if (models.length === 0) return <p class="card">{say('operations.noModels')}</p>;
  return (
    <ListTable
      caption={say('operations.models')}
      columns={[
        { label: say('operations.name') },
        { label: say('operations.kind') },
        { label: say('operations.file') },
        { label: say('filter.state') },
        { label: say('operations.checked') },
        { label: 'SHA-256' },
      ]}
      rows={models.map(({ name, kind, file, state, check, sha256 }) => ({
        key: name,
        cells: [
          name,
          text.word('modelKind', kind),
          <code>{file}</code>,
          <span class={state === 'ok' ? 'good' : 'retracted'}>{text.word('modelState', state)}</span>,
          <KeptCheck check={check} />,
          <code>{sha256.slice(0, 16)}…</code>,
        ],
      }))}
    />
  );
}

/** The limits of requests, answers and callers, which a reader looks up by their names. */
function Limits({ limits }: { limits: readonly ServerLimit[] }) {
  const { format, say } = useText();
  if (limits.length === 0) return null;
  return (
    <details class="card">
      <summary>{say('operations.limitCount', { count: limits.length })}</summary>
      <ListTable
        isInner
        caption={say('operations.limitCount', { count: limits.length })}
        columns={[
          { label: say('operations.name') },
          { label: say('operations.most'), isNumber: true },
          { label: say('operations.unit') },
          { label: say('operations.scope') },
        ]}
        rows={limits.map(({ name, value, unit, scope }) => ({
          key: `${scope} ${name}`,
          cells: [
            <code>{name}</code>,
            format.count(value),
            <span lang="en">{unit}</span>,
            <span lang="en">{scope}</span>,
          ],
        }))}
      />
    </details>
  );
}

function storeNote(info: GetServerInfoResponse, { format, say }: Text): string {
  const { store_schema_version: schema, store_free_bytes: free } = info;
  if (schema === 0) return say('operations.noStore');
  return free === undefined
    ? say('operations.schemaNote', { schema })
    : say('operations.sizeNote', { schema, free: format.bytes(free) });
}

function Server({ info, queue }: { info: GetServerInfoResponse; queue: Queue | undefined }) {
  const text = useText();
  const { format, say } = text;
  const alive = (state: string) => queue?.studies.filter((study) => study.state === state).length ?? 0;
  return (
    <dl class="tiles">
      <Tile label={say('operations.version')} value={info.version} note={info.api_version} />
      <Tile
        label={say('operations.size')}
        value={info.store_bytes === undefined ? '–' : format.bytes(info.store_bytes)}
        note={storeNote(info, text)}
      />
      <Tile
        label={say('operations.stored')}
        value={queue ? format.count(queue.newest?.sequence ?? 0) : '–'}
        note={
          queue?.newest
            ? say('operations.newest', { time: format.dateTime(queue.newest.create_time) })
            : say('operations.storedNote')
        }
      />
      <Tile label={say('operations.running')} value={format.count(alive('running') + alive('cancelling'))} />
      <Tile
        label={say('operations.waiting')}
        value={format.count(alive('queued'))}
        note={alive('paused') > 0 ? say('operations.pausedNote', { count: alive('paused') }) : ''}
      />
      <Tile
        label={say('operations.interrupted')}
        value={format.count(alive('interrupted'))}
        note={alive('interrupted') > 0 ? say('operations.interruptedNote') : ''}
        tone={alive('interrupted') > 0 ? 'warn' : ''}
      />
    </dl>
  );
}

function Now() {
  const { say } = useText();
  const info = useRead('server', api.serverInfo);
  const models = useRead('cost models', api.costModels);
  const queue = useRead('queue', readQueue);
  useEffect(() => {
    const timer = setInterval(queue.again, refreshMilliseconds);
    return () => clearInterval(timer);
  }, [queue.again]);
  return (
    <Shown reading={info}>
      {(server) => (
        <div class="stack">
          <h2 class="hidden">{say('operations.now')}</h2>
          <Server info={server} queue={queue.data} />
          <h2>{say('operations.queue')}</h2>
          <Shown reading={queue}>{({ studies }) => <QueueTable studies={studies} />}</Shown>
          <Launchers launchers={server.launchers} />
          <h2>{say('operations.models')}</h2>
          <Shown reading={models}>{({ cost_models }) => <CostModels models={cost_models} />}</Shown>
          <h2>{say('operations.abilities')}</h2>
          <div class="pair">
            <Words title={say('operations.strategies')} words={server.strategies} />
            <Words title={say('operations.rules')} words={server.prune_rules} />
            <Words title={say('operations.frameworks')} words={server.frameworks} />
            <Words title={say('operations.templates')} words={server.job_templates} />
          </div>
          <Limits limits={server.limits} />
          <p class="quiet">{say('operations.limits')}</p>
        </div>
      )}
    </Shown>
  );
}

export function Operations({ place }: { place: Place }) {
  const { say } = useText();
  const showsCalls = place.path[1] === 'calls';
  const tabs = [
    { name: say('operations.now'), link: linkTo(['operations']), isCurrent: !showsCalls },
    { name: say('operations.calls'), link: linkTo(['operations', 'calls']), isCurrent: showsCalls },
  ];
  return (
    <>
      <h1>{say('operations.title')}</h1>
      <p class="lead">{say('operations.lead')}</p>
      <nav class="tabs" aria-label={say('operations.parts')}>
        {tabs.map(({ name, link, isCurrent }) => (
          <a key={link} href={link} {...(isCurrent ? { 'aria-current': 'page' as const } : {})}>
            {name}
          </a>
        ))}
      </nav>
      {showsCalls ? <Callers place={place} /> : <Now />}
    </>
  );
}
