import { Controller, Get } from '@nestjs/common';
import { Read } from '../http/answers.js';
import { Plain } from '../http/routes.js';
import { JwkSetDto } from './key-set.dto.js';
import { SigningKeys } from '../credentials/signing-keys.js';

@Controller('.well-known')
export class ProofsController {
  constructor(private readonly keys: SigningKeys) {}

  @Get('jwks.json')
  @Plain({
    summary: 'Get the public keys that verify proofs and tokens (RFC 7517)',
    description: 'A key is published here at least ten minutes before it signs.',
    etag: true,
    type: JwkSetDto,
  })
  jwks(): Read<JwkSetDto> {
    return new Read(
      this.keys.jwks,
      this.keys.jwks.keys.map(({ kid }) => kid),
      'public, max-age=60',
    );
  }
}
