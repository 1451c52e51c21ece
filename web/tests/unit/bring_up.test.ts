import { describe, expect, it } from 'vitest';
import type { OperatorCoverage } from '../../src/api/wire';
import { operatorGridSpec, rangeOf, sizeText } from '../../src/charts/coverage';
import { conformanceIn, knowsChip } from '../../src/parts/conformance_report';
import { operatorName } from '../../src/parts/operators';
import { textOf } from '../../src/text/text';
import { reportIn } from '../../src/views/bring_up';
import { coverageSentence } from '../../src/views/chip_coverage';

const text = textOf('en');
const row = (changes: Partial<OperatorCoverage>): OperatorCoverage => ({
  name: 'all_reduce',
  detail: '8 ranks',
  size_unit: 'bytes',
  sizes: [],
  provenance: 'fitted',
  confidence: 'high',
  source: 'a table',
  ...changes,
});

describe('sizes', () => {
  it('lie in the range whose lower end they reach, also at powers', () => {
    expect([1, 9, 10, 999, 1000].map((size) => rangeOf(size, 10))).toEqual([0, 0, 1, 2, 3]);
    // Logarithms of these come out a little too small or too large.
    expect([16 ** 3 - 1, 16 ** 3, 16 ** 7].map((size) => rangeOf(size, 16))).toEqual([2, 3, 7]);
    expect([1e12, 1e15].map((size) => rangeOf(size, 10))).toEqual([12, 15]);
  });
  it('are written in the largest unit', () => {
    expect(sizeText(512, 'bytes', text)).toBe('512\u00a0B');
    expect(sizeText(512 * 2 ** 20, 'bytes', text)).toBe('512\u00a0MiB');
    expect(sizeText(1.5e12, 'flops', text)).toBe('1.5\u00a0TFLOP');
  });
});

describe('operators', () => {
  it('are named with their ranks or precision, in the language of the reader', () => {
    expect(operatorName(row({}), text)).toBe('all-reduce, 8 ranks');
    expect(operatorName({ name: 'gemm', detail: 'bf16 grouped forward' }, text)).toBe('matrix products, bf16 grouped forward');
    expect(operatorName({ name: 'gemm', detail: 'bf16 grouped' }, textOf('zh-CN'))).toBe('矩阵乘（bf16 分组）');
    expect(operatorName({ name: 'brand_new', detail: '' }, text)).toBe('brand new');
  });
});

describe('the coverage grid', () => {
  it('counts the points of each operator by size, and shows those without a point', () => {
    const rows = [row({ sizes: [512, 4096, 5000, 65536] }), row({ name: 'all_to_all', detail: '', provenance: 'assumed', size_unit: '' })];
    const spec = operatorGridSpec(rows, 'bytes', text);
    expect(spec?.sentence).toBe(
      'The file keeps 4 points, from 512\u00a0B to 64\u00a0KiB, of 1 of 2 collectives; a formula gives the time of all others.',
    );
    // Ranges of 256 B, 4 KiB and 64 KiB.
    expect(spec?.table.keys).toEqual([
      'operator',
      'point_count_from_256_bytes',
      'point_count_from_4096_bytes',
      'point_count_from_65536_bytes',
    ]);
    expect(spec?.table.rows.map((cells) => cells.map(({ value }) => value))).toEqual([
      ['all-reduce, 8 ranks', 1, 2, 1],
      ['all-to-all', 0, 0, 0],
    ]);
    expect(operatorGridSpec([row({})], 'bytes', text)).toBeUndefined();
  });
  it('names what was not measured on the chip', () => {
    const rows = [row({}), row({ name: 'overlap', detail: '', provenance: 'assumed' }), row({ name: 'attention', detail: '', provenance: 'transferred' })];
    expect(coverageSentence(rows, text)).toBe(
      'Of 3 operators, the estimates of 1 rest on measurements of this chip. Not measured on it: overlap with communication, attention.',
    );
    expect(coverageSentence(rows.slice(0, 1), text)).toBe(
      'Of 1 operator, the estimates of 1 rest on measurements of this chip.',
    );
  });
});

describe('reports of a bring-up', () => {
  const report = { passed: false, info: { name: 'm', vendor: 'Acme', chips: ['acme-*', 'other'] }, checks: [{ name: 'units', what: 'times are seconds', outcome: 'failed', detail: 'milliseconds' }] };
  it('are told apart, and from other files', () => {
    expect(reportIn(JSON.stringify(report))?.conformance?.checks[0]?.outcome).toBe('failed');
    expect(reportIn('{"chip": "x", "operators": []}')?.calibration?.chip).toBe('x');
    for (const other of ['', 'no', 'null', '{}', '{"passed": true}', '{"checks": []}']) expect(reportIn(other)).toBeUndefined();
  });
  it('may be of a model that does not know the chip', () => {
    const read = conformanceIn(JSON.stringify(report));
    if (!read) throw new Error('a report');
    expect(['acme-x1', 'other', 'other2'].map((chip) => knowsChip(read, chip))).toEqual([true, true, false]);
    const failedHandshake = conformanceIn('{"passed": false, "checks": []}');
    expect(failedHandshake && knowsChip(failedHandshake, 'acme-x1')).toBe(false);
  });
});
