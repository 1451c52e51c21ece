// Filters of a list. Their values stand in the address, so that a filtered view can be sent.
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useState } from 'preact/hooks';
import { goTo, linkTo, type Place } from '../router';
import { useText } from '../text/text';

export interface Option {
  value: string;
  label: string;
}

/** Returns the options for the values of a list, sorted; a chosen value stays even if none has it. */
export function optionsOf(values: readonly string[], chosen = ''): Option[] {
  return [...new Set([...values, chosen])]
    .filter((value) => value !== '')
    .sort()
    .map((value) => ({ value, label: value }));
}

/** A choice whose value is a field of the address; another choice leads back to the first page. */
export function SelectFilter(props: {
  place: Place;
  name: string;
  label: string;
  options: readonly Option[];
  /** The label of the choice without a value; absent: "any". `null`: there is no such choice. */
  none?: string | null;
}) {
  const text = useText();
  const { place, name, options, none = text.say('filter.any') } = props;
  return (
    <label>
      {props.label}
      <select
        name={name}
        value={place.query[name] ?? ''}
        onChange={(event) =>
          goTo(linkTo(place.path, { ...place.query, [name]: event.currentTarget.value, page: '' }), true)
        }
      >
        {none !== null && <option value="">{none}</option>}
        {options.map(({ value, label }) => (
          <option key={value} value={value}>
            {label}
          </option>
        ))}
      </select>
    </label>
  );
}

/**
 * A text that is looked for; it comes into the address when it is entered or left. `known`: texts that
 * are offered while somebody types.
 */
export function TextFilter(props: {
  place: Place;
  name: string;
  label: string;
  hint: string;
  known?: readonly string[];
}) {
  const { place, name, known = [] } = props;
  const list = useId();
  const stated = place.query[name] ?? '';
  const [typed, setTyped] = useState(stated);
  useEffect(() => setTyped(stated), [stated]);
  const set = (value: string) =>
    goTo(linkTo(place.path, { ...place.query, [name]: value.trim(), page: '' }), true);
  return (
    <label>
      {props.label}
      <input
        type="search"
        {...(known.length > 0 ? { list } : {})}
        value={typed}
        placeholder={props.hint}
        onInput={(event) => setTyped(event.currentTarget.value)}
        onChange={(event) => set(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === 'Enter') set(event.currentTarget.value);
        }}
      />
      {known.length > 0 && (
        <datalist id={list}>
          {known.map((value) => (
            <option key={value} value={value} />
          ))}
        </datalist>
      )}
    </label>
  );
}

/** `label` tells several of them on one page apart. */
export function FilterBar({ children, label }: { children: ComponentChildren; label?: string }) {
  return (
    <form class="filters" role="search" aria-label={label} onSubmit={(event) => event.preventDefault()}>
      {children}
    </form>
  );
}

/** The links to the first and the next page of a list. */
export function PageLinks({ place, next }: { place: Place; next: string }) {
  const { say } = useText();
  const page = place.query['page'] ?? '';
  if (page === '' && next === '') return null;
  return (
    <nav class="pages" aria-label={say('pages')}>
      {page !== '' && <a href={linkTo(place.path, { ...place.query, page: '' })}>{say('pages.first')}</a>}
      {next !== '' && (
        <a href={linkTo(place.path, { ...place.query, page: next })}>{say('pages.next')}</a>
      )}
    </nav>
  );
}
