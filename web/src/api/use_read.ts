import { useCallback, useLayoutEffect, useState } from 'preact/hooks';

/** The state of an answer in a view: none yet, the answer, or an error beside the last answer. */
export interface Reading<T> {
  data?: T;
  error?: Error;
  isLoading: boolean;
  again: () => void;
}

/**
 * Reads an answer, and again whenever `key` changes. An answer for an older key is not shown; a
 * repeated reading of the same key keeps the last answer until the new one is there.
 */
export function useRead<T>(key: string, ask: (signal: AbortSignal) => Promise<T>): Reading<T> {
  const [count, setCount] = useState(0);
  const [held, setHeld] = useState<{ key: string; data?: T; error?: Error; isLoading: boolean }>({
    key,
    isLoading: true,
  });
  // An effect would wait for the next paint, and the question should not.
  useLayoutEffect(() => {
    const abort = new AbortController();
    setHeld((last) => (last.key === key ? { ...last, isLoading: true } : { key, isLoading: true }));
    ask(abort.signal).then(
      (data) => {
        if (!abort.signal.aborted) setHeld({ key, data, isLoading: false });
      },
      (error: unknown) => {
        if (abort.signal.aborted) return;
        const shown = error instanceof Error ? error : new Error(String(error));
        setHeld((last) => ({ ...last, key, error: shown, isLoading: false }));
      },
    );
    return () => abort.abort();
    // `ask` is made anew by every drawing; what it asks is named by `key`.
  }, [key, count]);
  const again = useCallback(() => setCount((n) => n + 1), []);
  const current = held.key === key ? held : { isLoading: true };
  return { ...current, again };
}
