import { Controller, Get, Param, Query } from '@nestjs/common';
import { ApiExcludeEndpoint } from '@nestjs/swagger';
import { Read, readByContent } from '../../http/answers.js';
import { Keyed, PublicRead } from '../../http/routes.js';
import { TILE_WIDTH } from '../../kernel/merkle.js';
import {
  ConsistencyDto,
  ConsistencyQuery,
  EntriesParams,
  InclusionDto,
  InclusionQuery,
  TILE,
  TileParams,
} from './audit.dto.js';
import { LogProofs } from './log-proofs.js';

@Controller()
export class AuditController {
  constructor(private readonly proofs: LogProofs) {}

  @Get('/log/checkpoint')
  @ApiExcludeEndpoint()
  @PublicRead({ audience: 'verifier', summary: 'Get the newest signed checkpoint, as C2SP tlog-checkpoint says' })
  async checkpoint(): Promise<Read<string>> {
    const note = await this.proofs.checkpoint();
    return new Read(note, [note], 'public, max-age=1');
  }

  @Get('/log/tile/:level/*')
  @ApiExcludeEndpoint()
  @PublicRead({ audience: 'verifier', summary: 'Get hashes of the tree of the log, as C2SP tlog-tiles says' })
  async tile(@Param() { level, '*': rest }: TileParams): Promise<Read<Buffer>> {
    const { tile, width, cacheControl } = placeOf(rest);
    const hashes = await this.proofs.tile(Number(level), tile, width);
    return new Read(hashes, [hashes.toString('base64')], cacheControl);
  }

  @Get('/log/tile/entries/*')
  @ApiExcludeEndpoint()
  @Keyed({ scope: 'ops', summary: 'Get what leaves of the log are the hashes of, as C2SP tlog-tiles says' })
  async entries(@Param() { '*': rest }: EntriesParams): Promise<Read<Buffer>> {
    const { tile, width } = placeOf(rest);
    const entries = await this.proofs.entries(tile, width);
    return new Read(entries, [entries.toString('base64')]);
  }

  @Get('/v1/audit/inclusion')
  @PublicRead({
    audience: 'verifier',
    summary: 'Prove that an event is in the log (RFC 9162)',
    description: 'docs/verify.md says how to check the proof, and what it proves.',
    etag: true,
    type: InclusionDto,
    problems: ['event_id_unknown', 'not_found'],
  })
  async inclusion(@Query() { size, ...event }: InclusionQuery): Promise<Read<InclusionDto>> {
    return readByContent(await this.proofs.inclusion(event, size));
  }

  @Get('/v1/audit/consistency')
  @PublicRead({
    audience: 'verifier',
    summary: 'Prove that the log begins with the events that it had before (RFC 9162)',
    description: 'docs/verify.md says how to check the proof, and what it proves.',
    etag: true,
    type: ConsistencyDto,
  })
  async consistency(@Query() { from, to }: ConsistencyQuery): Promise<Read<ConsistencyDto>> {
    return readByContent(await this.proofs.consistency(from, to));
  }
}

function placeOf(rest: string) {
  const [, path, width] = TILE.exec(rest)!;
  return {
    tile: Number(path!.replaceAll(/\D/g, '')),
    width: Number(width ?? TILE_WIDTH),
    // A log that was restored from an older copy can have another partial tile.
    cacheControl: width === undefined ? 'public, max-age=31536000, immutable' : 'no-cache',
  };
}
