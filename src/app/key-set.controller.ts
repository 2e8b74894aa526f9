import { Controller, Get } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import { Read } from '../http/answers.js';
import { Plain } from '../http/routes.js';
import { JwkSetDto } from './key-set.dto.js';
import { SigningKeys } from '../credentials/signing-keys.js';

@ApiTags('proofs')
@Controller('.well-known')
export class ProofsController {
  constructor(private readonly keys: SigningKeys) {}

  @Get('jwks.json')
  @Plain({ summary: 'Get the public keys that verify proofs and tokens (RFC 7517)', type: JwkSetDto })
  jwks(): Read<JwkSetDto> {
    return new Read(
      this.keys.jwks,
      this.keys.jwks.keys.map(({ kid }) => kid),
      'public, max-age=60',
    );
  }
}
