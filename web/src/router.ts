// The place in the dashboard stands behind the '#' of the address. It works below any path of a
// proxy, in a file without a server, and as a link that can be sent.
import { useEffect, useState } from 'preact/hooks';

export interface Place {
  path: string[];
  query: Record<string, string>;
}

export function parsePlace(hash: string): Place {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  return {
    path: path
      .split('/')
      .filter((part) => part !== '')
      .map((part) => {
        try {
          return decodeURIComponent(part);
        } catch {
          return part; // a lone % is itself
        }
      }),
    query: Object.fromEntries(new URLSearchParams(query)),
  };
}

/** Returns the link to a place; empty values of the query are left out. */
export function linkTo(path: readonly string[], query: Record<string, string> = {}): string {
  const kept = Object.entries(query).filter(([, value]) => value !== '');
  const text = new URLSearchParams(kept).toString();
  return `#/${path.map(encodeURIComponent).join('/')}${text === '' ? '' : `?${text}`}`;
}

/** Goes to a place. `replaces`: the browser's way back leads past it, as for a filter. */
export function goTo(link: string, replaces = false): void {
  if (replaces) {
    history.replaceState(null, '', link);
    window.dispatchEvent(new HashChangeEvent('hashchange'));
  } else {
    location.hash = link;
  }
}

export function usePlace(): Place {
  const [place, setPlace] = useState(() => parsePlace(location.hash));
  useEffect(() => {
    const onChange = () => setPlace(parsePlace(location.hash));
    window.addEventListener('hashchange', onChange);
    return () => window.removeEventListener('hashchange', onChange);
  }, []);
  return place;
}
