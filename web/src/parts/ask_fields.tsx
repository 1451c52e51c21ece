// The inputs of the form that asks: one input with its mistake, and those of the pools.
import type { Chip } from '../api/wire';
import { useText } from '../text/text';
import { poolKey, poolLimit, withPool, type PoolField, type TypedPool } from './question';

export interface InputChoice {
  value: string;
  label: string;
}

export function Input(props: {
  name: string;
  label: string;
  value: string;
  onType: (value: string) => void;
  mistake: string | undefined;
  isRequired?: boolean;
  isText?: boolean;
  hint?: string;
  /** The choices of a selection; without them, the input takes any text. */
  list?: readonly InputChoice[];
}) {
  const { name, list, mistake } = props;
  const common = {
    id: `ask-${name}`,
    value: props.value,
    'aria-invalid': mistake !== undefined,
    ...(mistake !== undefined ? { 'aria-describedby': `ask-${name}-mistake` } : {}),
    ...(props.isRequired ? { required: true } : {}),
  };
  return (
    <div class="field">
      <label for={`ask-${name}`}>{props.label}</label>
      {list ? (
        <select {...common} onChange={(event) => props.onType(event.currentTarget.value)}>
          <option value="">{props.hint ?? ''}</option>
          {list.map(({ value, label }) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </select>
      ) : (
        <input
          {...common}
          type="text"
          {...(props.isText ? {} : { inputMode: 'decimal' as const })}
          autoComplete="off"
          placeholder={props.hint ?? ''}
          onInput={(event) => props.onType(event.currentTarget.value)}
        />
      )}
      {mistake !== undefined && (
        <p class="mistake" id={`ask-${name}-mistake`}>
          {mistake}
        </p>
      )}
    </div>
  );
}

/** Returns the chips as choices, by vendor and name. */
export const chipChoices = (chips: readonly Chip[]): InputChoice[] =>
  [...chips]
    .sort((a, b) => `${a.vendor} ${a.name}`.localeCompare(`${b.vendor} ${b.name}`))
    .map(({ id, vendor, name }) => ({ value: id, label: `${vendor} ${name}` }));

interface PoolProps {
  pools: readonly TypedPool[];
  chips: readonly InputChoice[];
  mistakeOf: (name: string) => string | undefined;
  onChange: (pools: TypedPool[], changed?: string) => void;
}

function PoolInputs({ pools, at, chips, mistakeOf, onChange }: PoolProps & { at: number }) {
  const { say } = useText();
  const pool = pools[at];
  if (!pool) return null;
  const input = (field: PoolField) => ({
    name: poolKey(field, at),
    value: pool[field],
    mistake: mistakeOf(poolKey(field, at)),
    onType: (value: string) =>
      onChange(
        pools.map((own, place) => (place === at ? { ...own, [field]: value } : own)),
        poolKey(field, at),
      ),
  });
  return (
    <>
      {pools.length > 1 && <Input {...input('name')} label={say('ask.poolName')} isRequired isText />}
      <Input {...input('chip')} label={say('chip')} list={chips} isRequired hint={say('ask.choose')} />
      <Input {...input('nodes')} label={say('ask.nodes')} isRequired />
      <Input {...input('devices')} label={say('ask.devices')} hint={say('ask.usualNode')} />
    </>
  );
}

/** The inputs of one pool, or of each of several, which can be added and removed. */
export function PoolsInputs(props: PoolProps) {
  const { say } = useText();
  const { pools, onChange } = props;
  const add = () => {
    const next = withPool(pools);
    onChange(next);
    // The new inputs stand there once the page is drawn again.
    requestAnimationFrame(() => document.getElementById(`ask-${poolKey('chip', next.length - 1)}`)?.focus());
  };
  const remove = (at: number) => {
    onChange(pools.filter((_, place) => place !== at));
    requestAnimationFrame(() => document.getElementById('ask-add-pool')?.focus());
  };
  return (
    <>
      {pools.length === 1 ? (
        <div class="fields">
          <PoolInputs {...props} at={0} />
        </div>
      ) : (
        pools.map((_, at) => (
          <fieldset key={at} class="pool">
            <legend>{say('ask.pool', { number: String(at + 1) })}</legend>
            <div class="fields">
              <PoolInputs {...props} at={at} />
            </div>
            <button type="button" onClick={() => remove(at)}>
              {say('ask.removePool', { number: String(at + 1) })}
            </button>
          </fieldset>
        ))
      )}
      {pools.length < poolLimit && (
        <p class="links">
          <button type="button" id="ask-add-pool" onClick={add}>
            {say('ask.addPool')}
          </button>
          <span class="quiet">{say(pools.length === 1 ? 'ask.addPoolHint' : 'ask.poolsHint')}</span>
        </p>
      )}
    </>
  );
}
