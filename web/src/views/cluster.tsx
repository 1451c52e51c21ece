// The cluster of a study: its nodes, devices and links, and where the groups of a plan sit.
import { useMemo } from 'preact/hooks';
import type { GetStudyResponse } from '../api/wire';
import { Chart, Drawing } from '../charts/chart';
import { clusterFacts, clusterSpec, fabricText, groupName, layoutOf, nicText } from '../charts/cluster';
import { poolLinksSpec, poolUseSpec } from '../charts/pool_links';
import { alternativesOf } from '../parts/alternatives';
import { FilterBar, SelectFilter } from '../parts/filters';
import { ListTable } from '../parts/list_table';
import { planLine } from '../parts/plan_words';
import { poolUse } from '../parts/pools';
import { linkTo, type Place } from '../router';
import { useText } from '../text/text';

export function ClusterPage({ study, place }: { study: GetStudyResponse; place: Place }) {
  const text = useText();
  const { format, say } = text;
  const cluster = study.question?.cluster;
  const plans = useMemo(() => alternativesOf(study, text), [study, text]);
  const chosen = plans.find(({ rank }) => String(rank) === place.query['rank']) ?? plans[0];
  const plan = chosen?.plan.plan;
  const facts = useMemo(
    () =>
      cluster && clusterFacts(cluster, study.result?.applied_defaults ?? [], study.study?.device_count ?? 0),
    [study],
  );
  const shown = useMemo(() => {
    const layout = facts && plan && layoutOf(facts, plan);
    return layout && { layout, spec: clusterSpec(layout, text) };
  }, [facts, plan, text]);
  const links = useMemo(
    () => (facts && facts.links.length > 0 ? poolLinksSpec(facts.links, text) : undefined),
    [facts, text],
  );
  const use = useMemo(() => {
    const rows = plan ? poolUse(plan, chosen?.plan.estimate, study) : [];
    return chosen && rows.length > 0 ? poolUseSpec(chosen.name, rows, text) : undefined;
  }, [chosen, plan, study, text]);
  if (!facts) return <p class="card empty">{say('cluster.none')}</p>;
  const hasPools = facts.pools.length > 1;
  return (
    <div class="stack">
      {chosen && plan && (
        <FilterBar>
          <SelectFilter
            place={{ ...place, query: { ...place.query, rank: String(chosen.rank) } }}
            name="rank"
            label={say('plan')}
            none={null}
            options={plans.map(({ rank, name, plan: { plan: own } }) => ({
              value: String(rank),
              label: `${name}: ${own ? planLine(own, text) : ''}`,
            }))}
          />
        </FilterBar>
      )}
      <section class="card">
        <h3>{say('cluster.pools')}</h3>
        <ListTable
          isInner
          caption={say('cluster.pools')}
          columns={[
            ...(hasPools ? [{ label: say('mix.pool') }] : []),
            { label: say('chip') },
            { label: say('cluster.count'), isNumber: true },
            { label: say('cluster.devices'), isNumber: true },
            { label: say('cluster.fabricColumn') },
            { label: say('cluster.networkColumn') },
          ]}
          rows={facts.pools.map((pool) => ({
            key: pool.name,
            cells: [
              ...(hasPools ? [pool.name] : []),
              pool.chip,
              format.count(pool.nodeCount),
              format.count(pool.devicesPerNode),
              fabricText(pool, text),
              nicText(pool, text),
            ],
          }))}
        />
      </section>
      {links && (
        <div class={use ? 'pair' : ''}>
          <Chart spec={links} />
          {use && <Chart spec={use} />}
        </div>
      )}
      {shown && chosen ? (
        <>
          <Drawing spec={shown.spec} />
          <section class="card">
            <h3>{say('cluster.groups')}</h3>
            <ListTable
              isInner
              caption={say('cluster.groups')}
              columns={[
                { label: say('cluster.group') },
                { label: say('cluster.size'), isNumber: true },
                { label: say('cluster.groupCount'), isNumber: true },
                { label: say('cluster.groupNodes'), isNumber: true },
                { label: say('cluster.inNode'), isNumber: true },
              ]}
              rows={shown.layout.groups.map((group) => ({
                key: group.kind,
                cells: [
                  groupName(group, text),
                  format.count(group.size),
                  format.count(group.count),
                  group.leastNodes === group.mostNodes
                    ? format.count(group.mostNodes)
                    : `${format.count(group.leastNodes)} – ${format.count(group.mostNodes)}`,
                  format.count(group.inNode),
                ],
              }))}
            />
            <p class="quiet">{say('cluster.source')}</p>
            <p class="links">
              <a href={linkTo(['studies', study.study?.id ?? '', 'plans', String(chosen.rank)])}>{chosen.name}</a>
            </p>
          </section>
        </>
      ) : (
        <p class="card empty">{say(plan ? 'cluster.tooLarge' : 'plans.none')}</p>
      )}
    </div>
  );
}
