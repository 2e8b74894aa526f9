interface Input {
  metric: string;
  criticality: string;
  weight: number;
}

const LEVELS: [string, number][] = [
  ['Critical', 14],
  ['High', 10],
  ['Moderate', 7],
  ['Low', 3],
  ['Minimal', 1],
];

/**
 * The inputs, and more of metrics that nobody acts on, to a total of 1.00, so that the policy can be promoted for the
 * platform. None of them is heavier than those given, so that a day can earn no more.
 */
export function configuration(inputs: Input[]): Input[] {
  const hundredths = inputs.map(({ weight }) => Math.round(weight * 100));
  let left = 100 - hundredths.reduce((sum, weight) => sum + weight, 0);
  const heaviest = Math.max(...hundredths);
  const all = [...inputs];
  while (left > 0) {
    const most = Math.min(left, heaviest);
    const [criticality, weight] = LEVELS.find((level) => level[1] <= most)!;
    all.push({ metric: `educational_unused_${all.length}`, criticality, weight: weight / 100 });
    left -= weight;
  }
  return all;
}
