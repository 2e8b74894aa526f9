import { execFileSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { Server } from '../e2e/server.js';
import { blocks } from './markdown.js';

/**
 * Follows a text on a server with the example data: sends every line `get <path>`, `keyed <path>`, `post <path> '<body>'`
 * or `mine <path> ['<body>']` of its shell blocks, and holds the last answer against the JSON block below. What a shell
 * block gives a variable by `<name>=$(…)`, it gets from the shell. A read whose answer differs is sent again for a while.
 * `json at=/results/0` shows a part of the answer.
 * @returns how many answers were compared
 */
export async function follow(markdown: string): Promise<number> {
  const server = await Server.start({ args: ['--example'] });
  try {
    let position: string | undefined;
    let answer: unknown;
    let again = async () => {};
    let compared = 0;
    /** Shell that defines what the text has defined, and the variables. */
    let defined = '';
    const variables: Record<string, string> = {};
    for (const { language, info, text } of blocks(markdown)) {
      if (language === 'sh') {
        for (const line of text.split('\n')) {
          const words = wordsOf(line.replace(/\$([a-z]+)/g, (name, word: string) => variables[word] ?? name));
          const [command, path, body] = words;
          if (!['get', 'keyed', 'post', 'mine'].includes(command!)) continue;
          const headers: Record<string, string> = position === undefined ? {} : { 'credence-min-position': position };
          if (command === 'mine') headers['authorization'] = `Bearer ${variables['token']}`;
          const key = command === 'get' || command === 'mine' ? false : undefined;
          const isRead = body === undefined && command !== 'post';
          const send = async () => {
            const response = await server.send(isRead ? 'GET' : 'POST', path!, { key, headers, body });
            position = (response.headers['credence-position'] as string | undefined) ?? position;
            answer = response.json;
          };
          await send();
          again = isRead ? send : async () => {};
        }
        const named = [...text.matchAll(/^([a-z]+)=\$\(/gm)].map(([, name]) => name!);
        const isOurs = named.includes('token') || named.includes('jti');
        if (isOurs) {
          const script = `${defined}${text.replaceAll(/^(?:get|mine|post|keyed) .*$/gm, '')}`;
          for (const name of named) {
            const shell = `${script.replaceAll('http://127.0.0.1:3000', server.url)}\nprintf %s "$${name}"`;
            variables[name] = execFileSync('sh', ['-c', shell], {
              encoding: 'utf8',
              env: { ...process.env, ...variables },
            });
          }
        }
        for (const [line] of text.matchAll(/^mine\(\).*$/gm)) defined += `${line}\n`;
      } else if (language === 'json') {
        const at = /at=\/(\S+)/.exec(info)?.[1]?.split('/') ?? [];
        const part = () => at.reduce<unknown>((value, name) => (value as Record<string, unknown>)[name], answer);
        for (let tries = 0; ; tries++) {
          try {
            expectLike(part(), JSON.parse(text), '');
            break;
          } catch (error) {
            if (tries === 100) throw error;
            await sleep(50);
            await again();
          }
        }
        compared++;
      }
    }
    return compared;
  } finally {
    await server.end();
  }
}

/** The words of a line of shell: bare ones and ones in single quotes. */
function wordsOf(line: string): string[] {
  return [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, bare]) => quoted ?? bare!);
}

/** What differs from run to run: times of recording, ids of the log and its keys, and what decays up to the present. */
const VOLATILE =
  /(^|\/)(at|position|recorded_at|registered_at|opened_at|created_at|generated_at|checked_at|expires_at|timestamp|as_of|request_id|proof|eligibility_token|report_id|report_hash|portable_hash|next_cursor|reliability|summary)$|\/(disc_metrics|payload|metrics|evidence|reliability_interval)\//;

function expectLike(actual: unknown, documented: unknown, at: string): void {
  const where = `at ${at}: ${JSON.stringify(actual)}`;
  if (Array.isArray(documented)) {
    expect([where, (actual as unknown[]).length]).toEqual([where, documented.length]);
    documented.forEach((item, i) => expectLike((actual as unknown[])[i], item, `${at}/${i}`));
  } else if (typeof documented === 'object' && documented !== null) {
    expect([where, Object.keys(actual as object).sort()]).toEqual([where, Object.keys(documented).sort()]);
    for (const [name, value] of Object.entries(documented)) {
      expectLike((actual as Record<string, unknown>)[name], value, `${at}/${name}`);
    }
  } else if (VOLATILE.test(at)) {
    expect([where, typeof actual]).toEqual([where, typeof documented]);
  } else if (typeof documented === 'string' && documented.includes('…')) {
    expect([where, String(actual).startsWith(documented.split('…')[0]!)]).toEqual([where, true]);
  } else {
    expect([where, actual]).toEqual([where, documented]);
  }
}
