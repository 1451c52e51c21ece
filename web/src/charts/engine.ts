// The parts of ECharts that the dashboard draws with. They are loaded with the first chart.
import { BarChart, CustomChart, LineChart, ScatterChart } from 'echarts/charts';
import {
  GridComponent,
  LegendComponent,
  MarkLineComponent,
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

export function svgOf(spec: ChartSpec, palette: Palette, width: number): string {
  const chart = init(null, null, { renderer: 'svg', ssr: true, width, height: spec.height });
  chart.setOption({ ...optionOf(spec, palette), backgroundColor: palette.surface });
  const text = chart.renderToSVGString();
  chart.dispose();
  return text;
}

export function pngOf(chart: EChartsType, palette: Palette): Promise<Blob | null> {
  const canvas = chart.renderToCanvas({ pixelRatio: 2, backgroundColor: palette.surface });
  return new Promise((resolve) => canvas.toBlob(resolve, 'image/png'));
}

export type { EChartsType };
