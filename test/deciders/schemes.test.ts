import { internalActor } from '../../src/commands/context.js';
import type { Writer } from '../../src/commands/writer.js';
import { ChangeScheme, ChangeSchemeHandler, type Schemes } from '../../src/features/verifications/schemes.handlers.js';
import type { ProofVerifier } from '../../src/features/verifications/verifier.js';
import { MAX_ROOTS, type Scheme, decideAddRoot } from '../../src/features/verifications/domain/scheme.js';
import { schemeRegistered } from '../../src/features/verifications/domain/verifications.events.js';
import { logOf } from '../projections/log.js';

const definition = {
  scheme: 'humans',
  status: 'zk-KYH' as const,
  issuer: 'issuer',
  scope: 'humans',
  public_inputs: [],
  verification_key: {},
  verification_key_hash: 'aa',
  transcript_hash: 'bb',
  roots: [],
};

describe('roots of a verification scheme', () => {
  test('are refused beyond the maximum, with a pointer to the field', () => {
    const roots = Array.from({ length: MAX_ROOTS }, (_, i) => String(i));
    const scheme = { ...definition, roots } as unknown as Scheme;
    expect(decideAddRoot(scheme, '5')).toEqual([]);
    expect(() => decideAddRoot(scheme, 'another')).toThrow(
      expect.objectContaining({
        code: 'validation_failed',
        extra: { errors: [expect.objectContaining({ pointer: '/root', code: 'too_many_roots' })] },
      }),
    );
  });

  test('an internal error is not reported as a refusal of the root', async () => {
    const history = logOf([{ type: schemeRegistered.type, data: definition }]);
    const writer = {
      execute: (_stream: string, _context: object, decide: (events: unknown) => unknown) => decide(history),
    } as unknown as Writer;
    const schemes = { get: async () => definition } as unknown as Schemes;
    const handler = new ChangeSchemeHandler(writer, schemes, {} as ProofVerifier);
    const change = {
      kind: 'add_root' as const,
      get root(): string {
        throw new TypeError('a defect');
      },
    };
    const context = { actor: internalActor('test'), correlation_id: 'c', idempotency: null, body_hash: 'b' };
    await expect(handler.execute(new ChangeScheme({ scheme: 'humans', change, context }))).rejects.toThrow(TypeError);
  });
});
