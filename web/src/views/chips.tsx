// The chips that a cluster can name, and whether plans can be made with them.
import { useMemo } from 'preact/hooks';
import { api } from '../api/client';
import { newestMeasurements } from '../api/measurements';
import { useRead } from '../api/use_read';
import type { Chip, ListChipsResponse, Measurement } from '../api/wire';
import { halfPrecisionPeak, readinessOf, readinessWords } from '../parts/chip_figures';
import { FilterBar, optionsOf, SelectFilter, TextFilter } from '../parts/filters';
import { ListTable } from '../parts/list_table';
import { Shown } from '../parts/pieces';
import { groupsOf, runsOf, type ErrorSummary } from '../parts/run_errors';
import { linkTo, type Place } from '../router';
import { useText, type Text } from '../text/text';
import { ChipPage } from './chip';

export function ReadinessBadge({ readiness }: { readiness: string }) {
  const text = useText();
  return (
    <span class={`badge readiness-${readiness}`}>
      <span class="dot" aria-hidden="true" />
      {text.word('readiness', readiness)}
    </span>
  );
}

/** Returns the chips that match a text, whatever the case, by id, name, vendor or alias. */
export function chipsNamed(chips: readonly Chip[], wanted: string): Chip[] {
  const part = wanted.toLowerCase();
  return chips.filter(({ id, name, vendor, aliases }) =>
    [id, name, vendor, ...aliases].some((text) => text.toLowerCase().includes(part)),
  );
}

const terabytes = (bytes: number, text: Text) => `${text.format.number(bytes / 1e12, 2)}\u00a0TB/s`;
const teraflops = (flops: number, text: Text) => `${text.format.number(flops / 1e12, 0)}\u00a0TFLOP/s`;

function cellsOf(chip: Chip, runs: ErrorSummary | undefined, text: Text) {
  const { format } = text;
  return [
    <>
      <a href={linkTo(['chips', chip.id])}>{chip.name}</a>
      <span class="quiet block">{chip.id}</span>
    </>,
    chip.vendor,
    <ReadinessBadge readiness={readinessOf(chip, runs)} />,
    text.word('confidence', chip.confidence),
    teraflops(halfPrecisionPeak(chip), text),
    format.gib(chip.memory_capacity_bytes),
    terabytes(chip.memory_bandwidth_bytes_per_second, text),
    runs ? (
      <>
        {format.count(runs.count)}
        <span class="quiet block">{format.change(runs.median)}</span>
      </>
    ) : (
      '–'
    ),
  ];
}

function ChipList(props: {
  place: Place;
  known: ListChipsResponse;
  measurements: readonly Measurement[];
}) {
  const text = useText();
  const { say } = text;
  const { place, known, measurements } = props;
  const { query } = place;
  const summaries = useMemo(
    () => new Map(groupsOf(runsOf(measurements), 'chip').map(({ name, summary }) => [name, summary])),
    [measurements],
  );
  const shown = chipsNamed(known.chips, query['text'] ?? '').filter(
    (chip) =>
      (!query['vendor'] || chip.vendor === query['vendor']) &&
      (!query['readiness'] || readinessOf(chip, summaries.get(chip.id)) === query['readiness']),
  );
  // Chips that somebody has measured come first.
  shown.sort((a, b) => (summaries.get(b.id)?.count ?? 0) - (summaries.get(a.id)?.count ?? 0));
  const unmodelled = known.unmodelled_chips.filter(
    ({ id }) =>
      !query['vendor'] &&
      (!query['readiness'] || query['readiness'] === 'unmodelled') &&
      id.includes((query['text'] ?? '').toLowerCase()),
  );
  return (
    <>
      <FilterBar>
        <TextFilter place={place} name="text" label={say('filter.text')} hint={say('chips.textHint')} />
        <SelectFilter
          place={place}
          name="vendor"
          label={say('chips.vendor')}
          options={optionsOf(known.chips.map(({ vendor }) => vendor), query['vendor'])}
        />
        <SelectFilter
          place={place}
          name="readiness"
          label={say('chips.readiness')}
          options={readinessWords.map((value) => ({ value, label: text.word('readiness', value) }))}
        />
      </FilterBar>
      <div class="stack">
        {shown.length + unmodelled.length === 0 && (
          <div class="card empty">
            <h2>{say('chips.none')}</h2>
            <a href={linkTo(['chips'])}>{say('chips.clear')}</a>
          </div>
        )}
        {shown.length > 0 && (
          <ListTable
            caption={say('chips.title')}
            columns={[
              { label: say('chip') },
              { label: say('chips.vendor') },
              { label: say('chips.readiness') },
              { label: say('chip.confidence') },
              { label: say('chip.peak'), isNumber: true },
              { label: say('chip.memory'), isNumber: true },
              { label: say('chip.bandwidth'), isNumber: true },
              { label: say('chips.runs'), isNumber: true },
            ]}
            rows={shown.map((chip) => ({
              key: chip.id,
              cells: cellsOf(chip, summaries.get(chip.id), text),
            }))}
          />
        )}
        {unmodelled.length > 0 && (
          <section class="card">
            <h2>{say('chips.unmodelled')}</h2>
            <dl class="sentences" lang="en">
              {unmodelled.map(({ id, missing }) => (
                <div key={id}>
                  <dt>{id}</dt>
                  <dd>{missing}</dd>
                </div>
              ))}
            </dl>
          </section>
        )}
      </div>
    </>
  );
}

export function Chips({ place }: { place: Place }) {
  const { say } = useText();
  const chips = useRead('chips', api.chips);
  const measured = useRead('measurements', (signal) => newestMeasurements({}, signal));
  const id = place.path[1];
  return (
    <Shown reading={chips}>
      {(known) =>
        id !== undefined && !known.chips.some((chip) => chip.id === id) ? (
          <div class="card empty">
            <h1>{say('chips.none')}</h1>
            <a href={linkTo(['chips'])}>{say('chips.clear')}</a>
          </div>
        ) : id !== undefined ? (
          <ChipPage id={id} place={place} chips={known.chips} measurements={measured.data?.measurements ?? []} />
        ) : (
          <>
            <h1>{say('chips.title')}</h1>
            <p class="lead">{say('chips.lead')}</p>
            <ChipList place={place} known={known} measurements={measured.data?.measurements ?? []} />
          </>
        )
      }
    </Shown>
  );
}
