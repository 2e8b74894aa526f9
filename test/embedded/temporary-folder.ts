import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { markerPath } from '../../src/stores/ports/log-marker.js';

export async function temporaryFolder(): Promise<{ path: string; remove(): Promise<void> }> {
  const path = await mkdtemp(join(tmpdir(), 'credence-'));
  const remove = async () => {
    await rm(path, { recursive: true, force: true });
    await rm(markerPath(path), { force: true }); // beside a log in the folder itself
  };
  return { path, remove };
}
