// A chart as data: what it says in a sentence, its table twin, and the drawing. The functions that
// make specs are pure and tested; chart.tsx draws them.
import type { EChartsCoreOption } from 'echarts/core';
import type { Palette } from './palette';

export interface Column {
  label: string;
  isNumber?: boolean;
}

/** A cell as the reader sees it, and its value in SI base units for files. */
export interface Cell {
  text: string;
  value: number | string | boolean | null;
}

export interface Table {
  columns: Column[];
  /** The names of the columns in CSV and JSON, with their units. */
  keys: string[];
  rows: Cell[][];
}

export interface LegendItem {
  name: string;
  color: (palette: Palette) => string;
  shape?: 'bar' | 'circle' | 'ring' | 'diamond' | 'line' | 'cross';
}

interface Frame {
  top: number;
  bottom: number;
}
/** Files move the drawing down and up, to make room for their title and legend. */
export type ChartOption = EChartsCoreOption & ({ grid: Frame } | { parallel: Frame });

export interface ChartSpec {
  /** Names the files of exports. */
  name: string;
  title: string;
  sentence: string;
  table: Table;
  /** Stands below the drawing, and inside it in files. */
  legend?: LegendItem[];
  /** Pixels, without the legend. */
  height: number;
  /** Pixels; a narrower page scrolls the drawing. */
  minWidth?: number;
  /** The intervals that are marked on parallel axes, by their ids. */
  marked?: Record<string, [number, number][]>;
  option: (palette: Palette) => ChartOption;
}

export const textCell = (text: string): Cell => ({ text, value: text });
export const numberCell = (text: string, value: number): Cell => ({ text, value });

/** Returns the table as CSV (RFC 4180), with values in SI base units. */
export function csvOf(table: Table): string {
  const field = (value: Cell['value']) => {
    const text = value === null ? '' : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const rows = [table.keys, ...table.rows.map((row) => row.map((cell) => cell.value))];
  return rows.map((row) => row.map(field).join(',') + '\r\n').join('');
}

/** Returns the table as a JSON array of objects. */
export function jsonOf(table: Table): string {
  const objects = table.rows.map((row) =>
    Object.fromEntries(row.map((cell, at) => [table.keys[at] ?? `column_${at}`, cell.value])),
  );
  return JSON.stringify(objects, null, 2) + '\n';
}
