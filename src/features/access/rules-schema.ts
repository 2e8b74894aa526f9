import { CATEGORY_NAMES } from '../../scoring/names.js';
import { LOWEST_SCORE, MAX_NODES, STATUSES } from './rules.js';
import { GRANTABLE_STATUSES } from '../identity/domain/identity.events.js';

/** JSON Schema of the rules that `parseRules` accepts, apart from the limits of depth and size. */

const RULE = { $ref: '#/components/schemas/AccessRule' };
const only = (properties: Record<string, object>, required: string[], description: string) => ({
  type: 'object',
  description,
  properties,
  required,
  additionalProperties: false,
});
const list = (description: string) => ({ type: 'array', minItems: 1, items: RULE, description });
const names = (description: string) => ({
  type: 'array',
  minItems: 1,
  maxItems: MAX_NODES,
  items: { type: 'string', pattern: '^[!-~]{1,128}$' },
  description,
});

/** The components of the OpenAPI document that describe rules. */
export const RULES_SCHEMAS = {
  AccessRule: {
    description:
      'Conditions, or a combinator of rules, which is alone in its object. At most 8 levels deep, with at most ' +
      `${MAX_NODES} combinators and conditions. What is not known is neither met nor not met: only rules that are met grant.`,
    anyOf: [
      { $ref: '#/components/schemas/AccessConditions' },
      only({ all: list('Rules that must all be met.') }, ['all'], 'Met if all of its rules are.'),
      only({ any: list('Rules of which one must be met.') }, ['any'], 'Met if one of its rules is.'),
      only({ not: RULE }, ['not'], 'Met if its rule is known not to be.'),
      only(
        {
          at_least: { type: 'integer', minimum: 1, maximum: MAX_NODES, description: 'How many must be met.' },
          of: list('The rules that are counted.'),
        },
        ['at_least', 'of'],
        'Met if this many of its rules are.',
      ),
    ],
  },
  AccessConditions: {
    type: 'object',
    description: 'Conditions, all of which must hold.',
    minProperties: 1,
    additionalProperties: false,
    properties: {
      disc_min: { type: 'number', minimum: 0, maximum: 100, description: 'The lowest score.' },
      tct_min: { type: 'number', minimum: 0, description: 'The lowest net TCT.' },
      rating_min: { type: 'string', enum: [...LOWEST_SCORE.keys()], description: 'The lowest rating.' },
      reliability_min: { type: 'number', minimum: 0, maximum: 1, description: 'The lowest reliability.' },
      evidence_min: { type: 'number', minimum: 0, description: 'The lowest amount of evidence. From disc-2 on.' },
      metrics: {
        type: 'object',
        description: 'The lowest health of categories.',
        minProperties: 1,
        propertyNames: { enum: CATEGORY_NAMES },
        additionalProperties: { type: 'number', minimum: 0, maximum: 1 },
      },
      verification: {
        type: 'array',
        description:
          'Verification statuses. A status alone may be granted by an operator, an accredited issuer or a proof; with ' +
          '`issuers` or `schemes` only by these.',
        minItems: 1,
        items: {
          anyOf: [
            { type: 'string', enum: STATUSES },
            only(
              {
                status: { type: 'string', enum: GRANTABLE_STATUSES, description: 'The status.' },
                issuers: names('Who must have granted it.'),
                schemes: names('How it must have been established.'),
              },
              ['status'],
              'A status with the issuers or schemes that count.',
            ),
          ],
        },
      },
    },
  },
};
