/** Entries of a page that is asked for. */
export const PAGE = 1_000;

/** Reads all pages of a list. */
export async function allPages<P extends { next_cursor: string | null }>(
  read: (cursor: string | undefined) => Promise<P>,
): Promise<P[]> {
  const pages = [await read(undefined)];
  for (let cursor = pages[0]!.next_cursor; cursor !== null; cursor = pages.at(-1)!.next_cursor) {
    pages.push(await read(cursor));
  }
  return pages;
}
