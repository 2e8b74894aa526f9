import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { servedDocument } from '../openapi.mjs';
import { isOnPath } from '../servers/programs.js';

/** Clients in C# that generators make from the document: two names there may not differ in the case of letters alone. */

interface Generator {
  name: string;
  tool: [name: string, version: string];
  /** Called in a folder of its own, below that of the document `openapi.json`. */
  command: string;
  packages: Record<string, string>;
}

const KIOTA = ['Abstractions', 'Http.HttpClientLibrary'].concat(
  ['Form', 'Json', 'Multipart', 'Text'].map((format) => `Serialization.${format}`),
);

const GENERATORS: Generator[] = [
  {
    name: 'NSwag',
    tool: ['NSwag.ConsoleCore', '14.8.0'],
    command:
      '../nswag openapi2csclient /input:../openapi.json /output:Client.cs /namespace:Credence ' +
      '/classname:CredenceClient /operationGenerationMode:SingleClientFromOperationId',
    packages: { 'Newtonsoft.Json': '13.0.4' },
  },
  {
    name: 'Kiota',
    tool: ['Microsoft.OpenApi.Kiota', '1.38.0'],
    command:
      '../kiota generate --language CSharp --openapi ../openapi.json --output client ' +
      '--namespace-name Credence --class-name CredenceClient',
    packages: Object.fromEntries(KIOTA.map((part) => [`Microsoft.Kiota.${part}`, '2.1.6'])),
  },
];
/** ms; packages are downloaded, and a busy machine compiles for minutes. */
const LONG = 600_000;

const folder = mkdtempSync(join(tmpdir(), 'credence-csharp-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** @throws Error with what the program has printed */
function execute(cwd: string, [program, ...args]: string[]): void {
  const more = {
    DOTNET_CLI_TELEMETRY_OPTOUT: '1',
    KIOTA_CLI_TELEMETRY_OPTOUT: '1',
    DOTNET_NOLOGO: '1',
    DOTNET_ROLL_FORWARD: 'LatestMajor',
  };
  try {
    execFileSync(program!, args, { cwd, env: { ...process.env, ...more }, stdio: 'pipe', timeout: LONG });
  } catch (error) {
    throw new Error(`${program} ${args[0]}: ${(error as { stdout?: Buffer }).stdout ?? error}`, { cause: error });
  }
}

/** Why no client in C# can be made here with this generator; undefined if one can. */
function missing([name, version]: Generator['tool']): string | undefined {
  if (!isOnPath('dotnet')) return 'there is no dotnet on the PATH';
  try {
    execute(folder, ['dotnet', 'tool', 'install', name, '--version', version, '--tool-path', '.']);
    return undefined;
  } catch {
    return `${name} ${version} cannot be installed`;
  }
}

function projectWith(packages: Generator['packages']): string {
  const references = Object.entries(packages).map(
    ([name, version]) => `<PackageReference Include="${name}" Version="${version}" />`,
  );
  return `
<Project Sdk="Microsoft.NET.Sdk">
  <PropertyGroup><TargetFramework>net$(BundledNETCoreAppTargetFrameworkVersion)</TargetFramework></PropertyGroup>
  <ItemGroup>${references.join('')}</ItemGroup>
</Project>
`;
}

for (const { name, tool, command, packages } of GENERATORS) {
  const reason = missing(tool);
  if (reason !== undefined) process.stderr.write(`skipped: a client in C# by ${name}: ${reason}\n`);
  (reason === undefined ? test : test.skip)(
    `a client in C# by ${name} is generated and compiles`,
    async () => {
      writeFileSync(join(folder, 'openapi.json'), JSON.stringify(await servedDocument()));
      const project = join(folder, name);
      mkdirSync(project);
      writeFileSync(join(project, 'client.csproj'), projectWith(packages));
      execute(project, command.split(' '));
      execute(project, ['dotnet', 'build', 'client.csproj', '--nologo']);
    },
    LONG,
  );
}
