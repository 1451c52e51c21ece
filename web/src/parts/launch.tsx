import { useState } from 'preact/hooks';
import type { RankedPlan } from '../api/wire';
import { useText } from '../text/text';
import { CopyButton, SaveButton } from './pieces';

/** Returns what a reader pastes into a shell: the command, then its flags if it takes them. */
export function commandOf(ranked: RankedPlan, framework: string): string {
  const launch = ranked.launches[framework];
  const flags = (ranked.exports[framework] ?? '').trimEnd();
  if (!launch) return flags;
  return launch.file_name === '' ? `${launch.command} \\\n${flags}` : launch.command;
}

/** The command and the flags or files of a plan, by framework, to copy or save. */
export function LaunchBox({ ranked }: { ranked: RankedPlan }) {
  const text = useText();
  const frameworks = Object.keys(ranked.exports).sort();
  const [chosen, setChosen] = useState(frameworks[0] ?? '');
  const framework = frameworks.includes(chosen) ? chosen : (frameworks[0] ?? '');
  if (framework === '') {
    return (
      <section class="card" id="launch">
        <h3>{text.say('launch.title')}</h3>
        <p>{text.say('launch.none')}</p>
      </section>
    );
  }
  const launch = ranked.launches[framework];
  const command = commandOf(ranked, framework);
  const file = launch?.file_name ?? '';
  const configuration = ranked.exports[framework] ?? '';
  return (
    <section class="card" id="launch">
      <div class="chart-head">
        <h3>{text.say('launch.titleOf', { framework })}</h3>
        <div class="chart-tools">
          {frameworks.length > 1 && (
            <label>
              {text.say('launch.framework')}{' '}
              <select value={framework} onChange={(event) => setChosen(event.currentTarget.value)}>
                {frameworks.map((name) => (
                  <option key={name}>{name}</option>
                ))}
              </select>
            </label>
          )}
          {file !== '' && (
            <SaveButton
              text={configuration}
              name={file}
              label={text.say('launch.saveFile', { file })}
            />
          )}
          <CopyButton text={command} label={text.say('launch.copy')} />
        </div>
      </div>
      {launch?.versions && (
        <p class="quiet">{text.say('launch.versions', { versions: launch.versions.replace(' to ', ' – ') })}</p>
      )}
      <pre tabIndex={0} aria-label={text.say('launch.titleOf', { framework })}>
        <code>{command}</code>
      </pre>
      {file !== '' && (
        <details>
          <summary>{file}</summary>
          <pre tabIndex={0} aria-label={file}>
            <code>{configuration}</code>
          </pre>
        </details>
      )}
      {(launch?.other_files ?? []).map((other) => (
        <details key={other.name}>
          <summary>{other.name}</summary>
          <pre tabIndex={0} aria-label={other.name}>
            <code>{other.text}</code>
          </pre>
          <SaveButton
            text={other.text}
            name={other.name}
            label={text.say('launch.saveFile', { file: other.name })}
          />
        </details>
      ))}
      {launch && launch.left_out.length > 0 && (
        <details>
          <summary>{text.say('launch.leftOut', { count: launch.left_out.length })}</summary>
          <ul lang="en" class="sentences">
            {launch.left_out.map((line) => (
              <li key={line}>{line}</li>
            ))}
          </ul>
        </details>
      )}
    </section>
  );
}
