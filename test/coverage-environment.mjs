import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { Session } from 'node:inspector';
import { join } from 'node:path';

const ofJest = createRequire(createRequire(import.meta.url).resolve('jest'));
const { TestEnvironment } = createRequire(ofJest.resolve('jest-cli'))('jest-environment-node');

/** Files whose source map this process has written already. */
const written = new Set();
let suites = 0;

/**
 * Writes what one file of tests ran of the sources, in the form of NODE_V8_COVERAGE and in its folder, as the processes
 * do that tests start. The runner's own coverage keeps the code and the profiles of all files of tests until the end.
 */
export default class CoverageEnvironment extends TestEnvironment {
  async setup() {
    await super.setup();
    this.session = new Session();
    this.session.connect();
    this.session.post('Profiler.enable');
    this.session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });
  }

  async teardown() {
    // The runner may call it twice.
    if (this.session) this.write();
    await super.teardown();
  }

  write() {
    const { result } = this.ask('Profiler.takePreciseCoverage');
    this.ask('Profiler.stopPreciseCoverage');
    const ours = result.filter(({ url }) => isSource(url));
    const profile = { result: ours, 'source-map-cache': this.sourceMaps(ours) };
    const name = `coverage-tests-${process.pid}-${++suites}.json`;
    writeFileSync(join(process.env.COVERAGE, name), JSON.stringify(profile));
    this.session.disconnect();
    this.session = undefined;
  }

  /** The inline source maps of compiled scripts, and the lengths of their lines, as Node writes them. */
  sourceMaps(scripts) {
    const unknown = scripts.filter(({ url }) => url.endsWith('.ts') && !written.has(url));
    if (unknown.length === 0) return {};
    this.ask('Debugger.enable');
    const maps = unknown.map(({ url, scriptId }) => {
      const { scriptSource } = this.ask('Debugger.getScriptSource', { scriptId });
      const [, map] = /sourceMappingURL=data:[^,]+;base64,(\S+)\s*$/.exec(scriptSource);
      written.add(url);
      const lineLengths = scriptSource.split('\n').map(({ length }) => length);
      return [url, { data: JSON.parse(Buffer.from(map, 'base64').toString()), lineLengths }];
    });
    return Object.fromEntries(maps);
  }

  /** A session in the same process answers before `post` returns. */
  ask(method, params) {
    let answer;
    this.session.post(method, params, (error, result) => {
      if (error) throw new Error(`${method}: ${error.message}`);
      answer = result;
    });
    return answer;
  }
}

const ROOT = new URL('../', import.meta.url).href;

function isSource(url) {
  return url.startsWith(`${ROOT}src/`) || url.startsWith(`${ROOT}projections/`);
}
