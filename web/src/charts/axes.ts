// Charts share these: axes, grid lines and tooltips in the colours of a theme.
import type { Palette } from './palette';

/** Tooltips are drawn, because the page's policy forbids the styles of ECharts' HTML ones. */
export function tooltipOf(palette: Palette, formatter: (item: never) => string) {
  return {
    trigger: 'item' as const,
    renderMode: 'richText' as const,
    confine: true,
    backgroundColor: palette.surface,
    borderColor: palette.line,
    textStyle: { color: palette.text, fontSize: 12 },
    formatter,
  };
}

export function valueAxis(palette: Palette, name: string, format: (value: number) => string) {
  return {
    type: 'value' as const,
    name,
    nameLocation: 'middle' as const,
    nameGap: 28,
    nameTextStyle: { color: palette.muted },
    axisLabel: { color: palette.muted, formatter: format, hideOverlap: true },
    axisLine: { show: false },
    axisTick: { show: false },
    splitLine: { lineStyle: { color: palette.line } },
  };
}

export function nameAxis(palette: Palette, names: string[]) {
  return {
    type: 'category' as const,
    data: names,
    inverse: true,
    axisLabel: { color: palette.text },
    axisLine: { lineStyle: { color: palette.line } },
    axisTick: { show: false },
  };
}
