import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { api } from './api/client';
import { useRead } from './api/use_read';
import { linkTo, usePlace } from './router';
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
import { Overview } from './views/overview';
import { StudyPage } from './views/study';

const languageList = Object.keys(languages) as Language[];

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
      {data ? text.say('foot', { version: data.version, chips: data.chip_count }) : ' '}
    </footer>
  );
}

function View() {
  const text = useText();
  const place = usePlace();
  const main = useRef<HTMLElement>(null);
  const [kind, id] = place.path;
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
      {kind === undefined && <Overview place={place} />}
      {kind === 'studies' && id !== undefined && <StudyPage key={id} id={id} place={place} />}
      {kind !== undefined && !(kind === 'studies' && id !== undefined) && (
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
