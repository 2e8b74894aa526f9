/** The library's errors for a page that is not one, or not the one that was asked for. */
const DAMAGE_CODES = new Set([-30796, -30797, -30793]);

export function isDamage(error: unknown): boolean {
  return DAMAGE_CODES.has((error as { code?: number } | undefined)?.code ?? 0);
}
