// The buttons that change the state of a study that has not ended.
import { useState } from 'preact/hooks';
import { api } from '../api/client';
import type { Study } from '../api/wire';
import { useText } from '../text/text';
import { errorSentence } from './pieces';

interface Props {
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

/** Cancels a study, after it has asked once more. */
function CancelButton({ study, onChange }: Props) {
  const { say } = useText();
  const [isSure, setIsSure] = useState(false);
  const { run, isSending, error } = useCall(onChange);
  const cancel = async () => {
    await run(() => api.cancelStudy(study.id));
    setIsSure(false);
  };
  return (
    <>
      {isSure ? (
        <span class="links" role="status">
          {say('cancel.sure')}
          <button type="button" disabled={isSending} onClick={() => void cancel()}>
            {say('cancel.yes')}
          </button>
          <button type="button" onClick={() => setIsSure(false)}>
            {say('cancel.no')}
          </button>
        </span>
      ) : (
        <button type="button" onClick={() => setIsSure(true)}>
          {say('cancel.study')}
        </button>
      )}
      <Mistake error={error} />
    </>
  );
}

/** Pauses a study that waits or runs, and resumes one that is paused. */
function PauseButton({ study, onChange }: Props) {
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

/** The buttons that a study in its state has; none once it has ended or is being cancelled. */
export function StateButtons({ study, onChange }: Props) {
  if (study.end_time !== '' || study.state === 'cancelling') return null;
  return (
    <>
      {study.state !== 'interrupted' && <PauseButton study={study} onChange={onChange} />}
      <CancelButton study={study} onChange={onChange} />
    </>
  );
}
