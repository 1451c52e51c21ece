// Several studies side by side: what they asked, and what each should launch.
import type { GetStudyResponse } from '../api/wire';
import type { Text } from '../text/text';
import { alternativesOf, judgedSeconds, type Alternative } from './alternatives';
import { planLine } from './plan_words';
import { devicesOf } from './pools';

/** A row of the table: a value for each study. */
export interface SideRow {
  label: string;
  values: string[];
}

// These say nothing about the job, or hold rows of measurements.
const leftOut = new Set(['history', 'history_sequence', 'trials', 'name']);

/** Returns the values of a message by their paths: cluster.pools[0].chip. */
export function flattened(value: unknown, path = '', found: Record<string, string> = {}): Record<string, string> {
  if (Array.isArray(value)) {
    value.forEach((item, at) => flattened(item, `${path}[${at}]`, found));
  } else if (typeof value === 'object' && value !== null) {
    for (const [key, item] of Object.entries(value)) {
      if (!leftOut.has(key)) flattened(item, path === '' ? key : `${path}.${key}`, found);
    }
  } else if (value !== undefined && value !== null) {
    found[path] = String(value);
  }
  return found;
}

/** Returns what the questions state differently, by the paths of their fields. */
export function questionDifferences(studies: readonly GetStudyResponse[], text: Text): SideRow[] {
  const questions = studies.map(({ question }) => {
    const { hugging_face_config_json: config, baseline, ...rest } = question ?? {};
    const found = flattened(rest);
    // A plan in words is one row; its fields may be hundreds.
    if (baseline) found['baseline'] = planLine(baseline, text);
    if (config !== undefined) Object.assign(found, flattened(configOf(config), 'config.json'));
    return found;
  });
  const paths = [...new Set(questions.flatMap((fields) => Object.keys(fields)))].sort();
  return paths
    .map((label) => ({ label, values: questions.map((fields) => fields[label] ?? '–') }))
    .filter(({ values }) => values.some((value) => value !== values[0]));
}

function configOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Returns the plan that a study says to launch. */
export const chosenOf = (study: GetStudyResponse, text: Text): Alternative | undefined => alternativesOf(study, text)[0];

/** Returns a name for each study that no other of them has. */
export function studyNames(studies: readonly GetStudyResponse[], text: Text): string[] {
  const named = studies.map(({ study }) =>
    study?.display_name || text.say('study.title', { model: study?.model_name ?? '', cluster: study?.cluster_name ?? '' }),
  );
  return named.map((name, at) =>
    named.filter((other) => other === name).length > 1 ? `${name} (${studies[at]?.study?.id ?? ''})` : name,
  );
}

/** True if a step of all studies is the same work, so that step times can be compared. */
export function isSameWork(studies: readonly GetStudyResponse[]): boolean {
  const works = studies.map(({ study, question }) =>
    JSON.stringify([study?.model_name, question?.workload?.sequence_length, question?.workload?.global_batch_size]),
  );
  return works.every((work) => work === works[0]);
}

/** The figures of the plan to launch of each study; rows that no study has are left out. */
export function studyRows(studies: readonly GetStudyResponse[], text: Text): SideRow[] {
  const { format, say } = text;
  const of = (label: string, show: (study: GetStudyResponse, chosen: Alternative | undefined) => string): SideRow => ({
    label,
    values: studies.map((study) => show(study, chosenOf(study, text))),
  });
  const estimated = (label: string, show: (estimate: NonNullable<Alternative['plan']['estimate']>) => string) =>
    of(label, (_, chosen) => (chosen?.plan.estimate ? show(chosen.plan.estimate) : '–'));
  const run = (label: string, show: (cost: NonNullable<Alternative['plan']['run']>) => string) =>
    of(label, (_, chosen) => (chosen?.plan.run ? show(chosen.plan.run) : '–'));
  const rows: SideRow[] = [
    of(say('model'), ({ study }) => study?.model_name ?? '–'),
    of(say('cluster'), ({ study }) => study?.cluster_name ?? '–'),
    of(say('chip'), ({ question }) =>
      (question?.cluster?.pools ?? []).map(({ chip = '', node_count = 0 }) => `${format.count(node_count)} × ${chip}`).join(' + ') || '–',
    ),
    of(say('studies.devices'), ({ study }) => format.count(study?.device_count ?? 0)),
    of(say('filter.state'), ({ study }) => text.word('state', study?.state ?? '')),
    of(say('filter.outcome'), ({ study }) => (study?.outcome ? text.word('outcome', study.outcome) : '–')),
    of(say('studies.verdict'), ({ result, infeasible }) =>
      infeasible ? say('verdict.nothing') : !result ? '–' : say(result.recommendation === 'keep_yours' ? 'verdict.keep' : 'verdict.launch'),
    ),
    of(say('studies.plan'), (_, chosen) => (chosen?.plan.plan ? planLine(chosen.plan.plan, text) : '–')),
    of(say('stepTime'), (_, chosen) => (chosen ? format.seconds(judgedSeconds(chosen)) : '–')),
    estimated(say('interval'), (e) => format.secondsRange(e.step_time_low_seconds, e.step_time_high_seconds)),
    estimated(say('tokens'), (e) => format.rate(e.tokens_per_second_per_device)),
    of(say('mix.tokens'), (_, chosen) =>
      chosen?.plan.plan && chosen.plan.estimate
        ? format.rate(chosen.plan.estimate.tokens_per_second_per_device * devicesOf(chosen.plan.plan))
        : '–',
    ),
    estimated(say('mfu'), (e) => format.percent(e.model_flops_utilization_ratio)),
    estimated(say('memory.inUse'), (e) =>
      `${format.gib(e.reserved_memory_bytes)} / ${format.gib(e.memory_capacity_bytes)}`,
    ),
    estimated(say('fit'), (e) => format.probability(e.fit_probability_ratio)),
    of(say('gain'), ({ study }) =>
      study && study.best_step_time_seconds > 0 ? format.change(study.gain_over_baseline_ratio) : '–',
    ),
    run(say('studies.days'), ({ days, low_days, high_days }) =>
      `${format.number(days, 1)} (${format.number(low_days, 1)} – ${format.number(high_days, 1)})`,
    ),
    run(say('studies.deviceHours'), ({ device_hours }) => format.count(device_hours)),
    run(say('studies.price'), ({ price }) => (price === undefined ? '–' : format.count(price))),
    of(say('studies.missing'), ({ infeasible }) => (infeasible ? format.gib(infeasible.missing_bytes) : '–')),
  ];
  return rows.filter(({ values }) => values.some((value) => value !== '–'));
}
