// Offers a study as one file to send, as `meshwright report` writes it: the form of the page, the
// files of the dashboard and the answers of the server are put together in the browser.
import { useState } from 'preact/hooks';
import { ApiError } from '../api/client';
import type { GetStudyResponse } from '../api/wire';
import { useText } from '../text/text';
import { save } from './save';

/** The addresses that a file holds; server/http/report_page.cc has the same list. */
export function reportAddresses(id: string): string[] {
  const study = `v1/studies/${encodeURIComponent(id)}`;
  return ['v1/server', study, `${study}/plans?page_size=100`, `${study}/trials?page_size=1000`, `${study}/paretoTrials?page_size=1000`, `${study}/attempts`];
}

/**
 * Returns the server's facts, as JSON, without those about the files of its store: they change from
 * one moment to the next, and belong to no study.
 */
export const withoutStore = (server: string): string =>
  server.replace(/,\s*"store_(?:free_)?bytes":\s*\d+/g, '');

/** Returns the answers as one JSON text that cannot end the element that it stands in. */
export function answersText(answers: readonly (readonly [string, string])[]): string {
  const members = answers.map(
    ([address, json]) => `\n"${address}":${json.replace(/\n+$/, '').replaceAll('<', '\\u003c')}`,
  );
  return `{${members.join(',')}\n}`;
}

/** Replaces the marks of a form, @@name@@, by their texts. */
export function reportPage(form: string, texts: Record<string, string>): string {
  return form.replace(/@@([\w.]+)@@/g, (_, name: string) => {
    const text = texts[name];
    if (text === undefined) throw new Error(`the pages have no file '${name}'`);
    return text;
  });
}

async function textAt(address: string): Promise<string> {
  const response = await fetch(new URL(address, document.baseURI), { credentials: 'same-origin' });
  if (!response.ok) throw new ApiError(response.status, '', response.statusText);
  return response.text();
}

/** Returns the events of a study up to a revision as an array of JSON. */
function eventsUpTo(id: string, revision: number): Promise<string> {
  const address = `v1/studies/${encodeURIComponent(id)}:watch`;
  const source = new EventSource(new URL(address, document.baseURI));
  const events: string[] = [];
  return new Promise((done, failed) => {
    const end = () => {
      source.close();
      done(`[${events.join(',')}]`);
    };
    source.onmessage = (message: MessageEvent<string>) => {
      events.push(message.data);
      if ((JSON.parse(message.data) as { revision: number }).revision >= revision) end();
    };
    source.addEventListener('end', end);
    source.onerror = () => {
      source.close();
      failed(new Error(address));
    };
  });
}

const files = { 'index.css': 'assets/index.css', 'engine.js': 'assets/engine.js', 'index.js': 'assets/index.js' };

export async function reportOf(id: string, revision: number): Promise<string> {
  const addresses = reportAddresses(id);
  const [form, answers, texts, events] = await Promise.all([
    textAt('report.html'),
    Promise.all(addresses.map(textAt)),
    Promise.all(Object.values(files).map(textAt)),
    eventsUpTo(id, revision),
  ]);
  const held = addresses.map((address, at) => {
    const answer = answers[at] ?? '';
    return [address, address === 'v1/server' ? withoutStore(answer) : answer] as const;
  });
  const named = Object.keys(files).map((name, at) => [name, texts[at] ?? ''] as const);
  const watched = [`v1/studies/${encodeURIComponent(id)}:watch`, events] as const;
  return reportPage(form, { ...Object.fromEntries(named), answers: answersText([...held, watched]) });
}

export function ReportButton({ study }: { study: GetStudyResponse }) {
  const { say } = useText();
  const [state, setState] = useState<'' | 'busy' | 'failed'>('');
  const id = study.study?.id ?? '';
  const offer = async () => {
    setState('busy');
    try {
      const page = await reportOf(id, study.study?.revision ?? 0);
      save(new Blob([page], { type: 'text/html' }), `${id}.html`);
      setState('');
    } catch {
      setState('failed');
    }
  };
  return (
    <>
      <button type="button" disabled={state === 'busy'} title={say('report.note')} onClick={() => void offer()}>
        {say('report.save')}
      </button>
      <span role="status" class={state === 'failed' ? 'retracted' : 'hidden'}>
        {state === 'failed' ? say('report.failed') : ''}
      </span>
    </>
  );
}
