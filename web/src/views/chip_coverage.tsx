// The coverage of a chip: which operators were measured, from what, and which were not.
import { useMemo } from 'preact/hooks';
import type { Chip, OperatorCoverage } from '../api/wire';
import { Chart } from '../charts/chart';
import { operatorGridSpec, sizesOf, sizeText } from '../charts/coverage';
import { ListTable } from '../parts/list_table';
import { isCollective, isMeasured, operatorName } from '../parts/operators';
import { useText, type Text } from '../text/text';

/** Says how many operators were measured, and names those that were not. */
export function coverageSentence(rows: readonly OperatorCoverage[], text: Text): string {
  const { say, join } = text;
  const missing = rows.filter((row) => !isMeasured(row)).map((row) => operatorName(row, text));
  return join(
    say('coverage.sentence', { count: rows.length, measured: rows.length - missing.length }),
    missing.length === 0 ? '' : say('coverage.missing', { names: missing.join(say('list.comma')) }),
  );
}

function pointsOf(row: OperatorCoverage, text: Text): string {
  const extent = sizesOf([row]);
  if (!extent) return '–';
  const [low, high] = extent.map((size) => sizeText(size, row.size_unit, text)) as [string, string];
  const count = text.say('coverage.points', { count: row.sizes.length });
  return low === high ? `${count}: ${low}` : `${count}: ${low} – ${high}`;
}

function Rows({ rows }: { rows: readonly OperatorCoverage[] }) {
  const text = useText();
  const { say } = text;
  return (
    <ListTable
      isInner
      caption={say('coverage.rows', { count: rows.length })}
      columns={[
        { label: say('fits.operator') },
        { label: say('provenance') },
        { label: say('chip.confidence') },
        { label: say('coverage.kept') },
        { label: say('defaults.source'), isWide: true },
      ]}
      rows={rows.map((row) => ({
        key: `${row.name} ${row.detail}`,
        cells: [
          operatorName(row, text),
          <span class={`badge coverage-${row.provenance}`}>
            <span class="dot" aria-hidden="true" />
            {text.word('provenance', row.provenance)}
          </span>,
          text.word('confidence', row.confidence),
          pointsOf(row, text),
          <span lang="en">{row.source}</span>,
        ],
      }))}
    />
  );
}

export function ChipCoverage({ chip }: { chip: Chip }) {
  const text = useText();
  const { say } = text;
  const specs = useMemo(
    () => ({
      gemm: operatorGridSpec(chip.coverage.filter(({ size_unit }) => size_unit === 'flops'), 'flops', text),
      collectives: operatorGridSpec(chip.coverage.filter(isCollective), 'bytes', text),
    }),
    [chip, text],
  );
  return (
    <>
      <section class="card" aria-labelledby="coverage">
        <h2 id="coverage">{say('coverage.title')}</h2>
        <p>{coverageSentence(chip.coverage, text)}</p>
        <details>
          <summary>{say('coverage.rows', { count: chip.coverage.length })}</summary>
          <Rows rows={chip.coverage} />
        </details>
      </section>
      {specs.gemm && <Chart spec={specs.gemm} />}
      {specs.collectives && <Chart spec={specs.collectives} />}
    </>
  );
}
