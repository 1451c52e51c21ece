// A report of `meshwright model check --output json`: the checks of a vendor's cost model.
import { useText } from '../text/text';
import { ListTable } from './list_table';
import { Tile } from './pieces';

export interface Check {
  name: string;
  /** The requirement, in the words of the program. */
  what: string;
  /** passed, failed, skipped */
  outcome: string;
  /** The finding, in the words of the program. */
  detail: string;
}

/** How close the model came to measured runs. */
interface Accuracy {
  plan_count: number;
  median_error_ratio: number;
  p90_error_ratio: number;
  question_count: number;
  rank_correlation: number;
  first_count: number;
}

export interface Conformance {
  passed: boolean;
  info: { name: string; vendor: string; version: string; description: string; chips: string[] };
  isolation: string;
  checks: Check[];
  log_tail: string;
  accuracy?: Accuracy;
}

const noInfo = { name: '', vendor: '', version: '', description: '', chips: [] as string[] };

/** Returns the report of a file; absent if it is none. */
export function conformanceIn(text: string): Conformance | undefined {
  try {
    const read = JSON.parse(text) as Partial<Conformance> | null;
    if (!read || typeof read.passed !== 'boolean' || !Array.isArray(read.checks)) return undefined;
    return {
      isolation: '',
      log_tail: '',
      ...read,
      passed: read.passed,
      checks: read.checks,
      info: { ...noInfo, ...read.info },
    };
  } catch {
    return undefined;
  }
}

/** Returns true if the model says that it knows the chip; a trailing * matches any ending. */
export const knowsChip = ({ info }: Conformance, chip: string): boolean =>
  info.chips.some((id) => (id.endsWith('*') ? chip.startsWith(id.slice(0, -1)) : id === chip));

function AccuracyTiles({ accuracy }: { accuracy: Accuracy }) {
  const { format, say } = useText();
  const { plan_count: count, question_count: questions } = accuracy;
  return (
    <dl class="tiles">
      <Tile label={say('conformance.plans')} value={format.count(count)} note={say('conformance.plansNote')} />
      <Tile
        label={say('quality.size')}
        value={format.percent(accuracy.median_error_ratio)}
        note={say('conformance.p90', { ratio: format.percent(accuracy.p90_error_ratio) })}
      />
      {questions > 0 && (
        <Tile
          label={say('conformance.first')}
          value={`${format.count(accuracy.first_count)} / ${format.count(questions)}`}
          note={say('conformance.correlation', { value: format.number(accuracy.rank_correlation, 2) })}
        />
      )}
    </dl>
  );
}

export function ConformanceReport({ report }: { report: Conformance }) {
  const text = useText();
  const { say } = text;
  const { info, checks } = report;
  const count = (outcome: string) => checks.filter((check) => check.outcome === outcome).length;
  return (
    <>
      <section class={`verdict ${report.passed ? '' : 'bad'}`} aria-labelledby="conformance">
        <h3 id="conformance">{say(report.passed ? 'conformance.passed' : 'conformance.failed')}</h3>
        <p>{[info.vendor, info.name, info.version].filter(Boolean).join(' · ')}</p>
        <p>
          {say('conformance.sentence', {
            count: checks.length,
            passed: count('passed'),
            failed: count('failed'),
            skipped: count('skipped'),
          })}
        </p>
      </section>
      {report.accuracy && <AccuracyTiles accuracy={report.accuracy} />}
      <section class="card">
        <h3>{say('conformance.checks')}</h3>
        <ListTable
          isInner
          caption={say('conformance.checks')}
          columns={[
            { label: say('conformance.check') },
            { label: say('outcome') },
            { label: say('conformance.finding'), isWide: true },
            { label: say('conformance.requirement'), isWide: true },
          ]}
          rows={checks.map(({ name, what, outcome, detail }) => ({
            key: name,
            cells: [
              <code>{name}</code>,
              <span class={`badge check-${outcome}`}>
                <span class="dot" aria-hidden="true" />
                {text.word('check', outcome)}
              </span>,
              <span lang="en">{detail || '–'}</span>,
              <span class="quiet" lang="en">
                {what}
              </span>,
            ],
          }))}
        />
        {report.isolation !== '' && (
          <p class="quiet">
            {say('conformance.isolation')} <code>{report.isolation}</code>
          </p>
        )}
        {report.log_tail !== '' && (
          <details>
            <summary>{say('attempt.logTail')}</summary>
            <pre tabIndex={0} aria-label={say('attempt.logTail')} lang="en">
              <code>{report.log_tail}</code>
            </pre>
          </details>
        )}
      </section>
    </>
  );
}
