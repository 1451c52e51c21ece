import { expect, it } from 'vitest';
import type { Study } from '../../src/api/wire';
import { labelsIn, linesOf, wordsOf } from '../../src/parts/study_words';

it('labels are lines, sorted, whose values may have an equals sign', () => {
  expect(linesOf({ b: '1', a: 'x=y' })).toBe('a=x=y\nb=1');
  expect(labelsIn('a=x=y\n\n  b = 1 \nc')).toEqual({ a: 'x=y', b: '1', c: '' });
});

it('a change removes the labels that are no longer there', () => {
  const study = { labels: { team: 'vision', old: '1' } } as unknown as Study;
  expect(wordsOf({ name: ' n ', note: 'x\n', labels: 'team=text' }, study)).toEqual({
    display_name: 'n',
    note: 'x',
    labels: { team: 'text' },
    removed_labels: ['old'],
  });
});
