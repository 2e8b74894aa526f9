import { ApiProperty } from '@nestjs/swagger';
import { ArrayMinSize, IsArray, IsIn, IsOptional, NotEquals } from 'class-validator';
import { AtMost, IsInt, IsNested, IsUnique, IsWrittenTrisId, Matches, field } from '../../http/fields.js';
import { GRANTABLE_STATUSES } from '../identity/domain/identity.events.js';
import { DECIMAL, isG1, isG2, isSignal } from './domain/proof-format.js';
import { MAX_ROOTS, SCHEME_ID, SCOPE, TRANSCRIPT_HASH } from './domain/scheme.js';
import { INPUT_ROLES } from './domain/verifications.events.js';

/** More than any circuit here needs; each costs the verifier a millisecond. */
const MAX_INPUTS = 32;
const SCHEME_MESSAGE = '$property must be 1 to 64 lower-case letters, digits or hyphens, starting with a letter';

const decimal = { type: 'string', pattern: DECIMAL.source };
const coordinates = { type: 'array', items: decimal, minItems: 2, maxItems: 3 };
const IsSignal = field('signal', isSignal, 'be a decimal number below the order of bn254, without a leading zero', {
  ...decimal,
  example: '1814400',
});
const IsG1 = field('g1', isG1, 'be a point [x, y, "1"]: x and y decimal numbers below the prime of bn254', coordinates);
const IsG2 = field(
  'g2',
  isG2,
  'be a point [[x, x\'], [y, y\'], ["1", "0"]]: each a decimal number below the prime of bn254',
  { type: 'array', items: { ...coordinates, maxItems: 2 }, minItems: 3, maxItems: 3 },
);

/** A proof as snarkjs writes it. */
export class ProofDto {
  /** A point of the first group of bn254: `[x, y, "1"]`. */
  @IsG1()
  pi_a: string[];
  /** A point of the second group of bn254. */
  @IsG2()
  pi_b: string[][];
  /** A point of the first group of bn254: `[x, y, "1"]`. */
  @IsG1()
  pi_c: string[];
  @IsIn(['groth16'])
  protocol: 'groth16';
  /** Another name of bn254. */
  @IsIn(['bn128'])
  curve: 'bn128';
}

export class SubmitProofDto {
  @Matches(SCHEME_ID, { message: SCHEME_MESSAGE })
  scheme: string;

  /** The proof. */
  @IsNested(() => ProofDto)
  proof: ProofDto;

  /** One for each public input of the scheme, in their order. */
  @IsArray()
  @AtMost(MAX_INPUTS)
  @IsSignal({ each: true })
  public_signals: string[];

  /** The subject of the proof. Default for a session: the TRIS it acts for. */
  @IsOptional()
  @IsWrittenTrisId()
  tris_id?: string;
}

export class VerificationGrantedDto {
  tris_id: string;
  /** The verification status. */
  @ApiProperty({ enum: GRANTABLE_STATUSES })
  status: string;
  issuer: string;
  scheme: string;
  expires_at: string;
}

export class PublicInputDto {
  @IsIn(INPUT_ROLES)
  role: (typeof INPUT_ROLES)[number];

  /** Required for a constant, not allowed for other roles. */
  @IsOptional()
  @IsSignal()
  value?: string;
}

/** A verification key as snarkjs exports it. */
export class VerificationKeyDto {
  @IsIn(['groth16'])
  protocol: 'groth16';
  /** Another name of bn254. */
  @IsIn(['bn128'])
  curve: 'bn128';
  /** Number of public signals. */
  @IsInt(1, MAX_INPUTS)
  nPublic: number;
  /** A point of the first group of bn254: `[x, y, "1"]`. */
  @IsG1()
  vk_alpha_1: string[];
  /** A point of the second group of bn254. */
  @IsG2()
  vk_beta_2: string[][];
  /** A point of the second group of bn254. */
  @IsG2()
  vk_gamma_2: string[][];
  /** A point of the second group of bn254. */
  @IsG2()
  vk_delta_2: string[][];
  /** Accepted and ignored: it follows from alpha and beta. */
  @IsOptional()
  @IsArray()
  @ApiProperty({ type: 'array', items: {} })
  vk_alphabeta_12?: unknown[];
  /** One point of the first group for each public signal, and one more. */
  @IsArray()
  @AtMost(MAX_INPUTS + 1)
  @IsG1({ each: true })
  IC: string[][];
}

export class RegisterSchemeDto {
  @Matches(SCHEME_ID, { message: SCHEME_MESSAGE })
  @NotEquals('operator', {
    message: '$property must not be "operator", which stands for what was granted without a proof',
  })
  scheme: string;

  /** What a proof grants. */
  @IsIn(GRANTABLE_STATUSES)
  status: (typeof GRANTABLE_STATUSES)[number];

  /** TRIS id of the organization whose roots it accepts, and whose API key can revoke what it grants. */
  @IsWrittenTrisId()
  issuer: string;

  /** A credential verifies at most one identity in a scope, across all schemes with that scope. */
  @Matches(SCOPE, { message: '$property must be 1 to 64 lower-case letters, digits, dots or hyphens' })
  scope: string;

  /** What each public signal means, in their order. */
  @IsArray()
  @ArrayMinSize(1)
  @AtMost(MAX_INPUTS)
  @IsNested(() => PublicInputDto, { each: true })
  public_inputs: PublicInputDto[];

  @IsNested(() => VerificationKeyDto)
  verification_key: VerificationKeyDto;

  /**
   * SHA-256, in hex, of the transcript of the trusted setup that made the key. With snarkjs: of the final .zkey file,
   * which contains the hash of the circuit and all contributions.
   */
  @Matches(TRANSCRIPT_HASH, { message: '$property must be a SHA-256: 64 lower-case hexadecimal digits' })
  transcript_hash: string;

  /** Merkle roots or keys of the issuer whose proofs are accepted. */
  @IsArray()
  @AtMost(MAX_ROOTS)
  @IsSignal({ each: true })
  @IsUnique()
  roots: string[];
}

export class SchemeParams {
  @Matches(SCHEME_ID, { message: SCHEME_MESSAGE })
  scheme: string;
}

export class AddRootDto {
  @IsSignal()
  root: string;
}

export class SchemeRootParams extends SchemeParams {
  @IsSignal()
  root: string;
}

export class ListedSchemeDto {
  scheme: string;
  /** The verification status that a proof grants. */
  @ApiProperty({ enum: GRANTABLE_STATUSES })
  status: string;
  issuer: string;
  /** A credential verifies at most one identity in a scope. */
  scope: string;
  /** SHA-256 of the key's RFC 8785 JSON, without vk_alphabeta_12. */
  verification_key_hash: string;
  /** SHA-256 of the transcript of the key's setup, as declared; null for a scheme registered before it was required. */
  transcript_hash: string | null;
  registered_at: string;
  retired: boolean;
}

export class StoredInputDto {
  @ApiProperty({ enum: INPUT_ROLES })
  role: string;
  /** The value of a constant; null for other roles. */
  value: string | null;
}

export class SchemeDto extends ListedSchemeDto {
  /** The public signal that encodes the scope. */
  scope_value: string;
  /** What each public signal means, in their order. */
  public_inputs: StoredInputDto[];
  verification_key: VerificationKeyDto;
  /** Merkle roots or keys of the issuer whose proofs are accepted. */
  roots: string[];
}

export class SchemesDto {
  /** The schemes. */
  schemes: ListedSchemeDto[];
  next_cursor: string | null;
}
