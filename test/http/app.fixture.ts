import { mkdtempSync, rmSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Body, Controller, Delete, Get, Module, Param, Post, Query } from '@nestjs/common';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { Type } from 'class-transformer';
import {
  ArrayMaxSize,
  ArrayMinSize,
  IsArray,
  IsIn,
  IsInt,
  IsObject,
  IsOptional,
  Max,
  Min,
  ValidateNested,
} from 'class-validator';
import { type Config, loadConfig } from '../../src/kernel/config.js';
import { type Admission, EVENT_STORE, StoreUnavailable } from '../../src/stores/ports/event-store.js';
import { Read, Written } from '../../src/http/answers.js';
import { createApp } from '../../src/app/application.js';
import { Context, type RequestContext } from '../../src/http/command-context.js';
import { PageQuery, TrisIdParams } from '../../src/http/common.dto.js';
import { CommaSeparated, IsActionType, IsPlatformId, IsTimestamp, IsTrisId } from '../../src/http/fields.js';
import { POSITION_GATE, type PositionGate } from '../../src/kernel/positions.js';
import type { Caller } from '../../src/credentials/caller.js';
import { RequestCaller } from '../../src/http/controllers.js';
import { Keyed, PublicRead, Write } from '../../src/http/routes.js';
import { Logger } from '../../src/kernel/logger.js';
import { Problem } from '../../src/kernel/problems.js';

/** A module with one route of each kind, served with the whole edge on a free port. */

class Input {
  @IsPlatformId()
  metric: string;

  @IsIn(['Low', 'High'], { context: { code: 'unknown_criticality' }, message: '$property must be Low or High' })
  criticality: string;
}

class CreateThing {
  @IsTrisId()
  tris_id: string;

  @IsActionType()
  action_type: string;

  @IsOptional()
  @IsTimestamp()
  occurred_at?: string;

  @IsOptional()
  @IsInt()
  @Min(1)
  @Max(10)
  count?: number;

  @IsOptional()
  @IsObject()
  rules?: Record<string, unknown>;

  @IsOptional()
  @IsArray()
  @ArrayMinSize(1)
  @ArrayMaxSize(3)
  @ValidateNested({ each: true })
  @Type(() => Input)
  inputs?: Input[];
}

class CreateThings {
  @IsArray()
  @ArrayMaxSize(3, { context: { code: 'batch_too_large' } })
  things: unknown[];
}

class ListThings extends PageQuery {
  @IsOptional()
  @CommaSeparated()
  @IsActionType({ each: true })
  metrics?: string[];
}

export let slow = { started: () => {}, release: Promise.resolve() };
export const setSlow = (next: typeof slow) => void (slow = next);

@Controller()
class ThingsController {
  @Get('v1/things/:tris_id')
  @PublicRead({ summary: 'One thing' })
  one(@Param() { tris_id }: TrisIdParams, @RequestCaller() caller: Caller | null): Read {
    return new Read({ tris_id, key: caller?.keyId ?? null }, ['log.1', tris_id]);
  }

  @Post('v1/things/some')
  @PublicRead({ summary: 'Some things', counts: 'things' })
  some(@Body() { things }: CreateThings): object {
    return { things };
  }

  @Get('v1/things')
  @PublicRead({ summary: 'Things' })
  list(@Query() query: ListThings): object {
    return { ...query };
  }

  @Post('v1/things')
  @Write({ scope: 'relay:write', status: 202, summary: 'Make a thing' })
  create(@Body() body: CreateThing, @Context() context: RequestContext): Written {
    return new Written({ ...body, key: context.idempotency, id: context.correlation_id }, 7);
  }

  @Post('v1/things/batch')
  @Write({ scope: 'relay:write', summary: 'Make many things', list: { name: 'things', most: 3 } })
  async createMany(@Body() { things }: CreateThings): Promise<object> {
    slow.started();
    await slow.release;
    return { codes: things.map((thing) => (thing instanceof Problem ? thing.code : 'ok')) };
  }

  @Post('v1/things/:tris_id/vet')
  @Write({ scope: 'ops', summary: 'Vet a thing' })
  vet(@Param() { tris_id }: TrisIdParams): Written {
    return new Written({ tris_id }, null, 201);
  }

  @Delete('v1/things/:tris_id')
  @Write({ scope: 'any', summary: 'Delete a thing' })
  delete(@Param() { tris_id }: TrisIdParams, @RequestCaller() caller: Caller): object {
    return { tris_id, organization: caller.organization };
  }

  @Get('v1/keyed')
  @Keyed({ scope: 'ops', summary: 'For operators' })
  keyed(): object {
    return { ok: true };
  }

  @Get('v1/crash')
  @PublicRead({ summary: 'A bug' })
  crash(): object {
    throw new Error('secret detail');
  }

  @Get('v1/away')
  @PublicRead({ summary: 'No store' })
  away(): object {
    throw new StoreUnavailable('node-3 is gone');
  }

  @Get('v1/slow')
  @PublicRead({ summary: 'Slow' })
  async slow(): Promise<object> {
    slow.started();
    await slow.release;
    return { ok: true };
  }
}

/** Head 10; has applied 5, and reaches no further. */
const gate: PositionGate = {
  logId: 'log',
  has: async (position) => position <= 10,
  waitForPosition: async (position) => position <= 5,
  refuseCommands: () => undefined,
};

@Module({ controllers: [ThingsController], providers: [{ provide: POSITION_GATE, useValue: gate }] })
class ThingsModule {}

export interface Served {
  app: NestFastifyApplication;
  config: Config;
  url: string;
  port: number;
  data: string;
  /** The development key. */
  key: string;
  logs: Record<string, unknown>[];
  close(): Promise<void>;
}

/** @param admission that of the log, if it can be overloaded */
export async function serve(env: Record<string, string> = {}, admission?: Admission): Promise<Served> {
  const data = mkdtempSync(join(tmpdir(), 'credence-http-'));
  const config = loadConfig({ CREDENCE_DATA: data, CREDENCE_PORT: '0', CREDENCE_RATE_LIMIT: '0', ...env });
  const logs: Record<string, unknown>[] = [];
  const providers = admission ? [{ provide: EVENT_STORE, useValue: { admission } }] : [];
  const app = await createApp(
    { module: ThingsModule, providers },
    config,
    new Logger('debug', (line) => void logs.push(JSON.parse(line))),
  );
  await app.listen(0, '127.0.0.1');
  const { port } = app.getHttpServer().address() as AddressInfo;
  const { ApiKeys } = await import('../../src/credentials/api-keys.js');
  return {
    app,
    config,
    port,
    data,
    logs,
    url: `http://127.0.0.1:${port}`,
    key: app.get(ApiKeys).createdDevelopmentKey ?? '',
    close: async () => {
      await app.close();
      rmSync(data, { recursive: true, force: true });
    },
  };
}
