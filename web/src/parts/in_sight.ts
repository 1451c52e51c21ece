// Rows of links that are wider than the page scroll; the current one should be in sight.
import { useLayoutEffect, useRef } from 'preact/hooks';

/** Returns the reference for a row of links, which then shows its current one whenever `current` changes. */
export function useCurrentInSight(current: string) {
  const row = useRef<HTMLElement>(null);
  useLayoutEffect(() => {
    const link = row.current?.querySelector<HTMLElement>('[aria-current]');
    if (!row.current || !link) return;
    const inside = link.getBoundingClientRect();
    const whole = row.current.getBoundingClientRect();
    row.current.scrollLeft += inside.left + inside.width / 2 - (whole.left + whole.width / 2);
  }, [current]);
  return row;
}
