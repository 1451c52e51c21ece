// The parts of ECharts that the dashboard draws with. They are loaded with the first chart.
import { BarChart, CustomChart, LineChart, ScatterChart } from 'echarts/charts';
import {
  GridComponent,
  LegendComponent,
  MarkLineComponent,
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
  ScatterChart,
  GridComponent,
  LegendComponent,
  MarkLineComponent,
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

export function draw(element: HTMLElement, spec: ChartSpec, palette: Palette): EChartsType {
  const chart = init(element, null, { renderer: 'canvas' });
  chart.setOption(optionOf(spec, palette));
  return chart;
}

export function redraw(chart: EChartsType, spec: ChartSpec, palette: Palette): void {
  chart.setOption(optionOf(spec, palette), { notMerge: true });
}

const fileWidth = 960;
const legendRow = 22;

/** Draws a chart for a file, where the title, the sentence and the legend are part of it. */
function drawForFile(spec: ChartSpec, palette: Palette, renderer: 'svg' | 'canvas'): EChartsType {
  const legend = spec.legend ?? [];
  const rows = Math.ceil(legend.length / 5);
  const top = 56;
  const bottom = rows * legendRow + 12;
  const size = { width: fileWidth, height: spec.height + top + bottom };
  const chart =
    renderer === 'svg'
      ? init(null, null, { renderer, ssr: true, ...size })
      : init(document.createElement('div'), null, { renderer, ...size });
  const option = optionOf(spec, palette);
  chart.setOption({
    ...option,
    backgroundColor: palette.surface,
    grid: { ...option.grid, top: option.grid.top + top, bottom: option.grid.bottom + bottom },
    title: {
      text: spec.title,
      subtext: spec.sentence,
      left: 8,
      top: 6,
      itemGap: 4,
      textStyle: { color: palette.text, fontSize: 15 },
      subtextStyle: { color: palette.muted, fontSize: 12, width: fileWidth - 24, overflow: 'truncate' },
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
