import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { servedDocument } from '../openapi.mjs';
import { isOnPath } from '../servers/programs.js';

/** A client in C# that NSwag makes from the document: two names there may not differ in the case of letters alone. */

const GENERATOR = ['NSwag.ConsoleCore', '14.8.0'] as const;
const PROJECT = `
<Project Sdk="Microsoft.NET.Sdk">
  <PropertyGroup><TargetFramework>net$(BundledNETCoreAppTargetFrameworkVersion)</TargetFramework></PropertyGroup>
  <ItemGroup><PackageReference Include="Newtonsoft.Json" Version="13.0.4" /></ItemGroup>
</Project>
`;
/** ms; packages are downloaded, and a busy machine compiles for minutes. */
const LONG = 600_000;

const folder = mkdtempSync(join(tmpdir(), 'credence-csharp-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** @throws Error with what the program has printed */
function execute(program: string, ...args: string[]): void {
  const more = { DOTNET_CLI_TELEMETRY_OPTOUT: '1', DOTNET_NOLOGO: '1', DOTNET_ROLL_FORWARD: 'LatestMajor' };
  try {
    execFileSync(program, args, { cwd: folder, env: { ...process.env, ...more }, stdio: 'pipe', timeout: LONG });
  } catch (error) {
    throw new Error(`${program} ${args[0]}: ${(error as { stdout?: Buffer }).stdout ?? error}`, { cause: error });
  }
}

/** Why no client in C# can be made here; undefined if one can. */
function missing(): string | undefined {
  if (!isOnPath('dotnet')) return 'there is no dotnet on the PATH';
  const [name, version] = GENERATOR;
  try {
    execute('dotnet', 'tool', 'install', name, '--version', version, '--tool-path', '.');
    return undefined;
  } catch {
    return `${name} ${version} cannot be installed`;
  }
}

const reason = missing();
if (reason !== undefined) process.stderr.write(`skipped: a client in C#: ${reason}\n`);
(reason === undefined ? test : test.skip)(
  'a client in C# is generated and compiles',
  async () => {
    writeFileSync(join(folder, 'openapi.json'), JSON.stringify(await servedDocument()));
    writeFileSync(join(folder, 'client.csproj'), PROJECT);
    const into = ['/input:openapi.json', '/output:Client.cs', '/namespace:Credence', '/classname:CredenceClient'];
    const asOne = '/operationGenerationMode:SingleClientFromOperationId';
    execute(join(folder, 'nswag'), 'openapi2csclient', ...into, asOne);
    execute('dotnet', 'build', 'client.csproj', '--nologo');
  },
  LONG,
);
