import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { en } from '../../src/text/messages/en';
import { zhCN } from '../../src/text/messages/zh_cn';
import { preferredLanguage, textOf, type Message } from '../../src/text/text';
import { auditedMethods } from '../../src/views/callers';

const formsOf = (message: Message) => (typeof message === 'string' ? [message] : Object.values(message));
const parametersOf = (message: Message) =>
  new Set(formsOf(message).flatMap((form) => form.match(/\{\w+\}/g) ?? []));

describe('messages', () => {
  const english: Record<string, Message> = en;
  it('are the same in both languages', () => {
    expect(Object.keys(zhCN).sort()).toEqual(Object.keys(en).sort());
  });
  it.each(Object.entries(zhCN))('%s has the parameters of the English one', (key, message) => {
    const own = parametersOf(message);
    for (const parameter of parametersOf(english[key] ?? '')) expect(own).toContain(parameter);
    expect(own.size).toBe(parametersOf(english[key] ?? '').size);
  });
  it('are all used', () => {
    const sources = readdirSync('src', { recursive: true, encoding: 'utf8' })
      .filter((name) => /\.tsx?$/.test(name) && !name.includes('messages'))
      .map((name) => readFileSync(`src/${name}`, 'utf8'))
      .join('\n');
    // Keys of a group are made from words of the wire.
    const groups = /^(state|outcome|trial|time|memory|rule|provenance|field|theme|tab|connection|source|dimension|group|span|linkPath|modelKind|modelState|readiness|readinessNote|confidence|area|verdict|mixCause|generation|role|protocol|operator|operatorDetail|check|uncertaintySource)\./;
    const unused = Object.keys(en).filter(
      (key) => !groups.test(key) && !sources.includes(`'${key}'`),
    );
    expect(unused).toEqual([]);
  });
});

describe('sentences', () => {
  const holds = (name: string) => textOf('zh-CN').say('use.all', { name, count: 16 });
  it('have spaces beside Latin parameters, and none between Chinese characters', () => {
    expect(holds('方案 1')).toBe('方案 1 使用全部 16 个节点。');
    expect(holds('基线')).toBe('基线使用全部 16 个节点。');
    expect(holds('方案 1（基线）')).toBe('方案 1（基线）使用全部 16 个节点。');
  });
  it('follow each other as their language has it', () => {
    expect(textOf('en').join('One.', '', 'Two.')).toBe('One. Two.');
    expect(textOf('zh-CN').join('其一。', '', '其二。')).toBe('其一。其二。');
  });
});

describe('words of the wire', () => {
  const text = textOf('en');
  // The sets of words as the C++ sources have them, so that none is shown raw.
  const wordsIn = (file: string, pattern: RegExp) =>
    [...readFileSync(`../${file}`, 'utf8').matchAll(pattern)].map((match) => match[1] ?? '');
  it.each([
    ['rule', wordsIn('pruner/rules/prune_rule.h', /constexpr std::string_view k\w+Rule = "(\w+)"/g), 7],
    ['role', wordsIn('server/auth/callers.cc', /RoleWord\{Role::k\w+, "(\w+)"\}/g), 4],
    ['operator', wordsIn('server/tuner/chip_calibration/coverage.cc', /\{"([\w -]+)", "\w+_\w+"\}/g), 7],
    ['state', wordsIn('recorder/records.cc', /\{StudyState::k\w+, "(\w+)"\}/g), 7],
  ] as const)('every %s has a word', (group, words, count) => {
    expect(words.length).toBeGreaterThanOrEqual(count);
    for (const word of words) expect(en).toHaveProperty([`${group}.${word}`]);
  });
  it('the methods that are audited can be chosen', () => {
    const audited = wordsIn('server/auth/permissions.cc', /MethodRole\{"(\w+)", Role::k\w+, true\}/g);
    expect([...auditedMethods].sort()).toEqual(audited.sort());
  });
  it('every cause of time and kind of memory has a word', () => {
    const words = wordsIn('search_space/spec/estimate.cc', /return "(\w+)";/g);
    expect(words.length).toBeGreaterThanOrEqual(21);
    for (const word of words) {
      expect(`time.${word}` in en || `memory.${word}` in en, word).toBe(true);
    }
  });
  it('shows a new word as it stands', () => {
    expect(text.word('rule', 'brand_new')).toBe('brand new');
  });
});

describe('sentences', () => {
  it('take the plural of their count', () => {
    expect(textOf('en').say('devices', { count: 1 })).toBe('1 device');
    expect(textOf('en').say('devices', { count: 2048 })).toBe('2,048 devices');
    expect(textOf('zh-CN').say('devices', { count: 1 })).toBe('1 个设备');
  });
  it('come in the first language of the browser that there is', () => {
    expect(preferredLanguage(['fr', 'zh-TW', 'en'])).toBe('zh-CN');
    expect(preferredLanguage(['en-GB', 'zh'])).toBe('en');
    expect(preferredLanguage(['fr'])).toBe('en');
  });
});
