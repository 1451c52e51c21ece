// The operators of a chip, as its file, `meshwright calibrate` and people name them.
import type { OperatorCoverage } from '../api/wire';
import type { Text } from '../text/text';

/** Returns the name of an operator with the precision or the ranks that it was measured with. */
export function operatorName({ name, detail }: { name: string; detail: string }, text: Text): string {
  const ranks = /^(\d+) ranks?$/.exec(detail)?.[1];
  const words =
    ranks === undefined
      ? detail.split(' ').map((word) => text.word('operatorDetail', word)).join(' ')
      : text.say('coverage.ranks', { count: Number(ranks) });
  const operator = text.word('operator', name);
  return words === '' ? operator : text.say('coverage.operator', { name: operator, detail: words });
}

/** Returns true for an operator whose figures come from measurements of this very chip. */
export const isMeasured = ({ provenance }: Pick<OperatorCoverage, 'provenance'>): boolean =>
  provenance === 'measured' || provenance === 'fitted';

export const isCollective = ({ name }: Pick<OperatorCoverage, 'name'>): boolean =>
  ['all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all'].includes(name);
