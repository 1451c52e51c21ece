// Numbers, units and times as the reader's language writes them. Values come in SI base units; GiB,
// ms and per cent exist only here.

/** Separates a number from its unit, so that no line breaks between them. */
const space = '\u00a0';
export const bytesPerGib = 2 ** 30;

export interface Formats {
  count(value: number): string;
  /** Three significant digits with s, ms or µs. */
  seconds(value: number): string;
  /** As `seconds`, without zeros at its end: for axes. */
  axisSeconds(value: number): string;
  /** A time that people wait: 42 s, 3 min, 2.1 h, 1.5 d. */
  duration(seconds: number): string;
  /** "58.1 to 87.9 s", with one unit if both have the same. */
  secondsRange(low: number, high: number): string;
  gib(bytes: number): string;
  /** In the largest unit from KiB to TiB of which there is one; for files. */
  bytes(bytes: number): string;
  percent(ratio: number): string;
  /** With its sign: +5.8 %. */
  change(ratio: number): string;
  /** As `percent` and `change`, without zeros at their end: for axes. */
  axisPercent(ratio: number): string;
  axisChange(ratio: number): string;
  /** Nobody can tell 99.3 % from 99.9 %: "> 99 %", "< 1 %", else whole per cents. */
  probability(ratio: number): string;
  rate(perSecond: number): string;
  dateTime(rfc3339: string): string;
  time(rfc3339: string): string;
  number(value: number, digits: number): string;
}

/** A hyphen is no minus: it is shorter, and a line may break after it. */
const withMinus = (text: string): string => text.replace('-', '\u2212');

export function formatsOf(locale: string): Formats {
  // Making a format takes longer than a hundred uses of it.
  const made = new Map<string, Intl.NumberFormat>();
  const formatOf = (name: string, options: Intl.NumberFormatOptions) => {
    const known = made.get(name);
    if (known) return known;
    const format = new Intl.NumberFormat(locale, options);
    made.set(name, format);
    return format;
  };
  const number = (value: number, digits: number) =>
    withMinus(
      formatOf(`number ${digits}`, { minimumFractionDigits: digits, maximumFractionDigits: digits }).format(value),
    );
  const whole = new Intl.NumberFormat(locale, { maximumFractionDigits: 0 });
  const threeDigits = (value: number) => {
    const size = Math.abs(value);
    return number(value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
  };
  const inUnit = (value: number): [string, string] => {
    const size = Math.abs(value);
    if (size === 0) return ['0', 's'];
    if (size < 1e-3) return [threeDigits(value * 1e6), 'µs'];
    if (size < 1) return [threeDigits(value * 1e3), 'ms'];
    return [threeDigits(value), 's'];
  };
  // English has the space that the server's sentences have, too; Chinese has none.
  const perCent = locale.startsWith('en') ? `${space}%` : '%';
  const percent = (ratio: number, least: number, most: number, sign: 'auto' | 'exceptZero' = 'auto') =>
    withMinus(
      formatOf(`percent ${least} ${most} ${sign}`, {
        style: 'percent',
        minimumFractionDigits: least,
        maximumFractionDigits: most,
        signDisplay: sign,
      }).format(ratio),
    ).replace('%', perCent);
  const dateTime = new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'short' });
  const time = new Intl.DateTimeFormat(locale, { timeStyle: 'medium' });
  const dateOr = (text: string, format: Intl.DateTimeFormat) => {
    const date = new Date(text);
    return text === '' || Number.isNaN(date.getTime()) ? '–' : format.format(date);
  };
  return {
    number,
    count: (value) => whole.format(value),
    seconds: (value) => inUnit(value).join(space),
    axisSeconds: (value) => {
      const [scale, unit] =
        value === 0 || Math.abs(value) >= 1 ? [1, 's'] : Math.abs(value) >= 1e-3 ? [1e3, 'ms'] : [1e6, 'µs'];
      const digits = formatOf('four digits', { maximumSignificantDigits: 4 });
      return `${digits.format(value * scale)}${space}${unit}`;
    },
    duration: (value) => {
      if (value < 60) return inUnit(value).join(space);
      if (value < 3600) return `${number(value / 60, 1)}${space}min`;
      if (value < 86400) return `${number(value / 3600, 1)}${space}h`;
      return `${number(value / 86400, 1)}${space}d`;
    },
    secondsRange: (low, high) => {
      const [a, unitA] = inUnit(low);
      const [b, unitB] = inUnit(high);
      return unitA === unitB
        ? `${a} – ${b}${space}${unitB}`
        : `${a}${space}${unitA} – ${b}${space}${unitB}`;
    },
    bytes: (value) => {
      const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
      const step = Math.min(Math.floor(Math.log2(Math.max(value, 1)) / 10), units.length - 1);
      return `${number(value / 2 ** (10 * step), step === 0 ? 0 : 1)}${space}${units[step]}`;
    },
    gib: (bytes) => `${number(bytes / bytesPerGib, 1)}${space}GiB`,
    percent: (ratio) => percent(ratio, 1, 1),
    axisPercent: (ratio) => percent(ratio, 0, 1),
    change: (ratio) => percent(ratio, 1, 1, 'exceptZero'),
    axisChange: (ratio) => percent(ratio, 0, 1, 'exceptZero'),
    probability: (ratio) =>
      ratio > 0.99 ? `>${space}${percent(0.99, 0, 0)}` : ratio < 0.01 ? `<${space}${percent(0.01, 0, 0)}` : percent(ratio, 0, 0),
    rate: (value) => whole.format(value),
    dateTime: (text) => dateOr(text, dateTime),
    time: (text) => dateOr(text, time),
  };
}

export const gibOf = (bytes: number): number => bytes / bytesPerGib;
