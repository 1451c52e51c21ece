import { describe, expect, it } from 'vitest';
import { memoryPairSpec } from '../../src/charts/memory';
import { alternativesOf } from '../../src/parts/alternatives';
import { textOf } from '../../src/text/text';
import { comparable } from '../../src/views/compare';
import { environmentLines, shellLine } from '../../src/views/trial';
import { estimate, ranked, study } from './samples';

const text = textOf('en');
const gib = 2 ** 30;

describe('the command of a job', () => {
  it('is quoted for a shell', () => {
    expect(shellLine(['torchrun', '--nnodes={node_count}', "it's", 'a b', ''])).toBe(
      "torchrun --nnodes={node_count} 'it'\\''s' 'a b' ''",
    );
    expect(shellLine([])).toBe('');
  });
});

describe('the environment of a job', () => {
  it('is told line by line, whatever it holds', () => {
    expect(environmentLines('{"cpu_count": 2, "devices": {"a": 1}, "os": "linux"}')).toEqual([
      ['cpu_count', '2'],
      ['devices', '{"a":1}'],
      ['os', 'linux'],
    ]);
    for (const other of ['', 'no', '[1]', 'null']) expect(environmentLines(other)).toEqual([]);
  });
});

describe('plans to compare', () => {
  const answer = study([ranked('a'), ranked('b')], ranked('c'));
  it('are those of the answer, and then those that were only listed', () => {
    const listed = [ranked('c', { rank: 0 }), ranked('a', { rank: 1 }), ranked('z', { rank: 9 })];
    expect(comparable(answer, listed, text).map(({ rank, name }) => [rank, name])).toEqual([
      [1, 'Plan 1'],
      [2, 'Plan 2'],
      [0, 'Baseline'],
      [9, 'Plan 9'],
    ]);
  });
  it('show what fills the device of each', () => {
    const large = ranked('b', {
      estimate: estimate({ reserved_memory_bytes: 70 * gib, memory_breakdown_bytes: { weights: 40 * gib, gradients: 20 * gib } }),
    });
    const [first, second] = alternativesOf(study([ranked('a'), large], ranked('a')), text);
    if (!first || !second) throw new Error('two plans');
    const spec = memoryPairSpec([first, second], text);
    expect(spec.sentence).toBe(
      'Plan 1 (baseline) uses 64.0\u00a0GiB and Plan 2 uses 70.0\u00a0GiB of 80.0\u00a0GiB.',
    );
    // 60 GiB are the peak of both; the allocator holds 4 and 10 more.
    expect(spec.table.rows.map((row) => row.map(({ value }) => value))).toEqual([
      ['weights', 40 * gib, 40 * gib],
      ['gradients', 0, 20 * gib],
      ['activations', 20 * gib, 0],
      ['overhead', 4 * gib, 10 * gib],
      ['free', 16 * gib, 10 * gib],
    ]);
  });
});
