// Long tables are drawn in two steps, so that what is on the screen is there first.
import { useEffect, useState } from 'preact/hooks';

/** As many rows as a screen shows. */
const firstRows = 40;

/** Returns the rows to draw now: the first ones of a new list, and all once those have been painted. */
export function useGradually<T>(rows: readonly T[]): { shown: readonly T[]; isBusy: boolean } {
  const [whole, setWhole] = useState<readonly T[]>();
  const isBusy = rows.length > firstRows && whole !== rows;
  useEffect(() => {
    if (!isBusy) return undefined;
    // The timer of a frame's callback runs after the frame was painted.
    let timer: ReturnType<typeof setTimeout> | undefined;
    const frame = requestAnimationFrame(() => {
      timer = setTimeout(() => setWhole(rows));
    });
    return () => {
      cancelAnimationFrame(frame);
      clearTimeout(timer);
    };
  }, [rows, isBusy]);
  return { shown: isBusy ? rows.slice(0, firstRows) : rows, isBusy };
}
