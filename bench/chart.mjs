const COLORS = [
  '#1b6ca8',
  '#d1495b',
  '#3c8d53',
  '#8a4fbf',
  '#c77d0a',
  '#008b8b',
  '#6b6b6b',
  '#b5179e',
  '#222222',
  '#9aa5b1',
  '#8b5a2b',
];
const [LEFT, TOP, WIDTH, HEIGHT, LEGEND] = [64, 40, 520, 380, 240];

/** From a value to its place between 0 and 1. */
function scaleOf({ from, to, isLog }) {
  if (!isLog) return (value) => (value - from) / Math.max(to - from, 1e-9);
  const width = Math.max(Math.log10(to / from), 1e-9);
  return (value) => Math.log10(Math.max(value, from) / from) / width;
}

/**
 * A chart of curves as SVG.
 * @param {object} of
 * @param {string} of.title
 * @param {{from: number, to: number, isLog?: boolean, marks: number[]}} of.x
 * @param {{from: number, to: number, isLog?: boolean, marks: number[]}} of.y
 * @param {{name: string, points: [number, number][], dashed?: [number, number][]}[]} of.lines a line may have a second one of
 * its colour, dashed
 */
export function chart({ title, x, y, lines }) {
  const [placeX, placeY] = [scaleOf(x), scaleOf(y)];
  const atX = (value) => LEFT + WIDTH * placeX(value);
  const atY = (value) => TOP + HEIGHT * (1 - placeY(value));
  const parts = [`<text x="${LEFT}" y="22" font-weight="bold">${title}</text>`];
  for (const mark of y.marks) {
    parts.push(
      `<line x1="${LEFT}" x2="${LEFT + WIDTH}" y1="${atY(mark)}" y2="${atY(mark)}" stroke="#ddd"/>`,
      `<text x="${LEFT - 8}" y="${atY(mark) + 4}" text-anchor="end">${mark.toLocaleString('en')}</text>`,
    );
  }
  for (const mark of x.marks) {
    parts.push(
      `<text x="${atX(mark)}" y="${TOP + HEIGHT + 20}" text-anchor="middle">${mark.toLocaleString('en')}</text>`,
    );
  }
  for (const [i, { name, points, dashed = [] }] of lines.entries()) {
    const color = COLORS[i % COLORS.length];
    for (const [line, dash] of [
      [points, ''],
      [dashed, ' stroke-dasharray="5 4"'],
    ]) {
      const at = line.map(([u, v]) => `${atX(u).toFixed(1)},${atY(v).toFixed(1)}`).join(' ');
      if (at) parts.push(`<polyline points="${at}" fill="none" stroke="${color}" stroke-width="2"${dash}/>`);
    }
    const legend = TOP + 14 + i * 20;
    parts.push(
      `<line x1="${LEFT + WIDTH + 16}" x2="${LEFT + WIDTH + 40}" y1="${legend - 4}" y2="${legend - 4}" stroke="${color}" stroke-width="2"/>`,
      `<text x="${LEFT + WIDTH + 46}" y="${legend}">${name}</text>`,
    );
  }
  const size = `viewBox="0 0 ${LEFT + WIDTH + LEGEND} ${TOP + HEIGHT + 36}"`;
  const frame = '<rect width="100%" height="100%" fill="#fff"/>';
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} font-family="sans-serif" font-size="12" fill="#222">\n${[frame, ...parts].join('\n')}\n</svg>\n`;
}
