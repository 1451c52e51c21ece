// How a search goes or went: live events, the best so far, and what the rules removed.
import { useMemo } from 'preact/hooks';
import { useWatch } from '../api/watch';
import type { GetStudyResponse } from '../api/wire';
import { Chart } from '../charts/chart';
import { eventText, funnelSpec, progressPoints, progressSpec } from '../charts/search';
import { Tile } from '../parts/pieces';
import { useText } from '../text/text';

const eventLimit = 200;

export function Search({ study }: { study: GetStudyResponse }) {
  const text = useText();
  const { format, say } = text;
  const id = study.study?.id ?? '';
  const { events, connection } = useWatch(id);
  const search = study.result?.search;
  const last = useMemo(() => events.filter(({ progress }) => progress !== undefined).at(-1)?.progress, [events]);
  const charts = useMemo(
    () => ({
      progress: progressPoints(events).length > 1 ? progressSpec(events, text) : undefined,
      funnel: search ? funnelSpec(search, text) : undefined,
    }),
    [events, search, text],
  );
  const told = useMemo(() => events.filter(({ kind }) => kind !== 'heartbeat'), [events]);
  const considered = last && last.space_count > 0 ? last.considered_count / last.space_count : undefined;
  return (
    <div class="stack">
      <dl class="tiles">
        <Tile
          label={say('search.space')}
          value={format.count(search?.space_count ?? last?.space_count ?? 0)}
          note={say('search.spaceNote')}
        />
        <Tile
          label={say('search.evaluated')}
          value={format.count(search?.evaluated_count ?? last?.evaluated_count ?? 0)}
        />
        {search ? (
          <Tile
            label={say('search.proof')}
            value={search.complete ? say('search.complete') : say('search.cut')}
            note={
              search.optimality_gap_ratio === 0
                ? say('search.noGap')
                : say('search.gap', { gap: format.percent(search.optimality_gap_ratio) })
            }
          />
        ) : (
          considered !== undefined && (
            <Tile label={say('search.considered')} value={format.percent(considered)} />
          )
        )}
        <Tile
          label={say('search.best')}
          value={
            (study.study?.best_step_time_seconds || last?.best_step_time_seconds || 0) > 0
              ? format.seconds(
                  study.study?.best_step_time_seconds || last?.best_step_time_seconds || 0,
                )
              : '–'
          }
        />
      </dl>
      {charts.progress && <Chart spec={charts.progress} />}
      {charts.funnel && <Chart spec={charts.funnel} />}
      <section class="card">
        <div class="chart-head">
          <h3>{say('events.title')}</h3>
          <p class={`connection ${connection}`} role="status">
            <span class="dot" aria-hidden="true" />
            {say(`connection.${connection}`)}
          </p>
        </div>
        {told.length > eventLimit && (
          <p class="quiet">{say('events.cut', { count: eventLimit, total: told.length })}</p>
        )}
        {told.length === 0 ? (
          <p class="quiet">{say('events.none')}</p>
        ) : (
          <ol class="events" reversed tabIndex={0} aria-label={say('events.title')}>
            {told
              .slice(-eventLimit)
              .reverse()
              .map((event) => (
                <li key={event.revision} value={event.revision}>
                  <time dateTime={event.time}>{format.time(event.time)}</time>
                  <span>{eventText(event, text)}</span>
                </li>
              ))}
          </ol>
        )}
      </section>
    </div>
  );
}
