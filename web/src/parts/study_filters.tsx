// The filters of the list of studies that are more than a word of a closed set: chips and labels.
import type { Query } from '../api/client';
import { embedded } from '../api/embedded';
import type { Chip, Study } from '../api/wire';
import { linkTo } from '../router';
import { useText } from '../text/text';
import type { Option } from './filters';

/** Returns the chips as options, by vendor and name; a chosen id stays even if no chip has it. */
export function chipOptions(chips: readonly Pick<Chip, 'id' | 'vendor' | 'name'>[], chosen = ''): Option[] {
  const options = chips.map(({ id, vendor, name }) => ({ value: id, label: `${vendor} ${name}` }));
  if (chosen !== '' && !options.some(({ value }) => value === chosen)) {
    options.push({ value: chosen, label: chosen });
  }
  return options.sort((a, b) => (a.label < b.label ? -1 : 1));
}

/**
 * Returns the fields of a filter by labels as people write them: team=vision, or several with spaces
 * or commas between them; a label without a value is its name. Returns undefined if a part is none.
 */
export function labelFields(written: string): Query | undefined {
  const fields: Query = {};
  for (const part of written.split(/[\s,，、]+/).filter((word) => word !== '')) {
    const [, key, value = ''] = /^([\w.-]+)(?:=([\w.-]*))?$/.exec(part) ?? [];
    if (key === undefined) return undefined;
    fields[`filter.labels.${key}`] = value;
  }
  return fields;
}

/** Returns the labels of a study as people write them, sorted. */
export const labelTexts = ({ labels }: Pick<Study, 'labels'>): string[] =>
  Object.entries(labels)
    .map(([key, value]) => (value === '' ? key : `${key}=${value}`))
    .sort();

/** Returns the labels of several studies, each once. */
export const labelsOf = (studies: readonly Pick<Study, 'labels'>[]): string[] =>
  [...new Set(studies.flatMap(labelTexts))].sort();

/** The labels of a study; each leads to the studies that have it, too. `query`: their other filters. */
export function LabelLinks({ study, query = {} }: { study: Study; query?: Record<string, string> }) {
  const { say } = useText();
  const labels = labelTexts(study);
  if (labels.length === 0) return null;
  return (
    <ul class="labels" aria-label={say('words.labels')}>
      {labels.map((label) => (
        <li key={label}>
          {embedded ? label : <a href={linkTo([], { ...query, label, page: '' })}>{label}</a>}
        </li>
      ))}
    </ul>
  );
}
