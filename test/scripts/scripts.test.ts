import { spawn, spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { eventually } from '../contracts/harness.js';

/** scripts/, in a repository with nothing in it: npm and Nest are replaced by scripts that say how they were called. */

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'credence-scripts-'));
  for (const path of ['scripts', 'src/node-version.mjs']) cpSync(path, join(root, path), { recursive: true });
});
afterEach(() => rmSync(root, { recursive: true }));

function write(file: string, text: string): void {
  mkdirSync(dirname(join(root, file)), { recursive: true });
  writeFileSync(join(root, file), text);
}

const calls = (): string[] =>
  existsSync(join(root, 'calls')) ? readFileSync(join(root, 'calls'), 'utf8').trim().split('\n') : [];

function environment() {
  return { ...process.env, NODE_OPTIONS: '', PATH: `${join(root, 'bin')}${delimiter}${process.env['PATH']}` };
}

function run(script: string, ...args: string[]) {
  const options = { env: environment(), encoding: 'utf8' } as const;
  return spawnSync(process.execPath, [join(root, 'scripts', script), ...args], options);
}

describe('install.mjs', () => {
  beforeEach(() => {
    write('tools/package.json', '{"description":"the tools"}');
    write('tools/package-lock.json', '{}');
    write('bin/npm', `#!/bin/sh\necho "$@" >> '${root}/calls'\nmkdir -p tools/node_modules\n[ ! -e fail ]\n`);
    chmodSync(join(root, 'bin/npm'), 0o755);
  });

  test('installs what is missing, once', () => {
    const { status, stderr } = run('install.mjs', 'tools');
    expect([status, stderr]).toEqual([0, 'Installing the packages of tools/: the tools\n']);
    expect(calls()).toEqual([expect.stringMatching(/^ci --prefix tools /)]);
    expect(run('install.mjs', 'tools')).toMatchObject({ status: 0, stderr: '' });
    expect(calls()).toHaveLength(1);
  });

  test('installs again when the lock file has changed', () => {
    run('install.mjs', 'tools');
    write('tools/package-lock.json', '{"packages":{}}');
    run('install.mjs', 'tools');
    expect(calls()).toHaveLength(2);
  });

  test('says what could not be installed, ends with 1, and tries again the next time', () => {
    write('fail', '');
    const { status, stderr } = run('install.mjs', 'tools');
    expect(status).toBe(1);
    expect(stderr).toMatch(/\nThe packages of tools\/ could not be installed\. See npm's messages above\.\n$/);
    rmSync(join(root, 'fail'));
    expect(run('install.mjs', 'tools').status).toBe(0);
    expect(calls()).toHaveLength(2);
  });

  test('of two at once, one installs and the other waits for it', async () => {
    // The first npm ends once the other process waits, or has called npm, too.
    const isAlone = `[ ! -e waits ] && [ "$(wc -l < '${root}/calls')" = 1 ]`;
    writeFileSync(join(root, 'bin/npm'), `\nwhile ${isAlone}; do sleep 0.05; done\n`, { flag: 'a' });
    const start = () => {
      const child = spawn(process.execPath, [join(root, 'scripts/install.mjs'), 'tools'], { env: environment() });
      child.stderr.on('data', (text) => String(text).includes('waiting for its end') && write('waits', ''));
      return once(child, 'close');
    };
    expect(await Promise.all([start(), start()])).toEqual([
      [0, null],
      [0, null],
    ]);
    expect(calls()).toHaveLength(1);
    expect(existsSync(join(root, 'tools/node_modules/.installed'))).toBe(true);
    expect(readdirSync(join(root, 'node_modules'))).toEqual([]);
  });

  test('installs after a process that was killed while it installed', () => {
    const { pid } = spawnSync(process.execPath, ['-e', '']);
    mkdirSync(join(root, 'node_modules'));
    symlinkSync(String(pid), join(root, 'node_modules/.installing'));
    expect(run('install.mjs', 'tools').status).toBe(0);
    expect(calls()).toHaveLength(1);
  });
});

describe('build.mjs', () => {
  beforeEach(() => {
    for (const file of ['package-lock.json', 'tsconfig.json', 'nest-cli.json', 'src/main.ts', 'projections/a.ts']) {
      write(file, '{}');
    }
    // Nest empties dist/ and fills it.
    const builds = `rmSync('dist', { recursive: true, force: true }); mkdirSync('dist');`;
    write(
      'node_modules/@nestjs/cli/bin/nest.js',
      `const { appendFileSync, existsSync, mkdirSync, rmSync } = require('node:fs');
      appendFileSync('calls', 'nest\\n'); ${builds} process.exit(existsSync('fail') ? 3 : 0);`,
    );
    write(
      'scripts/bundle-dependencies.mjs',
      `import { appendFileSync } from 'node:fs'; appendFileSync('calls', 'bundle\\n');`,
    );
  });

  test('builds once, and not again while nothing has changed', () => {
    expect(run('build.mjs').status).toBe(0);
    expect(calls()).toEqual(['nest', 'bundle']);
    expect(run('build.mjs').status).toBe(0);
    expect(calls()).toHaveLength(2);
  });

  test.each(['src/main.ts', 'src/new.ts', 'projections/a.ts', 'package-lock.json', 'tsconfig.json', 'nest-cli.json'])(
    'builds again when %s has changed',
    (file) => {
      run('build.mjs');
      write(file, '{ }');
      run('build.mjs');
      expect(calls()).toHaveLength(4);
    },
  );

  test('builds again when a source was removed, when dist/ is gone, and when told to', () => {
    run('build.mjs');
    rmSync(join(root, 'projections/a.ts'));
    run('build.mjs');
    expect(calls()).toHaveLength(4);
    rmSync(join(root, 'dist'), { recursive: true });
    run('build.mjs');
    expect(calls()).toHaveLength(6);
    run('build.mjs', '--force');
    expect(calls()).toHaveLength(8);
  });

  describe('with the console', () => {
    beforeEach(() => {
      for (const file of ['src/main.tsx', 'page.html', 'package-lock.json']) write(`console/${file}`, '{}');
      for (const file of ['src/client.ts', 'package-lock.json', 'tsconfig.json'])
        write(`clients/typescript/${file}`, '{}');
      for (const folder of ['console', 'clients/typescript']) {
        write(`${folder}/package.json`, '{"description":"the libraries"}');
      }
      const says = (name: string) => `import { appendFileSync } from 'node:fs'; appendFileSync('calls', '${name}\\n');`;
      write('console/build.mjs', says('console'));
      write(
        'node_modules/typescript/bin/tsc',
        `require('node:fs').mkdirSync('clients/typescript/dist', { recursive: true });`,
      );
      write('bin/npm', `#!/bin/sh\necho npm >> '${root}/calls'\n[ ! -e offline ] && mkdir -p "$3/node_modules"\n`);
      chmodSync(join(root, 'bin/npm'), 0o755);
    });

    test('builds it when its packages are installed, and again when it or the service has changed', () => {
      run('build.mjs');
      expect(calls()).toEqual(['nest', 'bundle']);
      write('console/node_modules/.installed', '');
      write('clients/typescript/node_modules/.installed', '');
      run('build.mjs');
      run('build.mjs');
      expect(calls()).toEqual(['nest', 'bundle', 'console']);
      write('console/src/main.tsx', '{ }');
      run('build.mjs');
      write('clients/typescript/src/client.ts', '{ }');
      run('build.mjs');
      expect(calls().slice(3)).toEqual(['console', 'console']);
      write('src/main.ts', '{ }');
      run('build.mjs');
      expect(calls().slice(5)).toEqual(['nest', 'bundle', 'console']);
    });

    test('installs its packages once with --console, and goes on without it where they cannot be had', () => {
      write('offline', '');
      const { status, stderr } = run('build.mjs', '--console');
      expect([status, stderr]).toEqual([0, expect.stringMatching(/\nThe service starts without the console\.\n$/)]);
      expect(calls()).toEqual(['nest', 'bundle', 'npm']);
      rmSync(join(root, 'offline'));
      run('build.mjs', '--console');
      run('build.mjs', '--console');
      expect(calls().slice(3)).toEqual(['npm', 'npm', 'console']);
    });
  });

  test('reports a failure, and builds again the next time', () => {
    write('fail', '');
    expect(run('build.mjs').status).toBe(3);
    rmSync(join(root, 'fail'));
    expect(run('build.mjs').status).toBe(0);
    expect(calls()).toEqual(['nest', 'nest', 'bundle']);
  });
});

describe('in a repository', () => {
  const git = (...args: string[]) => {
    const identity = ['-c', 'user.name=Test', '-c', 'user.email=test@example.org'];
    const { status, stderr } = spawnSync('git', ['-C', root, ...identity, ...args], { encoding: 'utf8' });
    expect([status, stderr]).toEqual([0, '']);
  };
  const commit = () => {
    git('add', '--all');
    git('commit', '--quiet', '--message', 'Change');
  };
  beforeEach(() => {
    for (const folder of ['.', 'clients/typescript']) {
      for (const file of ['package.json', 'package-lock.json']) write(`${folder}/${file}`, '{"version":"1.2.0"}');
    }
    write('src/kernel/version.ts', "export const VERSION = '1.2.0';");
    write('docker-compose.yml', '  image: credence:1.2.0\n');
    write('CHANGELOG.md', '## [Unreleased]\n\n## [1.2.0]\n\n- This.\n\n## [1.1.0]\n');
    write('bin/npm', `#!/bin/sh\necho "$1" >> '${root}/.git/calls'\n[ ! -e '${root}/.git/fails-'"$1" ]\n`);
    chmodSync(join(root, 'bin/npm'), 0o755);
    git('init', '--quiet');
    commit();
  });

  describe('release.mjs', () => {
    const refusal = (...args: string[]) => {
      const { status, stderr } = run('release.mjs', ...args);
      expect(status).toBe(1);
      const tags = spawnSync('git', ['-C', root, 'tag'], { encoding: 'utf8' }).stdout.trim().split('\n');
      expect(tags.filter((tag) => tag !== '' && tag !== 'v1.2.0-rc.1')).toEqual([]);
      return stderr;
    };

    test('refuses what is no version', () => {
      for (const version of ['1.2', 'v1.2.0', '1.2.0+build', '01.2.0', '']) {
        expect(refusal(version)).toBe('release: Name a version of semver.org, such as 1.2.0.\n');
      }
    });

    test('refuses a tree with changes, and one with a new file', () => {
      write('new', '');
      expect(refusal('1.2.0')).toBe('release: The working tree has changes that are not committed:\n?? new\n');
    });

    test('refuses a version that was released', () => {
      git('tag', 'v1.2.0-rc.1');
      expect(refusal('1.2.0-rc.1')).toBe('release: v1.2.0-rc.1 exists: a version is released once.\n');
    });

    test('refuses a version without an entry, or with an empty one', () => {
      for (const version of ['1.3.0', '1.1.0']) {
        expect(refusal(version)).toBe(`release: CHANGELOG.md has no entry "## [${version}]" with a text.\n`);
      }
    });

    test('refuses a version that a file contradicts', () => {
      write('CHANGELOG.md', '## [1.3.0]\n\n- That.\n');
      write('package.json', '{"version":"1.3.0"}');
      commit();
      expect(refusal('1.3.0')).toBe(
        'release: Another version stands in package-lock.json, clients/typescript/package.json, ' +
          'clients/typescript/package-lock.json, src/kernel/version.ts, docker-compose.yml: write 1.3.0 there, and commit.\n',
      );
    });

    test('refuses without a network', () => {
      write('.git/fails-ping', '');
      expect(refusal('1.2.0')).toBe(
        'release: The registry of npm gives no answer, and a release installs its packages from it.\n',
      );
    });

    test('ends without a tag where a check fails', () => {
      write('.git/fails-run', '');
      expect(refusal('1.2.0')).toBe('release: "npm run --silent check" failed. Nothing was tagged.\n');
      expect(readFileSync(join(root, '.git/calls'), 'utf8')).toBe('ping\nci\nrun\n');
    });

    test('makes the files of a tag from its own commit only', () => {
      git('tag', 'v1.2.0-rc.1');
      write('src/a.ts', '');
      commit();
      expect(refusal('1.2.0-rc.1', '--tagged')).toBe('release: v1.2.0-rc.1 is not this commit.\n');
    });
  });

  test('changelog.mjs fails while the sources changed since the last tag and the changelog did not', () => {
    const check = () => run('changelog.mjs');
    write('src/a.ts', '');
    expect(check()).toMatchObject({ status: 0, stderr: '' }); // There is no tag yet.
    commit();
    git('tag', 'v1.2.0');
    expect(check()).toMatchObject({ status: 0, stderr: '' });
    write('src/a.ts', 'changed');
    const stderr = 'src/ or projections/ changed since v1.2.0, and CHANGELOG.md does not say what that changes.\n';
    expect(check()).toMatchObject({ status: 1, stderr });
    commit();
    expect(check()).toMatchObject({ status: 1, stderr });
    write('CHANGELOG.md', '## [Unreleased]\n\n- That.\n');
    expect(check()).toMatchObject({ status: 0, stderr: '' });
  });
});

test.each(['SIGTERM', 'SIGINT'] as const)(
  'test.mjs that gets %s ends the tests and what they have started',
  async (signal) => {
    write('jest.config.json', '{}');
    const started = join(root, 'started');
    write(
      'endless.test.js',
      `test('endless', async () => {
      const child = require('child_process').spawn('sleep', ['600']);
      require('fs').writeFileSync(${JSON.stringify(started)}, process.pid + ' ' + child.pid);
      await new Promise((resolve) => setTimeout(resolve, 600_000));
    }, 600_000);`,
    );
    const tests = spawn(process.execPath, [
      'scripts/test.mjs',
      '--runInBand',
      '--config',
      join(root, 'jest.config.json'),
    ]);
    const ended = once(tests, 'exit');
    await eventually(() => existsSync(started) && readFileSync(started, 'utf8').includes(' '));
    tests.kill(signal);
    expect(await ended).toEqual([1, null]);
    for (const pid of readFileSync(started, 'utf8').split(' ')) await eventually(() => !existsSync(`/proc/${pid}`));
  },
);
