import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import fastifyStatic from '@fastify/static';
import type { FastifyInstance } from 'fastify';
import type { Config } from '../kernel/config.js';

/** What console/build.mjs has made; beside the built code only. */
const BUILT = fileURLToPath(new URL('../../console', import.meta.url));

/** Whether this build contains the console and the configuration serves it. */
export const hasConsole = (config: Pick<Config, 'console'>): boolean =>
  config.console && existsSync(join(BUILT, 'index.html'));

/** The console at /console. `/` leads to it, or to the documentation where the console is left out or has not been built. */
export function serveConsole(server: FastifyInstance, config: Pick<Config, 'console'>): void {
  const isServed = hasConsole(config);
  server.get('/', (_request, reply) => reply.redirect(isServed ? '/console' : '/docs', 302));
  if (!isServed) return;
  const html = readFileSync(join(BUILT, 'index.html'));
  server.get('/console', (_request, reply) =>
    reply.type('text/html; charset=utf-8').header('cache-control', 'no-cache').send(html),
  );
  server.get('/console/', (_request, reply) => reply.redirect('/console', 302));
  // The names of these files change with their contents.
  void server.register(fastifyStatic, {
    root: join(BUILT, 'assets'),
    prefix: '/console/assets/',
    decorateReply: false,
    preCompressed: true,
    immutable: true,
    maxAge: '365d',
  });
}
