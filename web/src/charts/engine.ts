// The parts of ECharts that the dashboard draws with. They are loaded with the first chart.
import { BarChart, CustomChart, LineChart, ParallelChart, ScatterChart } from 'echarts/charts';
import {
  GridComponent,
  LegendComponent,
  MarkLineComponent,
  ParallelComponent,
  TitleComponent,
  TooltipComponent,
} from 'echarts/components';
import { init, use, type EChartsType } from 'echarts/core';
import { CanvasRenderer, SVGRenderer } from 'echarts/renderers';
import type { Palette } from './palette';
import type { ChartSpec } from './spec';

use([
  BarChart,
  CustomChart,
  LineChart,
  ParallelChart,
  ScatterChart,
  GridComponent,
  LegendComponent,
  MarkLineComponent,
  ParallelComponent,
  TitleComponent,
  TooltipComponent,
  CanvasRenderer,
  SVGRenderer,
]);

const font = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Noto Sans CJK SC", "DejaVu Sans", sans-serif';

function optionOf(spec: ChartSpec, palette: Palette) {
  return {
    animation: false,
    backgroundColor: 'transparent',
    textStyle: { fontFamily: font, color: palette.text, fontSize: 12 },
    ...spec.option(palette),
  };
}

/** Shows what is marked on parallel axes, and tells nobody. */
function showMarks(chart: EChartsType, spec: ChartSpec): void {
  for (const [parallelAxisId, intervals] of Object.entries(spec.marked ?? {})) {
    if (intervals.length > 0) {
      chart.dispatchAction({ type: 'axisAreaSelect', parallelAxisId, intervals }, { silent: true });
    }
  }
}

/** Hears of intervals that a reader has marked on a parallel axis. */
export type OnMark = (axisId: string, intervals: [number, number][]) => void;

export function draw(element: HTMLElement, spec: ChartSpec, palette: Palette, onMark: OnMark): EChartsType {
  const chart = init(element, null, { renderer: 'canvas' });
  chart.setOption(optionOf(spec, palette));
  showMarks(chart, spec);
  chart.on('axisareaselected', (event) => {
    const { parallelAxisId, intervals } = event as { parallelAxisId: string; intervals: [number, number][] };
    onMark(parallelAxisId, intervals);
  });
  return chart;
}

export function redraw(chart: EChartsType, spec: ChartSpec, palette: Palette): void {
  chart.setOption(optionOf(spec, palette), { notMerge: true });
  showMarks(chart, spec);
}

const fileWidth = 960;
const legendRow = 22;

/** Draws a chart for a file, where the title, the sentence and the legend are part of it. */
function drawForFile(spec: ChartSpec, palette: Palette, renderer: 'svg' | 'canvas'): EChartsType {
  const legend = spec.legend ?? [];
  const rows = Math.ceil(legend.length / 5);
  const top = 56;
  const bottom = rows * legendRow + 12;
  const width = Math.max(fileWidth, spec.minWidth ?? 0);
  const size = { width, height: spec.height + top + bottom };
  const chart =
    renderer === 'svg'
      ? init(null, null, { renderer, ssr: true, ...size })
      : init(document.createElement('div'), null, { renderer, ...size });
  const option = optionOf(spec, palette);
  const moved = <T extends { top: number; bottom: number }>(frame: T) => ({
    ...frame,
    top: frame.top + top,
    bottom: frame.bottom + bottom,
  });
  chart.setOption({
    ...option,
    backgroundColor: palette.surface,
    ...('grid' in option ? { grid: moved(option.grid) } : { parallel: moved(option.parallel) }),
    title: {
      text: spec.title,
      subtext: spec.sentence,
      left: 8,
      top: 6,
      itemGap: 4,
      textStyle: { color: palette.text, fontSize: 15 },
      subtextStyle: { color: palette.muted, fontSize: 12, width: width - 24, overflow: 'truncate' },
    },
    legend: {
      data: legend.map(({ name }) => name),
      bottom: 4,
      left: 8,
      icon: 'roundRect',
      itemWidth: 12,
      itemHeight: 12,
      textStyle: { color: palette.text },
    },
  });
  return chart;
}

export function svgOf(spec: ChartSpec, palette: Palette): Blob {
  const chart = drawForFile(spec, palette, 'svg');
  const text = chart.renderToSVGString();
  chart.dispose();
  return new Blob([text], { type: 'image/svg+xml' });
}

export async function pngOf(spec: ChartSpec, palette: Palette): Promise<Blob | null> {
  const chart = drawForFile(spec, palette, 'canvas');
  const canvas = chart.renderToCanvas({ pixelRatio: 2 });
  const blob = await new Promise<Blob | null>((done) => canvas.toBlob(done, 'image/png'));
  chart.dispose();
  return blob;
}

// In a file that holds everything, the pages find the engine here, because they can load nothing.
const engine = { draw, redraw, svgOf, pngOf };
export type Engine = typeof engine;
declare global {
  var meshwrightEngine: Engine | undefined;
}
globalThis.meshwrightEngine = engine;

export type { EChartsType };
