import { describe, expect, it } from 'vitest';
import { alternativesOf, judgedSeconds, medianOf } from '../../src/parts/alternatives';
import { commandOf } from '../../src/parts/launch';
import { differencesOf, planLine, runsOf } from '../../src/parts/plan_words';
import { textOf } from '../../src/text/text';
import { kindRows } from '../../src/views/decision';
import { plan, ranked, study, trial } from './samples';

const text = textOf('en');

describe('plans in words', () => {
  it('say what matters and leave out sizes of 1', () => {
    expect(planLine(plan(), text)).toBe('TP 4 + SP · PP 2 · DP 8 · MBS 1 · ZeRO 1 · 1F1B');
    expect(planLine(plan({ tensor_parallel: 1, pipeline_parallel: 1, zero_stage: 0 }), text)).toBe(
      'DP 8 · MBS 1',
    );
  });
  it('say what is unusual', () => {
    const unusual = plan({
      virtual_pipeline: 5,
      zero_group_size: 4,
      optimizer_offload_ratio: 0.75,
      recompute: { granularity: 'full', layer_counts: [3, 0], modules: [], selective_layer_counts: [] },
    });
    expect(planLine(unusual, text)).toBe(
      'TP 4 + SP · PP 2 × 5 · DP 8 · MBS 1 · ZeRO 1 / 4 · 1F1B · full recomputation 3 + 0 · optimizer offload 75.0\u00a0%',
    );
  });
  it('join equal neighbours', () => {
    expect(runsOf([4, 4, 4, 3, 3, 1])).toBe('3×4 + 2×3 + 1');
    expect(runsOf([])).toBe('');
  });
  it('differ by their fields', () => {
    expect(differencesOf(plan(), plan({ data_parallel: 4, sequence_parallel: false }), text)).toEqual([
      { field: 'sequence_parallel', first: 'yes', second: 'no' },
      { field: 'data_parallel', first: '8', second: '4' },
    ]);
    expect(differencesOf(plan(), plan(), text)).toEqual([]);
  });
});

describe('alternatives', () => {
  it('name the baseline once', () => {
    const apart = alternativesOf(study([ranked('a'), ranked('b')], ranked('c')), text);
    expect(apart.map(({ name }) => name)).toEqual(['Plan 1', 'Plan 2', 'Baseline']);
    const among = alternativesOf(study([ranked('a'), ranked('b')], ranked('b')), text);
    expect(among.map(({ name }) => name)).toEqual(['Plan 1', 'Plan 2 (baseline)']);
  });
  it('are judged by the median of what was measured, else by the prediction', () => {
    const trials = [trial('a', 'ok', 9), trial('a', 'ok', 11), trial('a', 'oom', 0), trial('a', 'ok', 30)];
    const [first, second] = alternativesOf(study([ranked('a'), ranked('b')], ranked('c'), trials), text);
    expect(first && judgedSeconds(first)).toBe(11); // of 9, 11, 30
    expect(second && judgedSeconds(second)).toBe(10);
    expect(medianOf([1, 2])).toBe(1.5);
    expect(medianOf([])).toBeUndefined();
  });
  it('show what differs, and tell the rest in one line', () => {
    const other = ranked('b', { plan: plan({ data_parallel: 4, pipeline_parallel: 4 }) });
    const { rows, equal } = kindRows(alternativesOf(study([ranked('a'), other], ranked('a')), text), text);
    expect(rows.filter(({ isSetting }) => isSetting).map(({ label, values }) => [label, ...values])).toEqual([
      ['Pipeline stages', '2', '4'],
      ['Data parallelism', '8', '4'],
    ]);
    expect(equal).toContain('Tensor parallelism 4');
    expect(rows.map(({ label }) => label)).not.toContain('Measured'); // nothing was
  });
});

describe('launch commands', () => {
  const launch = { versions: '', left_out: [], other_files: [] };
  it('end with the flags if the command takes flags', () => {
    const flags = ranked('a', {
      exports: { megatron: '--a 1 \\\n--b 2\n' },
      launches: { megatron: { ...launch, file_name: '', command: 'torchrun x.py' } },
    });
    expect(commandOf(flags, 'megatron')).toBe('torchrun x.py \\\n--a 1 \\\n--b 2');
  });
  it('name the file if the framework reads one', () => {
    const file = ranked('a', {
      exports: { torchtitan: '[model]\n' },
      launches: { torchtitan: { ...launch, file_name: 'job.toml', command: 'run job.toml' } },
    });
    expect(commandOf(file, 'torchtitan')).toBe('run job.toml');
  });
});
