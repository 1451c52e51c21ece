import { createContext } from 'preact';
import { useContext, useEffect, useState } from 'preact/hooks';

export type ThemeChoice = 'system' | 'light' | 'dark';
export const themeChoices: ThemeChoice[] = ['system', 'light', 'dark'];

export const ThemeContext = createContext({ isDark: false });
export const useTheme = () => useContext(ThemeContext);

/** Returns what the reader has chosen before; storage may be forbidden in a browser. */
export function remembered<T extends string>(key: string, allowed: readonly T[]): T | undefined {
  try {
    const value = localStorage.getItem(key);
    return allowed.find((word) => word === value);
  } catch {
    return undefined;
  }
}

export function remember(key: string, value: string): void {
  try {
    localStorage.setItem(key, value);
  } catch {
    // Without storage, the choice holds for this visit.
  }
}

export function useDark(choice: ThemeChoice): boolean {
  const [system, setSystem] = useState(() => matchMedia('(prefers-color-scheme: dark)').matches);
  useEffect(() => {
    const query = matchMedia('(prefers-color-scheme: dark)');
    const onChange = () => setSystem(query.matches);
    query.addEventListener('change', onChange);
    return () => query.removeEventListener('change', onChange);
  }, []);
  const isDark = choice === 'system' ? system : choice === 'dark';
  useEffect(() => {
    document.documentElement.dataset['theme'] = isDark ? 'dark' : 'light';
  }, [isDark]);
  return isDark;
}
