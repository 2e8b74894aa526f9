/** Waits at most `milliseconds` for a promise. @throws Error when the time is over */
export async function inTime<T>(
  answer: Promise<T>,
  milliseconds: number,
  message = `no answer within ${milliseconds} ms`,
): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(message)), milliseconds);
  });
  return Promise.race([answer, late]).finally(() => clearTimeout(timer));
}
