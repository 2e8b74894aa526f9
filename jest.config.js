import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';

const { resolve } = createRequire(new URL('test/package.json', import.meta.url));

/** One configuration for every layer; tests that need the built server start dist/src/main.js themselves. */
export default {
  testEnvironment: 'node',
  testMatch: ['<rootDir>/test/**/*.test.ts'],
  // Where there is a build, its bundles of dependencies: every file of tests loads them anew.
  moduleDirectories: ['dist/node_modules', 'node_modules'],
  extensionsToTreatAsEsm: ['.ts'],
  moduleNameMapper: { '^(\\.{1,2}/.*)\\.js$': '$1' },
  transform: {
    '^.+\\.ts$': [
      resolve('@swc/jest'),
      {
        jsc: {
          target: 'es2022',
          parser: { syntax: 'typescript', decorators: true },
          transform: { legacyDecorator: true, decoratorMetadata: true },
        },
        module: { type: 'es6' },
        // In files of their own: within the code, every load would read them. The coverage environment does read them there.
        sourceMaps: process.env.COVERAGE ? 'inline' : true,
      },
    ],
  },
  cacheDirectory: '<rootDir>/node_modules/.cache/jest',
  testSequencer: '<rootDir>/test/sequencer.js',
  reporters: ['default', '<rootDir>/test/reporter.js'],
  testTimeout: 180_000,
  // Of what a file of tests has loaded as ES modules, Node 20 frees nothing: up to 27 MB. With hundreds of files, most of a
  // worker's time would be spent on collecting garbage around that. Another worker takes its place instead.
  workerIdleMemoryLimit: '600MB',
  // One more than cores: suites wait for the servers that they start, and for leases to end. Each takes up to a gigabyte.
  maxWorkers: Math.max(3, Math.min(6, availableParallelism() + 1)),
};
