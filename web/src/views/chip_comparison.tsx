// Two chips side by side.
import { useMemo } from 'preact/hooks';
import { api } from '../api/client';
import { useRead } from '../api/use_read';
import type { Chip, Figure } from '../api/wire';
import { Chart } from '../charts/chart';
import { chipRatiosSpec, groupBandwidthSpec } from '../charts/chips';
import { figurePairs, figureText } from '../parts/chip_figures';
import { ListTable } from '../parts/list_table';
import { Shown } from '../parts/pieces';
import { linkTo } from '../router';
import { useText } from '../text/text';

function Sides({ first, second }: { first: Chip; second: Chip }) {
  const text = useText();
  const { say } = text;
  const charts = useMemo(
    () => ({ ratios: chipRatiosSpec(first, second, text), groups: groupBandwidthSpec([first, second], text) }),
    [first, second, text],
  );
  const pairs = figurePairs(first.figures, second.figures);
  const equal = pairs.filter((pair) => pair.first?.value === pair.second?.value);
  const cell = (figure: Figure | undefined) =>
    figure ? (
      <>
        {figureText(figure.value, text.format.count)}
        <span class="quiet block">{text.word('provenance', figure.provenance)}</span>
      </>
    ) : (
      '–'
    );
  return (
    <div class="stack">
      <h2>
        {say('chip.compared', { first: first.name, second: second.name })}{' '}
        <a class="quiet" href={linkTo(['chips', second.id])}>
          {say('chip.openOther', { name: second.name })}
        </a>
      </h2>
      <div class="pair">
        <Chart spec={charts.ratios} />
        <Chart spec={charts.groups} />
      </div>
      <section class="card">
        <h3>{say('chip.differing', { count: pairs.length - equal.length })}</h3>
        <p class="quiet">{say('chip.equalFigures', { count: equal.length })}</p>
        <ListTable
          isInner
          caption={say('chip.differing', { count: pairs.length - equal.length })}
          columns={[
            { label: say('chip.figure') },
            { label: first.name, isWide: true },
            { label: second.name, isWide: true },
          ]}
          rows={pairs
            .filter((pair) => !equal.includes(pair))
            .map((pair) => ({
              key: pair.name,
              cells: [<code>{pair.name}</code>, cell(pair.first), cell(pair.second)],
            }))}
        />
      </section>
    </div>
  );
}

export function ChipComparison({ chip, otherId }: { chip: Chip; otherId: string }) {
  const reading = useRead(`chip ${otherId}`, (signal) => api.chip(otherId, signal));
  return (
    <Shown reading={reading}>
      {({ chip: other }) => (other ? <Sides first={chip} second={other} /> : null)}
    </Shown>
  );
}
