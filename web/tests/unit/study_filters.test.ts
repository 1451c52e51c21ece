import { describe, expect, it } from 'vitest';
import { addressOf } from '../../src/api/client';
import { chipOptions, labelFields, labelsOf, labelTexts } from '../../src/parts/study_filters';

describe('labels', () => {
  it('are fields of the filter, several with spaces or commas between them', () => {
    expect(labelFields('')).toEqual({});
    expect(labelFields(' team=vision, gpu.kind=h-100 ')).toEqual({
      'filter.labels.team': 'vision',
      'filter.labels.gpu.kind': 'h-100',
    });
    expect(labelFields('a=1，b=2、c')).toEqual({ 'filter.labels.a': '1', 'filter.labels.b': '2', 'filter.labels.c': '' });
  });
  it('that are none are refused', () => {
    for (const text of ['=vision', 'team=a=b', 'team=*', 'team vision!']) expect(labelFields(text)).toBeUndefined();
  });
  it('without a value stay in the address', () => {
    expect(addressOf(['studies'], { 'filter.text': '', 'filter.labels.done': '' })).toBe('v1/studies?filter.labels.done=');
  });
  it('are written as they are looked for', () => {
    expect(labelTexts({ labels: { team: 'vision', done: '' } })).toEqual(['done', 'team=vision']);
    expect(labelsOf([{ labels: { b: '1', a: '1' } }, { labels: { a: '1' } }])).toEqual(['a=1', 'b=1']);
  });
});

describe('chips to choose from', () => {
  const chips = [
    { id: 'nvidia-x', vendor: 'NVIDIA', name: 'X' },
    { id: 'acme-x1', vendor: 'Acme', name: 'X1' },
  ];
  it('are sorted by vendor, and keep a chosen one that is not known', () => {
    expect(chipOptions(chips)).toEqual([
      { value: 'acme-x1', label: 'Acme X1' },
      { value: 'nvidia-x', label: 'NVIDIA X' },
    ]);
    expect(chipOptions(chips, 'gone').map(({ value }) => value)).toEqual(['acme-x1', 'nvidia-x', 'gone']);
  });
});
