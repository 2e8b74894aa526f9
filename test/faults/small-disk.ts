import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, rmdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A file system of its own that can be filled, where `canMount()`. */
export class SmallDisk {
  readonly folder = mkdtempSync(join(tmpdir(), 'credence-small-'));

  constructor(private readonly megabytes: number) {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs', this.folder]);
  }

  private get ballast(): string {
    return join(this.folder, 'ballast');
  }

  fill(): void {
    expect(() => writeFileSync(this.ballast, Buffer.alloc(this.megabytes * 2 ** 20))).toThrow('ENOSPC');
  }

  free(): void {
    rmSync(this.ballast);
  }

  unmount(): void {
    execFileSync('umount', ['-l', this.folder]);
    rmdirSync(this.folder);
  }
}
