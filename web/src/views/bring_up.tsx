// The reports of a chip's bring-up, which the browser reads and does not send: the store keeps none.
import { useState } from 'preact/hooks';
import { CalibrationReport, calibrationIn } from '../parts/calibration_report';
import { ConformanceReport, conformanceIn, knowsChip, type Conformance } from '../parts/conformance_report';
import type { ChipCalibration } from '../api/wire';
import { useText } from '../text/text';

interface Reports {
  calibration?: ChipCalibration;
  conformance?: Conformance;
}

/** Returns the report that a text is; absent if it is none. */
export function reportIn(text: string): Reports | undefined {
  const calibration = calibrationIn(text);
  if (calibration) return { calibration };
  const conformance = conformanceIn(text);
  return conformance && { conformance };
}

/** Opens reports, one of each kind at a time. */
export function BringUpReports({ chip }: { chip: string }) {
  const { say } = useText();
  const [reports, setReports] = useState<Reports>({});
  const [refused, setRefused] = useState<string[]>([]);
  const open = async (files: FileList | null) => {
    const read = await Promise.all(
      [...(files ?? [])].map(async (file) => ({ name: file.name, report: reportIn(await file.text()) })),
    );
    setReports((held) => Object.assign({}, held, ...read.map(({ report }) => report)));
    setRefused(read.flatMap(({ name, report }) => (report ? [] : [name])));
  };
  const { calibration, conformance } = reports;
  return (
    <>
      <section class="card" aria-labelledby="reports">
        <h2 id="reports">{say('bringUp.title')}</h2>
        <p class="quiet">{say('bringUp.lead')}</p>
        <pre>
          <code>
            {`meshwright calibrate --chip ${chip} --measurements m.json --name ours --output json >fits.json
meshwright model check --program ./model --chip ${chip} --output json >conformance.json`}
          </code>
        </pre>
        <label>
          {say('bringUp.open')}{' '}
          <input
            type="file"
            multiple
            accept=".json,application/json"
            onChange={(event) => void open(event.currentTarget.files)}
          />
        </label>
        {refused.map((name) => (
          <p role="alert" class="retracted" key={name}>
            {say('bringUp.notOne', { name })}
          </p>
        ))}
        {calibration && calibration.chip !== chip && (
          <p role="alert" class="retracted">
            {say('bringUp.otherChip', { chip: calibration.chip })}
          </p>
        )}
        {conformance && !knowsChip(conformance, chip) && (
          <p role="alert" class="retracted">
            {say('bringUp.unknownChip', { chips: conformance.info.chips.join(say('list.comma')) || '–' })}
          </p>
        )}
      </section>
      {calibration && <CalibrationReport calibration={calibration} />}
      {conformance && <ConformanceReport report={conformance} />}
    </>
  );
}
