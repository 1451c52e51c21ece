// Two to four studies side by side. Those on different clusters compare the clusters.
import { useMemo } from 'preact/hooks';
import { api } from '../api/client';
import { useRead } from '../api/use_read';
import type { GetStudyResponse, Study } from '../api/wire';
import { Chart } from '../charts/chart';
import { studiesSpec } from '../charts/throughput';
import { ListTable } from '../parts/list_table';
import { Shown, Value } from '../parts/pieces';
import { chosenOf, isSameWork, questionDifferences, studyNames, studyRows, type SideRow } from '../parts/study_pairs';
import { goTo, linkTo } from '../router';
import { useText } from '../text/text';

export const comparedLimit = 4;

function SideTable({ title, names, rows }: { title: string; names: readonly string[]; rows: readonly SideRow[] }) {
  const { say } = useText();
  return (
    <ListTable
      isInner
      caption={title}
      columns={[{ label: say('kinds.what') }, ...names.map((label) => ({ label, isNumber: true }))]}
      rows={rows.map(({ label, values }) => ({
        key: label,
        cells: [label, ...values.map((value, at) => <Value key={at} text={value} />)],
      }))}
    />
  );
}

function Sides({ studies }: { studies: readonly GetStudyResponse[] }) {
  const text = useText();
  const { say } = text;
  const names = useMemo(() => studyNames(studies, text), [studies, text]);
  const rows = useMemo(() => studyRows(studies, text), [studies, text]);
  const differences = useMemo(() => questionDifferences(studies, text), [studies, text]);
  const spec = useMemo(
    () =>
      studiesSpec(
        studies.map((study, at) => {
          const estimate = chosenOf(study, text)?.plan.estimate;
          return { name: names[at] ?? '', ...(estimate ? { estimate } : {}) };
        }),
        text,
      ),
    [studies, names, text],
  );
  const ids = studies.map(({ study }) => study?.id ?? '');
  return (
    <div class="stack">
      <p class="links">
        {ids.map((id, at) => (
          <span key={id}>
            <a href={linkTo(['studies', id])}>{names[at]}</a>{' '}
            <a class="quiet" href={linkTo(['compare', ...ids.filter((other) => other !== id)])} aria-label={say('studies.leaveOutOf', { name: names[at] ?? '' })}>
              {say('studies.leaveOut')}
            </a>
          </span>
        ))}
      </p>
      {!isSameWork(studies) && <p class="note-box">{say('studies.otherWork')}</p>}
      <section class="card">
        <h2>{say('studies.figures')}</h2>
        <SideTable title={say('studies.figures')} names={names} rows={rows} />
      </section>
      <Chart spec={spec} />
      <section class="card">
        <h2>{say('studies.questions')}</h2>
        {differences.length === 0 ? (
          <p>{say('studies.equalQuestions')}</p>
        ) : (
          <SideTable title={say('studies.questions')} names={names} rows={differences} />
        )}
      </section>
    </div>
  );
}

function Adder({ ids, known }: { ids: readonly string[]; known: readonly Study[] }) {
  const { say } = useText();
  const others = known.filter(({ id }) => !ids.includes(id));
  if (ids.length >= comparedLimit || others.length === 0) return null;
  return (
    <form class="filters" onSubmit={(event) => event.preventDefault()}>
      <label>
        {say('studies.add')}
        <select
          value=""
          onChange={(event) => {
            if (event.currentTarget.value !== '') goTo(linkTo(['compare', ...ids, event.currentTarget.value]));
          }}
        >
          <option value="">{say('ask.choose')}</option>
          {others.map(({ id, display_name, model_name, cluster_name }) => (
            <option key={id} value={id}>
              {display_name || say('study.title', { model: model_name, cluster: cluster_name })} · {id}
            </option>
          ))}
        </select>
      </label>
    </form>
  );
}

export function CompareStudies({ ids }: { ids: readonly string[] }) {
  const { say } = useText();
  const chosen = [...new Set(ids)].slice(0, comparedLimit);
  const reading = useRead(`compare ${chosen.join(' ')}`, async (signal) => {
    const [studies, list] = await Promise.all([
      Promise.all(chosen.map((id) => api.study(id, signal))),
      api.studies({ page_size: 100 }, signal),
    ]);
    return { studies, known: list.studies };
  });
  return (
    <>
      <h1>{say('studies.title')}</h1>
      <p class="lead">{say('studies.lead')}</p>
      <Shown reading={reading}>
        {({ studies, known }) => (
          <>
            <Adder ids={chosen} known={known} />
            {studies.length === 0 ? <p class="card empty">{say('studies.none')}</p> : <Sides studies={studies} />}
          </>
        )}
      </Shown>
    </>
  );
}
