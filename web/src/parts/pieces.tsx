// Small pieces that several views use.
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { ApiError } from '../api/client';
import type { Reading } from '../api/use_read';
import { useText } from '../text/text';
import { save } from './save';

export function StateBadge({ state }: { state: string }) {
  const text = useText();
  return (
    <span class={`badge state-${state}`}>
      <span class="dot" aria-hidden="true" />
      {text.word('state', state)}
    </span>
  );
}

/** A figure with its name, its unit and what it means. */
export function Tile(props: { label: string; value: string; note?: string; tone?: string }) {
  return (
    <div class={`tile ${props.tone ?? ''}`}>
      <dt>{props.label}</dt>
      <dd>{props.value}</dd>
      {props.note && <dd class="note">{props.note}</dd>}
    </div>
  );
}

/** A value in a table; a long one breaks into lines. */
export function Value({ text }: { text: string }) {
  return text.length > 40 ? <span class="long">{text}</span> : <>{text}</>;
}

/** A share of a whole as a bar; its number stands beside it in words. */
export function Gauge({ ratio, label, isBad }: { ratio: number; label: string; isBad: boolean }) {
  const width = `${Math.min(Math.max(ratio, 0), 1) * 100}%`;
  return (
    <div class={`gauge ${isBad ? 'bad' : ''}`} role="img" aria-label={label}>
      <div style={{ width }} />
    </div>
  );
}

/** Announces to screen readers what an action did. */
export function CopyButton({ text: copied, label }: { text: string; label: string }) {
  const text = useText();
  const [state, setState] = useState<'' | 'done' | 'failed'>('');
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(copied);
      setState('done');
    } catch {
      setState('failed');
    }
    setTimeout(() => setState(''), 3000);
  };
  return (
    <>
      <button type="button" class="primary" onClick={() => void copy()}>
        {state === 'done' ? text.say('copy.done') : label}
      </button>
      <span role="status" class={state === 'failed' ? '' : 'hidden'}>
        {state === '' ? '' : text.say(state === 'done' ? 'copy.done' : 'copy.failed')}
      </span>
    </>
  );
}

export function SaveButton(props: { text: string; name: string; label: string }) {
  return (
    <button
      type="button"
      onClick={() => save(new Blob([props.text], { type: 'text/plain' }), props.name)}
    >
      {props.label}
    </button>
  );
}

/** Says in the reader's language that a call failed. */
export function errorSentence(error: Error, say: ReturnType<typeof useText>['say']): string {
  if (!(error instanceof ApiError)) return say('error.network');
  if (error.isAbsent) return say('error.absent');
  return say('error.server', { status: String(error.httpStatus) });
}

/** Shows an answer, or why there is none. An old answer stays beside the error of a new reading. */
export function Shown<T>(props: { reading: Reading<T>; children: (data: T) => ComponentChildren }) {
  const text = useText();
  const { data, error, again } = props.reading;
  return (
    <>
      {error && (
        <div class="note-box bad" role="alert">
          <p>
            {errorSentence(error, text.say)} <span lang="en">{error.message}</span>
          </p>
          <button type="button" onClick={again}>
            {text.say('error.again')}
          </button>
        </div>
      )}
      {data !== undefined && props.children(data)}
      {data === undefined && !error && (
        <p class="quiet" role="status">
          {text.say('loading')}
        </p>
      )}
    </>
  );
}

/** The server's own sentences are English. */
export function ServerSentences({ title, sentences }: { title: string; sentences: string[] }) {
  if (sentences.length === 0) return null;
  return (
    <section class="card">
      <h3>{title}</h3>
      <ul lang="en" class="sentences">
        {sentences.map((sentence) => (
          <li key={sentence}>{sentence}</li>
        ))}
      </ul>
    </section>
  );
}
