import type { Type } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';

/** A provider of any module, or undefined. app.get would log an error before it throws. */
export function find<T>(app: NestFastifyApplication, token: Type<T> | symbol): T | undefined {
  try {
    return app.get(ModuleRef).get<T>(token, { strict: false });
  } catch {
    return undefined;
  }
}
