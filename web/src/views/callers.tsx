// Who may call the server and how often each has, and the calls that have changed something.
import { api, ApiError } from '../api/client';
import { useRead, type Reading } from '../api/use_read';
import type { AuditEvent, Caller, ListCallersResponse } from '../api/wire';
import { FilterBar, optionsOf, PageLinks, SelectFilter, TextFilter } from '../parts/filters';
import { ListTable } from '../parts/list_table';
import { Shown } from '../parts/pieces';
import { linkTo, type Place } from '../router';
import { useText } from '../text/text';

const pageSize = 50;
/** The methods that are audited, as on the wire. */
export const auditedMethods = [
  'BackupStore',
  'BatchCreateJobReports',
  'CancelStudy',
  'CreateJobReport',
  'CreateStudy',
  'DeleteStudy',
  'ImportHistory',
  'PauseStudy',
  'ResumeStudy',
  'RetractMeasurement',
  'RetryTrials',
  'UpdateStudy',
];

const isForbidden = ({ error }: Reading<unknown>): boolean => error instanceof ApiError && error.isForbidden;

const secondsPerHour = 3600;

/** The device hours of the last day, and those that open studies may still take. */
function DeviceTime({ caller }: { caller: Caller }) {
  const { format, say } = useText();
  if (caller.device_seconds === undefined) return <>–</>;
  const promised = caller.promised_device_seconds ?? 0;
  return (
    <>
      {format.number(caller.device_seconds / secondsPerHour, 1)}
      {promised > 0 && (
        <span class="quiet block">{say('callers.promised', { hours: format.number(promised / secondsPerHour, 1) })}</span>
      )}
    </>
  );
}

function CallerTable({ known }: { known: ListCallersResponse }) {
  const text = useText();
  const { format, say } = text;
  if (!known.has_list) return <p class="card">{say('callers.everybody')}</p>;
  return (
    <>
      <ListTable
        caption={say('callers.title')}
        columns={[
          { label: say('callers.caller') },
          { label: say('callers.role') },
          { label: say('callers.calls'), isNumber: true },
          { label: say('callers.refused'), isNumber: true },
          { label: say('callers.failed'), isNumber: true },
          { label: say('callers.studies'), isNumber: true },
          { label: say('callers.deviceHours'), isNumber: true },
          { label: say('callers.last') },
        ]}
        rows={known.callers.map((caller) => ({
          key: `${caller.name} ${caller.role}`,
          cells: [
            <>
              <a href={linkTo(['operations', 'calls'], { caller: caller.name })}>{caller.name}</a>
              {!caller.is_listed && <span class="quiet block">{say('callers.notListed')}</span>}
            </>,
            text.word('role', caller.role),
            format.count(caller.call_count),
            <span class={caller.refused_count > 0 ? 'bad-figure' : ''}>{format.count(caller.refused_count)}</span>,
            format.count(caller.failed_count),
            caller.open_study_count === undefined ? '–' : format.count(caller.open_study_count),
            <DeviceTime caller={caller} />,
            caller.last_call_time === '' ? '–' : format.dateTime(caller.last_call_time),
          ],
        }))}
      />
      <p class="quiet">
        {say('callers.since', { time: format.dateTime(known.counted_from), count: known.unknown_call_count })}
      </p>
    </>
  );
}

/** The end of a call: a word, and the reason of an error in the words of the wire. */
function Result({ event }: { event: AuditEvent }) {
  const { say } = useText();
  if (event.code === 'OK') return <span class="good">{say('audit.done')}</span>;
  return (
    <span class="retracted" lang="en">
      {event.code}
      {event.reason !== '' && <span class="block">{event.reason}</span>}
    </span>
  );
}

function EventTable({ events }: { events: readonly AuditEvent[] }) {
  const text = useText();
  const { format, say } = text;
  return (
    <ListTable
      caption={say('audit.title')}
      columns={[
        { label: say('audit.time') },
        { label: say('callers.caller') },
        { label: say('audit.method') },
        { label: say('gains.study') },
        { label: say('audit.result') },
        { label: say('audit.from') },
      ]}
      rows={events.map((event) => ({
        key: String(event.sequence),
        cells: [
          <span class="whole">{format.dateTime(event.create_time)}</span>,
          event.caller === '' ? (
            say('audit.anybody')
          ) : (
            <>
              {event.caller}
              <span class="quiet block">{text.word('role', event.role)}</span>
            </>
          ),
          <code>{event.method}</code>,
          event.study_id === '' ? '–' : <a href={linkTo(['studies', event.study_id])}>{event.study_id}</a>,
          <Result event={event} />,
          <>
            {text.word('protocol', event.protocol)}
            <span class="quiet block">{event.peer}</span>
          </>,
        ],
      }))}
    />
  );
}

function Events({ place, callers }: { place: Place; callers: readonly string[] }) {
  const { say } = useText();
  const { query } = place;
  const filter = {
    'filter.caller': query['caller'],
    'filter.method': query['method'],
    'filter.study_id': query['study'],
  };
  const page = query['page'] ?? '';
  const reading = useRead(`audit ${JSON.stringify(filter)} ${page}`, (signal) =>
    api.auditEvents({ ...filter, page_size: pageSize, page_token: page }, signal),
  );
  const isFiltered = Object.values(filter).some((value) => (value ?? '') !== '');
  return (
    <section class="stack" aria-labelledby="audit">
      <div>
        <h2 id="audit">{say('audit.title')}</h2>
        <p class="lead">{say('audit.lead')}</p>
        <FilterBar label={say('audit.title')}>
          <SelectFilter
            place={place}
            name="caller"
            label={say('callers.caller')}
            options={optionsOf(callers, query['caller'])}
          />
          <SelectFilter
            place={place}
            name="method"
            label={say('audit.method')}
            options={optionsOf(auditedMethods, query['method'])}
          />
          <TextFilter place={place} name="study" label={say('gains.study')} hint="study-0123456789ab" />
        </FilterBar>
      </div>
      <Shown reading={reading}>
        {({ events, next_page_token }) =>
          events.length === 0 ? (
            <p class="card">{say(isFiltered ? 'audit.noMatch' : 'audit.none')}</p>
          ) : (
            <div>
              <EventTable events={events} />
              <PageLinks place={place} next={next_page_token} />
            </div>
          )
        }
      </Shown>
    </section>
  );
}

export function Callers({ place }: { place: Place }) {
  const { say } = useText();
  const callers = useRead('callers', api.callers);
  if (isForbidden(callers)) {
    return (
      <div class="card empty">
        <h2>{say('callers.forbidden')}</h2>
        <p lang="en">{callers.error?.message}</p>
      </div>
    );
  }
  return (
    <Shown reading={callers}>
      {(known) => (
        <div class="stack">
          <div>
            <h2>{say('callers.title')}</h2>
            <p class="lead">{say('callers.lead')}</p>
          </div>
          <CallerTable known={known} />
          <Events place={place} callers={[...new Set(known.callers.map(({ name }) => name))]} />
        </div>
      )}
    </Shown>
  );
}
