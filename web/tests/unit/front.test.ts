import { expect, it } from 'vitest';
import { frontPoints, frontSpec, markFront } from '../../src/charts/front';
import { textOf } from '../../src/text/text';
import { ranked, study } from './samples';

const text = textOf('en');
const point = (name: string, seconds: number, freeBytes: number) => ({
  name, plan: '', digest: name, seconds, freeBytes, isBaseline: false,
});

it('a plan is on the front unless another is as good in both and better in one', () => {
  const marked = markFront([point('a', 1, 10), point('b', 2, 20), point('c', 2, 10), point('d', 1, 10), point('e', 3, 30)]);
  expect(marked.filter(({ isOnFront }) => isOnFront).map(({ name }) => name)).toEqual(['a', 'b', 'd', 'e']);
});

it('has each plan once, with what it leaves free', () => {
  const points = frontPoints(study([ranked('a'), ranked('b'), ranked('a')], ranked('c')), text);
  expect(points.length).toBe(3);
  expect(new Set(points.map(({ digest }) => digest)).size).toBe(points.length);
  expect(points.map(({ seconds }) => seconds)).toEqual([...points.map(({ seconds }) => seconds)].sort((a, b) => a - b));
  const spec = frontSpec(points, text);
  expect(spec.table.rows.length).toBe(points.length);
  expect(spec.sentence).not.toContain('{');
});

it('says what the roomiest plan costs', () => {
  const gib = 2 ** 30;
  const spec = frontSpec(markFront([point('Plan 1', 10, 4 * gib), point('Plan 2', 11, 14 * gib)]), text);
  expect(spec.sentence).toBe('No plan beats these 2 in both: Plan 2 leaves 10.0\u00a0GiB more free than Plan 1, and its step takes 10.0\u00a0% longer.');
});
