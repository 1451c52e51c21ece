// One chip: its readiness, what its figures rest on, what runs have taught, and another beside it.
import { useMemo } from 'preact/hooks';
import { api } from '../api/client';
import { useRead } from '../api/use_read';
import type { Chip, Measurement, StoredCalibration } from '../api/wire';
import { Chart } from '../charts/chart';
import { figureCoverageSpec, groupBandwidthSpec, residualsSpec } from '../charts/chips';
import { figureText, halfPrecisionPeak, readinessOf } from '../parts/chip_figures';
import { FilterBar, SelectFilter } from '../parts/filters';
import { ListTable } from '../parts/list_table';
import { ServerSentences, Shown, Tile } from '../parts/pieces';
import { runsOf, summaryOf } from '../parts/run_errors';
import { linkTo, type Place } from '../router';
import { useText } from '../text/text';
import { BringUpReports } from './bring_up';
import { ChipComparison } from './chip_comparison';
import { ChipCoverage } from './chip_coverage';
import { ReadinessBadge } from './chips';

const calibrationPage = 20;

function Tiles({ chip, measurements }: { chip: Chip; measurements: readonly Measurement[] }) {
  const text = useText();
  const { format, say } = text;
  const runs = summaryOf(runsOf(measurements));
  return (
    <dl class="tiles">
      <Tile
        label={say('chip.peak')}
        value={`${format.number(halfPrecisionPeak(chip) / 1e12, 0)}\u00a0TFLOP/s`}
        note={say('chip.peakNote')}
      />
      <Tile label={say('chip.memory')} value={format.gib(chip.memory_capacity_bytes)} />
      <Tile
        label={say('chip.bandwidth')}
        value={`${format.number(chip.memory_bandwidth_bytes_per_second / 1e12, 2)}\u00a0TB/s`}
      />
      <Tile
        label={say('chip.confidence')}
        value={text.word('confidence', chip.confidence)}
        note={say('chip.confidenceNote')}
        tone={chip.confidence === 'low' ? 'warn' : ''}
      />
      <Tile label={say('runs.count')} value={format.count(runs.count)} note={say('quality.countedNote')} />
      {runs.count > 0 && (
        <Tile
          label={say('quality.median')}
          value={format.change(runs.median)}
          note={say('quality.coverageSentence', {
            inside: runs.insideCount,
            count: runs.count,
            share: format.percent(runs.insideCount / runs.count),
          })}
        />
      )}
    </dl>
  );
}

function Calibrations({ stored }: { stored: readonly StoredCalibration[] }) {
  const text = useText();
  const { format, say } = text;
  const newest = stored[0]?.calibration?.id ?? '';
  const reading = useRead(`calibration ${newest}`, async (signal) =>
    newest === '' ? undefined : api.calibration(newest, signal),
  );
  const evidence = reading.data?.calibration?.calibration?.evidence;
  const residuals = useMemo(() => residualsSpec(evidence ?? [], text), [evidence, text]);
  if (newest === '') {
    return (
      <section class="card">
        <h2>{say('chip.calibrations')}</h2>
        <p>{say('chip.noCalibrations')}</p>
      </section>
    );
  }
  return (
    <>
      {evidence && <Chart spec={residuals} />}
      <section class="card">
        <h2>{say('chip.calibrations')}</h2>
        <p class="quiet">{say('chip.calibrationsLead')}</p>
        <ListTable
          isInner
          caption={say('chip.calibrations')}
          columns={[
            { label: say('chip.calibration') },
            { label: say('framework') },
            { label: say('chip.timeFactor'), isNumber: true },
            { label: say('chip.memoryFactor'), isNumber: true },
            { label: say('runs.count'), isNumber: true },
            { label: say('chip.modelVersion') },
          ]}
          rows={stored.flatMap(({ calibration, create_time }) =>
            calibration
              ? [
                  {
                    key: calibration.id,
                    cells: [
                      <>
                        <span class="whole">{format.dateTime(create_time)}</span>
                        <span class="quiet block">{calibration.id.slice(0, 20)}…</span>
                      </>,
                      `${calibration.framework} ${calibration.framework_version}`.trim(),
                      format.change(calibration.time_ratio - 1),
                      format.change(calibration.memory_ratio - 1),
                      format.count(calibration.run_count),
                      calibration.model_version,
                    ],
                  },
                ]
              : [],
          )}
        />
      </section>
    </>
  );
}

function Figures({ chip }: { chip: Chip }) {
  const text = useText();
  const { say } = text;
  return (
    <section class="card">
      <details>
        <summary>{say('chip.figures', { count: chip.figures.length })}</summary>
        <ListTable
          isInner
          caption={say('chip.figures', { count: chip.figures.length })}
          columns={[
            { label: say('chip.figure') },
            { label: say('chip.value'), isWide: true },
            { label: say('provenance') },
            { label: say('chip.confidence') },
            { label: say('defaults.source'), isWide: true },
          ]}
          rows={chip.figures.map(({ name, value, source, provenance, confidence }) => ({
            key: name,
            cells: [
              <code>{name}</code>,
              figureText(value, text.format.count),
              text.word('provenance', provenance),
              text.word('confidence', confidence),
              <span lang="en">{source}</span>,
            ],
          }))}
        />
      </details>
    </section>
  );
}

function Detail(props: { chip: Chip; place: Place; chips: readonly Chip[]; measurements: readonly Measurement[] }) {
  const text = useText();
  const { say } = text;
  const { chip, place } = props;
  const own = useMemo(
    () => props.measurements.filter((measurement) => measurement.chip === chip.id),
    [props.measurements, chip],
  );
  const charts = useMemo(
    () => ({ coverage: figureCoverageSpec(chip, text), groups: groupBandwidthSpec([chip], text) }),
    [chip, text],
  );
  const calibrations = useRead(`calibrations ${chip.id}`, (signal) =>
    api.calibrations({ chip: chip.id, page_size: calibrationPage }, signal),
  );
  const other = place.query['with'] ?? '';
  const readiness = readinessOf(chip, summaryOf(runsOf(own)));
  return (
    <>
      <header class="study-head">
        <p class="crumbs">
          <a href={linkTo(['chips'])}>{say('chips.title')}</a> <span aria-hidden="true">/</span> {chip.id}
        </p>
        <h1>
          {chip.vendor} {chip.name}
        </h1>
        <p class="facts">
          <ReadinessBadge readiness={readiness} />
          <span>{text.word('readinessNote', readiness)}</span>
        </p>
      </header>
      <FilterBar>
        <SelectFilter
          place={place}
          name="with"
          label={say('difference.against')}
          none={say('chip.noOther')}
          options={props.chips
            .filter(({ id }) => id !== chip.id)
            .map(({ id, vendor, name }) => ({ value: id, label: `${vendor} ${name} (${id})` }))}
        />
      </FilterBar>
      {other !== '' && other !== chip.id ? (
        <ChipComparison key={other} chip={chip} otherId={other} />
      ) : (
        <div class="stack">
          <h2 class="hidden">{say('chip.bringUp')}</h2>
          <Tiles chip={chip} measurements={own} />
          <div class={chip.group_bandwidths.length > 0 ? 'pair' : ''}>
            <Chart spec={charts.coverage} />
            {chip.group_bandwidths.length > 0 && <Chart spec={charts.groups} />}
          </div>
          <ChipCoverage chip={chip} />
          <Shown reading={calibrations}>
            {(listed) => <Calibrations stored={listed.calibrations} />}
          </Shown>
          <BringUpReports chip={chip.id} />
          <Figures chip={chip} />
          <ServerSentences title={say('chip.notes')} sentences={chip.notes === '' ? [] : [chip.notes]} />
        </div>
      )}
    </>
  );
}

export function ChipPage(props: {
  id: string;
  place: Place;
  chips: readonly Chip[];
  measurements: readonly Measurement[];
}) {
  const reading = useRead(`chip ${props.id}`, (signal) => api.chip(props.id, signal));
  return (
    <Shown reading={reading}>
      {({ chip }) =>
        chip ? (
          <Detail chip={chip} place={props.place} chips={props.chips} measurements={props.measurements} />
        ) : null
      }
    </Shown>
  );
}
