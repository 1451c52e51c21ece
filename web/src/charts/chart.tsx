import type { ComponentChildren } from 'preact';
import { useEffect, useId, useMemo, useRef, useState } from 'preact/hooks';
import { save } from '../parts/save';
import { DataTable } from '../parts/data_table';
import { useText } from '../text/text';
import { useTheme } from '../theme';
import { pngOfSvg, svgText, type DrawingSpec } from './drawing';
import { paletteOf } from './palette';
import { csvOf, jsonOf, type ChartSpec, type LegendItem, type Table } from './spec';
import type { EChartsType, Engine, OnMark } from './engine';

const loadEngine = async (): Promise<Engine> => globalThis.meshwrightEngine ?? import('./engine');

type FileMaker = () => Promise<Blob | null>;

/** The part of a chart or drawing that a figure shows around it. */
interface Framed {
  name: string;
  title: string;
  sentence: string;
  table: Table;
  legend?: LegendItem[];
}

function Exports({ spec, png, svg }: { spec: Framed; png: FileMaker; svg: FileMaker }) {
  const text = useText();
  const menu = useRef<HTMLDetailsElement>(null);
  const actions: [string, FileMaker][] = [
    ['PNG', png],
    ['SVG', svg],
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

/** Shows a drawing with its title, sentence, legend, table twin and exports; `children` choose what it shows. */
function Figure(props: {
  spec: Framed;
  png: FileMaker;
  svg: FileMaker;
  children: ComponentChildren;
  drawing: (isHidden: boolean) => ComponentChildren;
}) {
  const text = useText();
  const { isDark } = useTheme();
  const [showsTable, setShowsTable] = useState(false);
  const id = useId();
  const { spec } = props;
  return (
    <figure class="chart card" aria-labelledby={id}>
      <div class="chart-head">
        <h3 id={id}>{spec.title}</h3>
        <div class="chart-tools">
          {props.children}
          <button
            type="button"
            aria-pressed={showsTable}
            aria-label={text.say('chart.tableOf', { title: spec.title })}
            onClick={() => setShowsTable(!showsTable)}
          >
            {text.say('chart.table')}
          </button>
          <Exports spec={spec} png={props.png} svg={props.svg} />
        </div>
      </div>
      <figcaption>{spec.sentence}</figcaption>
      {props.drawing(showsTable)}
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

/** A drawing that is wider than the page scrolls, from the keyboard, too. */
function Scroller(props: { title: string; isWide: boolean; hidden: boolean; children: ComponentChildren }) {
  const scrolling = props.isWide
    ? { class: 'scroll', tabIndex: 0, role: 'group' as const, 'aria-label': props.title }
    : {};
  return (
    <div hidden={props.hidden} {...scrolling}>
      {props.children}
    </div>
  );
}

/** Shows a drawing that is SVG, with its table twin and its exports. */
export function Drawing({ spec, children }: { spec: DrawingSpec; children?: ComponentChildren }) {
  const { isDark } = useTheme();
  const palette = paletteOf(isDark);
  const shown = useMemo(() => svgText(spec, palette, false), [spec, palette]);
  const file = () => svgText(spec, palette, true);
  return (
    <Figure
      spec={spec}
      png={() => pngOfSvg(file())}
      svg={async () => new Blob([file()], { type: 'image/svg+xml' })}
      drawing={(isHidden) => (
        <Scroller title={spec.title} isWide hidden={isHidden}>
          <div
            class="drawing"
            role="img"
            aria-label={`${spec.title}. ${spec.sentence}`}
            dangerouslySetInnerHTML={{ __html: shown }}
          />
        </Scroller>
      )}
    >
      {children}
    </Figure>
  );
}

/** The canvas of a chart; it is drawn anew when its table has been shown, because it then has a size again. */
function Canvas({ spec, isHidden, onMark }: { spec: ChartSpec; isHidden: boolean; onMark: OnMark | undefined }) {
  const { isDark } = useTheme();
  const element = useRef<HTMLDivElement>(null);
  const drawn = useRef<EChartsType | undefined>(undefined);
  const marked = useRef(onMark);
  marked.current = onMark;

  useEffect(() => {
    let isGone = false;
    let observer: ResizeObserver | undefined;
    void loadEngine().then((engine) => {
      if (isGone || !element.current) return;
      drawn.current = engine.draw(element.current, spec, paletteOf(isDark), (axis, intervals) =>
        marked.current?.(axis, intervals),
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
  }, [spec, isDark, isHidden]);

  return (
    <Scroller title={spec.title} isWide={spec.minWidth !== undefined} hidden={isHidden}>
      <div
        ref={element}
        class="chart-canvas"
        role="img"
        aria-label={`${spec.title}. ${spec.sentence}`}
        style={{ height: `${spec.height}px`, minWidth: spec.minWidth === undefined ? 'auto' : `${spec.minWidth}px` }}
      />
    </Scroller>
  );
}

/**
 * Draws a spec, with its sentence, its table twin and its exports; `children` choose what it shows.
 * `onMark` hears of intervals that a reader has marked on a parallel axis.
 */
export function Chart(props: { spec: ChartSpec; children?: ComponentChildren; onMark?: OnMark }) {
  const { spec } = props;
  const { isDark } = useTheme();
  const palette = paletteOf(isDark);
  return (
    <Figure
      spec={spec}
      png={async () => (await loadEngine()).pngOf(spec, palette)}
      svg={async () => (await loadEngine()).svgOf(spec, palette)}
      drawing={(isHidden) => <Canvas spec={spec} isHidden={isHidden} onMark={props.onMark} />}
    >
      {props.children}
    </Figure>
  );
}
