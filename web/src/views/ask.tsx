// A question to the server: the answer is shown here and kept nowhere, unless the reader asks for it
// and the server allows it.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { api, ApiError, type FieldMistake } from '../api/client';
import { useRead } from '../api/use_read';
import type { Chip, GetServerInfoResponse, GetStudyResponse, TuneRequest } from '../api/wire';
import { chipChoices, Input, PoolsInputs } from '../parts/ask_fields';
import { FileDrop } from '../parts/file_drop';
import { errorSentence, Shown } from '../parts/pieces';
import {
  inputOf,
  isSameCluster,
  mistakesIn,
  modelIn,
  queryOf,
  questionOf,
  typedIn,
  type AskedModel,
  type AskField,
  type Typed,
} from '../parts/question';
import { goTo, linkTo, type Place } from '../router';
import { useText } from '../text/text';
import { Decision } from './decision';

/** A file that was chosen, and its model if it holds one. */
interface ReadFile {
  name: string;
  model?: AskedModel;
}

const precisions = ['bf16', 'fp16', 'fp8', 'fp32'];

/** The mistakes that the server found, those of an input under its name. */
function sorted(mistakes: readonly FieldMistake[]) {
  const byInput = new Map<string, string>();
  const others: FieldMistake[] = [];
  for (const mistake of mistakes) {
    const path = mistake.field.replace(/^question\./, ''); // the request has the question in a field
    const input = inputOf(path);
    if (input) byInput.set(input, mistake.description);
    else others.push({ ...mistake, field: path });
  }
  return { byInput, others };
}

type Asked =
  | { state: 'none' }
  | { state: 'asking' }
  | { state: 'answered'; answer: GetStudyResponse }
  | { state: 'failed'; error: Error };

/** Asks the question, one at a time; a new one or leaving the page ends the one before. */
function useQuestion() {
  const [asked, setAsked] = useState<Asked>({ state: 'none' });
  const running = useRef<AbortController>();
  const stop = () => {
    running.current?.abort();
    setAsked({ state: 'none' });
  };
  useEffect(() => () => running.current?.abort(), []);
  const ask = async (question: TuneRequest) => {
    running.current?.abort();
    const own = new AbortController();
    running.current = own;
    setAsked({ state: 'asking' });
    try {
      const { result } = await api.recommend(question, own.signal);
      if (own.signal.aborted) return;
      setAsked({ state: 'answered', answer: { question, ...(result ? { result } : {}) } });
    } catch (error) {
      if (own.signal.aborted) return;
      const infeasible = error instanceof ApiError ? error.infeasible : undefined;
      setAsked(
        infeasible
          ? { state: 'answered', answer: { question, infeasible } }
          : { state: 'failed', error: error instanceof Error ? error : new Error(String(error)) },
      );
    }
  };
  return { asked, ask, stop };
}

/** Keeps the question as a study, which the server then runs. */
function KeepButton({ question }: { question: TuneRequest }) {
  const { say } = useText();
  const [error, setError] = useState<Error>();
  const [isKeeping, setIsKeeping] = useState(false);
  const keep = async () => {
    setIsKeeping(true);
    setError(undefined);
    try {
      const { study } = await api.createStudy(question);
      if (study) goTo(linkTo(['studies', study.id]));
    } catch (failure) {
      setError(failure instanceof Error ? failure : new Error(String(failure)));
    } finally {
      setIsKeeping(false);
    }
  };
  return (
    <>
      <button type="button" disabled={isKeeping} onClick={() => void keep()}>
        {say('ask.keep')}
      </button>
      {error && (
        <span role="alert" class="mistake">
          {errorSentence(error, say)} <span lang="en">{error.message}</span>
        </span>
      )}
    </>
  );
}

function Form(props: {
  place: Place;
  chips: readonly Chip[];
  server: GetServerInfoResponse;
  base?: TuneRequest;
}) {
  const { place, base, server } = props;
  const { say } = useText();
  const [file, setFile] = useState<ReadFile>();
  const { asked, ask, stop } = useQuestion();
  const [own, setOwn] = useState<ReadonlyMap<string, string>>(new Map());
  const [typed, setTyped] = useState<Typed>(() => typedIn(place.query, base));
  const refused = asked.state === 'failed' && asked.error instanceof ApiError ? asked.error.fields : [];
  const { byInput, others } = sorted(refused);
  const isAgain = base !== undefined;
  const hasModel = file?.model !== undefined || (isAgain && file === undefined);
  const open = async (chosen: File) => {
    const model = modelIn(await chosen.text());
    setFile({ name: chosen.name, ...(model ? { model } : {}) });
  };
  // A mistake that was found in an input is no longer there once it is changed.
  const forget = (name?: string) => setOwn(new Map([...own].filter(([other]) => name !== undefined && other !== name)));
  const type = (field: AskField, value: string) => {
    forget(field);
    setTyped({ ...typed, [field]: value });
  };
  const submit = (event: Event) => {
    event.preventDefault();
    const wrong = mistakesIn(typed);
    setOwn(new Map([...wrong].map(([name, mistake]) => [name, say(mistake)])));
    const first = [...wrong.keys()][0];
    if (first !== undefined || !hasModel) {
      document.getElementById(first === undefined ? 'ask-model' : `ask-${first}`)?.focus();
      return;
    }
    goTo(linkTo(place.path, queryOf(typed, base, place.query)), true);
    void ask(questionOf(typed, file?.model, base));
  };
  const chips = useMemo(() => chipChoices(props.chips), [props.chips]);
  const mistakeOf = (name: string) => own.get(name) ?? byInput.get(name);
  const input = (field: AskField) => ({
    name: field,
    value: typed[field],
    onType: (value: string) => type(field, value),
    mistake: mistakeOf(field),
  });
  const same = (values: readonly string[]) => values.map((value) => ({ value, label: value }));
  return (
    <div class="stack">
      <form class="card ask" onSubmit={submit}>
        <FileDrop
          id="ask-model"
          label={say('ask.model')}
          accept=".json,application/json"
          onFile={(chosen) => void open(chosen)}
        >
          {file?.model ? (
            <p role="status">{say('ask.modelRead', { name: file.name })}</p>
          ) : file ? (
            <p role="alert" class="mistake">
              {say('ask.notModel', { name: file.name })}
            </p>
          ) : (
            <p class="quiet">
              {isAgain ? say('ask.modelKept', { name: base.model?.name ?? '' }) : say('ask.modelHint')}
            </p>
          )}
        </FileDrop>
        <PoolsInputs
          pools={typed.pools}
          chips={chips}
          mistakeOf={mistakeOf}
          onChange={(pools, changed) => {
            forget(changed);
            if (changed === undefined) stop(); // what the server said is about other pools
            setTyped({ ...typed, pools });
          }}
        />
        <div class="fields">
          {typed.pools.length > 1 && (
            <Input {...input('between')} label={say('ask.between')} hint={say('ask.usualBetween')} />
          )}
          <Input {...input('sequence')} label={say('ask.sequence')} isRequired />
          <Input {...input('batch')} label={say('ask.batch')} isRequired />
          <Input {...input('framework')} label={say('framework')} list={same(server.frameworks)} hint={say('ask.anyFramework')} />
          <Input {...input('version')} label={say('frameworkVersion')} isText hint={say('ask.itsVersion')} />
          <Input {...input('precision')} label={say('ask.precision')} list={same(precisions)} hint={say('ask.itsPrecision')} />
        </div>
        {base?.baseline && !isSameCluster(typed, base) && <p class="quiet">{say('ask.baselineLeft')}</p>}
        <p class="links">
          {asked.state === 'asking' ? (
            <>
              <button type="button" onClick={stop}>
                {say('ask.stop')}
              </button>
              <span role="status">{say('ask.asking')}</span>
            </>
          ) : (
            <button type="submit" class="primary">
              {say('ask.ask')}
            </button>
          )}
        </p>
        {asked.state === 'failed' && (
          <div class="note-box bad" role="alert">
            <p>
              {byInput.size + others.length > 0 ? say('ask.refused') : errorSentence(asked.error, say)}{' '}
              {byInput.size + others.length === 0 && <span lang="en">{asked.error.message}</span>}
            </p>
            {others.length > 0 && (
              <ul lang="en">
                {others.map(({ field, description }) => (
                  <li key={field}>
                    {field}: {description}
                  </li>
                ))}
              </ul>
            )}
          </div>
        )}
      </form>
      {asked.state === 'answered' && (
        <section class="stack" aria-label={say('ask.answer')}>
          <div class="chart-head">
            <p class="quiet">{say(server.allows_http_writes ? 'ask.mayKeep' : 'ask.keptNowhere')}</p>
            {server.allows_http_writes && (
              <div class="chart-tools">
                <KeepButton question={asked.answer.question as TuneRequest} />
              </div>
            )}
          </div>
          <Decision study={asked.answer} place={place} />
        </section>
      )}
    </div>
  );
}

/** The form, empty or with the question of the study that `from` names. */
export function Ask({ place }: { place: Place }) {
  const { say } = useText();
  const from = place.query['from'] ?? '';
  const reading = useRead(`ask ${from}`, async (signal) => {
    const [{ chips }, server, study] = await Promise.all([
      api.chips(signal),
      api.serverInfo(signal),
      from === '' ? undefined : api.study(from, signal),
    ]);
    return { chips, server, ...(study?.question ? { base: study.question } : {}) };
  });
  return (
    <>
      <h1>{say('ask.title')}</h1>
      <p class="lead">{say('ask.lead')}</p>
      {from !== '' && (
        <p>
          {say('ask.from')} <a href={linkTo(['studies', from])}>{from}</a>
        </p>
      )}
      <Shown reading={reading}>{(data) => <Form key={from} place={place} {...data} />}</Shown>
    </>
  );
}
