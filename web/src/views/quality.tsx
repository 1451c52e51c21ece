// This page shows how far predictions can be trusted: predictions for runs that were measured later.
import { useMemo } from 'preact/hooks';
import { newestMeasurements, type MeasurementSet } from '../api/measurements';
import { useRead } from '../api/use_read';
import type { Measurement } from '../api/wire';
import { Chart } from '../charts/chart';
import { coverageSpec, errorGroupsSpec, errorOverTimeSpec, scatterSpec } from '../charts/quality';
import { FilterBar, optionsOf, SelectFilter } from '../parts/filters';
import { Shown, Tile } from '../parts/pieces';
import { dimensions, groupOf, groupsOf, runsOf, summaryOf, type RunDimension } from '../parts/run_errors';
import { linkTo, type Place } from '../router';
import { useText } from '../text/text';

const sources = ['trial', 'job_report', 'import', 'replay'];
/** The fields of the address, and those of the server's filter; a version is filtered here. */
const serverFilters = {
  chip: 'filter.chip',
  model: 'filter.model_name',
  framework: 'filter.framework',
  source: 'filter.source',
} as const;

/** Returns the measurements that match the filters of the address. */
export function matching(measurements: readonly Measurement[], query: Place['query']): Measurement[] {
  return measurements.filter(
    (measurement) =>
      dimensions.every(
        (dimension) => !query[dimension] || groupOf(measurement, dimension) === query[dimension],
      ) && (!query['source'] || measurement.source === query['source']),
  );
}

function Filters({ place, all }: { place: Place; all: readonly Measurement[] }) {
  const text = useText();
  const { say } = text;
  const labels: Record<RunDimension, string> = {
    chip: say('chip'),
    model: say('model'),
    framework: say('framework'),
    version: say('frameworkVersion'),
  };
  return (
    <FilterBar>
      {dimensions.map((dimension) => (
        <SelectFilter
          key={dimension}
          place={place}
          name={dimension}
          label={labels[dimension]}
          options={optionsOf(all.map((measurement) => groupOf(measurement, dimension)), place.query[dimension])}
        />
      ))}
      <SelectFilter
        place={place}
        name="source"
        label={say('runs.source')}
        options={sources.map((value) => ({ value, label: text.word('source', value) }))}
      />
      <SelectFilter
        place={place}
        name="by"
        label={say('quality.by')}
        none={null}
        options={dimensions.map((value) => ({ value: value === 'chip' ? '' : value, label: labels[value] }))}
      />
    </FilterBar>
  );
}

function Figures({ place, set }: { place: Place; set: MeasurementSet }) {
  const text = useText();
  const { format, say } = text;
  const shown = useMemo(() => {
    const chosen = matching(set.measurements, place.query);
    const by = dimensions.find((name) => name === place.query['by']) ?? 'chip';
    const runs = runsOf(chosen);
    const retracted = runsOf(chosen, true);
    const groups = groupsOf(runs, by);
    return {
      summary: summaryOf(runs),
      retractedCount: chosen.filter(({ retraction }) => retraction !== undefined).length,
      scatter: scatterSpec(runs, retracted, text),
      time: errorOverTimeSpec(runs, text),
      groups: errorGroupsSpec(groups, by, text),
      coverage: coverageSpec(groups, by, text),
    };
  }, [set, place, text]);
  const { summary } = shown;
  if (summary.count === 0) {
    return (
      <div class="card empty">
        <h2>{say('quality.none')}</h2>
        <p>{say('quality.start')}</p>
        <a href={linkTo(['quality'])}>{say('quality.clear')}</a>
      </div>
    );
  }
  return (
    <div class="stack">
      <h2 class="hidden">{say('quality.counted')}</h2>
      {set.isCut && <p class="note-box">{say('runs.cut', { count: set.measurements.length })}</p>}
      <dl class="tiles">
        <Tile label={say('quality.counted')} value={format.count(summary.count)} note={say('quality.countedNote')} />
        <Tile label={say('quality.median')} value={format.change(summary.median)} note={say('quality.medianNote')} />
        <Tile label={say('quality.size')} value={format.percent(summary.size)} note={say('quality.sizeNote')} />
        <Tile
          label={say('quality.insideShare')}
          value={format.percent(summary.insideCount / summary.count)}
          note={say('quality.promised')}
        />
        <Tile
          label={say('quality.retracted')}
          value={format.count(shown.retractedCount)}
          note={say('quality.retractedNote')}
        />
      </dl>
      <Chart spec={shown.scatter} />
      <div class="pair">
        <Chart spec={shown.groups} />
        <Chart spec={shown.coverage} />
      </div>
      <Chart spec={shown.time} />
    </div>
  );
}

export function Quality({ place }: { place: Place }) {
  const { say } = useText();
  const all = useRead('measurements', (signal) => newestMeasurements({}, signal));
  // With more runs than a page of charts takes, the server looks for those that match.
  const filter = Object.fromEntries(
    Object.entries(serverFilters).map(([name, field]) => [field, place.query[name]]),
  );
  const isCut = all.data?.isCut ?? false;
  const exact = useRead(`measurements ${isCut} ${JSON.stringify(filter)}`, async (signal) =>
    isCut ? newestMeasurements(filter, signal) : undefined,
  );
  return (
    <>
      <h1>{say('quality.title')}</h1>
      <p class="lead">{say('quality.lead')}</p>
      <Shown reading={all}>
        {(set) => (
          <>
            <Filters place={place} all={set.measurements} />
            {isCut ? (
              <Shown reading={exact}>{(found) => <Figures place={place} set={found ?? set} />}</Shown>
            ) : (
              <Figures place={place} set={set} />
            )}
          </>
        )}
      </Shown>
    </>
  );
}
