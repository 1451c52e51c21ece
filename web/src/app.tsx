import type { JSX } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { api } from './api/client';
import { embedded, studyIn } from './api/embedded';
import { useRead } from './api/use_read';
import { useCurrentInSight } from './parts/in_sight';
import { linkTo, usePlace, type Place } from './router';
import {
  languageNames,
  languages,
  preferredLanguage,
  TextContext,
  textOf,
  useText,
  type Language,
} from './text/text';
import { remember, remembered, ThemeContext, themeChoices, useDark, type ThemeChoice } from './theme';
import { Ask } from './views/ask';
import { Chips } from './views/chips';
import { Operations } from './views/operations';
import { Overview } from './views/overview';
import { Quality } from './views/quality';
import { Runs } from './views/runs';
import { CompareStudies } from './views/studies';
import { StudyPage } from './views/study';

const languageList = Object.keys(languages) as Language[];

/** The parts of the dashboard by the first word of their places; studies have none. */
const parts = ['', 'ask', 'quality', 'runs', 'chips', 'operations'] as const;
const partNames = { '': 'nav.studies', ask: 'nav.ask', quality: 'nav.quality', runs: 'nav.runs', chips: 'nav.chips', operations: 'nav.operations' } as const;

function Navigation() {
  const { say } = useText();
  const [kind = ''] = usePlace().path;
  const current = kind === 'studies' || kind === 'compare' ? '' : kind;
  const row = useCurrentInSight(current);
  return (
    <nav class="parts" ref={row} aria-label={say('nav.label')}>
      {parts.map((part) => (
        <a
          key={part}
          href={linkTo(part === '' ? [] : [part])}
          {...(part === current ? { 'aria-current': 'page' as const } : {})}
        >
          {say(partNames[part])}
        </a>
      ))}
    </nav>
  );
}

function Bar(props: {
  language: Language;
  onLanguage: (language: Language) => void;
  theme: ThemeChoice;
  onTheme: (theme: ThemeChoice) => void;
}) {
  const text = useText();
  return (
    <header class="topbar">
      <a class="brand" href={linkTo([])}>
        <svg viewBox="0 0 32 32" width="24" height="24" aria-hidden="true">
          <rect width="32" height="32" rx="7" class="logo-ground" />
          <path d="M7 23V9l9 8 9-8v14" class="logo-line" />
          <circle cx="16" cy="17" r="2.6" class="logo-dot" />
        </svg>
        Meshwright
      </a>
      {!embedded && <Navigation />}
      <div class="topbar-tools">
        <label>
          <span class="hidden">{text.say('language')}</span>
          <select
            value={props.language}
            onChange={(event) => props.onLanguage(event.currentTarget.value as Language)}
          >
            {languageList.map((language) => (
              <option key={language} value={language} lang={language}>
                {languageNames[language]}
              </option>
            ))}
          </select>
        </label>
        <label>
          <span class="hidden">{text.say('theme')}</span>
          <select
            value={props.theme}
            onChange={(event) => props.onTheme(event.currentTarget.value as ThemeChoice)}
          >
            {themeChoices.map((choice) => (
              <option key={choice} value={choice}>
                {text.say(`theme.${choice}`)}
              </option>
            ))}
          </select>
        </label>
      </div>
    </header>
  );
}

function Foot() {
  const text = useText();
  const { data } = useRead('server', (signal) => api.serverInfo(signal));
  return (
    <footer class="foot">
      {!data
        ? ' '
        : embedded
          ? text.say('report.foot', { version: data.version, id: studyIn(embedded) ?? '–' })
          : text.say(data.allows_http_writes ? 'foot.writes' : 'foot', {
              version: data.version,
              chips: data.chip_count,
            })}
    </footer>
  );
}

function viewOf(place: Place): JSX.Element | undefined {
  const [kind, id] = place.path;
  if (embedded) {
    const held = studyIn(embedded);
    if (held === undefined || (kind !== undefined && (kind !== 'studies' || id !== held))) return undefined;
    return <StudyPage id={held} place={place} />;
  }
  if (kind === undefined) return <Overview place={place} />;
  if (kind === 'studies' && id !== undefined) return <StudyPage key={id} id={id} place={place} />;
  if (kind === 'compare') return <CompareStudies ids={place.path.slice(1)} />;
  if (kind === 'ask' && id === undefined) return <Ask place={place} />;
  if (kind === 'quality' && id === undefined) return <Quality place={place} />;
  if (kind === 'chips') return <Chips key={id ?? ''} place={place} />;
  if (kind === 'runs') return <Runs place={place} />;
  if (kind === 'operations' && (id === undefined || id === 'calls')) return <Operations place={place} />;
  return undefined;
}

function View() {
  const text = useText();
  const place = usePlace();
  const main = useRef<HTMLElement>(null);
  const id = place.path[1];
  const spot = place.path.join('/');
  const first = useRef(true);
  useEffect(() => {
    document.title = [id, 'Meshwright'].filter(Boolean).join(' · ');
    // After a change of the view, keyboard and screen readers go on at its beginning.
    if (first.current) first.current = false;
    else main.current?.focus();
  }, [spot]);
  return (
    <main id="main" ref={main} tabIndex={-1}>
      {viewOf(place) ?? (
        <div class="card empty">
          <h1>{text.say('absent.title')}</h1>
          <a href={linkTo([])}>{text.say('overview.title')}</a>
        </div>
      )}
    </main>
  );
}

export function App() {
  const [language, setLanguage] = useState<Language>(
    () => remembered('language', languageList) ?? preferredLanguage(navigator.languages),
  );
  const [theme, setTheme] = useState<ThemeChoice>(() => remembered('theme', themeChoices) ?? 'system');
  const isDark = useDark(theme);
  const text = useMemo(() => textOf(language), [language]);
  const themeValue = useMemo(() => ({ isDark }), [isDark]);
  useEffect(() => {
    document.documentElement.lang = language;
  }, [language]);
  return (
    <TextContext.Provider value={text}>
      <ThemeContext.Provider value={themeValue}>
        <a
          class="skip"
          href="#main"
          onClick={(event) => {
            event.preventDefault();
            document.getElementById('main')?.focus();
          }}
        >
          {text.say('skip')}
        </a>
        <Bar
          language={language}
          onLanguage={(chosen) => {
            remember('language', chosen);
            setLanguage(chosen);
          }}
          theme={theme}
          onTheme={(chosen) => {
            remember('theme', chosen);
            setTheme(chosen);
          }}
        />
        <View />
        <Foot />
      </ThemeContext.Provider>
    </TextContext.Provider>
  );
}
