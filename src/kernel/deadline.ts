/** The answer, if it comes within so many milliseconds. @throws Error with this message if it does not */
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
