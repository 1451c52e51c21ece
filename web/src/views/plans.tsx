// Every plan that a study ranked, page by page.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { api } from '../api/client';
import { useRead } from '../api/use_read';
import type { GetStudyResponse, RankedPlan } from '../api/wire';
import { Chart } from '../charts/chart';
import { frontPoints, frontSpec } from '../charts/front';
import { Shown } from '../parts/pieces';
import { planLine } from '../parts/plan_words';
import { linkTo } from '../router';
import { useText } from '../text/text';

const pageSize = 100;

function Row({ id, ranked }: { id: string; ranked: RankedPlan }) {
  const text = useText();
  const { format } = text;
  const { estimate, plan } = ranked;
  const rank = ranked.rank ?? 0;
  return (
    <tr>
      <th scope="row">
        <a href={linkTo(['studies', id, 'plans', String(rank)])}>
          {rank === 0 ? text.say('plan.baseline') : text.say('plan.name', { rank: String(rank) })}
        </a>
      </th>
      <td class="number">{estimate ? format.seconds(estimate.step_time_seconds) : '–'}</td>
      <td class="number">
        {estimate
          ? format.secondsRange(estimate.step_time_low_seconds, estimate.step_time_high_seconds)
          : '–'}
      </td>
      <td class="number">
        {estimate
          ? format.gib(estimate.memory_capacity_bytes - estimate.reserved_memory_bytes)
          : '–'}
      </td>
      <td class="number">{estimate ? format.probability(estimate.fit_probability_ratio) : '–'}</td>
      <td>{text.word('provenance', ranked.state ?? '')}</td>
      <td class="plan-cell">{plan ? planLine(plan, text) : '–'}</td>
    </tr>
  );
}

/** Step time against memory for the answer's plans; nothing if there are not two of them. */
function Front({ study }: { study: GetStudyResponse }) {
  const text = useText();
  const spec = useMemo(() => {
    const points = frontPoints(study, text);
    return points.length > 1 ? frontSpec(points, text) : undefined;
  }, [study, text]);
  return spec ? <Chart spec={spec} /> : null;
}

export function Plans({ id, study }: { id: string; study: GetStudyResponse }) {
  const text = useText();
  const { say } = text;
  const [token, setToken] = useState('');
  useEffect(() => setToken(''), [id]);
  const reading = useRead(`plans ${id} ${token}`, (signal) =>
    api.plans(id, { page_size: pageSize, page_token: token }, signal),
  );
  return (
    <Shown reading={reading}>
      {({ plans, next_page_token }) =>
        plans.length === 0 ? (
          <p class="card empty">{say('plans.none')}</p>
        ) : (
          <div class="stack">
            <Front study={study} />
            <div class="card scroll" tabIndex={0} role="region" aria-label={say('tab.plans')}>
              <table class="wide">
                <caption class="hidden">{say('tab.plans')}</caption>
                <thead>
                  <tr>
                    <th scope="col">{say('plan')}</th>
                    <th scope="col" class="number">
                      {say('stepTime')}
                    </th>
                    <th scope="col" class="number">
                      {say('interval')}
                    </th>
                    <th scope="col" class="number">
                      {say('memory.headroom')}
                    </th>
                    <th scope="col" class="number">
                      {say('fit')}
                    </th>
                    <th scope="col">{say('plans.state')}</th>
                    <th scope="col">{say('plans.settings')}</th>
                  </tr>
                </thead>
                <tbody>
                  {plans.map((ranked) => (
                    <Row key={ranked.rank ?? 0} id={id} ranked={ranked} />
                  ))}
                </tbody>
              </table>
            </div>
            <nav class="pages" aria-label={say('pages')}>
              {token !== '' && (
                <button type="button" onClick={() => setToken('')}>
                  {say('pages.first')}
                </button>
              )}
              {next_page_token !== '' && (
                <button type="button" onClick={() => setToken(next_page_token)}>
                  {say('pages.next')}
                </button>
              )}
            </nav>
          </div>
        )
      }
    </Shown>
  );
}
