// A report of `meshwright calibrate --output json`: how well a chip's microbenchmarks were fitted.
import { useMemo } from 'preact/hooks';
import type { ChipCalibration } from '../api/wire';
import { Chart } from '../charts/chart';
import { fitsSpec } from '../charts/chips';
import { useText } from '../text/text';
import { ListTable } from './list_table';

/** Returns the calibration of a file; absent if it is none. */
export function calibrationIn(text: string): ChipCalibration | undefined {
  try {
    const read = JSON.parse(text) as Partial<ChipCalibration> | null;
    if (!read || typeof read.chip !== 'string' || !Array.isArray(read.operators)) return undefined;
    return { name: '', verdict: '', changes: [], steps: [], warnings: [], stored_as: '', device_name: '', reasons: [], ...read, chip: read.chip, operators: read.operators };
  } catch {
    return undefined;
  }
}

export function CalibrationReport({ calibration }: { calibration: ChipCalibration }) {
  const text = useText();
  const { format, say } = text;
  const spec = useMemo(() => fitsSpec(calibration, text), [calibration, text]);
  const isReady = calibration.verdict === 'ready';
  const timeOr = (seconds: number, error: string) => (error === '' ? format.seconds(seconds) : error);
  return (
    <>
      <section class={`verdict ${isReady ? '' : 'bad'}`} aria-labelledby="calibration">
        <h3 id="calibration">{text.word('verdict', calibration.verdict)}</h3>
        <p>
          {calibration.chip} · {calibration.name} · {calibration.device_name}
        </p>
        {calibration.reasons.map((reason) => (
          <p lang="en" key={reason}>
            {reason}
          </p>
        ))}
      </section>
      <Chart spec={spec} />
      {calibration.steps.length > 0 && (
        <section class="card">
          <h3>{say('fits.steps')}</h3>
          <ListTable
            isInner
            caption={say('fits.steps')}
            columns={[
              { label: say('plan'), isWide: true },
              { label: say('chip.ranks'), isNumber: true },
              { label: say('measured'), isNumber: true },
              { label: say('fits.expectedBefore'), isNumber: true },
              { label: say('fits.expectedNow'), isNumber: true },
            ]}
            rows={calibration.steps.map((step, at) => ({
              key: String(at),
              cells: [
                step.plan,
                String(step.rank_count),
                format.seconds(step.measured_seconds),
                timeOr(step.expected_before_seconds, step.error_before),
                timeOr(step.expected_seconds, step.error),
              ],
            }))}
          />
        </section>
      )}
    </>
  );
}
