import { useState } from 'preact/hooks';
import { api } from '../api/client';
import { embedded } from '../api/embedded';
import { useRead } from '../api/use_read';
import { useStateChanges } from '../api/watch';
import type { GetStudyResponse } from '../api/wire';
import { useCurrentInSight } from '../parts/in_sight';
import { Shown, StateBadge } from '../parts/pieces';
import { ReportButton } from '../parts/report_file';
import { DeletionBox, StateButtons } from '../parts/study_state';
import { StudyWordsBox } from '../parts/study_words';
import { linkTo, type Place } from '../router';
import { useText } from '../text/text';
import { ClusterPage } from './cluster';
import { Compare } from './compare';
import { Decision } from './decision';
import { Dimensions } from './dimensions';
import { PlanPage } from './plan';
import { Plans } from './plans';
import { PoolsPage } from './pools';
import { Scaling } from './scaling';
import { Search } from './search';
import { TimelinePage } from './timeline';
import { TrialPage } from './trial';
import { Trials } from './trials';

const tabs = ['decision', 'search', 'plans', 'dimensions', 'compare', 'pools', 'cluster', 'timeline', 'scaling', 'trials'] as const;
type Tab = (typeof tabs)[number];

function Head(props: { study: GetStudyResponse; mayChange: boolean; onChange: () => void }) {
  const { study, mayChange, onChange } = props;
  const text = useText();
  const [isDeleting, setIsDeleting] = useState(false);
  const { format } = text;
  const { study: summary, question } = study;
  if (!summary) return null;
  const title = text.say('study.title', { model: summary.model_name, cluster: summary.cluster_name });
  const workload = question?.workload;
  const facts = [
    summary.display_name === '' ? '' : title,
    text.say('study.batch', {
      batch: format.count(workload?.global_batch_size ?? 0),
      sequence: format.count(workload?.sequence_length ?? 0),
    }),
    workload?.precision ?? '',
    [workload?.framework?.name, workload?.framework?.version].filter(Boolean).join(' '),
    text.say('study.asked', { time: format.dateTime(summary.create_time) }),
  ].filter((fact) => fact !== '');
  return (
    <header class="study-head">
      <p class="crumbs">
        {!embedded && (
          <>
            <a href={linkTo([])}>{text.say('overview.title')}</a> <span aria-hidden="true">/</span>{' '}
          </>
        )}
        {summary.id}
      </p>
      <div class="chart-head">
        <h1>{summary.display_name || title}</h1>
        {!embedded && (
          <div class="chart-tools">
            {mayChange && <StateButtons study={summary} onChange={onChange} onDelete={() => setIsDeleting(true)} />}
            <a class="button" href={linkTo(['ask'], { from: summary.id })}>
              {text.say('ask.again')}
            </a>
            <ReportButton study={study} />
          </div>
        )}
      </div>
      {isDeleting && <DeletionBox study={summary} onLeave={() => setIsDeleting(false)} />}
      <p class="facts">
        <StateBadge state={summary.state} />
        <span>{text.say('devices', { count: summary.device_count })}</span>
        {facts.map((fact) => (
          <span key={fact}>{fact}</span>
        ))}
      </p>
      <StudyWordsBox study={summary} mayChange={mayChange} onChange={onChange} />
    </header>
  );
}

/** Reads the study again when its state changes. */
function Followed(props: { id: string; revision: number; onChange: () => void }) {
  useStateChanges(props.id, props.revision, props.onChange);
  return null;
}

function Tabs({ id, current, names }: { id: string; current: Tab; names: readonly Tab[] }) {
  const text = useText();
  const row = useCurrentInSight(current);
  return (
    <nav class="tabs" ref={row} aria-label={text.say('study.parts')}>
      {names.map((name) => (
        <a
          key={name}
          href={linkTo(['studies', id, name])}
          {...(name === current ? { 'aria-current': 'page' as const } : {})}
        >
          {text.say(`tab.${name}`)}
        </a>
      ))}
    </nav>
  );
}

export function StudyPage({ id, place }: { id: string; place: Place }) {
  const path = place.path.slice(2);
  const text = useText();
  const reading = useRead(`study ${id}`, (signal) => api.study(id, signal));
  const server = useRead('server', (signal) => api.serverInfo(signal));
  const mayChange = !embedded && server.data?.allows_http_writes === true;
  return (
    <Shown reading={reading}>
      {(study) => {
        const hasEnded = study.study?.end_time !== '';
        const stated = tabs.find((name) => name === path[0]);
        const tab: Tab = stated ?? (hasEnded ? 'decision' : 'search');
        const hasTrials =
          study.question?.trials !== undefined || (study.result?.trials.length ?? 0) > 0;
        const changes = mayChange && study.study ? { changes: { study: study.study, onChange: reading.again } } : {};
        const hasPools = study.result?.heterogeneous !== undefined;
        return (
          <>
            {!hasEnded && !embedded && (
              <Followed id={id} revision={study.study?.revision ?? 0} onChange={reading.again} />
            )}
            <Head study={study} mayChange={mayChange} onChange={reading.again} />
            <Tabs
              id={id}
              current={tab}
              names={tabs.filter(
                (name) =>
                  (name !== 'trials' || hasTrials) &&
                  ((name !== 'timeline' && name !== 'scaling') || !embedded) &&
                  (name !== 'pools' || hasPools),
              )}
            />
            {tab !== 'decision' && path[1] === undefined && (
              <h2 class="hidden">{text.say(`tab.${tab}`)}</h2>
            )}
            {tab === 'decision' && <Decision study={study} place={place} />}
            {tab === 'search' && <Search study={study} />}
            {tab === 'plans' && path[1] === undefined && <Plans id={id} study={study} />}
            {tab === 'plans' && path[1] !== undefined && <PlanPage study={study} rank={path[1]} />}
            {tab === 'dimensions' && <Dimensions id={id} place={place} />}
            {tab === 'compare' && <Compare study={study} place={place} />}
            {tab === 'pools' && <PoolsPage study={study} place={place} />}
            {tab === 'cluster' && <ClusterPage study={study} place={place} />}
            {tab === 'scaling' && <Scaling study={study} place={place} />}
            {tab === 'timeline' && <TimelinePage study={study} place={place} />}
            {tab === 'trials' && path[1] === undefined && <Trials id={id} place={place} {...changes} />}
            {tab === 'trials' && path[1] !== undefined && (
              <TrialPage study={study} number={path[1]} {...changes} />
            )}
          </>
        );
      }}
    </Shown>
  );
}
