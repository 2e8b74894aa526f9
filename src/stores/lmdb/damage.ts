/** The library's errors for an invalid page, or one with another number than requested. */
const DAMAGE_CODES = new Set([-30796, -30797, -30793]);

export function isDamage(error: unknown): boolean {
  return DAMAGE_CODES.has((error as { code?: number } | undefined)?.code ?? 0);
}
