import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { save } from '../parts/save';
import { DataTable } from '../parts/data_table';
import { useText } from '../text/text';
import { useTheme } from '../theme';
import { paletteOf } from './palette';
import { csvOf, jsonOf, type ChartSpec } from './spec';
import type { EChartsType, Engine, OnMark } from './engine';

const loadEngine = async (): Promise<Engine> => globalThis.meshwrightEngine ?? import('./engine');

function Exports({ spec }: { spec: ChartSpec }) {
  const text = useText();
  const { isDark } = useTheme();
  const menu = useRef<HTMLDetailsElement>(null);
  const palette = paletteOf(isDark);
  const actions: [string, () => Promise<Blob | null>][] = [
    ['PNG', async () => (await loadEngine()).pngOf(spec, palette)],
    ['SVG', async () => (await loadEngine()).svgOf(spec, palette)],
    ['CSV', async () => new Blob([csvOf(spec.table)], { type: 'text/csv' })],
    ['JSON', async () => new Blob([jsonOf(spec.table)], { type: 'application/json' })],
  ];
  const onKey = (event: KeyboardEvent) => {
    if (event.key !== 'Escape' || !menu.current) return;
    menu.current.open = false;
    menu.current.querySelector('summary')?.focus();
  };
  return (
    <details class="menu" ref={menu} onKeyDown={onKey}>
      <summary aria-label={text.say('chart.saveOf', { title: spec.title })}>
        {text.say('chart.save')}
      </summary>
      <div class="menu-items">
        {actions.map(([name, make]) => (
          <button
            type="button"
            key={name}
            onClick={async () => {
              const blob = await make();
              if (blob) save(blob, `${spec.name}.${name.toLowerCase()}`);
              if (menu.current) menu.current.open = false;
            }}
          >
            {name}
          </button>
        ))}
      </div>
    </details>
  );
}

/**
 * Draws a spec, with its sentence, its table twin and its exports; `children` choose what it shows.
 * `onMark` hears of intervals that a reader has marked on a parallel axis.
 */
export function Chart(props: { spec: ChartSpec; children?: ComponentChildren; onMark?: OnMark }) {
  const { spec, children } = props;
  const text = useText();
  const { isDark } = useTheme();
  const [showsTable, setShowsTable] = useState(false);
  const element = useRef<HTMLDivElement>(null);
  const drawn = useRef<EChartsType | undefined>(undefined);
  const id = useId();
  const onMark = useRef(props.onMark);
  onMark.current = props.onMark;

  useEffect(() => {
    let isGone = false;
    let observer: ResizeObserver | undefined;
    void loadEngine().then((engine) => {
      if (isGone || !element.current) return;
      drawn.current = engine.draw(element.current, spec, paletteOf(isDark), (axis, intervals) =>
        onMark.current?.(axis, intervals),
      );
      element.current.dataset['drawn'] = 'true';
      observer = new ResizeObserver(() => drawn.current?.resize());
      observer.observe(element.current);
    });
    return () => {
      isGone = true;
      observer?.disconnect();
      drawn.current?.dispose();
      drawn.current = undefined;
    };
  }, []);
  useEffect(() => {
    if (!drawn.current) return;
    void loadEngine().then((engine) => {
      if (!drawn.current) return;
      engine.redraw(drawn.current, spec, paletteOf(isDark));
      drawn.current.resize();
    });
  }, [spec, isDark, showsTable]);

  return (
    <figure class="chart card" aria-labelledby={id}>
      <div class="chart-head">
        <h3 id={id}>{spec.title}</h3>
        <div class="chart-tools">
          {children}
          <button
            type="button"
            aria-pressed={showsTable}
            aria-label={text.say('chart.tableOf', { title: spec.title })}
            onClick={() => setShowsTable(!showsTable)}
          >
            {text.say('chart.table')}
          </button>
          <Exports spec={spec} />
        </div>
      </div>
      <figcaption>{spec.sentence}</figcaption>
      {/* What is wider than the page scrolls, from the keyboard, too. */}
      <div
        hidden={showsTable}
        {...(spec.minWidth === undefined
          ? {}
          : { class: 'scroll', tabIndex: 0, role: 'group', 'aria-label': spec.title })}
      >
        <div
          ref={element}
          class="chart-canvas"
          role="img"
          aria-label={`${spec.title}. ${spec.sentence}`}
          style={{ height: `${spec.height}px`, minWidth: spec.minWidth === undefined ? 'auto' : `${spec.minWidth}px` }}
        />
      </div>
      {spec.legend && !showsTable && (
        <ul class="legend" aria-hidden="true">
          {spec.legend.map(({ name, color, shape = 'bar' }) => (
            <li key={name}>
              <span class={`mark ${shape}`} style={{ color: color(paletteOf(isDark)) }} />
              {name}
            </li>
          ))}
        </ul>
      )}
      {showsTable && <DataTable table={spec.table} caption={spec.title} />}
    </figure>
  );
}
