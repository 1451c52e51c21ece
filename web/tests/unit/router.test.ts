import { describe, expect, it } from 'vitest';
import { addressOf } from '../../src/api/client';
import { withEvents } from '../../src/api/watch';
import type { WatchStudyResponse } from '../../src/api/wire';
import { linkTo, parsePlace } from '../../src/router';

describe('places', () => {
  it('are read from the address', () => {
    expect(parsePlace('#/studies/a%2Fb/plans?against=2&text=x%20y')).toEqual({
      path: ['studies', 'a/b', 'plans'],
      query: { against: '2', text: 'x y' },
    });
    expect(parsePlace('')).toEqual({ path: [], query: {} });
    expect(parsePlace('#/100%')).toEqual({ path: ['100%'], query: {} });
  });
  it('are written so that reading gives the same', () => {
    const place = { path: ['studies', 'a/b?c#d'], query: { text: '模型 & 集群' } };
    expect(parsePlace(linkTo(place.path, place.query))).toEqual(place);
    expect(linkTo([], { state: '' })).toBe('#/');
  });
});

describe('addresses of the API', () => {
  it('encode names and leave out what is not stated', () => {
    expect(addressOf(['studies', 'a/b'], { page_size: 50, page_token: '', text: undefined })).toBe(
      'v1/studies/a%2Fb?page_size=50',
    );
  });
});

describe('events', () => {
  const event = (revision: number) => ({ revision }) as WatchStudyResponse;
  it('that come again after a cut are not shown twice', () => {
    const seen = withEvents(withEvents([], [1, 2, 2].map(event)), [1, 3, 2].map(event));
    expect(seen.map(({ revision }) => revision)).toEqual([1, 2, 3]);
    expect(withEvents(seen, [event(3)])).toBe(seen); // nothing to draw
  });
});
