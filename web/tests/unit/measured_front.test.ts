import { expect, it } from 'vitest';
import { measuredFrontSpec } from '../../src/charts/measured_front';
import { textOf } from '../../src/text/text';
import { trial } from './samples';

const text = textOf('en');
const gib = 2 ** 30;
const measured = (number: number, seconds: number, memory: number, outcome = 'ok') => ({
  ...trial(`p${number}`, outcome, seconds),
  number,
  peak_memory_bytes: memory * gib,
});

it('says what less memory costs', () => {
  const spec = measuredFrontSpec(
    [measured(3, 10, 60), measured(1, 11, 40)],
    [measured(1, 11, 40), measured(2, 12, 70), measured(3, 10, 60), measured(4, 0, 0, 'oom'), measured(5, 9, 0)],
    text,
  );
  expect(spec?.sentence).toBe(
    '2 trials are beaten by no other in both figures: Trial 1 needs 20.0\u00a0GiB less memory than Trial 3, and its step takes 10.0\u00a0% longer.',
  );
  expect(spec?.table.rows.map((row) => row.slice(0, 3).map(({ value }) => value))).toEqual([
    [3, 10, 60 * gib],
    [1, 11, 40 * gib],
  ]);
  // The trial beside the front is in the legend; those without both figures are nowhere.
  expect(spec?.legend?.map(({ shape }) => shape)).toEqual(['circle', 'ring']);
});

it('is not drawn if no trial has both figures', () => {
  expect(measuredFrontSpec([], [measured(1, 10, 0)], text)).toBeUndefined();
});

it('of one trial says that it is best in both', () => {
  const one = [measured(7, 10, 60)];
  expect(measuredFrontSpec(one, one, text)?.sentence).toBe('Trial 7 is the fastest and needs the least memory.');
  expect(measuredFrontSpec(one, one, text)?.legend).toHaveLength(1);
});
