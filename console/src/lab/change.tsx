import type { ReactNode } from 'react';
import { count, decimal, percent, Rating, RATINGS, score, signed } from '../format.tsx';
import { Head } from '../head.tsx';
import { hrefOf } from '../place.ts';
import { Region } from '../region.tsx';
import type { AccessChange, LensName, Mover, Reason, Summary } from './policies.ts';

const NAMES = RATINGS.map(([name]) => name);
const OUTCOMES = ['Pass before', 'Pass after', 'Gain', 'Lose'];

/** What a change of lens does to many identities. */
export function Change(props: {
  summary: Summary;
  /** Links to identities compare these. Null: the policy is not stored, so no link can name it. */
  lenses: { before: LensName; after: LensName } | null;
}) {
  const { summary, lenses } = props;
  const { count: all, up, down, unchanged, mean_delta, histogram, top_movers } = summary;
  const link = (trisId: string) => <a href={comparisonHref(trisId, lenses)}>{trisId}</a>;
  if (all === 0) return <p>There is no identity to compare.</p>;
  return (
    <>
      <dl className="figures">
        {(
          [
            ['Identities', count(all), ''],
            ['Rise', count(up), percent(up / all)],
            ['Fall', count(down), percent(down / all)],
            ['Unchanged', count(unchanged), percent(unchanged / all)],
            ['Mean change', signed(mean_delta, decimal), 'points'],
          ] as const
        ).map(([name, figure, more]) => (
          <div key={name} className="figure">
            <dt>{name}</dt>
            <dd>
              <span className="big">{figure}</span>
              <small>{more}</small>
            </dd>
          </div>
        ))}
      </dl>
      <div className="columns">
        <Bars
          caption="Scores"
          what="Score"
          names={histogram.before.by_score.map((_n, i) => `${i * 10} to ${i * 10 + 10}`)}
          before={histogram.before.by_score}
          after={histogram.after.by_score}
        />
        <Bars
          caption="Ratings"
          what="Rating"
          names={NAMES}
          before={NAMES.map((name) => histogram.before.by_rating[name] ?? 0)}
          after={NAMES.map((name) => histogram.after.by_rating[name] ?? 0)}
        />
      </div>
      <Moves moves={summary.rating_moves} />
      <Access changes={summary.access} link={link} />
      <Movers caption="Largest rises" movers={top_movers.up} link={link} />
      <Movers caption="Largest falls" movers={top_movers.down} link={link} />
    </>
  );
}

/** An identity under both lenses, side by side. */
export function comparisonHref(trisId: string, lenses: { before: LensName; after: LensName } | null): string {
  if (lenses === null) return hrefOf('identity', trisId);
  const { before, after } = lenses;
  const parameters = new URLSearchParams({
    vp: before.policy_id ?? 'model',
    model: before.model.id,
    compare: 'on',
    b_vp: after.policy_id ?? 'model',
    b_model: after.model.id,
  });
  return hrefOf('identity', trisId, parameters);
}

/** Two distributions with one scale. */
function Bars(props: {
  caption: string;
  what: string;
  names: readonly string[];
  before: readonly number[];
  after: readonly number[];
}) {
  const { caption, what, names, before, after } = props;
  const most = Math.max(1, ...before, ...after);
  const cell = (value: number, kind: string) => (
    <td>
      <span className="amount">
        <span className={`bar ${kind}`} aria-hidden="true">
          {value > 0 && <span style={{ width: `max(2px, ${(100 * value) / most}%)` }} />}
        </span>
        <span>{count(value)}</span>
      </span>
    </td>
  );
  return (
    <section>
      <h3>{caption}</h3>
      <Region label={`${caption} before and after`}>
        <table className="distribution">
          <Head columns={[what, 'Before', 'After']} />
          <tbody>
            {names.map((name, i) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                {cell(before[i]!, 'was')}
                {cell(after[i]!, 'is')}
              </tr>
            ))}
          </tbody>
        </table>
      </Region>
    </section>
  );
}

/** How many identities go from which rating to which: the darker, the more of those with the old rating. */
function Moves({ moves }: { moves: Summary['rating_moves'] }) {
  return (
    <section>
      <h3>Changes of rating</h3>
      <p className="small">Rows: the rating before. Columns: the rating after.</p>
      <Region label="Changes of rating">
        <table className="matrix">
          <Head columns={['from, to', ...NAMES]} numbers={NAMES} />
          <tbody>
            {NAMES.map((from) => {
              const row = NAMES.map((to) => moves[from]?.[to] ?? 0);
              const sum = Math.max(
                1,
                row.reduce((a, b) => a + b, 0),
              );
              return (
                <tr key={from}>
                  <th scope="row">{from}</th>
                  {row.map((moved, i) => (
                    <td key={NAMES[i]} className={NAMES[i] === from ? 'number same' : 'number'}>
                      {moved > 0 && <span className="shade" style={{ opacity: 0.08 + (0.17 * moved) / sum }} />}
                      {moved === 0 ? '·' : count(moved)}
                    </td>
                  ))}
                </tr>
              );
            })}
          </tbody>
        </table>
      </Region>
    </section>
  );
}

function Movers(props: { caption: string; movers: readonly Mover[]; link: (trisId: string) => ReactNode }) {
  const { caption, movers, link } = props;
  return (
    <section>
      <h3>{caption}</h3>
      {movers.length === 0 ? (
        <p>None.</p>
      ) : (
        <Region label={caption}>
          <table>
            <Head
              columns={['Identity', 'Before', 'After', 'Change', 'Because of, in TCT']}
              numbers={['Before', 'After', 'Change']}
            />
            <tbody>
              {movers.map(({ tris_id, before, after, delta, reasons }) => (
                <tr key={tris_id}>
                  <th scope="row">{link(tris_id)}</th>
                  <td className="number">{score(before.score)}</td>
                  <td className="number">
                    {score(after.score)} <Rating name={after.score_rating} />
                  </td>
                  <td className={delta < 0 ? 'number negative' : 'number'}>{signed(delta, score)}</td>
                  <td>
                    <Reasons reasons={reasons} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Region>
      )}
    </section>
  );
}

export function Reasons({ reasons }: { reasons: readonly Reason[] }) {
  return (
    <span className="small">
      {reasons.map(({ metric, before_tct, after_tct }, i) => (
        <span key={metric}>
          {i > 0 && ', '}
          {metric} {signed(after_tct - before_tct, count)}
        </span>
      ))}
    </span>
  );
}

function Access({ changes, link }: { changes: readonly AccessChange[]; link: (trisId: string) => ReactNode }) {
  return (
    <section>
      <h3>Access policies</h3>
      {changes.length === 0 ? (
        <p>No access policy was evaluated.</p>
      ) : (
        <Region label="Access before and after">
          <table>
            <Head columns={['Policy', ...OUTCOMES, 'Who']} numbers={OUTCOMES} />
            <tbody>
              {changes.map((change) => (
                <tr key={change.policy_id}>
                  <th scope="row">
                    <a href={hrefOf('lab', change.policy_id)}>{change.policy_id}</a>
                  </th>
                  <td className="number">{count(change.granted_before)}</td>
                  <td className="number">{count(change.granted_after)}</td>
                  <td className="number">{count(change.gained)}</td>
                  <td className="number">{count(change.lost)}</td>
                  <td className="small">
                    <Some what="gain" ids={change.gained_by} of={change.gained} link={link} />
                    <Some what="lose" ids={change.lost_by} of={change.lost} link={link} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Region>
      )}
    </section>
  );
}

function Some(props: { what: string; ids: readonly string[]; of: number; link: (trisId: string) => ReactNode }) {
  const { what, ids, of, link } = props;
  if (ids.length === 0) return null;
  return (
    <details>
      <summary>
        {ids.length < of ? `${count(ids.length)} of those who ${what}` : `who ${what === 'gain' ? 'gains' : 'loses'}`}
      </summary>
      {ids.map((id, i) => (
        <span key={id}>
          {i > 0 && ', '}
          {link(id)}
        </span>
      ))}
    </details>
  );
}
