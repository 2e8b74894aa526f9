/**
 * The Bitcoin-OTC trust ratings as actions: a rating r of member T by member S (see README.md here for the data).
 * An action is a body of POST /api/decision-relay.
 */

/**
 * The file of SNAP has no head line, the excerpt here has one.
 * @returns {{source: string, target: string, rating: number, seconds: number}[]} in the order of the file
 */
export function parseRatings(csv) {
  const rows = csv.trimEnd().split(/\r?\n/);
  const head = rows[0] === 'Source,Target,Weight,Timestamp' ? 1 : 0;
  return rows.slice(head).map((row, index) => {
    const [source, target, weight, timestamp, ...more] = row.split(',');
    const [rating, seconds] = [Number(weight), Number(timestamp)];
    const isRating = Number.isInteger(rating) && rating !== 0 && Math.abs(rating) <= 10;
    if (more.length > 0 || !isRating || !(seconds > 0))
      throw new Error(`line ${index + head + 1} is no rating: ${row}`);
    return { source, target, rating, seconds };
  });
}

/**
 * Ratings of any scale, as lines of source,target,rating,time (seconds), with or without a head line: good above 0, bad
 * below. The scale is stretched to −10..10; ratings of 0 say nothing and are left out.
 * @returns as `parseRatings`
 */
export function parseAnyRatings(csv) {
  const rows = csv.trimEnd().split(/\r?\n/);
  if (!/\d\s*$/.test(rows[0])) rows.shift();
  const ratings = rows.map((row) => {
    const [source, target, rating, time, ...more] = row.split(',').map((cell) => cell.trim());
    if (more.length > 0 || !(Math.abs(Number(rating)) >= 0) || !(Number(time) > 0))
      throw new Error(`this is no rating: ${row}`);
    return { source, target, rating: Number(rating), seconds: Number(time) };
  });
  const most = ratings.reduce((max, { rating }) => Math.max(max, Math.abs(rating)), 0);
  return ratings.filter(({ rating }) => rating !== 0).map((each) => ({ ...each, rating: (each.rating * 10) / most }));
}

export function toAction({ source, target, rating, seconds }) {
  return {
    tris_id: `tris:otc:${target}`,
    action_type: rating > 0 ? 'trade_rating' : 'trade_flags',
    category: rating > 0 ? 'social' : 'compliance',
    criticality: criticalityOf(Math.abs(rating)),
    platform_id: 'bitcoin-otc',
    counterparty: `tris:otc:${source}`,
    occurred_at: new Date(Math.floor(seconds) * 1000).toISOString(),
    external_id: `${source}-${target}-${seconds}`,
  };
}

/** One action a line. */
export function toNdjson(ratings) {
  return ratings.map((rating) => `${JSON.stringify(toAction(rating))}\n`).join('');
}

function criticalityOf(strength) {
  if (strength >= 9) return 'Critical';
  if (strength >= 7) return 'High';
  if (strength >= 4) return 'Moderate';
  return strength >= 2 ? 'Low' : 'Minimal';
}
