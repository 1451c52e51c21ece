// The buttons that change the state of a study: pause, resume, cancel, run trials again, delete.
import { useEffect, useRef, useState } from 'preact/hooks';
import { api, ApiError } from '../api/client';
import type { Study, Trial } from '../api/wire';
import { goTo, linkTo } from '../router';
import { useText } from '../text/text';
import { errorSentence } from './pieces';
import { SavedWords } from './study_words';

/** A study that may be changed, and what to do afterwards. */
export interface Changes {
  study: Study;
  onChange: () => void;
}

/** Returns what runs a call and then tells that the study may have changed, and how the call went. */
function useCall(onChange: () => void) {
  const [isSending, setIsSending] = useState(false);
  const [error, setError] = useState<Error>();
  const run = async (call: () => Promise<unknown>) => {
    setIsSending(true);
    setError(undefined);
    try {
      await call();
      onChange();
    } catch (failure) {
      setError(failure instanceof Error ? failure : new Error(String(failure)));
    } finally {
      setIsSending(false);
    }
  };
  return { run, isSending, error };
}

function Mistake({ error }: { error: Error | undefined }) {
  const { say } = useText();
  if (!error) return null;
  return (
    <span role="alert" class="mistake">
      {errorSentence(error, say)} <span lang="en">{error.message}</span>
    </span>
  );
}

/** A button that asks once more before it does something. */
function SureButton(props: {
  label: string;
  question: string;
  yes: string;
  no: string;
  call: () => Promise<unknown>;
  onChange: () => void;
}) {
  const [isAsked, setIsAsked] = useState(false);
  const { run, isSending, error } = useCall(props.onChange);
  const go = async () => {
    await run(props.call);
    setIsAsked(false);
  };
  return (
    <>
      {isAsked ? (
        <span class="links" role="status">
          {props.question}
          <button type="button" disabled={isSending} onClick={() => void go()}>
            {props.yes}
          </button>
          <button type="button" onClick={() => setIsAsked(false)}>
            {props.no}
          </button>
        </span>
      ) : (
        <button type="button" onClick={() => setIsAsked(true)}>
          {props.label}
        </button>
      )}
      <Mistake error={error} />
    </>
  );
}

function CancelButton({ study, onChange }: Changes) {
  const { say } = useText();
  return (
    <SureButton
      label={say('cancel.study')}
      question={say('cancel.sure')}
      yes={say('cancel.yes')}
      no={say('cancel.no')}
      call={() => api.cancelStudy(study.id)}
      onChange={onChange}
    />
  );
}

/** Pauses a study that waits or runs, and resumes one that is paused. */
function PauseButton({ study, onChange }: Changes) {
  const { say } = useText();
  const { run, isSending, error } = useCall(onChange);
  const isPaused = study.state === 'paused';
  const change = () => run(() => (isPaused ? api.resumeStudy(study.id) : api.pauseStudy(study.id)));
  return (
    <>
      <button type="button" disabled={isSending} onClick={() => void change()}>
        {say(isPaused ? 'pause.resume' : 'pause.study')}
      </button>
      <Mistake error={error} />
    </>
  );
}

/** Returns true if a trial has ended, and not well. */
export const hasFailed = ({ outcome }: Trial): boolean => outcome !== '' && outcome !== 'ok';

/** Runs trials of a study again; all that have failed, if none is named. */
export function RetryButton({ study, numbers, onChange }: Changes & { numbers: readonly number[] }) {
  const { say } = useText();
  const [only] = numbers;
  if (study.end_time === '' && !['paused', 'interrupted'].includes(study.state)) return null;
  return (
    <SureButton
      label={only === undefined ? say('retry.all') : say('retry.one', { number: String(only) })}
      question={say('retry.sure')}
      yes={say('retry.yes')}
      no={say('retry.no')}
      call={() => api.retryTrials(study.id, numbers)}
      onChange={onChange}
    />
  );
}

/** Asks before a study is deleted. If somebody has changed it since it was read, it asks again. */
export function DeletionBox({ study, onLeave }: { study: Study; onLeave: () => void }) {
  const { say } = useText();
  const [current, setCurrent] = useState(study);
  const [isChanged, setIsChanged] = useState(false);
  const [retracts, setRetracts] = useState(false);
  const leave = useRef<HTMLButtonElement>(null);
  useEffect(() => leave.current?.focus(), []); // Enter keeps the study
  const { run, isSending, error } = useCall(() => undefined);
  const remove = () =>
    run(async () => {
      try {
        await api.deleteStudy(current, retracts);
      } catch (failure) {
        if (!(failure instanceof ApiError && failure.isConflict)) throw failure;
        const { study: changed } = await api.study(current.id);
        if (changed) setCurrent(changed);
        setIsChanged(true);
        return;
      }
      goTo(linkTo([]));
    });
  return (
    <section
      class="note-box bad"
      aria-label={say('delete.study')}
      onKeyDown={(event) => {
        if (event.key === 'Escape') onLeave();
      }}
    >
      {isChanged && (
        <div role="alert">
          <p>{say('words.conflict')}</p>
          <SavedWords study={current} />
        </div>
      )}
      <p>{say('delete.sure')}</p>
      <label class="check">
        <input
          type="checkbox"
          checked={retracts}
          onChange={(event) => setRetracts(event.currentTarget.checked)}
        />
        {say('delete.retract')}
      </label>
      <p class="links">
        <button type="button" disabled={isSending} onClick={() => void remove()}>
          {say(isChanged ? 'delete.anyway' : 'delete.yes')}
        </button>
        <button type="button" ref={leave} onClick={onLeave}>
          {say('delete.no')}
        </button>
      </p>
      <Mistake error={error} />
    </section>
  );
}

/** The buttons that a study in its state has; none while it is being cancelled. */
export function StateButtons({ study, onChange, onDelete }: Changes & { onDelete: () => void }) {
  const { say } = useText();
  if (study.end_time !== '') {
    return (
      <button type="button" onClick={onDelete}>
        {say('delete.study')}
      </button>
    );
  }
  if (study.state === 'cancelling') return null;
  return (
    <>
      {study.state !== 'interrupted' && <PauseButton study={study} onChange={onChange} />}
      <CancelButton study={study} onChange={onChange} />
    </>
  );
}
