import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { studyIn } from '../../src/api/embedded';
import { answersText, reportAddresses, reportPage, withoutStore } from '../../src/parts/report_file';

it('a file holds nothing of the files of a store', () => {
  const server = '{"version":"1.0","limits":[],"store_bytes":517568,"store_free_bytes":65583460352}\n';
  expect(withoutStore(server)).toBe('{"version":"1.0","limits":[]}\n');
});

describe('a file to send', () => {
  it('has the answers so that no text of theirs can end its element', () => {
    const text = answersText([
      ['v1/server', '{"note": "</script><!-- $& @@answers@@"}\n'],
      ['v1/studies/s1', '{}'],
    ]);
    expect(text).not.toContain('<');
    expect(JSON.parse(text)).toEqual({
      'v1/server': { note: '</script><!-- $& @@answers@@' },
      'v1/studies/s1': {},
    });
  });
  it('is its form with every mark replaced, and texts as they are', () => {
    expect(reportPage('a @@index.js@@ b @@answers@@', { 'index.js': '$& @@answers@@', answers: "$'" })).toBe(
      "a $& @@answers@@ b $'",
    );
    expect(() => reportPage('@@new.js@@', {})).toThrow("'new.js'");
  });
  it('is of the study whose answer it holds', () => {
    const answers = Object.fromEntries(reportAddresses('s1').map((address) => [address, {}]));
    expect(studyIn({ 'v1/studies/s1:watch': [], ...answers })).toBe('s1');
    expect(studyIn({ 'v1/server': {} })).toBeUndefined();
  });
  it('holds what the program holds, too', () => {
    const code = readFileSync('../server/http/report_page.cc', 'utf8');
    const ends = [...code.matchAll(/study \+ "([^"]+)"/g)].map((match) => match[1] ?? '');
    expect(ends.pop()).toBe(':watch');
    expect(['v1/server', 'v1/studies/s1', ...ends.map((end) => `v1/studies/s1${end}`)]).toEqual(
      reportAddresses('s1'),
    );
  });
});
