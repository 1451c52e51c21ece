// A drawing that is SVG as text: the same input gives the same bytes, on a page and in a file.
import type { Palette } from './palette';
import type { LegendItem, Table } from './spec';

export interface DrawingSpec {
  name: string;
  title: string;
  sentence: string;
  table: Table;
  legend?: LegendItem[];
  /** Pixels; a narrower page scrolls the drawing. */
  width: number;
  height: number;
  /** Returns what stands inside the svg element. */
  draw: (palette: Palette) => string;
}

const escapes: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
export const escaped = (text: string): string => text.replace(/[&<>"]/g, (sign) => escapes[sign] ?? sign);

type Attributes = Record<string, string | number>;

/** Returns an element; numbers are written with at most two decimals. */
export function element(name: string, attributes: Attributes, content = ''): string {
  const written = Object.entries(attributes).map(
    ([key, value]) => ` ${key}="${typeof value === 'number' ? String(Math.round(value * 100) / 100) : escaped(value)}"`,
  );
  return `<${name}${written.join('')}${content === '' ? '/>' : `>${content}</${name}>`}\n`;
}

export const label = (x: number, y: number, text: string, attributes: Attributes = {}): string =>
  element('text', { x, y, ...attributes }, escaped(text));

const font = 'system-ui, "Segoe UI", Roboto, "Noto Sans", "Noto Sans CJK SC", "DejaVu Sans", sans-serif';

/** Returns the whole drawing; a file has its title and sentence in it. */
export function svgText(spec: DrawingSpec, palette: Palette, isFile: boolean): string {
  const top = isFile ? 52 : 0;
  const { width, height } = spec;
  const parts = [
    isFile ? element('rect', { width, height: height + top, fill: palette.surface }) : '',
    isFile ? label(12, 22, spec.title, { 'font-size': 15, 'font-weight': 'bold' }) : '',
    isFile ? label(12, 42, spec.sentence, { fill: palette.muted }) : '',
    element('g', { transform: `translate(0 ${top})` }, spec.draw(palette)),
  ];
  return element(
    'svg',
    {
      xmlns: 'http://www.w3.org/2000/svg',
      width,
      height: height + top,
      viewBox: `0 0 ${width} ${height + top}`,
      'font-family': font,
      'font-size': 12,
      fill: palette.text,
    },
    parts.join(''),
  );
}

/** Returns the drawing as a picture with two pixels for each of its own. */
export async function pngOfSvg(text: string): Promise<Blob | null> {
  const image = new Image();
  const address = URL.createObjectURL(new Blob([text], { type: 'image/svg+xml' }));
  try {
    image.src = address;
    await image.decode();
    const canvas = document.createElement('canvas');
    canvas.width = image.naturalWidth * 2;
    canvas.height = image.naturalHeight * 2;
    canvas.getContext('2d')?.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((done) => canvas.toBlob(done, 'image/png'));
  } finally {
    URL.revokeObjectURL(address);
  }
}
