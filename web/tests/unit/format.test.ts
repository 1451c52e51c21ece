import { describe, expect, it } from 'vitest';
import { formatsOf } from '../../src/text/format';

const en = formatsOf('en');
const plain = (text: string) => text.replaceAll('\u00a0', ' ');

describe('formats', () => {
  it.each([
    [0, '0 s'],
    [74.168, '74.2 s'],
    [9.999, '10.0 s'],
    [1271.4, '1,271 s'],
    [0.0834, '83.4 ms'],
    [0.00002, '20.0 µs'],
    [-1.19, '−1.19 s'],
  ])('writes %f seconds with three digits', (value, text) => {
    expect(plain(en.seconds(value))).toBe(text);
  });
  it('writes axes without zeros at the end', () => {
    expect(plain(en.axisSeconds(5))).toBe('5 s');
    expect(plain(en.axisSeconds(0.25))).toBe('250 ms');
    expect(plain(en.axisSeconds(0))).toBe('0 s');
  });
  it('gives a range one unit if both ends have it', () => {
    expect(plain(en.secondsRange(58.09, 87.87))).toBe('58.1 – 87.9 s');
    expect(plain(en.secondsRange(0.9, 1.2))).toBe('900 ms – 1.20 s');
  });
  it('writes waiting times in the unit that people use', () => {
    expect(plain(en.duration(42))).toBe('42.0 s');
    expect(plain(en.duration(150))).toBe('2.5 min');
    expect(plain(en.duration(7560))).toBe('2.1 h');
    expect(plain(en.duration(129600))).toBe('1.5 d');
  });
  it('writes sizes of memory in GiB of 2^30 bytes', () => {
    expect(plain(en.gib(85899345920))).toBe('80.0 GiB'); // 80 x 2^30
  });
  it('writes sizes of files in the largest unit of which there is one', () => {
    expect([0, 1023, 1024, 1536, 3 * 2 ** 30, 5 * 2 ** 50].map((bytes) => plain(en.bytes(bytes)))).toEqual([
      '0 B', '1,023 B', '1.0 KiB', '1.5 KiB', '3.0 GiB', '5,120.0 TiB',
    ]);
  });
  it('writes shares on axes without zeros at the end', () => {
    expect([0, 0.125, 1.5].map((share) => plain(en.axisPercent(share)))).toEqual(['0 %', '12.5 %', '150 %']);
    expect([-0.3, 0, 2].map((share) => plain(en.axisChange(share)))).toEqual(['−30 %', '0 %', '+200 %']);
  });
  it('does not claim to know probabilities near 0 and 1', () => {
    expect(plain(en.probability(0.9999))).toBe('> 99 %');
    expect(plain(en.probability(0.001))).toBe('< 1 %');
    expect(plain(en.probability(0.604))).toBe('60 %');
  });
  it('writes changes with their sign', () => {
    expect(plain(en.change(0.058))).toBe('+5.8 %');
    expect(plain(en.change(-0.05))).toBe('−5.0 %');
    expect(plain(en.change(0))).toBe('0.0 %');
  });
  it('follows the language', () => {
    expect(plain(formatsOf('de').seconds(1234.5))).toBe('1.235 s');
    expect(plain(formatsOf('zh-CN').gib(85899345920))).toBe('80.0 GiB');
  });
  it('shows a dash for a time that is not there', () => {
    expect(en.dateTime('')).toBe('–');
    expect(en.time('never')).toBe('–');
  });
});
