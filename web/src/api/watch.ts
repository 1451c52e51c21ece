import { useEffect, useRef, useState } from 'preact/hooks';
import { embedded } from './embedded';
import type { WatchStudyResponse } from './wire';

export type Connection = 'connecting' | 'live' | 'lost' | 'ended' | 'file';

export interface Watched {
  events: WatchStudyResponse[];
  connection: Connection;
}

/**
 * Adds the events of a batch that were not seen before: after a cut, the server repeats from a
 * revision. Copies what there was once a batch, so that a long replay takes no time that grows with
 * its square; without a new event, returns the events as they were.
 */
export function withEvents(
  events: WatchStudyResponse[],
  batch: readonly WatchStudyResponse[],
): WatchStudyResponse[] {
  let last = events.at(-1)?.revision ?? 0;
  const fresh: WatchStudyResponse[] = [];
  for (const event of batch) {
    if (event.revision <= last) continue;
    fresh.push(event);
    last = event.revision;
  }
  return fresh.length === 0 ? events : events.concat(fresh);
}

/** So long events wait to be drawn together. */
const drawMilliseconds = 200;

/**
 * Follows a study's journal by server-sent events: first all that has happened, then what happens.
 * The browser connects again by itself and sends the last revision that it has seen.
 */
export function useWatch(studyId: string): Watched {
  const [watched, setWatched] = useState<Watched>({ events: [], connection: 'connecting' });
  useEffect(() => {
    const address = `v1/studies/${encodeURIComponent(studyId)}:watch`;
    if (embedded) {
      setWatched({ events: (embedded[address] ?? []) as WatchStudyResponse[], connection: 'file' });
      return undefined;
    }
    setWatched({ events: [], connection: 'connecting' });
    const source = new EventSource(new URL(address, document.baseURI));
    // A replay comes in one burst of thousands; drawing it at every frame would leave no time to hear it.
    let waiting: WatchStudyResponse[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;
    const draw = () => {
      timer = undefined;
      const batch = waiting;
      waiting = [];
      setWatched((last) => ({ ...last, events: withEvents(last.events, batch) }));
    };
    source.onopen = () => setWatched((last) => ({ ...last, connection: 'live' }));
    source.onmessage = (message: MessageEvent<string>) => {
      waiting.push(JSON.parse(message.data) as WatchStudyResponse);
      timer ??= setTimeout(draw, drawMilliseconds);
    };
    source.addEventListener('end', () => {
      source.close();
      setWatched((last) => ({ ...last, connection: 'ended' }));
    });
    source.onerror = () => setWatched((last) => ({ ...last, connection: 'lost' }));
    return () => {
      source.close();
      clearTimeout(timer);
    };
  }, [studyId]);
  return watched;
}

/**
 * Tells of each change of a study's state after a revision, and of its end. A page without the list of
 * events learns in this way that a study was paused, resumed or has ended.
 */
export function useStateChanges(studyId: string, revision: number, onChange: () => void): void {
  const changed = useRef(onChange);
  changed.current = onChange;
  useEffect(() => {
    const address = `v1/studies/${encodeURIComponent(studyId)}:watch?after_revision=${revision}`;
    const source = new EventSource(new URL(address, document.baseURI));
    source.onmessage = (message: MessageEvent<string>) => {
      const { kind } = JSON.parse(message.data) as WatchStudyResponse;
      if (kind === 'state') changed.current();
    };
    source.addEventListener('end', () => {
      source.close();
      changed.current();
    });
    return () => source.close();
    // Later revisions come by the same connection.
  }, [studyId]);
}
