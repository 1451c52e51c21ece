// The name, the note and the labels that people give a study. They change them where the server
// allows it; a change that somebody else has made meanwhile is shown, and nothing is overwritten
// unseen.
import { useState } from 'preact/hooks';
import { api, ApiError, type StudyWords } from '../api/client';
import type { Study } from '../api/wire';
import { useText } from '../text/text';
import { errorSentence } from './pieces';
import { LabelLinks } from './study_filters';

/** Labels as lines of a text: team=vision. */
export const linesOf = (labels: Record<string, string>): string =>
  Object.keys(labels)
    .sort()
    .map((key) => `${key}=${labels[key] ?? ''}`)
    .join('\n');

/** Returns the labels of such lines; a line without "=" is a label without a value. */
export function labelsIn(lines: string): Record<string, string> {
  const labels: Record<string, string> = {};
  for (const line of lines.split('\n').map((text) => text.trim())) {
    if (line === '') continue;
    const [key = '', ...value] = line.split('=');
    labels[key.trim()] = value.join('=').trim();
  }
  return labels;
}

interface Draft {
  name: string;
  note: string;
  labels: string;
}

const draftOf = (study: Study): Draft => ({
  name: study.display_name,
  note: study.note,
  labels: linesOf(study.labels),
});

/** Returns the change that makes a study say what the draft does. */
export function wordsOf(draft: Draft, study: Study): StudyWords {
  const labels = labelsIn(draft.labels);
  return {
    display_name: draft.name.trim(),
    note: draft.note.trim(),
    labels,
    removed_labels: Object.keys(study.labels).filter((key) => !(key in labels)),
  };
}

function Said({ study }: { study: Study }) {
  return (
    <>
      {study.note !== '' && <p class="study-note">{study.note}</p>}
      <LabelLinks study={study} />
    </>
  );
}

/** Shows the name, note and labels that the server has stored. */
export function SavedWords({ study }: { study: Study }) {
  const { say } = useText();
  return (
    <dl class="settings">
      <dt>{say('words.name')}</dt>
      <dd>{study.display_name || '–'}</dd>
      <dt>{say('words.note')}</dt>
      <dd>{study.note || '–'}</dd>
      <dt>{say('words.labels')}</dt>
      <dd>{linesOf(study.labels) || '–'}</dd>
    </dl>
  );
}

function Editor(props: { study: Study; onSaved: (study: Study) => void; onLeave: () => void }) {
  const { say } = useText();
  const [base, setBase] = useState(props.study);
  const [draft, setDraft] = useState(() => draftOf(props.study));
  const [theirs, setTheirs] = useState<Study>();
  const [error, setError] = useState<Error>();
  const [isSaving, setIsSaving] = useState(false);
  const saveOver = async (current: Study) => {
    setIsSaving(true);
    setError(undefined);
    try {
      const { study } = await api.updateStudy(current, wordsOf(draft, current));
      if (study) props.onSaved(study);
    } catch (failure) {
      if (failure instanceof ApiError && failure.isConflict) {
        const { study } = await api.study(current.id);
        setTheirs(study);
      } else {
        setError(failure instanceof Error ? failure : new Error(String(failure)));
      }
    } finally {
      setIsSaving(false);
    }
  };
  const takeTheirs = (study: Study) => {
    setBase(study);
    setDraft(draftOf(study));
    setTheirs(undefined);
  };
  return (
    <form
      class="card words-form"
      onSubmit={(event) => {
        event.preventDefault();
        void saveOver(base);
      }}
    >
      <label>
        {say('words.name')}
        <input
          value={draft.name}
          onInput={(event) => setDraft({ ...draft, name: event.currentTarget.value })}
        />
      </label>
      <label>
        {say('words.note')}
        <textarea
          rows={4}
          value={draft.note}
          onInput={(event) => setDraft({ ...draft, note: event.currentTarget.value })}
        />
      </label>
      <label>
        {say('words.labelLines')}
        <textarea
          rows={3}
          value={draft.labels}
          onInput={(event) => setDraft({ ...draft, labels: event.currentTarget.value })}
        />
      </label>
      {theirs ? (
        <div class="note-box bad" role="alert">
          <p>{say('words.conflict')}</p>
          <SavedWords study={theirs} />
          <p class="links">
            <button type="button" onClick={() => takeTheirs(theirs)}>
              {say('words.takeTheirs')}
            </button>
            <button type="button" disabled={isSaving} onClick={() => void saveOver(theirs)}>
              {say('words.saveMine')}
            </button>
          </p>
        </div>
      ) : (
        <p class="links">
          <button type="submit" class="primary" disabled={isSaving}>
            {say('words.save')}
          </button>
          <button type="button" onClick={props.onLeave}>
            {say('words.leave')}
          </button>
        </p>
      )}
      {error && (
        <p role="alert" class="mistake">
          {errorSentence(error, say)} <span lang="en">{error.message}</span>
        </p>
      )}
    </form>
  );
}

/** Shows what people say of a study. `mayChange`: the server takes changes. */
export function StudyWordsBox(props: { study: Study; mayChange: boolean; onChange: () => void }) {
  const { say } = useText();
  const [isOpen, setIsOpen] = useState(false);
  const { study, mayChange } = props;
  if (isOpen) {
    return (
      <Editor
        study={study}
        onLeave={() => setIsOpen(false)}
        onSaved={() => {
          setIsOpen(false);
          props.onChange();
        }}
      />
    );
  }
  return (
    <div class="study-words">
      <Said study={study} />
      {mayChange && (
        <button type="button" onClick={() => setIsOpen(true)}>
          {say('words.change')}
        </button>
      )}
    </div>
  );
}
