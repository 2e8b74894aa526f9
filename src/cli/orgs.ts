import { readBody } from '../http/validation.js';
import { RegisterOrganizationDto } from '../features/organizations/organizations.dto.js';
import {
  GetOrganization,
  ListOrganizations,
  RegisterOrganization,
  SetVetting,
} from '../features/organizations/organizations.handlers.js';
import { OrganizationsModule } from '../features/organizations/organizations.module.js';
import type { Cli, JsonOption } from './cli.js';
import { checkedTrisId } from './exit.js';
import { type HandlersContext, PAGE, allPages, changed, commandOf, withHandlers } from './handlers.js';
import { table } from './table.js';

const FEATURES = [OrganizationsModule];

export function orgsCommands(cli: Cli): void {
  const orgs = cli.program.command('orgs').description('register, vet and look up organizations');

  orgs
    .command('list')
    .description('list the registered organizations')
    .option('--json', 'print them as JSON')
    .action(withHandlers(cli, 'existing', FEATURES, list));

  orgs
    .command('show')
    .description('show one organization and its platforms')
    .argument('<tris>', 'its TRIS id')
    .option('--json', 'print it as JSON')
    .action(withHandlers(cli, 'existing', FEATURES, show));

  orgs
    .command('register')
    .description('register an organization and, permanently, its platforms; safe to repeat')
    .argument('<tris>', 'its TRIS id')
    .option('--platforms <list>', 'platform ids, separated by commas', '')
    .action(withHandlers(cli, 'create', FEATURES, register));

  for (const [name, vetted, description] of [
    ['vet', true, 'vet an organization, which gives it a rank'],
    ['revoke', false, 'revoke the vetting of an organization'],
  ] as const) {
    orgs
      .command(name)
      .description(description)
      .argument('<tris>', 'its TRIS id')
      .action(withHandlers(cli, 'existing', FEATURES, (context, tris: string) => setVetting(context, tris, vetted)));
  }
}

async function list({ queries, print }: HandlersContext, { json }: JsonOption) {
  const all = await allPages('organizations', (cursor) =>
    queries.execute(new ListOrganizations({ limit: PAGE, cursor })),
  );
  const rows = all.map(({ tris_org, vetted, registered_at }) => {
    return { organization: tris_org, vetted: vetted ? 'yes' : 'no', registered: registered_at };
  });
  print(json ? JSON.stringify(all) : table(rows, 'no organizations'));
}

async function show({ queries, print }: HandlersContext, tris: string, { json }: JsonOption) {
  const organization = await queries.execute(new GetOrganization({ trisOrg: checkedTrisId(tris) }));
  const { tris_org, vetted, registered_at, platform_ids } = organization;
  if (json) print(JSON.stringify(organization));
  else {
    print(`${tris_org}: ${vetted ? 'vetted' : 'not vetted'}, registered ${registered_at}`);
    print(`platforms: ${platform_ids.join(', ') || 'none'}`);
  }
}

async function register(context: HandlersContext, tris: string, { platforms }: { platforms: string }) {
  const platform_ids = platforms === '' ? [] : platforms.split(',').map((id) => id.trim());
  const body = readBody(RegisterOrganizationDto, { tris_org: checkedTrisId(tris), platform_ids });
  await context.commands.execute(new RegisterOrganization({ ...body, context: commandOf(context.actor, body) }));
  return changed(context, `${tris} is registered${platform_ids.length > 0 ? ` with ${platform_ids.join(', ')}` : ''}`);
}

async function setVetting(context: HandlersContext, tris: string, vetted: boolean) {
  const asked = { tris_org: checkedTrisId(tris), vetted };
  await context.commands.execute(new SetVetting({ ...asked, context: commandOf(context.actor, asked) }));
  return changed(context, `${tris} is ${vetted ? 'vetted' : 'not vetted'}`);
}
