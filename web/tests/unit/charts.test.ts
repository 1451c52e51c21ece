import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { WatchStudyResponse } from '../../src/api/wire';
import { memoryParts, memorySpec, stagesSpec } from '../../src/charts/memory';
import { paletteOf } from '../../src/charts/palette';
import { eventText, funnelSpec, hasDeviceTime, progressPoints, progressSpec, trialsSpec } from '../../src/charts/search';
import { csvOf, jsonOf, numberCell, textCell } from '../../src/charts/spec';
import { breakdownSpec, causeDifferences, differenceSpec, intervalsSpec, keysOf } from '../../src/charts/step_time';
import { uncertaintySpec } from '../../src/charts/uncertainty';
import { alternativesOf } from '../../src/parts/alternatives';
import { textOf } from '../../src/text/text';
import { estimate, ranked, study, trial } from './samples';

const text = textOf('en');
const plain = (said: string) => said.replaceAll('\u00a0', ' ');
const gib = 2 ** 30;

const slower = ranked('b', {
  estimate: estimate({
    step_time_seconds: 12,
    breakdown_seconds: { matmul: 6, tensor_parallel: 2, pipeline_bubble: 4 },
  }),
});
const [chosen, other] = alternativesOf(study([ranked('a'), slower], ranked('a')), text);
if (!chosen || !other) throw new Error('two alternatives');

describe('the uncertainty of a step', () => {
  it('is told by source, the largest first, with what constants rest on', () => {
    const spec = uncertaintySpec(
      'Plan 1',
      estimate({
        uncertainty_ratio_by_source: { framework: 0.7, matmul: 0.1, scale: 0.2 },
        breakdown_provenance: { matmul: 'published' },
      }),
      text,
    );
    expect(plain(spec?.sentence ?? '')).toBe(
      'Four of five runs of Plan 1 should take 8.00 – 12.0 s. Most of what can make a step longer: scatter of the framework’s runs (70.0 %), more devices than in any checked run (20.0 %).',
    );
    expect(spec?.table.rows.map((row) => row.map((cell) => cell.value))).toEqual([
      ['framework', 0.7, null],
      ['scale', 0.2, null],
      ['matmul', 0.1, 'published'],
    ]);
  });
  it('has a name for each source that the program knows, in each language', () => {
    const header = readFileSync('../search_space/spec/estimate.h', 'utf8');
    const known = header.slice(header.indexOf('namespace uncertainty_source {'), header.indexOf('}  // namespace uncertainty_source'));
    const words = [...known.matchAll(/= "(\w+)"/g)].map((match) => match[1] ?? '');
    expect(words).toContain('memory_pressure');
    for (const language of ['en', 'zh-CN'] as const) {
      for (const word of words) expect(textOf(language).word('uncertaintySource', word)).not.toBe(word);
    }
  });
  it('is not told where a vendor’s model gave the interval', () => {
    expect(uncertaintySpec('Plan 1', estimate({ uncertainty_ratio_by_source: {} }), text)).toBeUndefined();
  });
});

describe('tables of charts', () => {
  const table = {
    columns: [{ label: 'Name' }, { label: 'Size' }],
    keys: ['name', 'size_bytes'],
    rows: [[textCell('a "b", c'), numberCell('1 KiB', 1024)], [textCell('d'), { text: '–', value: null }]],
  };
  it('become CSV with quotes where they are needed', () => {
    expect(csvOf(table)).toBe('name,size_bytes\r\n"a ""b"", c",1024\r\nd,\r\n');
  });
  it('become JSON with values in base units', () => {
    expect(JSON.parse(jsonOf(table))).toEqual([
      { name: 'a "b", c', size_bytes: 1024 },
      { name: 'd', size_bytes: null },
    ]);
  });
});

describe('the time of a step', () => {
  it('is told with its interval, and with what was measured', () => {
    const trials = [trial('a', 'ok', 9), trial('b', 'ok', 20)];
    const spec = intervalsSpec(alternativesOf(study([ranked('a'), slower], ranked('a'), trials), text), text);
    expect(plain(spec.sentence)).toBe(
      'Plan 1 (baseline): 10.0 s, with four of five runs between 8.00 – 12.0 s. Plans whose bars overlap are hard to tell apart. 2 plans were measured, and their bars show what is known now.',
    );
    expect(spec.table.rows[1]?.map((cell) => plain(cell.text))).toEqual(['Plan 2', '12.0 s', '8.00 – 12.0 s', '20.0 s']);
  });
  it('has its causes in a fixed order, without those that are 0', () => {
    expect(keysOf([{ host: 0, brand_new: 1, tensor_parallel: 3 }, { matmul: 6 }], ['matmul', 'tensor_parallel', 'host'])).toEqual([
      'matmul',
      'tensor_parallel',
      'brand_new',
    ]);
    expect(breakdownSpec([chosen], text).table.rows.map((row) => row[0]?.value)).toEqual([
      'matmul',
      'tensor_parallel',
      'pipeline_bubble',
    ]);
    expect(breakdownSpec([chosen], text).sentence).toBe(
      'Plan 1 (baseline) spends most on matrix products (60.0\u00a0%), tensor-parallel communication (30.0\u00a0%).',
    );
  });
  it('differs by causes that add up to the difference', () => {
    // matmul 6 - 6, tensor 2 - 3, bubble 4 - 1
    expect(causeDifferences(chosen, other)).toEqual([
      { cause: 'pipeline_bubble', seconds: 3 },
      { cause: 'tensor_parallel', seconds: -1 },
    ]);
    expect(plain(differenceSpec(chosen, other, text).sentence)).toBe(
      'Plan 2 takes 2.00 s longer than Plan 1 (baseline): pipeline bubble +3.00 s, tensor-parallel communication −1.00 s.',
    );
    expect(plain(differenceSpec(other, chosen, text).sentence)).toContain('is predicted to take 2.00 s less');
    expect(differenceSpec(chosen, chosen, text).sentence).toContain('equally long');
  });
});

describe('memory', () => {
  it('fills the device up to its capacity', () => {
    const parts = memoryParts(estimate());
    expect(parts).toEqual([
      { kind: 'weights', bytes: 40 * gib },
      { kind: 'activations', bytes: 20 * gib },
      { kind: 'overhead', bytes: 4 * gib }, // 64 - 60
      { kind: 'free', bytes: 16 * gib }, // 80 - 64
    ]);
    expect(parts.reduce((sum, { bytes }) => sum + bytes, 0)).toBe(80 * gib);
    expect(plain(memorySpec(estimate(), text).sentence)).toBe(
      '64.0 GiB of 80.0 GiB are in use; 16.0 GiB stay free. It fits with a probability of 98 %.',
    );
  });
  it('says what is missing if it does not fit', () => {
    const over = estimate({ memory_capacity_bytes: 62 * gib, fit_probability_ratio: 0.005 });
    expect(memoryParts(over).map(({ kind }) => kind)).not.toContain('free');
    expect(plain(memorySpec(over, text).sentence)).toBe(
      '64.0 GiB are needed and the device has 62.0 GiB: 2.0 GiB are missing. It fits with a probability of < 1 %.',
    );
  });
  it('is told by stage', () => {
    expect(plain(stagesSpec(estimate(), text).sentence)).toBe(
      '2 stages, with peaks from 50.0 GiB to 60.0 GiB, against a capacity of 80.0 GiB.',
    );
  });
});

describe('a search', () => {
  const event = (revision: number, seconds: number, best: number): WatchStudyResponse => ({
    revision,
    time: new Date(seconds * 1000).toISOString(),
    kind: 'progress',
    state: '',
    progress: {
      phase: 'search',
      space_count: 1000,
      considered_count: 10 * revision,
      evaluated_count: revision,
      best_step_time_seconds: best,
      job_status: '',
      limit_count: 0,
    },
  });
  it('has a funnel from the space to what was estimated', () => {
    const search = study([], ranked('a')).result?.search;
    if (!search) throw new Error('no search');
    const spec = funnelSpec(search, text);
    expect(spec.table.rows.map((row) => [row[0]?.value, row[1]?.value])).toEqual([
      ['space', 1000],
      ['memory', 900],
      ['bound', 90],
      ['evaluated', 10],
    ]);
    expect(spec.sentence).toBe(
      '10 of 1,000 plans were estimated. The rule “do not fit” removed the most, 90.0\u00a0% of all. The bars are logarithmic.',
    );
  });
  it('has a best so far once a plan fits', () => {
    const events = [event(1, 5, 0), event(2, 6, 20), event(3, 7, 20), event(4, 8, 15), event(5, 9, 15)];
    expect(progressPoints(events)).toEqual([
      { seconds: 1, bestSeconds: 20, considered: 20 },
      { seconds: 3, bestSeconds: 15, considered: 40 },
      { seconds: 4, bestSeconds: 15, considered: 50 }, // how long it has been so
    ]);
    expect(plain(progressSpec(events, text).sentence)).toBe('The best fell from 20.0 s to 15.0 s within 4.00 s.');
    expect(progressSpec([], text).sentence).toBe('No plan that fits was found yet.');
  });
  it('tells its events', () => {
    expect(plain(eventText(event(2, 0, 20), text))).toBe('search: 20 of 1,000 plans considered; best 20.0 s');
  });
  it('counts trials and keeps the best', () => {
    const spec = trialsSpec([trial('a', 'ok', 12), trial('b', 'oom', 0), trial('c', 'ok', 9), trial('d', '', 0)], text);
    expect(plain(spec.sentence)).toBe('4 trials: 2 ran, 1 failed; the best took 9.00 s a step.');
    expect(spec.table.rows.map((row) => [row[4]?.value, row[5]?.value])).toEqual([
      [12, 100],
      [12, 200],
      [9, 300],
      [9, 400],
    ]);
  });
  it('stands along its trials or the device time that they took', () => {
    const trials = [trial('a', 'ok', 12), trial('b', 'ok', 9)];
    const placesOf = (by: 'trial' | 'device_time') => {
      const [best] = trialsSpec(trials, text, by).option(paletteOf(false))['series'] as { data: number[][] }[];
      return best?.data;
    };
    expect(placesOf('trial')).toEqual([[1, 12], [2, 9]]);
    expect(placesOf('device_time')).toEqual([[100, 12], [200, 9]]); // each took 100 s
    expect(hasDeviceTime(trials)).toBe(true);
    expect(hasDeviceTime([{ ...trial('a', 'ok', 12), device_seconds: 0 }])).toBe(false);
  });
  it('of which every trial failed has no best', () => {
    expect(trialsSpec([trial('a', 'oom', 0)], text).sentence).toBe('1 trial: 0 ran, 1 failed; the best took – a step.');
  });
});

describe('every chart', () => {
  const specs = [
    intervalsSpec([chosen, other], text),
    breakdownSpec([chosen, other], text),
    differenceSpec(chosen, other, text),
    memorySpec(estimate(), text),
    stagesSpec(estimate(), text),
  ];
  it.each(specs.map((spec) => [spec.name, spec] as const))('%s has a table with a key for each column', (_, spec) => {
    expect(spec.table.keys.length).toBe(spec.table.columns.length);
    expect(spec.table.rows.length).toBeGreaterThan(0);
    for (const row of spec.table.rows) expect(row.length).toBe(spec.table.columns.length);
    expect(spec.option(paletteOf(false))).not.toEqual(spec.option(paletteOf(true)));
  });
});
