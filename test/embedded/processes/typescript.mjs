import { register } from 'node:module';

/** Lets a plain `node --import` process run the TypeScript sources: `.js` specifiers find `.ts` files, swc strips types. */
register('./typescript-hooks.mjs', import.meta.url);
