// The sentences of the dashboard in the reader's language. `messages/en.ts` is complete; the other
// languages have the same keys, or the build fails.
import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import { formatsOf, type Formats } from './format';
import { en, type MessageKey } from './messages/en';
import { zhCN } from './messages/zh_cn';

/** A message, or its forms by the plural of `count`. Parameters stand in braces. */
export type Message = string | { one?: string; other: string };

export const languages = { en, 'zh-CN': zhCN } as const;
export type Language = keyof typeof languages;
export const languageNames: Record<Language, string> = { en: 'English', 'zh-CN': '简体中文' };

export type Parameters = Record<string, string | number>;

export interface Text {
  language: Language;
  format: Formats;
  say(key: MessageKey, parameters?: Parameters): string;
  /** Returns sentences one after the other, with a space between them if the language has one there. */
  join(...sentences: string[]): string;
  /** The reader's word for a word of the wire: a state, a cause of time, a prune rule. */
  word(group: WordGroup, wire: string): string;
}

export type WordGroup =
  | 'state'
  | 'outcome'
  | 'time'
  | 'uncertaintySource'
  | 'memory'
  | 'rule'
  | 'field'
  | 'provenance'
  | 'trial'
  | 'stop'
  | 'source'
  | 'span'
  | 'dimension'
  | 'group'
  | 'readiness'
  | 'readinessNote'
  | 'confidence'
  | 'area'
  | 'verdict'
  | 'mixCause'
  | 'generation'
  | 'linkPath'
  | 'modelKind'
  | 'modelState'
  | 'role'
  | 'operator'
  | 'operatorDetail'
  | 'check'
  | 'protocol';

const chinese = '[\\u3000-\\u303f\\u4e00-\\u9fff\\uff00-\\uffef]';
const gaps = new RegExp(`(?<=${chinese}) (?=${chinese})`, 'g');

/** Removes spaces between Chinese characters: messages have them beside parameters, for Latin ones. */
const withoutGaps = (sentence: string): string => sentence.replace(gaps, '');

export function textOf(language: Language): Text {
  const messages: Record<string, Message> = languages[language];
  const format = formatsOf(language);
  const plural = new Intl.PluralRules(language);
  const say = (key: string, parameters: Parameters = {}): string => {
    const message = messages[key] ?? key;
    const count = parameters['count'];
    const form =
      typeof message === 'string'
        ? message
        : ((typeof count === 'number' && plural.select(count) === 'one' ? message.one : undefined) ??
          message.other);
    const sentence = form.replace(/\{(\w+)\}/g, (_, name: string) => {
      const value = parameters[name];
      return typeof value === 'number' ? format.count(value) : String(value ?? `{${name}}`);
    });
    return language === 'zh-CN' ? withoutGaps(sentence) : sentence;
  };
  return {
    language,
    format,
    say,
    join: (...sentences) => {
      const all = sentences.filter((sentence) => sentence !== '').join(' ');
      return language === 'zh-CN' ? withoutGaps(all) : all;
    },
    // The sets of words grow on the server first: a new one is shown as it stands on the wire.
    word: (group, wire) =>
      messages[`${group}.${wire}`] !== undefined ? say(`${group}.${wire}`) : wire.replaceAll('_', ' '),
  };
}

/** The language that the browser prefers among ours. */
export function preferredLanguage(wanted: readonly string[]): Language {
  for (const tag of wanted) {
    if (tag.toLowerCase().startsWith('zh')) return 'zh-CN';
    if (tag.toLowerCase().startsWith('en')) return 'en';
  }
  return 'en';
}

export const TextContext = createContext<Text>(textOf('en'));
export const useText = (): Text => useContext(TextContext);
