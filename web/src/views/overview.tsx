import { useEffect, useState } from 'preact/hooks';
import { api } from '../api/client';
import { useRead } from '../api/use_read';
import type { Study } from '../api/wire';
import { FilterBar, PageLinks, SelectFilter, TextFilter } from '../parts/filters';
import { Shown, StateBadge } from '../parts/pieces';
import { chipOptions, LabelLinks, labelFields, labelsOf } from '../parts/study_filters';
import { linkTo, type Place } from '../router';
import { useText } from '../text/text';
import { comparedLimit } from './studies';

const states = ['queued', 'running', 'paused', 'interrupted', 'cancelling', 'succeeded', 'failed', 'cancelled'];
const outcomes = [
  'improved',
  'baseline_best',
  'no_feasible_plan',
  'all_trials_failed',
  'deadline_cut',
  'evaluation_limit',
  'cancelled',
  'failed',
];
const filterNames = ['state', 'outcome', 'chip', 'label', 'creator', 'text'] as const;
const pageSize = 50;

const creatorsOf = (studies: readonly Study[]): string[] =>
  [...new Set(studies.map(({ creator }) => creator))].filter((name) => name !== '').sort();

function Filters(props: { place: Place; labels: readonly string[]; creators: readonly string[] }) {
  const { place, labels, creators } = props;
  const text = useText();
  const { say } = text;
  const chips = useRead('chips', api.chips);
  const words = (group: 'state' | 'outcome', values: readonly string[]) =>
    values.map((value) => ({ value, label: text.word(group, value) }));
  const label = place.query['label'] ?? '';
  return (
    <>
      <FilterBar>
        <TextFilter place={place} name="text" label={say('filter.text')} hint={say('filter.textHint')} />
        <SelectFilter place={place} name="state" label={say('filter.state')} options={words('state', states)} />
        <SelectFilter place={place} name="outcome" label={say('filter.outcome')} options={words('outcome', outcomes)} />
        <SelectFilter
          place={place}
          name="chip"
          label={say('chip')}
          options={chipOptions(chips.data?.chips ?? [], place.query['chip'])}
        />
        <TextFilter place={place} name="label" label={say('filter.label')} hint="team=vision" known={labels} />
        {(creators.length > 0 || (place.query['creator'] ?? '') !== '') && (
          <TextFilter place={place} name="creator" label={say('filter.creator')} hint="ci" known={creators} />
        )}
      </FilterBar>
      {labelFields(label) === undefined && (
        <p role="alert" class="retracted">
          {say('filter.labelForm', { label })}
        </p>
      )}
    </>
  );
}

/** An outcome without a plan to launch stands out. */
const toneOf = (outcome: string): string =>
  outcome === 'no_feasible_plan' || outcome === 'all_trials_failed' ? 'retracted' : '';

function Row(props: { place: Place; study: Study; isChosen: boolean; onChoose: (isChosen: boolean) => void }) {
  const { place, study } = props;
  const text = useText();
  const { format, say } = text;
  const gain = study.gain_over_baseline_ratio;
  return (
    <tr>
      <td>
        <input
          type="checkbox"
          checked={props.isChosen}
          aria-label={text.say('studies.chooseOne', { name: study.id })}
          onChange={(event) => props.onChoose(event.currentTarget.checked)}
        />
      </td>
      <th scope="row">
        <a href={linkTo(['studies', study.id])}>{study.display_name || study.model_name || study.id}</a>
        <span class="quiet block">
          {[study.display_name && study.model_name, study.id].filter(Boolean).join(' · ')}
        </span>
        {study.creator !== '' && <span class="quiet block">{say('overview.creator', { name: study.creator })}</span>}
        {study.note !== '' && <span class="quiet block note-line">{study.note}</span>}
        <LabelLinks study={study} query={place.query} />
      </th>
      <td>
        {study.cluster_name}
        <span class="quiet block">{text.say('devices', { count: study.device_count })}</span>
      </td>
      <td>
        <StateBadge state={study.state} />
        {study.outcome !== '' && study.outcome !== study.state && (
          <span class={`quiet block whole ${toneOf(study.outcome)}`}>{text.word('outcome', study.outcome)}</span>
        )}
      </td>
      <td class="number">
        {study.best_step_time_seconds > 0 ? format.seconds(study.best_step_time_seconds) : '–'}
      </td>
      <td class={`number ${gain > 0 ? 'good' : ''}`}>
        {study.best_step_time_seconds > 0 ? format.change(gain) : '–'}
      </td>
      <td class="number">
        <span class="whole">{format.dateTime(study.create_time)}</span>
        {study.end_time !== '' && (
          <span class="quiet block whole">{say('overview.searched', { time: format.duration(study.search_seconds) })}</span>
        )}
      </td>
    </tr>
  );
}

export function Overview({ place }: { place: Place }) {
  const text = useText();
  const page = place.query['page'] ?? '';
  const [chosen, setChosen] = useState<string[]>([]);
  const key = JSON.stringify(['studies', ...filterNames.map((name) => place.query[name]), page]);
  const reading = useRead(key, (signal) =>
    api.studies(
      {
        page_size: pageSize,
        page_token: page,
        'filter.state': place.query['state'],
        'filter.outcome': place.query['outcome'],
        'filter.chip': place.query['chip'],
        'filter.text': place.query['text'],
        'filter.creator': place.query['creator'],
        ...labelFields(place.query['label'] ?? ''),
      },
      signal,
    ),
  );
  // A running study changes by itself; the list follows every few seconds while there is one.
  const isAlive = reading.data?.studies.some(({ end_time }) => end_time === '') ?? false;
  useEffect(() => {
    if (!isAlive) return undefined;
    const timer = setInterval(reading.again, 5000);
    return () => clearInterval(timer);
  }, [isAlive, key]);
  const isFiltered = filterNames.some((name) => (place.query[name] ?? '') !== '');
  return (
    <>
      <h1>{text.say('overview.title')}</h1>
      <p class="lead">{text.say('overview.lead')}</p>
      <Filters
        place={place}
        labels={labelsOf(reading.data?.studies ?? [])}
        creators={creatorsOf(reading.data?.studies ?? [])}
      />
      <Shown reading={reading}>
        {({ studies, next_page_token }) =>
          studies.length === 0 ? (
            <div class="card empty">
              <h2>{text.say(isFiltered ? 'overview.noMatch' : 'overview.empty')}</h2>
              {isFiltered ? (
                <a href={linkTo([])}>{text.say('filter.clear')}</a>
              ) : (
                <>
                  <p>{text.say('overview.start')}</p>
                  <p>
                    <a href={linkTo(['ask'])}>{text.say('ask.title')}</a>
                  </p>
                  <pre>
                    <code>meshwright tune --model config.json --workload workload.json --cluster cluster.json</code>
                  </pre>
                </>
              )}
            </div>
          ) : (
            <>
              <div class="card scroll" tabIndex={0} role="region" aria-label={text.say('overview.title')}>
                <table class="wide">
                  <caption class="hidden">{text.say('overview.title')}</caption>
                  <thead>
                    <tr>
                      <th scope="col">{text.say('studies.column')}</th>
                      <th scope="col">{text.say('model')}</th>
                      <th scope="col">{text.say('cluster')}</th>
                      <th scope="col">{text.say('overview.state')}</th>
                      <th scope="col" class="number">
                        {text.say('overview.best')}
                      </th>
                      <th scope="col" class="number">
                        {text.say('overview.gain')}
                      </th>
                      <th scope="col" class="number">
                        {text.say('overview.created')}
                      </th>
                    </tr>
                  </thead>
                  <tbody>
                    {studies.map((study) => (
                      <Row
                        place={place}
                        study={study}
                        key={study.id}
                        isChosen={chosen.includes(study.id)}
                        onChoose={(isChosen) =>
                          setChosen([...chosen.filter((id) => id !== study.id), ...(isChosen ? [study.id] : [])])
                        }
                      />
                    ))}
                  </tbody>
                </table>
              </div>
              {chosen.length > 0 && (
                <p class="links" role="status">
                  {text.say('studies.choose', { count: chosen.length })}
                  {chosen.length >= 2 && chosen.length <= comparedLimit && (
                    <a class="button" href={linkTo(['compare', ...chosen])}>
                      {text.say('studies.compare')}
                    </a>
                  )}
                </p>
              )}
              <PageLinks place={place} next={next_page_token} />
            </>
          )
        }
      </Shown>
    </>
  );
}
