/**
 * Compiles src/ and projections/ into dist/, which it empties first. The plugin of @nestjs/swagger adds what the OpenAPI
 * document says about the fields of `*.dto.ts`: their types, and their comments as descriptions.
 */
import { rmSync } from 'node:fs';
import { before as describeFields } from '@nestjs/swagger/plugin';
import ts from 'typescript';

const config = ts.getParsedCommandLineOfConfigFile(
  'tsconfig.json',
  {},
  { ...ts.sys, onUnRecoverableConfigFileDiagnostic: say },
);
const program = ts.createProgram(config.fileNames, config.options);
const plugin = describeFields(
  { introspectComments: true, classValidatorShim: true, esmCompatible: true, controllerFileNameSuffix: [] },
  program,
);
const faults = ts.getPreEmitDiagnostics(program);
rmSync('dist', { recursive: true, force: true });
program.emit(undefined, undefined, undefined, false, { before: [plugin] });
for (const fault of faults) say(fault);
process.exit(faults.length > 0 ? 1 : 0);

function say(diagnostic) {
  const { getCurrentDirectory, newLine } = ts.sys;
  const host = { getCurrentDirectory, getCanonicalFileName: (name) => name, getNewLine: () => newLine };
  console.error(ts.formatDiagnostic(diagnostic, host).trimEnd());
}
