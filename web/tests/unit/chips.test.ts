import { describe, expect, it } from 'vitest';
import type { Chip, Figure } from '../../src/api/wire';
import { chipRatiosSpec, figureCoverageSpec, fitsSpec, groupBandwidthSpec, residualsSpec } from '../../src/charts/chips';
import { calibrationIn } from '../../src/parts/calibration_report';
import { areaOf, coverageOf, figurePairs, figureText, readinessOf } from '../../src/parts/chip_figures';
import { runsOf, summaryOf } from '../../src/parts/run_errors';
import { textOf } from '../../src/text/text';
import { chipsNamed } from '../../src/views/chips';
import { measurement } from './samples';

const text = textOf('en');
const figure = (name: string, value: string, provenance: string): Figure => ({
  name,
  value,
  provenance,
  source: 'a table',
  confidence: 'high',
});

function chip(changes: Partial<Chip> = {}): Chip {
  return {
    id: 'acme-x1',
    vendor: 'Acme',
    name: 'X1',
    aliases: ['Anvil'],
    confidence: 'high',
    memory_capacity_bytes: 80 * 2 ** 30,
    memory_bandwidth_bytes_per_second: 2e12,
    peak_flops_per_second: { bf16: 300e12, fp8: 600e12 },
    figures: [
      figure('gemm_fixed_seconds', '3e-06', 'fitted'),
      figure('peak_bf16_flops_per_second', '300000000000000', 'published'),
      figure('host_link_bandwidth_bytes_per_second', '1', 'assumed'),
    ],
    notes: '',
    group_bandwidths: [
      { rank_count: 2, all_reduce_bytes_per_second: 100e9, all_to_all_bytes_per_second: 80e9, provenance: 'fitted' },
      { rank_count: 8, all_reduce_bytes_per_second: 200e9, all_to_all_bytes_per_second: 150e9, provenance: 'fitted' },
    ],
    reported_names: [],
    coverage: [],
    ...changes,
  };
}

describe('the readiness of a chip', () => {
  const runs = (count: number) => summaryOf(runsOf(Array.from({ length: count }, () => measurement(10))));
  it('rests on its confidence and on three runs', () => {
    expect(readinessOf(chip(), undefined)).toBe('ready');
    expect(readinessOf(chip({ confidence: 'low' }), runs(2))).toBe('low_confidence');
    expect(readinessOf(chip({ confidence: 'low' }), runs(3))).toBe('checked');
  });
});

describe('figures of a chip', () => {
  it('belong to areas', () => {
    expect(areaOf('collective_all_reduce_8_ranks')).toBe('collectives');
    expect(areaOf('measured_memory_bandwidth_bytes_per_second')).toBe('memory_bound');
    expect(areaOf('brand_new')).toBe('other');
    const covered = coverageOf(chip().figures);
    expect(covered[0]).toEqual({ area: 'gemm', counts: { fitted: 1, published: 1 } });
    expect(covered.find(({ area }) => area === 'attention')).toEqual({ area: 'attention', counts: {} });
  });
  it('are written in groups of digits, and texts as they are', () => {
    expect(figureText('300000000000000', text.format.count)).toBe('300,000,000,000,000');
    expect(figureText('3e-06', text.format.count)).toBe('3e-06');
    expect(figureText('nvlink4', text.format.count)).toBe('nvlink4');
    expect(figureText('', text.format.count)).toBe('');
  });
  it('are paired by name', () => {
    const pairs = figurePairs([figure('a', '1', 'fitted')], [figure('b', '2', 'fitted')]);
    expect(pairs.map(({ name, first, second }) => [name, first?.value, second?.value])).toEqual([
      ['a', '1', undefined],
      ['b', undefined, '2'],
    ]);
  });
  it('are found by names of the chip', () => {
    const chips = [chip(), chip({ id: 'other', name: 'Y', aliases: [], vendor: 'B' })];
    expect(chipsNamed(chips, 'ANVIL').map(({ id }) => id)).toEqual(['acme-x1']);
    expect(chipsNamed(chips, '').length).toBe(2);
  });
});

describe('charts of a chip', () => {
  it('count what was measured', () => {
    const spec = figureCoverageSpec(chip(), text);
    expect(spec.sentence).toBe('Of its 3 figures, 1 rest on measurements and 1 on assumptions.');
    expect(spec.table.keys).toEqual(['area', 'fitted_figure_count', 'published_figure_count', 'assumed_figure_count']);
    expect(spec.table.rows[0]?.map(({ value }) => value)).toEqual(['gemm', 1, 1, 0]);
  });
  it('compare two chips', () => {
    const second = chip({
      id: 'acme-x2',
      name: 'X2',
      peak_flops_per_second: { bf16: 600e12 },
      memory_bandwidth_bytes_per_second: 5e12,
      group_bandwidths: [],
    });
    const spec = chipRatiosSpec(chip(), second, text);
    expect(spec.sentence).toBe(
      'Against X1, X2 has 2.00\u00a0× the 16-bit peak, 2.50\u00a0× the memory bandwidth and 1.00\u00a0× the memory.',
    );
    // Neither fp8 nor all-reduce, which one of them lacks.
    expect(spec.table.rows.map((row) => row[3]?.value)).toEqual([2, 1, 2.5]);
    const groups = groupBandwidthSpec([chip(), second], text);
    expect(groups.sentence).toBe('All-reduce among 8 ranks: X1 200\u00a0GB/s, X2 –.');
    expect(groups.table.rows[0]?.map(({ value }) => value)).toEqual([2, 100e9, 80e9, null, null]);
  });
  it('show how far the runs of a calibration were off', () => {
    const run = { model_name: 'llama', cluster_name: 'eight', framework_version: '0.14', plan_key: 'a', outcome: 'ok', similarity_ratio: 1 };
    const spec = residualsSpec([{ ...run, time_ratio: 1.1 }, { ...run, time_ratio: 0.95 }, run], text);
    expect(spec.sentence).toBe(
      'The newest calibration names 2 runs, which took between −5.0\u00a0% and +10.0\u00a0% against the model.',
    );
    expect(residualsSpec([], text).table.rows).toEqual([]);
  });
});

describe('a report of microbenchmarks', () => {
  const operator = {
    name: 'all_reduce',
    detail: '8 ranks',
    point_count: 20,
    limit_ratio: 0.15,
    verdict: 'good',
    advice: '',
    p90_limit_ratio: 0,
    is_needed: true,
    held_out: { median_ratio: 0.05, p90_ratio: 0.1, point_count: 10 },
  };
  it('is told from other files', () => {
    expect(calibrationIn('no')).toBeUndefined();
    expect(calibrationIn('{"chip": 5, "operators": []}')).toBeUndefined();
    expect(calibrationIn('null')).toBeUndefined();
    expect(calibrationIn(JSON.stringify({ chip: 'acme-x1', operators: [operator] }))?.steps).toEqual([]);
  });
  it('draws the operators that have held-out points, and lists all', () => {
    const read = calibrationIn(
      JSON.stringify({ chip: 'x', operators: [operator, { name: 'gemm', detail: '', point_count: 0, limit_ratio: 0, verdict: 'assumed', advice: 'measure it' }] }),
    );
    if (!read) throw new Error('a report');
    const spec = fitsSpec(read, text);
    expect(spec.sentence).toBe('Of 2 operators, 1 passed as good; held-out points exist for 1.');
    expect(spec.table.rows.map((row) => row.map((cell) => cell.text))).toEqual([
      ['all-reduce, 8 ranks', '20', '–', '5.0\u00a0%', '10.0\u00a0%', '15.0\u00a0%', 'good', ''],
      ['matrix products', '0', '–', '–', '–', '–', 'assumed', 'measure it'],
    ]);
  });
});
